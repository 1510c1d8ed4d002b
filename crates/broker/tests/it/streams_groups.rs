//! Streams groups, told as transcripts: what members say and hear. The same transcripts come from
//! Apache Kafka 4.4 (`the_real_broker_agrees`).

use std::fmt::Write as _;
use std::sync::Arc;

use kstreams_broker::{Broker, BrokerConfig, ManualClock};
use kstreams_protocol::messages::create_topics_request::CreatableTopic;
use kstreams_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kstreams_protocol::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopics,
};
use kstreams_protocol::messages::{
    CreateTopicsRequest, FindCoordinatorRequest, GroupId, OffsetCommitRequest, OffsetFetchRequest,
};
use kstreams_protocol::streams_group::heartbeat::{Subtopology, Topology};
use kstreams_protocol::streams_group::{
    KeyValue, StreamsGroupDescribeRequest, StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse, TaskIds, TopicInfo,
};

use crate::raw::{Raw, text, topic};

/// Members of one group, and what was said so far.
struct Story {
    raw: Raw,
    group: String,
    told: String,
    /// Pauses between heartbeats, on a broker whose time passes by itself.
    pause: bool,
}

pub(crate) fn changelog(name: &str) -> TopicInfo {
    let config = |key: &str, value: &str| KeyValue { key: text(key), value: text(value) };
    TopicInfo {
        name: text(name),
        partitions: 0,
        replication_factor: -1,
        topic_configs: vec![
            config("cleanup.policy", "compact"),
            config("message.timestamp.type", "CreateTime"),
        ],
    }
}

/// One sub-topology "0" that reads `source` and has one store.
pub(crate) fn counting(group: &str, source: &str) -> Topology {
    let subtopology = Subtopology {
        subtopology_id: text("0"),
        source_topics: vec![text(source)],
        state_changelog_topics: vec![changelog(&format!("{group}-store-changelog"))],
        ..Subtopology::default()
    };
    Topology { epoch: 0, subtopologies: vec![subtopology] }
}

pub(crate) fn join(group: &str, member: &str, topology: Topology) -> StreamsGroupHeartbeatRequest {
    StreamsGroupHeartbeatRequest {
        group_id: text(group),
        member_id: text(member),
        member_epoch: 0,
        rebalance_timeout_ms: 60_000,
        process_id: Some(text(&format!("process-{member}"))),
        topology: Some(topology),
        active_tasks: Some(Vec::new()),
        standby_tasks: Some(Vec::new()),
        warmup_tasks: Some(Vec::new()),
        ..StreamsGroupHeartbeatRequest::default()
    }
}

pub(crate) fn beat(group: &str, member: &str, epoch: i32) -> StreamsGroupHeartbeatRequest {
    StreamsGroupHeartbeatRequest {
        group_id: text(group),
        member_id: text(member),
        member_epoch: epoch,
        ..StreamsGroupHeartbeatRequest::default()
    }
}

fn tasks(lists: &[TaskIds]) -> String {
    let one = |list: &TaskIds| format!("{}:{:?}", list.subtopology_id.as_str(), list.partitions);
    if lists.is_empty() {
        return "none".to_owned();
    }
    lists.iter().map(one).collect::<Vec<_>>().join(" ")
}

impl Story {
    fn new(raw: Raw, group: &str, pause: bool) -> Self {
        Self { raw, group: group.to_owned(), told: String::new(), pause }
    }

    /// Waits until the broker coordinates the group.
    fn find_coordinator(&mut self) {
        let request =
            FindCoordinatorRequest::default().with_coordinator_keys(vec![text(&self.group)]);
        for _ in 0..20 {
            let response = self.raw.call(4, &request);
            self.pause();
            if response.coordinators[0].error_code == 0 {
                return;
            }
        }
        panic!("no coordinator");
    }

    fn create_topic(&mut self, name: &str, partitions: i32) {
        let asked = CreatableTopic::default()
            .with_name(topic(name))
            .with_num_partitions(partitions)
            .with_replication_factor(1);
        let request = CreateTopicsRequest::default().with_timeout_ms(5000).with_topics(vec![asked]);
        let response = self.raw.call(5, &request);
        assert_eq!(response.topics[0].error_code, 0, "{:?}", response.topics[0].error_message);
        self.pause();
    }

    #[expect(clippy::disallowed_methods, reason = "the other broker's time cannot be moved")]
    fn pause(&self) {
        if self.pause {
            std::thread::sleep(std::time::Duration::from_millis(700));
        }
    }

    fn hear(
        &mut self,
        what: &str,
        request: &StreamsGroupHeartbeatRequest,
    ) -> StreamsGroupHeartbeatResponse {
        let response = self.raw.call(1, request);
        let member = request.member_id.as_str();
        write!(self.told, "{member} {what}: ").unwrap();
        if response.error_code != 0 {
            let message = response.error_message.as_ref().map_or("", |text| text.as_str());
            writeln!(self.told, "error {} {message}", response.error_code).unwrap();
            return response;
        }
        write!(self.told, "epoch {}", response.member_epoch).unwrap();
        if let Some(active) = &response.active_tasks {
            write!(self.told, ", active {}", tasks(active)).unwrap();
        }
        for status in response.status.iter().flatten() {
            let detail = status.status_detail.as_str();
            write!(self.told, ", status {} {detail}", status.status_code).unwrap();
        }
        self.told.push('\n');
        self.pause();
        response
    }

    fn join(&mut self, member: &str, topology: Topology) {
        let request = join(&self.group, member, topology);
        self.hear("joins", &request);
    }

    fn beat(&mut self, member: &str, epoch: i32) {
        let request = beat(&self.group, member, epoch);
        self.hear(&format!("beats at {epoch}"), &request);
    }

    fn owns(&mut self, member: &str, epoch: i32, partitions: &[i32]) {
        let list = TaskIds { subtopology_id: text("0"), partitions: partitions.to_vec() };
        let active = if partitions.is_empty() { Vec::new() } else { vec![list] };
        let request = StreamsGroupHeartbeatRequest {
            active_tasks: Some(active),
            standby_tasks: Some(Vec::new()),
            warmup_tasks: Some(Vec::new()),
            ..beat(&self.group, member, epoch)
        };
        self.hear(&format!("owns {partitions:?} at {epoch}"), &request);
    }

    fn commit(&mut self, member: &str, epoch: i32, name: &str, partitions: &[i32]) {
        let partition = |index: &i32| {
            OffsetCommitRequestPartition::default()
                .with_partition_index(*index)
                .with_committed_offset(7)
                .with_committed_metadata(Some(text("m")))
        };
        let topic = OffsetCommitRequestTopic::default()
            .with_name(topic(name))
            .with_partitions(partitions.iter().map(partition).collect());
        let request = OffsetCommitRequest::default()
            .with_group_id(GroupId(text(&self.group)))
            .with_member_id(text(member))
            .with_generation_id_or_member_epoch(epoch)
            .with_topics(vec![topic]);
        let response = self.raw.call(9, &request);
        let errors: Vec<i16> =
            response.topics[0].partitions.iter().map(|partition| partition.error_code).collect();
        writeln!(self.told, "{member} commits {partitions:?} at {epoch}: {errors:?}").unwrap();
    }

    fn fetch_offsets(&mut self, member: Option<&str>, epoch: i32, name: &str) {
        let topics = OffsetFetchRequestTopics::default()
            .with_name(topic(name))
            .with_partition_indexes(vec![0]);
        let group = OffsetFetchRequestGroup::default()
            .with_group_id(GroupId(text(&self.group)))
            .with_member_id(member.map(text))
            .with_member_epoch(epoch)
            .with_topics(Some(vec![topics]));
        let request =
            OffsetFetchRequest::default().with_require_stable(true).with_groups(vec![group]);
        let response = self.raw.call(9, &request);
        let group = &response.groups[0];
        let offset = group.topics.first().map(|topic| topic.partitions[0].committed_offset);
        let member = member.unwrap_or("nobody");
        writeln!(self.told, "{member} fetches at {epoch}: error {} {offset:?}", group.error_code)
            .unwrap();
    }

    fn describe(&mut self) {
        let request = StreamsGroupDescribeRequest {
            group_ids: vec![text(&self.group)],
            ..StreamsGroupDescribeRequest::default()
        };
        let response = self.raw.call(1, &request);
        let group = &response.groups[0];
        writeln!(
            self.told,
            "group: error {} {} epoch {} assignment {}",
            group.error_code,
            group.group_state.as_str(),
            group.group_epoch,
            group.assignment_epoch
        )
        .unwrap();
    }
}

/// Two members come, share, commit, and go.
fn hand_over(story: &mut Story) {
    let group = story.group.clone();
    let source = format!("{group}-in");
    let topology = counting(&group, &source);
    story.find_coordinator();
    story.join("a", topology.clone());
    story.describe();
    story.create_topic(&source, 4);
    story.beat("a", 2);
    story.beat("a", 3);
    story.beat("a", 4);
    story.owns("a", 4, &[0, 1, 2, 3]);
    story.describe();
    story.commit("a", 4, &source, &[0, 3]);
    story.join("b", topology);
    story.describe();
    story.beat("a", 4);
    story.commit("a", 4, &source, &[0, 1, 2, 3]);
    story.beat("b", 5);
    story.beat("a", 4);
    story.owns("a", 4, &[0, 1, 2]);
    story.owns("a", 4, &[0, 1]);
    story.commit("a", 4, &source, &[0, 1, 2, 3]);
    story.commit("a", 5, &source, &[0, 3]);
    story.commit("a", 6, &source, &[0]);
    story.commit("x", 5, &source, &[0]);
    story.commit("", -1, &source, &[0]);
    story.beat("b", 5);
    story.describe();
    story.fetch_offsets(Some("a"), 5, &source);
    story.fetch_offsets(Some("a"), 4, &source);
    story.fetch_offsets(Some("x"), 5, &source);
    story.fetch_offsets(None, -1, &source);
    story.owns("a", 4, &[0]);
    story.beat("a", 3);
    story.beat("a", 9);
    story.beat("x", 1);
    story.join("c", counting(&group, "other"));
    story.beat("b", -1);
    story.describe();
    story.beat("a", 5);
    story.beat("a", -1);
    story.beat("a", 6);
    story.describe();
    story.commit("", -1, &source, &[0]);
    story.join("c", counting(&group, "other"));
}

const HAND_OVER: &str = "\
a joins: epoch 2, active none, status 1 Source topics g-in are missing.
group: error 0 NotReady epoch 2 assignment 2
a beats at 2: epoch 3, status 3 Internal topics are missing: g-store-changelog
a beats at 3: epoch 4, active 0:[0, 1, 2, 3]
a beats at 4: epoch 4
a owns [0, 1, 2, 3] at 4: epoch 4
group: error 0 Stable epoch 4 assignment 4
a commits [0, 3] at 4: [0, 0]
b joins: epoch 5, active none
group: error 0 Reconciling epoch 5 assignment 5
a beats at 4: epoch 4, active 0:[0, 1]
a commits [0, 1, 2, 3] at 4: [0, 0, 0, 0]
b beats at 5: epoch 5
a beats at 4: epoch 4
a owns [0, 1, 2] at 4: epoch 4
a owns [0, 1] at 4: epoch 5
a commits [0, 1, 2, 3] at 4: [113, 113, 113, 113]
a commits [0, 3] at 5: [0, 0]
a commits [0] at 6: [113]
x commits [0] at 5: [25]
 commits [0] at -1: [25]
b beats at 5: epoch 5, active 0:[2, 3]
group: error 0 Stable epoch 5 assignment 5
a fetches at 5: error 0 Some(7)
a fetches at 4: error 113 None
x fetches at 5: error 25 None
nobody fetches at -1: error 0 Some(7)
a owns [0] at 4: epoch 5
a beats at 3: error 110 The streams group member has a smaller member epoch (3) than the one known by the group coordinator (5). The member must abandon all its partitions and rejoin.
a beats at 9: error 110 The streams group member has a greater member epoch (9) than the one known by the group coordinator (5). The member must abandon all its partitions and rejoin.
x beats at 1: error 25 Member x is not a member of group g.
c joins: error 42 Topology updates are not supported yet.
b beats at -1: epoch -1
group: error 0 Assigning epoch 6 assignment 5
a beats at 5: epoch 6, active 0:[0, 1, 2, 3]
a beats at -1: epoch -1
a beats at 6: error 25 Member a is not a member of group g.
group: error 0 Empty epoch 7 assignment 7
 commits [0] at -1: [0]
c joins: error 42 Topology updates are not supported yet.
";

fn quick() -> BrokerConfig {
    let mut config = BrokerConfig::quick();
    config.seed = Some(1);
    config
}

fn still(config: BrokerConfig) -> (Broker, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new(1_000_000));
    let builder = Broker::builder().in_memory().without_tcp().config(config);
    (builder.clock(clock.clone()).start().unwrap(), clock)
}

#[test]
fn a_member_hands_half_of_its_tasks_to_another() {
    let (broker, _) = still(quick());
    let mut story = Story::new(Raw::memory(&broker), "g", false);
    hand_over(&mut story);
    assert_eq!(story.told, HAND_OVER, "\n{}", story.told);
}

#[test]
#[ignore = "needs Apache Kafka 4.4: set KSTREAMS_TEST_BOOTSTRAP to a broker of tests/java/run"]
fn the_real_broker_agrees() {
    let bootstrap = std::env::var("KSTREAMS_TEST_BOOTSTRAP").expect("KSTREAMS_TEST_BOOTSTRAP");
    let group = format!("g{}", std::process::id());
    let mut story = Story::new(Raw::tcp(&bootstrap), &group, true);
    hand_over(&mut story);
    let told = story.told.replace(&group, "g");
    assert_eq!(told, HAND_OVER, "\n{told}");
}

//! What a broker finds in its directory when it comes back.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use kstreams_broker::{Broker, BrokerConfig, BrokerError};
use kstreams_protocol::ResponseError;
use kstreams_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kstreams_protocol::messages::{
    GroupId, InitProducerIdRequest, MetadataRequest, OffsetCommitRequest,
};
use kstreams_protocol::streams_group::{
    StreamsGroupDescribeRequest, StreamsGroupHeartbeatRequest, TaskIds,
};

use crate::raw::{Raw, batch_at, idempotent, text, topic};
use crate::streams_groups::{beat, counting, join};

/// A new, empty directory for one test.
pub(crate) fn directory(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    if path.exists() {
        fs::remove_dir_all(&path).unwrap();
    }
    path
}

fn start(path: &Path) -> (Broker, Raw) {
    let builder = Broker::builder().directory(path).without_tcp().config(BrokerConfig::quick());
    let broker = builder.start().unwrap();
    let raw = Raw::memory(&broker);
    (broker, raw)
}

fn values(broker: &Broker, name: &str) -> Vec<String> {
    let records = broker.records(name).unwrap();
    let text = |value: Option<bytes::Bytes>| String::from_utf8_lossy(&value.unwrap()).into_owned();
    records.into_iter().map(|record| text(record.value)).collect()
}

/// The files of all partitions, largest name last.
pub(crate) fn log_files(path: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![path.join("topics")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { folders.push(path) } else { found.push(path) }
        }
    }
    found.sort();
    found
}

#[test]
fn topics_records_and_offsets_come_back() {
    let path = directory("come-back");
    let (broker, mut raw) = start(&path);
    broker.create_topic_with("a", 2, &[("cleanup.policy", "compact")]).unwrap();
    broker.create_topic("b", 1).unwrap();
    raw.produce("a", 1, batch_at(0, &[("k", "1"), ("l", "2")]));
    let id =
        raw.call(4, &InitProducerIdRequest::default().with_transactional_id(None)).producer_id.0;
    raw.produce("b", 0, idempotent(id, 0, 0, &["x"]));
    let partition = OffsetCommitRequestPartition::default()
        .with_partition_index(1)
        .with_committed_offset(2)
        .with_committed_metadata(Some(text("some metadata")));
    let topics =
        OffsetCommitRequestTopic::default().with_name(topic("a")).with_partitions(vec![partition]);
    let request = OffsetCommitRequest::default()
        .with_group_id(GroupId(text("g")))
        .with_generation_id_or_member_epoch(-1)
        .with_topics(vec![topics]);
    assert_eq!(raw.call(8, &request).topics[0].partitions[0].error_code, 0);
    let before = raw.call(12, &MetadataRequest::default().with_topics(None));
    drop(raw);
    broker.stop();

    let (broker, mut raw) = start(&path);
    let after = raw.call(12, &MetadataRequest::default().with_topics(None));
    assert_eq!(before.topics, after.topics, "names, ids and partitions");
    assert_eq!(before.cluster_id, after.cluster_id);
    assert_eq!(values(&broker, "a"), ["1", "2"]);
    assert_eq!(broker.committed("g", "a", 1), Some(2));
    assert_eq!(raw.produce("a", 1, batch_at(0, &[("k", "3")])), (0, 2), "offsets go on");
    assert_eq!(raw.produce("b", 0, idempotent(id, 0, 0, &["x"])), (0, 0), "a retry is known");
    let other =
        raw.call(4, &InitProducerIdRequest::default().with_transactional_id(None)).producer_id.0;
    assert_ne!(id, other, "no producer id is given twice");
    let keyless = raw.produce("a", 0, batch_at(0, &[("null", "3")])).0;
    assert_eq!(keyless, ResponseError::InvalidRecord.code(), "settings are known");
}

#[test]
fn a_torn_tail_is_cut_at_the_last_whole_batch() {
    for (name, tail) in [("half", None), ("flipped", Some(1))] {
        let path = directory(&format!("torn-{name}"));
        let (broker, mut raw) = start(&path);
        broker.create_topic("a", 1).unwrap();
        raw.produce("a", 0, batch_at(0, &[("k", "1")]));
        raw.produce("a", 0, batch_at(0, &[("k", "2")]));
        drop(raw);
        broker.stop();
        let file = log_files(&path).pop().unwrap();
        let mut bytes = fs::read(&file).unwrap();
        match tail {
            None => bytes.truncate(bytes.len() - 3),
            Some(bits) => *bytes.last_mut().unwrap() ^= bits,
        }
        fs::write(&file, &bytes).unwrap();
        let (broker, mut raw) = start(&path);
        assert_eq!(values(&broker, "a"), ["1"], "{name}");
        assert_eq!(raw.produce("a", 0, batch_at(0, &[("k", "3")])), (0, 1));
        drop(raw);
        broker.stop();
        let (broker, _) = start(&path);
        assert_eq!(values(&broker, "a"), ["1", "3"], "{name}");
    }
}

#[test]
fn a_torn_journal_loses_its_last_entry_only() {
    let path = directory("torn-journal");
    let (broker, _) = start(&path);
    broker.create_topic("a", 1).unwrap();
    broker.create_topic("b", 1).unwrap();
    broker.stop();
    let journal = path.join("journal.log");
    let bytes = fs::read(&journal).unwrap();
    fs::write(&journal, &bytes[..bytes.len() - 1]).unwrap();
    let mut append = OpenOptions::new().append(true).open(&journal).unwrap();
    append.write_all(&[7; 3]).unwrap();
    let (broker, _) = start(&path);
    assert!(broker.offsets("a", 0).is_some());
    assert_eq!(broker.offsets("b", 0), None);
    broker.create_topic("b", 1).unwrap();
}

#[test]
fn a_streams_group_goes_on_where_it_was() {
    let path = directory("streams-group");
    let (broker, mut raw) = start(&path);
    broker.create_topic("in", 4).unwrap();
    let owns = |member: &str, epoch: i32, partitions: &[i32]| {
        let list = TaskIds { subtopology_id: text("0"), partitions: partitions.to_vec() };
        StreamsGroupHeartbeatRequest {
            active_tasks: Some(vec![list]),
            standby_tasks: Some(Vec::new()),
            warmup_tasks: Some(Vec::new()),
            ..beat("g", member, epoch)
        }
    };
    assert_eq!(raw.call(1, &join("g", "a", counting("g", "in"))).error_code, 0);
    assert_eq!(raw.call(1, &beat("g", "a", 2)).member_epoch, 3);
    raw.call(1, &owns("a", 3, &[0, 1, 2, 3]));
    assert_eq!(raw.call(1, &join("g", "b", counting("g", "in"))).member_epoch, 4);
    let revoked = raw.call(1, &beat("g", "a", 3));
    assert_eq!(revoked.active_tasks.unwrap()[0].partitions, [0, 1]);
    let describe = StreamsGroupDescribeRequest { group_ids: vec![text("g")], ..Default::default() };
    let before = raw.call(1, &describe);
    assert_eq!(before.groups[0].group_state.as_str(), "Reconciling");
    drop(raw);
    broker.stop();

    let (_broker, mut raw) = start(&path);
    let mut after = raw.call(1, &describe);
    // Topics are looked at with the next heartbeat.
    assert_eq!(after.groups[0].group_state.as_str(), "NotReady");
    after.groups[0].group_state = before.groups[0].group_state.clone();
    after.groups[0].topology = before.groups[0].topology.clone();
    assert_eq!(after, before);
    let waits = raw.call(1, &beat("g", "b", 4));
    assert_eq!((waits.error_code, waits.active_tasks), (0, None), "a has not let go");
    let let_go = raw.call(1, &owns("a", 3, &[0, 1]));
    assert_eq!((let_go.error_code, let_go.member_epoch), (0, 4));
    let given = raw.call(1, &beat("g", "b", 4));
    assert_eq!(given.active_tasks.unwrap()[0].partitions, [2, 3]);
    let other = raw.call(1, &join("g", "c", counting("g", "other"))).error_code;
    assert_eq!(other, ResponseError::InvalidRequest.code());
    assert_eq!(raw.call(1, &beat("g", "a", -1)).error_code, 0);
    drop(raw);
    drop(_broker);

    let (_broker, mut raw) = start(&path);
    let members = raw.call(1, &describe).groups.remove(0).members;
    assert_eq!(members.len(), 1, "one has left");
    assert_eq!(raw.call(1, &beat("g", "b", 4)).active_tasks.unwrap()[0].partitions, [0, 1, 2, 3]);
}

#[test]
fn deleted_records_and_topics_stay_deleted() {
    let path = directory("deleted");
    let (broker, mut raw) = start(&path);
    broker.create_topic_with("a", 1, &[("retention.ms", "0")]).unwrap();
    broker.create_topic("b", 1).unwrap();
    raw.produce("a", 0, batch_at(0, &[("k", "1")]));
    broker.compact("a").unwrap();
    assert_eq!(broker.offsets("a", 0), Some((1, 1)));
    let state = kstreams_protocol::messages::delete_topics_request::DeleteTopicState::default()
        .with_name(Some(topic("b")));
    let request =
        kstreams_protocol::messages::DeleteTopicsRequest::default().with_topics(vec![state]);
    assert_eq!(raw.call(6, &request).responses[0].error_code, 0);
    drop(raw);
    broker.stop();
    let (broker, mut raw) = start(&path);
    assert_eq!(broker.offsets("a", 0), Some((1, 1)));
    assert_eq!(broker.offsets("b", 0), None);
    assert_eq!(raw.produce("a", 0, batch_at(0, &[("k", "2")])), (0, 1));
}

#[test]
fn one_broker_at_a_time_uses_a_directory() {
    let path = directory("one-at-a-time");
    let (broker, raw) = start(&path);
    let second = Broker::builder().directory(&path).without_tcp().start();
    assert!(matches!(second, Err(BrokerError::DirectoryInUse { .. })), "{second:?}");
    broker.stop();
    start(&path);
    // The old connection is still there, and closed.
    assert!({ raw }.frame().is_err());
}

#[test]
fn segments_roll_and_the_oldest_are_dropped() {
    let path = directory("segments");
    let (broker, mut raw) = start(&path);
    let config = [("segment.bytes", "150"), ("retention.bytes", "250"), ("retention.ms", "-1")];
    broker.create_topic_with("a", 1, &config).unwrap();
    for value in 0..10 {
        raw.produce("a", 0, batch_at(value, &[("k", &value.to_string())]));
    }
    assert_eq!(log_files(&path).len(), 5, "two batches a segment");
    for offset in 0..10 {
        let expected = if offset % 2 == 0 { 2 } else { 1 };
        let (error, values) = raw.values("a", 0, offset);
        assert_eq!((error, values.len()), (0, expected), "from {offset}, from one segment");
        assert_eq!(values[0], offset.to_string());
    }
    broker.compact("a").unwrap();
    assert_eq!(broker.offsets("a", 0), Some((6, 10)), "what is over the bound");
    assert_eq!(log_files(&path).len(), 2);
    drop(raw);
    broker.stop();

    let orphan = path.join("topics").join(kstreams_protocol::Uuid::from_u128(5).to_string());
    fs::create_dir_all(orphan.join("0")).unwrap();
    let (broker, mut raw) = start(&path);
    assert!(!orphan.exists(), "no topic of that id");
    assert_eq!(broker.offsets("a", 0), Some((6, 10)));
    assert_eq!(values(&broker, "a"), ["6", "7", "8", "9"]);
    assert_eq!(raw.values("a", 0, 5).0, ResponseError::OffsetOutOfRange.code());
}

#[test]
fn compaction_in_files_lasts() {
    let path = directory("compaction");
    let (broker, mut raw) = start(&path);
    let config = [("cleanup.policy", "compact"), ("segment.bytes", "150")];
    broker.create_topic_with("a", 1, &config).unwrap();
    for value in 0..9 {
        let key = ["k", "l", "m"][value % 3];
        raw.produce("a", 0, batch_at(0, &[(key, &value.to_string())]));
    }
    broker.compact("a").unwrap();
    assert_eq!(values(&broker, "a"), ["6", "7", "8"]);
    drop(raw);
    broker.stop();
    let (broker, mut raw) = start(&path);
    assert_eq!(values(&broker, "a"), ["6", "7", "8"]);
    assert_eq!(raw.values("a", 0, 0).1[0], "6", "a reader steps over emptied segments");
    assert_eq!(raw.produce("a", 0, batch_at(0, &[("k", "9")])), (0, 9));
}

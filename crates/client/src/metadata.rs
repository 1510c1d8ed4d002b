//! What is known of the cluster: brokers, topics, leaders; and when to ask again.
//!
//! ```text
//! Fresh --(topic unknown, stale leader, age)--> Due --(a broker is ready)--> Asked --> Fresh
//! ```

use crate::config::ClientConfig;
use crate::connection::Ticket;
use crate::connections::{Connections, Lane, Node};
use crate::error::ClientError;
use crate::event::TopicState;
use crate::types::{BrokerId, Now, Topic, TopicPartition};
use kstreams_protocol::Uuid;
use kstreams_protocol::messages::metadata_request::MetadataRequestTopic;
use kstreams_protocol::messages::metadata_response::MetadataResponseTopic;
use kstreams_protocol::messages::{MetadataRequest, MetadataResponse, TopicName};
use kstreams_protocol::protocol::StrBytes;
use std::collections::BTreeMap;
use std::time::Duration;

/// Error codes of topics in metadata.
const UNKNOWN_TOPIC: i16 = 3;
const LEADER_NOT_AVAILABLE: i16 = 5;
const INVALID_TOPIC: i16 = 17;
const TOPIC_AUTHORIZATION_FAILED: i16 = 29;

/// The leader of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Leader {
    pub(crate) broker: BrokerId,
    pub(crate) epoch: i32,
}

/// What is known of one topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TopicMetadata {
    pub(crate) id: Uuid,
    pub(crate) leaders: Vec<Option<Leader>>,
    pub(crate) replication_factor: i16,
    pub(crate) internal: bool,
}

#[derive(Debug)]
enum Known {
    NotYet,
    Exists(TopicMetadata),
    Failed(i16),
}

#[derive(Debug)]
pub(crate) struct Metadata {
    topics: BTreeMap<Topic, Known>,
    brokers: BTreeMap<BrokerId, (String, u16)>,
    controller: Option<BrokerId>,
    due: bool,
    in_flight: bool,
    not_before: Now,
    last_answer: Option<Now>,
    max_age: Duration,
    backoff: Duration,
    failures: u32,
    changed: BTreeMap<Topic, TopicState>,
    /// Counts answers, so that whoever asked can tell a new one.
    pub(crate) generation: u64,
    rotation: usize,
}

impl Metadata {
    pub(crate) fn new(config: &ClientConfig) -> Self {
        Self {
            topics: BTreeMap::new(),
            brokers: BTreeMap::new(),
            controller: None,
            due: true,
            in_flight: false,
            not_before: Now::ZERO,
            last_answer: None,
            max_age: config.metadata_max_age,
            backoff: config.retry_backoff,
            failures: 0,
            changed: BTreeMap::new(),
            generation: 0,
            rotation: 0,
        }
    }

    /// Wants to know of a topic, now and from now on.
    pub(crate) fn watch(&mut self, topic: &Topic) {
        if !self.topics.contains_key(topic) {
            self.topics.insert(topic.clone(), Known::NotYet);
            self.due = true;
        }
    }

    /// Something that was taken from here proved wrong, or is missing: ask again soon.
    pub(crate) fn refresh(&mut self) {
        self.due = true;
    }

    pub(crate) fn leader(&self, partition: &TopicPartition) -> Option<Leader> {
        let Some(Known::Exists(topic)) = self.topics.get(&partition.topic) else { return None };
        *topic.leaders.get(usize::try_from(partition.partition).ok()?)?
    }

    pub(crate) fn topic(&self, topic: &str) -> Option<&TopicMetadata> {
        match self.topics.get(topic)? {
            Known::Exists(topic) => Some(topic),
            Known::NotYet | Known::Failed(_) => None,
        }
    }

    /// Why a topic cannot be used: the error code that the cluster gave.
    pub(crate) fn failure(&self, topic: &str) -> Option<i16> {
        match self.topics.get(topic)? {
            Known::Failed(code) => Some(*code),
            Known::NotYet | Known::Exists(_) => None,
        }
    }

    pub(crate) fn controller(&self) -> Option<Node> {
        self.controller.filter(|id| self.brokers.contains_key(id)).map(Node::Broker)
    }

    /// The topics whose state changed since the last call.
    pub(crate) fn take_changed(&mut self) -> BTreeMap<Topic, TopicState> {
        std::mem::take(&mut self.changed)
    }

    /// Asks if it is time to. Gives when to look again.
    pub(crate) fn poll(&mut self, connections: &mut Connections, now: Now) -> Option<Now> {
        let age = self.last_answer.map_or(Now::ZERO, |at| at + self.max_age);
        if self.in_flight {
            return None;
        }
        if !self.due && age > now {
            return Some(age);
        }
        if self.not_before > now {
            return Some(self.not_before);
        }
        let node = any_node(connections, &mut self.rotation, now)?;
        let topic = |name: &Topic| {
            MetadataRequestTopic::default()
                .with_name(Some(TopicName(StrBytes::from_string(name.to_string()))))
        };
        let request = MetadataRequest::default()
            .with_topics(Some(self.topics.keys().map(topic).collect()))
            .with_allow_auto_topic_creation(false);
        match connections.send(node, Lane::Control, &request.into(), Ticket::Metadata, now) {
            Ok(()) => {
                self.in_flight = true;
                self.due = false;
                None
            }
            Err(error) => {
                tracing::warn!(%error, "metadata cannot be asked for");
                self.failed(now);
                Some(self.not_before)
            }
        }
    }

    pub(crate) fn on_failure(&mut self, now: Now) {
        self.in_flight = false;
        self.failed(now);
    }

    fn failed(&mut self, now: Now) {
        self.due = true;
        self.pause(now);
    }

    fn pause(&mut self, now: Now) {
        let pause = self.backoff.saturating_mul(1 << self.failures.min(10));
        self.failures = self.failures.saturating_add(1);
        self.not_before = now + pause.min(Duration::from_secs(1));
    }

    pub(crate) fn on_answer(
        &mut self,
        answer: &MetadataResponse,
        connections: &mut Connections,
        now: Now,
    ) -> Result<(), ClientError> {
        self.in_flight = false;
        if answer.error_code != 0 {
            self.failed(now);
            return Err(ClientError::broker(answer.error_code, "metadata", None));
        }
        self.generation += 1;
        self.last_answer = Some(now);
        let brokers = answer.brokers.iter().filter_map(|broker| {
            let port = u16::try_from(broker.port).ok()?;
            Some((broker.node_id.0, (broker.host.to_string(), port)))
        });
        self.brokers = brokers.collect();
        self.controller = Some(answer.controller_id.0).filter(|id| *id >= 0);
        if !self.brokers.is_empty() {
            connections.set_brokers(&self.brokers, now);
        }
        for topic in &answer.topics {
            self.learn(topic);
        }
        // A topic that is being created or moved is asked for again, ever more slowly.
        let settled = self.topics.values().all(|known| match known {
            Known::Exists(topic) => topic.leaders.iter().all(Option::is_some),
            Known::NotYet => false,
            Known::Failed(code) => *code == TOPIC_AUTHORIZATION_FAILED || *code == INVALID_TOPIC,
        });
        if settled {
            self.failures = 0;
            // Whoever finds the answer wrong may ask again, but not in a circle.
            self.not_before = now + self.backoff;
        } else {
            self.failed(now);
        }
        Ok(())
    }

    fn learn(&mut self, answer: &MetadataResponseTopic) {
        let Some(name) = answer.name.as_ref().map(|name| Topic::from(name.as_str())) else {
            return;
        };
        let Some(known) = self.topics.get_mut(&name) else { return };
        let before = state_of(known);
        *known = match answer.error_code {
            0 | LEADER_NOT_AVAILABLE if !answer.partitions.is_empty() => {
                let metadata = topic_metadata(answer, known);
                Known::Exists(metadata)
            }
            0 => Known::Failed(LEADER_NOT_AVAILABLE),
            code => Known::Failed(code),
        };
        let after = state_of(known);
        if before != after
            && let Some(after) = after
        {
            self.changed.insert(name, after);
        }
    }
}

/// The state to tell, `None` while nothing is certain.
fn state_of(known: &Known) -> Option<TopicState> {
    match known {
        Known::NotYet => None,
        Known::Exists(topic) => Some(TopicState::Exists { partitions: topic.leaders.len() as i32 }),
        Known::Failed(UNKNOWN_TOPIC | INVALID_TOPIC) => Some(TopicState::Missing),
        Known::Failed(TOPIC_AUTHORIZATION_FAILED) => Some(TopicState::Unauthorized),
        Known::Failed(_) => None,
    }
}

fn topic_metadata(answer: &MetadataResponseTopic, before: &Known) -> TopicMetadata {
    // Partitions are numbered from 0 without gaps; an index beyond that is not believed.
    let mut leaders = vec![None; answer.partitions.len()];
    for partition in &answer.partitions {
        let index = partition.partition_index as usize;
        let Some(leader) = leaders.get_mut(index) else { continue };
        if partition.error_code == 0 && partition.leader_id.0 >= 0 {
            *leader = Some(Leader { broker: partition.leader_id.0, epoch: partition.leader_epoch });
        }
        // A broker that lags behind may show an older leader than is known already.
        if let Known::Exists(before) = before
            && before.id == answer.topic_id
            && let Some(Some(known)) = before.leaders.get(index)
            && leader.is_none_or(|new| new.epoch < known.epoch)
            && leader.is_some()
        {
            *leader = Some(*known);
        }
    }
    TopicMetadata {
        id: answer.topic_id,
        leaders,
        replication_factor: answer.partitions.first().map_or(0, |p| p.replica_nodes.len() as i16),
        internal: answer.is_internal,
    }
}

/// A broker that can be asked anything, or `None` while one is being connected. One that may hang only
/// if there is no other.
pub(crate) fn any_node(
    connections: &mut Connections,
    rotation: &mut usize,
    now: Now,
) -> Option<Node> {
    let nodes: Vec<Node> = connections.nodes().collect();
    // One that is connected already.
    let connected = nodes.iter().copied().filter(|node| connections.in_use(*node, Lane::Control));
    let connected: Vec<Node> = connected.collect();
    let suspect = connected.first().copied();
    let well = connected.into_iter().find(|node| !connections.is_suspect(*node, now));
    if let Some(node) = well {
        return connections.is_ready(node, Lane::Control, now).then_some(node);
    }
    if nodes.iter().any(|node| connections.is_opening_soon(*node, Lane::Control, now)) {
        return None;
    }
    for step in 0..nodes.len() {
        let node = nodes[(*rotation + step) % nodes.len()];
        let is_new = !connections.in_use(node, Lane::Control)
            && !connections.is_opening(node, Lane::Control);
        if is_new && !connections.is_down(node, Lane::Control, now) {
            *rotation = (*rotation + step + 1) % nodes.len();
            return connections.is_ready(node, Lane::Control, now).then_some(node);
        }
    }
    let node = suspect?;
    connections.is_ready(node, Lane::Control, now).then_some(node)
}

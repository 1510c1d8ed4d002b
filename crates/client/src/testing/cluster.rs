//! Who leads which partition, and what each node believes of it: leaders move, and nodes hear of it
//! later.

use kstreams_protocol::Uuid;
use kstreams_protocol::messages::find_coordinator_response::Coordinator;
use kstreams_protocol::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use kstreams_protocol::messages::{
    BrokerId, FindCoordinatorRequest, FindCoordinatorResponse, MetadataRequest, MetadataResponse,
};
use kstreams_protocol::protocol::StrBytes;
use std::collections::{BTreeMap, BTreeSet};

/// Partitions of the topic.
const PARTITIONS: i32 = 3;

/// The port of the first node.
const FIRST_PORT: u16 = 9092;

/// The node at a port.
pub(super) fn node_at(port: u16) -> i32 {
    i32::from(port) - i32::from(FIRST_PORT) + 1
}

fn port_of(node: i32) -> i32 {
    node - 1 + i32::from(FIRST_PORT)
}

/// Leader and epoch.
type Leader = (i32, i32);

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct View {
    /// Partitions that the first node does not lead any more.
    leaders: BTreeMap<i32, Leader>,
    down: BTreeSet<i32>,
}

impl View {
    fn leader(&self, partition: i32) -> Leader {
        self.leaders.get(&partition).copied().unwrap_or((1, 0))
    }
}

#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) nodes: i32,
    now: View,
    /// What nodes believe; the others believe what was at the start.
    believed: BTreeMap<i32, View>,
    /// How often a batch came to a node that does not lead.
    pub(crate) refused: usize,
}

impl Default for Cluster {
    fn default() -> Self {
        Self { nodes: 1, now: View::default(), believed: BTreeMap::new(), refused: 0 }
    }
}

impl Cluster {
    /// Whether a node leads a partition, and knows it.
    pub(super) fn leads(&self, node: i32, partition: i32) -> bool {
        self.now.leader(partition).0 == node
    }

    pub(crate) fn is_down(&self, node: i32) -> bool {
        self.now.down.contains(&node)
    }

    /// Nodes that are up.
    pub(crate) fn up(&self) -> Vec<i32> {
        (1..=self.nodes).filter(|node| !self.is_down(*node)).collect()
    }

    pub(crate) fn move_leader(&mut self, partition: i32, to: i32) {
        let (_, epoch) = self.now.leader(partition);
        self.now.leaders.insert(partition, (to, epoch + 1));
    }

    /// A node is gone; what it led is led by `heir` from now on.
    pub(crate) fn kill(&mut self, node: i32, heir: i32) {
        self.now.down.insert(node);
        for partition in 0..PARTITIONS {
            if self.leads(node, partition) {
                self.move_leader(partition, heir);
            }
        }
    }

    pub(crate) fn revive(&mut self, node: i32) {
        self.now.down.remove(&node);
    }

    /// A node hears how things are.
    pub(crate) fn learn(&mut self, node: i32) {
        self.believed.insert(node, self.now.clone());
    }

    /// What a node says of the cluster.
    pub(super) fn metadata(&self, node: i32, request: &MetadataRequest) -> MetadataResponse {
        let start = View::default();
        let view = self.believed.get(&node).unwrap_or(&start);
        let replicas: Vec<BrokerId> = (1..=self.nodes).map(BrokerId).collect();
        let partition = |index| {
            let (leader, epoch) = view.leader(index);
            MetadataResponsePartition::default()
                .with_partition_index(index)
                .with_leader_id(BrokerId(leader))
                .with_leader_epoch(epoch)
                .with_replica_nodes(replicas.clone())
        };
        let topics = request.topics.iter().flatten().map(|asked| {
            let topic = MetadataResponseTopic::default().with_name(asked.name.clone());
            match asked.name.as_ref().map(|name| name.as_str()) {
                Some("t") => topic
                    .with_topic_id(Uuid::from_u128(7))
                    .with_partitions((0..PARTITIONS).map(partition).collect()),
                _ => topic.with_error_code(3),
            }
        });
        let up = (1..=self.nodes).filter(|node| !view.down.contains(node));
        let brokers = up.map(|node| {
            MetadataResponseBroker::default()
                .with_node_id(BrokerId(node))
                .with_host(StrBytes::from_static_str("broker"))
                .with_port(port_of(node))
        });
        MetadataResponse::default()
            .with_brokers(brokers.collect())
            .with_controller_id(BrokerId(1))
            .with_topics(topics.collect())
    }
}

pub(super) fn coordinator(request: &FindCoordinatorRequest, node: i32) -> FindCoordinatorResponse {
    let found = request.coordinator_keys.iter().map(|key| {
        Coordinator::default()
            .with_key(key.clone())
            .with_node_id(BrokerId(node))
            .with_host(StrBytes::from_static_str("broker"))
            .with_port(port_of(node))
    });
    FindCoordinatorResponse::default().with_coordinators(found.collect())
}

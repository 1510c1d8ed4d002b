//! Metadata (3), versions 0 to 13: the broker, and topics by name or id with their leaders.
//!
//! Topics are created on the way only with `auto_create_topics`.

use kstreams_protocol::ResponseError;
use kstreams_protocol::messages::metadata_request::MetadataRequestTopic;
use kstreams_protocol::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use kstreams_protocol::messages::{MetadataRequest, MetadataResponse, TopicName};

use super::{Call, str_bytes};
use crate::log::LEADER_EPOCH;
use crate::node::Node;

pub(super) fn handle(node: &mut Node, call: &Call, request: MetadataRequest) -> MetadataResponse {
    let create = request.allow_auto_topic_creation || call.version < 4;
    let topics = match request.topics {
        Some(topics) if call.version > 0 || !topics.is_empty() => {
            topics.into_iter().map(|asked| one(node, asked, create)).collect()
        }
        _ => {
            let names: Vec<String> = node.topics.iter().map(|(name, _)| name.to_owned()).collect();
            names.iter().map(|name| describe(node, name)).collect()
        }
    };
    let (host, port) = node.endpoint();
    let broker = MetadataResponseBroker::default()
        .with_node_id(node.config.node_id.into())
        .with_host(str_bytes(&host))
        .with_port(i32::from(port));
    MetadataResponse::default()
        .with_brokers(vec![broker])
        .with_cluster_id(Some(str_bytes(&node.cluster_id)))
        .with_controller_id(node.config.node_id.into())
        .with_topics(topics)
}

fn one(node: &mut Node, asked: MetadataRequestTopic, create: bool) -> MetadataResponseTopic {
    let refused = MetadataResponseTopic::default().with_topic_id(asked.topic_id);
    let Some(name) = asked.name else {
        return match node.topics.name_of(asked.topic_id).map(str::to_owned) {
            Some(name) => describe(node, &name),
            None => refused.with_error_code(ResponseError::UnknownTopicId.code()),
        };
    };
    if node.topics.get(&name).is_none() {
        let error = if create && node.config.auto_create_topics {
            node.create_topic(&name, node.config.num_partitions, &[]).err().map(|r| r.error)
        } else {
            Some(ResponseError::UnknownTopicOrPartition)
        };
        if let Some(error) = error {
            return refused.with_name(Some(name)).with_error_code(error.code());
        }
    }
    describe(node, &name)
}

fn describe(node: &Node, name: &str) -> MetadataResponseTopic {
    let me = node.config.node_id;
    let topic = node.topics.get(name);
    let count = topic.map_or(0, |topic| topic.partitions.len());
    let partition = |index: usize| {
        MetadataResponsePartition::default()
            .with_partition_index(i32::try_from(index).unwrap_or(i32::MAX))
            .with_leader_id(me.into())
            .with_leader_epoch(LEADER_EPOCH)
            .with_replica_nodes(vec![me.into()])
            .with_isr_nodes(vec![me.into()])
    };
    MetadataResponseTopic::default()
        .with_name(Some(TopicName(str_bytes(name))))
        .with_topic_id(topic.map(|topic| topic.id).unwrap_or_default())
        .with_partitions((0..count).map(partition).collect())
}

//! DescribeTopicPartitions (75), version 0: topics page by page, by name.

use kstreams_protocol::ResponseError;
use kstreams_protocol::messages::describe_topic_partitions_response::{
    Cursor, DescribeTopicPartitionsResponsePartition, DescribeTopicPartitionsResponseTopic,
};
use kstreams_protocol::messages::{
    DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse, TopicName,
};

use super::{Call, str_bytes};
use crate::log::LEADER_EPOCH;
use crate::node::Node;

/// `max.request.partition.size.limit`.
const MAX_PARTITIONS: usize = 2000;

pub(super) fn handle(
    node: &mut Node,
    _: &Call,
    request: DescribeTopicPartitionsRequest,
) -> DescribeTopicPartitionsResponse {
    let mut names: Vec<String> = match request.topics.is_empty() {
        true => node.topics.iter().map(|(name, _)| name.to_owned()).collect(),
        false => request.topics.iter().map(|topic| topic.name.to_string()).collect(),
    };
    names.sort();
    names.dedup();
    let (from, mut first) = request.cursor.map_or((String::new(), 0), |cursor| {
        (cursor.topic_name.to_string(), usize::try_from(cursor.partition_index).unwrap_or(0))
    });
    let limit = usize::try_from(request.response_partition_limit).unwrap_or(MAX_PARTITIONS);
    let mut left = limit.clamp(1, MAX_PARTITIONS);
    let mut response = DescribeTopicPartitionsResponse::default();
    for name in names.into_iter().filter(|name| *name >= from) {
        let start = if name == from { first } else { 0 };
        first = 0;
        let count = node.topics.get(&name).map_or(0, |topic| topic.partitions.len());
        if left == 0 {
            response.next_cursor = Some(cursor(&name, start));
            return response;
        }
        let end = count.min(start.saturating_add(left));
        response.topics.push(describe(node, &name, start..end));
        left -= end.saturating_sub(start);
        if end < count {
            response.next_cursor = Some(cursor(&name, end));
            return response;
        }
    }
    response
}

fn cursor(name: &str, partition: usize) -> Cursor {
    Cursor::default()
        .with_topic_name(TopicName(str_bytes(name)))
        .with_partition_index(i32::try_from(partition).unwrap_or(i32::MAX))
}

fn describe(
    node: &Node,
    name: &str,
    partitions: std::ops::Range<usize>,
) -> DescribeTopicPartitionsResponseTopic {
    let described =
        DescribeTopicPartitionsResponseTopic::default().with_name(Some(TopicName(str_bytes(name))));
    let Some(topic) = node.topics.get(name) else {
        return described.with_error_code(ResponseError::UnknownTopicOrPartition.code());
    };
    let me = node.config.node_id;
    let partition = |index: usize| {
        DescribeTopicPartitionsResponsePartition::default()
            .with_partition_index(i32::try_from(index).unwrap_or(i32::MAX))
            .with_leader_id(me.into())
            .with_leader_epoch(LEADER_EPOCH)
            .with_replica_nodes(vec![me.into()])
            .with_isr_nodes(vec![me.into()])
            .with_eligible_leader_replicas(Some(Vec::new()))
            .with_last_known_elr(Some(Vec::new()))
    };
    described.with_topic_id(topic.id).with_partitions(partitions.map(partition).collect())
}

//! DescribeLogDirs (35), versions 1 to 4: sizes of partitions, under one name for where they lie.

use kstreams_protocol::messages::describe_log_dirs_response::{
    DescribeLogDirsPartition, DescribeLogDirsResult, DescribeLogDirsTopic,
};
use kstreams_protocol::messages::{DescribeLogDirsRequest, DescribeLogDirsResponse, TopicName};

use super::{Call, str_bytes};
use crate::node::Node;

pub(super) fn handle(
    node: &mut Node,
    _: &Call,
    request: DescribeLogDirsRequest,
) -> DescribeLogDirsResponse {
    let wanted = |name: &str, partition: i32| {
        request.topics.as_ref().is_none_or(|topics| {
            topics.iter().any(|t| t.topic.as_str() == name && t.partitions.contains(&partition))
        })
    };
    let topics = node.topics.iter().map(|(name, topic)| {
        let partitions = (0..).zip(&topic.partitions).filter(|(index, _)| wanted(name, *index));
        let partitions = partitions.map(|(index, log)| {
            DescribeLogDirsPartition::default()
                .with_partition_index(index)
                .with_partition_size(i64::try_from(log.size()).unwrap_or(i64::MAX))
        });
        DescribeLogDirsTopic::default()
            .with_name(TopicName(str_bytes(name)))
            .with_partitions(partitions.collect())
    });
    let result = DescribeLogDirsResult::default()
        .with_log_dir(str_bytes("data"))
        .with_topics(topics.filter(|topic| !topic.partitions.is_empty()).collect());
    DescribeLogDirsResponse::default().with_results(vec![result])
}

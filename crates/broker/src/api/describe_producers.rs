//! DescribeProducers (61), version 0: who wrote to a partition, and its open transaction.

use kstreams_protocol::ResponseError;
use kstreams_protocol::messages::describe_producers_response::{
    PartitionResponse, ProducerState, TopicResponse,
};
use kstreams_protocol::messages::{DescribeProducersRequest, DescribeProducersResponse};

use super::Call;
use crate::node::Node;

pub(super) fn handle(
    node: &mut Node,
    _: &Call,
    request: DescribeProducersRequest,
) -> DescribeProducersResponse {
    let topics = request.topics.into_iter().map(|topic| {
        let partitions = topic.partition_indexes.iter().map(|index| {
            let response = PartitionResponse::default().with_partition_index(*index);
            let Some(log) = node.topics.log(&topic.name, *index) else {
                return response.with_error_code(ResponseError::UnknownTopicOrPartition.code());
            };
            let producers = log.producers.iter().map(|(id, producer)| {
                ProducerState::default()
                    .with_producer_id(id.into())
                    .with_producer_epoch(i32::from(producer.epoch))
                    .with_last_sequence(producer.last_sequence())
                    .with_last_timestamp(producer.last_timestamp)
                    .with_coordinator_epoch(-1)
                    .with_current_txn_start_offset(log.open_transaction(id).unwrap_or(-1))
            });
            response.with_active_producers(producers.collect())
        });
        let partitions = partitions.collect();
        TopicResponse::default().with_name(topic.name).with_partitions(partitions)
    });
    DescribeProducersResponse::default().with_topics(topics.collect())
}

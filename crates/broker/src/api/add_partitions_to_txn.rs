//! AddPartitionsToTxn (24), versions 0 to 3: partitions become part of a transaction, for clients of
//! transaction version 1. Later versions are for brokers among themselves.

use kstreams_protocol::ResponseError;
use kstreams_protocol::messages::add_partitions_to_txn_response::{
    AddPartitionsToTxnPartitionResult, AddPartitionsToTxnTopicResult,
};
use kstreams_protocol::messages::{AddPartitionsToTxnRequest, AddPartitionsToTxnResponse};

use super::{Call, fenced_as};
use crate::node::Node;
use crate::txn::Part;

/// The first version that knows that a producer is fenced.
const FENCED: i16 = 2;

pub(super) fn handle(
    node: &mut Node,
    call: &Call,
    request: AddPartitionsToTxnRequest,
) -> AddPartitionsToTxnResponse {
    let exists = |topic: &str, partition: i32| node.topics.log(topic, partition).is_some();
    let topics = request.v3_and_below_topics.iter();
    let asked: Vec<(&str, i32)> =
        topics.flat_map(|t| t.partitions.iter().map(|p| (t.name.as_str(), *p))).collect();
    if !asked.iter().all(|(topic, partition)| exists(topic, *partition)) {
        // All of them or none.
        return answer(&request, |topic, partition| match exists(topic, partition) {
            true => ResponseError::OperationNotAttempted.code(),
            false => ResponseError::UnknownTopicOrPartition.code(),
        });
    }
    let producer = (request.v3_and_below_producer_id.0, request.v3_and_below_producer_epoch);
    let part = |(topic, partition): (&str, i32)| Part::Partition(topic.to_owned(), partition);
    let parts = asked.into_iter().map(part).collect();
    let added = node.add_to_transaction(&request.v3_and_below_transactional_id, producer, parts);
    let error = added.err().map_or(0, |error| fenced_as(error, call.version >= FENCED));
    refuse(&request, error)
}

pub(super) fn refuse(
    request: &AddPartitionsToTxnRequest,
    error: i16,
) -> AddPartitionsToTxnResponse {
    answer(request, |_, _| error)
}

fn answer(
    request: &AddPartitionsToTxnRequest,
    error: impl Fn(&str, i32) -> i16,
) -> AddPartitionsToTxnResponse {
    let topics = request.v3_and_below_topics.iter().map(|topic| {
        let results = topic.partitions.iter().map(|partition| {
            AddPartitionsToTxnPartitionResult::default()
                .with_partition_index(*partition)
                .with_partition_error_code(error(&topic.name, *partition))
        });
        AddPartitionsToTxnTopicResult::default()
            .with_name(topic.name.clone())
            .with_results_by_partition(results.collect())
    });
    AddPartitionsToTxnResponse::default().with_results_by_topic_v3_and_below(topics.collect())
}

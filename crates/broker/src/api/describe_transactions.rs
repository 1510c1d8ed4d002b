//! DescribeTransactions (65), version 0: how far transactional ids are, and what their transactions
//! span. Groups are not shown: there is no topic of offsets.

use kstreams_protocol::ResponseError;
use kstreams_protocol::messages::describe_transactions_response::{TopicData, TransactionState};
use kstreams_protocol::messages::{
    DescribeTransactionsRequest, DescribeTransactionsResponse, TopicName, TransactionalId,
};

use super::{Call, str_bytes};
use crate::node::Node;
use crate::txn::Transaction;

pub(super) fn handle(
    node: &mut Node,
    _: &Call,
    request: DescribeTransactionsRequest,
) -> DescribeTransactionsResponse {
    let states = request.transactional_ids.into_iter().map(|id: TransactionalId| {
        let state = match node.transactions.get(&id) {
            Some(transaction) => describe(transaction),
            None => TransactionState::default()
                .with_error_code(ResponseError::TransactionalIdNotFound.code()),
        };
        state.with_transactional_id(id)
    });
    DescribeTransactionsResponse::default().with_transaction_states(states.collect())
}

fn describe(transaction: &Transaction) -> TransactionState {
    let mut topics: Vec<TopicData> = Vec::new();
    for (topic, partition) in &transaction.partitions {
        match topics.last_mut() {
            Some(last) if last.topic.as_str() == topic => last.partitions.push(*partition),
            _ => topics.push(
                TopicData::default()
                    .with_topic(TopicName(str_bytes(topic)))
                    .with_partitions(vec![*partition]),
            ),
        }
    }
    TransactionState::default()
        .with_transaction_state(str_bytes(transaction.state.name()))
        .with_transaction_timeout_ms(transaction.timeout_ms)
        .with_transaction_start_time_ms(transaction.started)
        .with_producer_id(transaction.producer_id.into())
        .with_producer_epoch(transaction.epoch)
        .with_topics(topics)
}

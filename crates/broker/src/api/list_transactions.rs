//! ListTransactions (66), versions 0 and 1: the transactional ids, by state, producer and age.

use kstreams_protocol::messages::list_transactions_response::TransactionState;
use kstreams_protocol::messages::{
    ListTransactionsRequest, ListTransactionsResponse, TransactionalId,
};
use kstreams_protocol::protocol::StrBytes;

use super::{Call, str_bytes};
use crate::node::Node;
use crate::txn::{State, Transaction};

pub(super) fn handle(
    node: &mut Node,
    _: &Call,
    request: ListTransactionsRequest,
) -> ListTransactionsResponse {
    let states: Vec<&str> = request.state_filters.iter().map(StrBytes::as_str).collect();
    let known = |state: &str| State::ALL.iter().any(|known| known.name() == state);
    let unknown = states.iter().filter(|state| !known(state)).map(|state| str_bytes(state));
    let wanted = |transaction: &Transaction| {
        let age = node.now - transaction.started;
        let producers = &request.producer_id_filters;
        (states.is_empty() || states.contains(&transaction.state.name()))
            && (producers.is_empty() || producers.contains(&transaction.producer_id.into()))
            && (request.duration_filter < 0
                || (transaction.started >= 0 && age > request.duration_filter))
    };
    let found = node.transactions.iter().filter(|(_, transaction)| wanted(transaction));
    let found = found.map(|(id, transaction)| {
        TransactionState::default()
            .with_transactional_id(TransactionalId(str_bytes(id)))
            .with_producer_id(transaction.producer_id.into())
            .with_transaction_state(str_bytes(transaction.state.name()))
    });
    ListTransactionsResponse::default()
        .with_transaction_states(found.collect())
        .with_unknown_state_filters(unknown.collect())
}

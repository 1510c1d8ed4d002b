//! EndTxn (26), versions 0 to 5: commits or aborts. From version 5 on (transaction version 2) the
//! producer goes on under another epoch, which the answer tells.
//!
//! Deviation: the markers are written when the answer goes out.

use kstreams_protocol::messages::{EndTxnRequest, EndTxnResponse};

use super::{Call, fenced_as};
use crate::node::Node;

/// The first version that knows that a producer is fenced.
const FENCED: i16 = 2;
/// The first version of transaction version 2.
const BUMPS: i16 = 5;

pub(super) fn handle(node: &mut Node, call: &Call, request: EndTxnRequest) -> EndTxnResponse {
    let producer = (request.producer_id.0, request.producer_epoch);
    let bump = call.version >= BUMPS;
    match node.end_transaction(&request.transactional_id, producer, (request.committed, bump)) {
        Ok((id, epoch)) if bump => {
            EndTxnResponse::default().with_producer_id(id.into()).with_producer_epoch(epoch)
        }
        Ok(_) => EndTxnResponse::default(),
        Err(error) => refuse(&request, fenced_as(error, call.version >= FENCED)),
    }
}

pub(super) fn refuse(_: &EndTxnRequest, error: i16) -> EndTxnResponse {
    EndTxnResponse::default().with_error_code(error)
}

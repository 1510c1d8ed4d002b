//! AddOffsetsToTxn (25), versions 0 to 4: the offsets of a group become part of a transaction, for
//! clients of transaction version 1.

use kstreams_protocol::ResponseError;
use kstreams_protocol::messages::{AddOffsetsToTxnRequest, AddOffsetsToTxnResponse};

use super::{Call, fenced_as};
use crate::node::Node;
use crate::txn::Part;

/// The first version that knows that a producer is fenced.
const FENCED: i16 = 2;

pub(super) fn handle(
    node: &mut Node,
    call: &Call,
    request: AddOffsetsToTxnRequest,
) -> AddOffsetsToTxnResponse {
    let producer = (request.producer_id.0, request.producer_epoch);
    let group = vec![Part::Group(request.group_id.to_string())];
    let added = match request.group_id.is_empty() {
        true => Err(ResponseError::InvalidGroupId),
        false => node.add_to_transaction(&request.transactional_id, producer, group),
    };
    let error = added.err().map_or(0, |error| fenced_as(error, call.version >= FENCED));
    refuse(&request, error)
}

pub(super) fn refuse(_: &AddOffsetsToTxnRequest, error: i16) -> AddOffsetsToTxnResponse {
    AddOffsetsToTxnResponse::default().with_error_code(error)
}

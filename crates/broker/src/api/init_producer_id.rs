//! InitProducerId (22), versions 0 to 5: a new id for an idempotent producer. Transactional
//! producers are refused: there is no transaction coordinator yet.

use kstreams_protocol::ResponseError;
use kstreams_protocol::messages::{InitProducerIdRequest, InitProducerIdResponse};

use super::Call;
use crate::node::Node;

pub(super) fn handle(
    node: &mut Node,
    _: &Call,
    request: InitProducerIdRequest,
) -> InitProducerIdResponse {
    if request.transactional_id.is_some() {
        return refuse(&request, ResponseError::TransactionalIdAuthorizationFailed.code());
    }
    InitProducerIdResponse::default()
        .with_producer_id(node.new_producer_id().into())
        .with_producer_epoch(0)
}

pub(super) fn refuse(_: &InitProducerIdRequest, error: i16) -> InitProducerIdResponse {
    InitProducerIdResponse::default()
        .with_error_code(error)
        .with_producer_id((-1).into())
        .with_producer_epoch(-1)
}

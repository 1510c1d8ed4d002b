//! InitProducerId (22), versions 0 to 5: a new id for an idempotent producer, or the id and the next
//! epoch of a transactional one. An open transaction of the epoch before is aborted, and the producer
//! asks again.

use kstreams_protocol::ResponseError;
use kstreams_protocol::messages::{InitProducerIdRequest, InitProducerIdResponse};

use super::{Call, fenced_as};
use crate::node::Node;

/// The first version that knows that a producer is fenced.
const FENCED: i16 = 4;

pub(super) fn handle(
    node: &mut Node,
    call: &Call,
    request: InitProducerIdRequest,
) -> InitProducerIdResponse {
    let given = match &request.transactional_id {
        None => Ok((node.transactions.producer_ids.take(&mut node.journal), 0)),
        Some(id) => init(node, id, &request),
    };
    match given {
        Ok((id, epoch)) => {
            InitProducerIdResponse::default().with_producer_id(id.into()).with_producer_epoch(epoch)
        }
        Err(error) => refuse(&request, fenced_as(error, call.version >= FENCED)),
    }
}

fn init(
    node: &mut Node,
    id: &str,
    request: &InitProducerIdRequest,
) -> Result<(i64, i16), ResponseError> {
    let timeout = request.transaction_timeout_ms;
    if id.is_empty() {
        return Err(ResponseError::InvalidRequest);
    }
    if !(1..=node.config.transaction_max_timeout_ms).contains(&timeout) {
        return Err(ResponseError::InvalidTransactionTimeout);
    }
    let expected = (request.producer_id.0, request.producer_epoch);
    let expected = match expected {
        (-1, -1) => None,
        (0.., 0..) => Some(expected),
        _ => return Err(ResponseError::InvalidRequest),
    };
    node.init_transactions(id, timeout, expected)
}

pub(super) fn refuse(_: &InitProducerIdRequest, error: i16) -> InitProducerIdResponse {
    InitProducerIdResponse::default()
        .with_error_code(error)
        .with_producer_id((-1).into())
        .with_producer_epoch(-1)
}

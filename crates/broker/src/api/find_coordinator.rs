//! FindCoordinator (10), versions 0 to 6: this broker, for every group and transactional id.

use kstreams_protocol::ResponseError;
use kstreams_protocol::messages::find_coordinator_response::Coordinator;
use kstreams_protocol::messages::{FindCoordinatorRequest, FindCoordinatorResponse};
use kstreams_protocol::protocol::StrBytes;

use super::{Call, str_bytes};
use crate::node::Node;

/// The first version that asks for many at once.
const BATCHED: i16 = 4;
const KEY_TYPES: std::ops::RangeInclusive<i8> = 0..=1;

pub(super) fn handle(
    node: &mut Node,
    call: &Call,
    request: FindCoordinatorRequest,
) -> FindCoordinatorResponse {
    if !KEY_TYPES.contains(&request.key_type) {
        return refused(call, &request, ResponseError::InvalidRequest.code());
    }
    let (host, port) = node.endpoint();
    let (host, port) = (str_bytes(&host), i32::from(port));
    let me = node.config.node_id;
    if call.version < BATCHED {
        return FindCoordinatorResponse::default()
            .with_node_id(me.into())
            .with_host(host)
            .with_port(port);
    }
    let coordinator = |key: StrBytes| {
        Coordinator::default()
            .with_key(key)
            .with_node_id(me.into())
            .with_host(host.clone())
            .with_port(port)
    };
    let keys = request.coordinator_keys.into_iter();
    FindCoordinatorResponse::default().with_coordinators(keys.map(coordinator).collect())
}

pub(super) fn refused(
    call: &Call,
    request: &FindCoordinatorRequest,
    error: i16,
) -> FindCoordinatorResponse {
    if call.version < BATCHED {
        return FindCoordinatorResponse::default().with_error_code(error).with_node_id((-1).into());
    }
    let coordinator = |key: &StrBytes| {
        Coordinator::default()
            .with_key(key.clone())
            .with_error_code(error)
            .with_node_id((-1).into())
            .with_port(-1)
    };
    let keys = request.coordinator_keys.iter();
    FindCoordinatorResponse::default().with_coordinators(keys.map(coordinator).collect())
}

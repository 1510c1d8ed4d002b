//! Heartbeat (12), versions 0 to 4: a member of a classic group lives.

use kstreams_protocol::messages::{HeartbeatRequest, HeartbeatResponse};

use super::Call;
use crate::node::Node;

pub(super) fn handle(node: &mut Node, _: &Call, request: HeartbeatRequest) -> HeartbeatResponse {
    let instance = request.group_instance_id.as_ref();
    let beaten =
        node.groups.classic(&request.group_id, false, &mut node.journal).and_then(|group| {
            group.heartbeat(&request.member_id, instance, request.generation_id, node.now)
        });
    refuse(&request, beaten.err().map_or(0, |error| error.code()))
}

pub(super) fn refuse(_: &HeartbeatRequest, error: i16) -> HeartbeatResponse {
    HeartbeatResponse::default().with_error_code(error)
}

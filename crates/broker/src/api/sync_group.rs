//! SyncGroup (14), versions 0 to 5: answered when the leader of the classic group has assigned.

use kstreams_protocol::messages::{SyncGroupRequest, SyncGroupResponse};

use super::{Call, Reply, answer_waited};
use crate::group::classic::refused_sync;
use crate::node::Node;

pub(super) fn handle(
    node: &mut Node,
    call: &Call,
    request: SyncGroupRequest,
) -> Reply<SyncGroupResponse> {
    let mut waited = Vec::new();
    match node.groups.classic(&request.group_id, false, &mut node.journal) {
        Ok(group) => group.sync(call, &request, node.now, &mut waited),
        Err(error) => return Reply::Now(refused_sync(error)),
    }
    answer_waited(node, waited);
    Reply::Later
}

pub(super) fn refuse(_: &SyncGroupRequest, error: i16) -> SyncGroupResponse {
    SyncGroupResponse::default().with_error_code(error)
}

//! JoinGroup (11), versions 0 to 9: answered when all members of the classic group have joined.

use kstreams_protocol::ResponseError;
use kstreams_protocol::messages::{JoinGroupRequest, JoinGroupResponse};

use super::{Call, Reply, answer_waited};
use crate::group::classic::refused_join;
use crate::node::Node;

pub(super) fn handle(
    node: &mut Node,
    call: &Call,
    request: JoinGroupRequest,
) -> Reply<JoinGroupResponse> {
    if request.group_id.is_empty() {
        return Reply::Now(refused(call, &request, ResponseError::InvalidGroupId.code()));
    }
    let new_id = format!("{}-{}", call.client_id.as_str(), node.random.uuid());
    let mut waited = Vec::new();
    match node.groups.classic(&request.group_id, true, &mut node.journal) {
        Ok(group) => {
            group.join(call, &request, &node.config, (&new_id, node.now), &mut waited);
        }
        Err(error) => return Reply::Now(refused(call, &request, error.code())),
    }
    answer_waited(node, waited);
    Reply::Later
}

pub(super) fn refused(call: &Call, request: &JoinGroupRequest, error: i16) -> JoinGroupResponse {
    refused_join(call.version, &request.member_id, ResponseError::UnknownServerError)
        .with_error_code(error)
}

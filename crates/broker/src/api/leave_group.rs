//! LeaveGroup (13), versions 0 to 5: members of a classic group go; from 3 on several at once.

use kstreams_protocol::messages::leave_group_request::MemberIdentity;
use kstreams_protocol::messages::leave_group_response::MemberResponse;
use kstreams_protocol::messages::{LeaveGroupRequest, LeaveGroupResponse};

use super::{Call, answer_waited};
use crate::node::Node;

/// The first version with several members.
const BATCHED: i16 = 3;

pub(super) fn handle(
    node: &mut Node,
    call: &Call,
    request: LeaveGroupRequest,
) -> LeaveGroupResponse {
    let mut waited = Vec::new();
    let response = match node.groups.classic(&request.group_id, false, &mut node.journal) {
        Err(error) => LeaveGroupResponse::default().with_error_code(error.code()),
        Ok(group) => {
            let around = (&node.config, node.now);
            let mut leave = |member: &MemberIdentity| {
                let instance = member.group_instance_id.as_ref();
                let left = group.leave(&member.member_id, instance, around, &mut waited);
                left.err().map_or(0, |error| error.code())
            };
            if call.version < BATCHED {
                let member = MemberIdentity::default().with_member_id(request.member_id);
                LeaveGroupResponse::default().with_error_code(leave(&member))
            } else {
                let members = request.members.iter().map(|member| {
                    MemberResponse::default()
                        .with_member_id(member.member_id.clone())
                        .with_group_instance_id(member.group_instance_id.clone())
                        .with_error_code(leave(member))
                });
                LeaveGroupResponse::default().with_members(members.collect())
            }
        }
    };
    answer_waited(node, waited);
    response
}

//! DescribeGroups (15), versions 0 to 6: classic groups and their members.

use kstreams_protocol::ResponseError;
use kstreams_protocol::messages::describe_groups_response::{DescribedGroup, DescribedGroupMember};
use kstreams_protocol::messages::{DescribeGroupsRequest, DescribeGroupsResponse, GroupId};

use super::{Call, str_bytes};
use crate::group::GroupKind;
use crate::group::classic::{ClassicGroup, ClassicMember, ClassicState};
use crate::node::Node;

pub(super) fn handle(
    node: &mut Node,
    call: &Call,
    request: DescribeGroupsRequest,
) -> DescribeGroupsResponse {
    let groups = request.groups.into_iter().map(|id| {
        let group = node.groups.get(&id).map(|group| &group.kind);
        match group {
            Some(GroupKind::Classic(group)) => describe(call, id, group),
            _ => unknown(call, id),
        }
    });
    DescribeGroupsResponse::default().with_groups(groups.collect())
}

fn unknown(call: &Call, id: GroupId) -> DescribedGroup {
    let message = format!("Group {} not found.", id.as_str());
    let described = DescribedGroup::default().with_group_id(id).with_group_state(str_bytes("Dead"));
    // Older versions take a group that is not there for a dead one.
    if call.version < 6 {
        return described;
    }
    described
        .with_error_code(ResponseError::GroupIdNotFound.code())
        .with_error_message(Some(str_bytes(&message)))
}

fn describe(call: &Call, id: GroupId, group: &ClassicGroup) -> DescribedGroup {
    let stable = group.state == ClassicState::Stable;
    let member = |(id, member): (&String, &ClassicMember)| {
        let described = DescribedGroupMember::default()
            .with_member_id(str_bytes(id))
            .with_client_id(member.client_id.clone())
            .with_client_host(str_bytes(&member.host));
        let described = match call.version {
            ..4 => described,
            _ => described.with_group_instance_id(member.instance_id.clone()),
        };
        if !stable {
            return described;
        }
        described
            .with_member_metadata(member.metadata(group.protocol.as_ref()))
            .with_member_assignment(member.assignment.clone())
    };
    let protocol = group.protocol.clone().filter(|_| stable);
    DescribedGroup::default()
        .with_group_id(id)
        .with_group_state(str_bytes(group.state.name()))
        .with_protocol_type(group.protocol_type.clone())
        .with_protocol_data(protocol.unwrap_or_default())
        .with_members(group.members.iter().map(member).collect())
}

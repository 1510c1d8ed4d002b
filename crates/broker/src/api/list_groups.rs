//! ListGroups (16), versions 0 to 5: all groups, filtered by state (4) and type (5).

use kstreams_protocol::messages::list_groups_response::ListedGroup;
use kstreams_protocol::messages::{GroupId, ListGroupsRequest, ListGroupsResponse};
use kstreams_protocol::protocol::StrBytes;

use super::{Call, str_bytes};
use crate::group::{Group, GroupKind};
use crate::node::Node;

pub(super) fn handle(
    node: &mut Node,
    call: &Call,
    request: ListGroupsRequest,
) -> ListGroupsResponse {
    let matches = |filter: &[StrBytes], value: &str| {
        filter.is_empty() || filter.iter().any(|wanted| wanted.eq_ignore_ascii_case(value))
    };
    let groups = node.groups.iter().map(|(name, group)| {
        let (protocol_type, group_type) = kind(group);
        (name, group.state(), protocol_type, group_type)
    });
    let groups = groups.filter(|(_, state, _, group_type)| {
        matches(&request.states_filter, state) && matches(&request.types_filter, group_type)
    });
    let listed = groups.map(|(name, state, protocol_type, group_type)| {
        let listed = ListedGroup::default()
            .with_group_id(GroupId(str_bytes(name)))
            .with_protocol_type(protocol_type);
        match call.version {
            ..4 => listed,
            4 => listed.with_group_state(str_bytes(state)),
            _ => listed.with_group_state(str_bytes(state)).with_group_type(str_bytes(group_type)),
        }
    });
    ListGroupsResponse::default().with_groups(listed.collect())
}

fn kind(group: &Group) -> (StrBytes, &'static str) {
    match &group.kind {
        GroupKind::Classic(group) => (group.protocol_type.clone(), "Classic"),
        GroupKind::Streams(_) => (str_bytes("streams"), "Streams"),
    }
}

//! StreamsGroupDescribe (89), versions 0 to 1: topology, members and tasks of streams groups.

use kstreams_protocol::ResponseError;
use kstreams_protocol::streams_group::describe::{
    DescribedGroup, StreamsGroupDescribeRequest, StreamsGroupDescribeResponse,
};

use super::{Call, str_bytes};
use crate::group::GroupKind;
use crate::node::Node;

pub(super) fn handle(
    node: &mut Node,
    _: &Call,
    request: StreamsGroupDescribeRequest,
) -> StreamsGroupDescribeResponse {
    let groups = request.group_ids.iter().map(|id| {
        let message = match node.groups.get(id).map(|group| &group.kind) {
            Some(GroupKind::Streams(group)) => {
                return group.describe(id, request.include_topology_description);
            }
            Some(GroupKind::Classic(_)) => format!("Group {} is not a streams group.", id.as_str()),
            None => format!("Group {} not found.", id.as_str()),
        };
        DescribedGroup {
            error_code: ResponseError::GroupIdNotFound.code(),
            error_message: Some(str_bytes(&message)),
            group_id: id.clone(),
            ..DescribedGroup::default()
        }
    });
    StreamsGroupDescribeResponse { groups: groups.collect(), ..Default::default() }
}

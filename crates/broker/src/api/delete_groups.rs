//! DeleteGroups (42), versions 0 to 2: groups without members, with all that they committed.

use kstreams_protocol::messages::delete_groups_response::DeletableGroupResult;
use kstreams_protocol::messages::{DeleteGroupsRequest, DeleteGroupsResponse};

use super::Call;
use crate::node::Node;

pub(super) fn handle(
    node: &mut Node,
    _: &Call,
    request: DeleteGroupsRequest,
) -> DeleteGroupsResponse {
    let results = request.groups_names.into_iter().map(|name| {
        let deleted = node.groups.delete(&name, &mut node.journal);
        DeletableGroupResult::default()
            .with_group_id(name)
            .with_error_code(deleted.err().map_or(0, |error| error.code()))
    });
    DeleteGroupsResponse::default().with_results(results.collect())
}

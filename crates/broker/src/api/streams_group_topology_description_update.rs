//! StreamsGroupTopologyDescriptionUpdate (93), version 0 (KIP-1331): keeps what a member tells of
//! its topology, for descriptions. Kafka without a plugin for it refuses; it is lost at a restart.

use kstreams_protocol::ResponseError;
use kstreams_protocol::streams_group::{
    StreamsGroupTopologyDescriptionUpdateRequest, StreamsGroupTopologyDescriptionUpdateResponse,
};

use super::{Call, str_bytes};
use crate::error::Refusal;
use crate::node::Node;

pub(super) fn handle(
    node: &mut Node,
    _: &Call,
    request: StreamsGroupTopologyDescriptionUpdateRequest,
) -> StreamsGroupTopologyDescriptionUpdateResponse {
    let refusal = store(node, request).err();
    StreamsGroupTopologyDescriptionUpdateResponse {
        error_code: refusal.as_ref().map_or(0, Refusal::code),
        error_message: refusal.and_then(|refusal| refusal.message).as_deref().map(str_bytes),
        ..Default::default()
    }
}

fn store(
    node: &mut Node,
    request: StreamsGroupTopologyDescriptionUpdateRequest,
) -> Result<(), Refusal> {
    let unknown = || Refusal::from(ResponseError::UnknownMemberId);
    let group = node.groups.streams(&request.group_id, false).map_err(|_| unknown())?;
    if !group.members.contains_key(request.member_id.as_str()) {
        return Err(unknown());
    }
    let epoch = group.topology.as_ref().map(|topology| topology.epoch);
    if epoch != Some(request.topology_epoch) {
        let message = "The topology epoch is not the group's";
        return Err(Refusal::new(ResponseError::InvalidRequest, message));
    }
    group.description = Some(request.topology_description);
    Ok(())
}

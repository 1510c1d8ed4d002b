//! StreamsGroupHeartbeat (88), versions 0 to 1 (KIP-1071): a member joins, stays or leaves; the
//! group's internal topics are created on the way.
//!
//! Deviations: a topology description is never asked for; static members are taken over as in
//! consumer groups; warm-up tasks are never given.

use kstreams_protocol::ResponseError;
use kstreams_protocol::streams_group::heartbeat::{
    StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse,
};

use super::create_topics::check_replication;
use super::{Call, str_bytes};
use crate::error::Refusal;
use crate::group::streams::Around;
use crate::group::streams::heartbeat::{Heard, JOIN, Sender};
use crate::group::streams::request::check;
use crate::group::streams::topology::InternalTopic;
use crate::node::Node;

pub(super) fn handle(
    node: &mut Node,
    call: &Call,
    request: StreamsGroupHeartbeatRequest,
) -> StreamsGroupHeartbeatResponse {
    match beat(node, call, &request) {
        Ok(response) => response,
        Err(refusal) => {
            node.groups.drop_if_unused(&request.group_id);
            StreamsGroupHeartbeatResponse {
                error_message: refusal.message.as_deref().map(str_bytes),
                ..refuse(&request, refusal.code())
            }
        }
    }
}

pub(super) fn refuse(
    _: &StreamsGroupHeartbeatRequest,
    error: i16,
) -> StreamsGroupHeartbeatResponse {
    StreamsGroupHeartbeatResponse { error_code: error, ..Default::default() }
}

fn beat(
    node: &mut Node,
    call: &Call,
    request: &StreamsGroupHeartbeatRequest,
) -> Result<StreamsGroupHeartbeatResponse, Refusal> {
    check(request)?;
    let group_id = request.group_id.as_str();
    let topics_generation = node.groups.topics_generation;
    let group = node.groups.streams(group_id, request.member_epoch == JOIN).map_err(|refusal| {
        let leaves = request.member_epoch < 0 && refusal.error == ResponseError::GroupIdNotFound;
        if !leaves {
            return refusal;
        }
        Refusal::new(refusal.error, format!("Group {group_id} not found."))
    })?;
    if request.member_epoch < 0 {
        let left = group.leave(request)?;
        node.groups.record_streams(group_id, &mut node.journal);
        return Ok(left);
    }
    let around =
        Around { topics: &node.topics, config: &node.config, topics_generation, now: node.now };
    let sender = Sender { client_id: &call.client_id, host: &call.peer };
    let Heard { response, create } = group.heartbeat(request, sender, around)?;
    node.groups.record_streams(group_id, &mut node.journal);
    let failed = create_internal(node, &create);
    if let Ok(group) = node.groups.streams(group_id, false) {
        // Told from the next heartbeat on: this one's answer came before the creation.
        group.creation_failed = (!failed.is_empty()).then(|| failed.join(", "));
    }
    Ok(response)
}

/// Creates what is missing; says what could not be created, and why.
fn create_internal(node: &mut Node, topics: &[InternalTopic]) -> Vec<String> {
    let mut failed = Vec::new();
    for topic in topics {
        let configs = topic.info.topic_configs.iter();
        let configs: Vec<(&str, &str)> =
            configs.map(|c| (c.key.as_str(), c.value.as_str())).collect();
        let name = topic.info.name.as_str();
        let factor = match topic.info.replication_factor {
            0 => -1,
            factor => i32::from(factor),
        };
        let created = check_replication(factor)
            .and_then(|()| node.create_topic(name, topic.partitions, &configs));
        if let Err(refusal) = created {
            let message = refusal.message.unwrap_or_else(|| format!("{:?}", refusal.error));
            failed.push(format!("{name} ({message})"));
        }
    }
    failed
}

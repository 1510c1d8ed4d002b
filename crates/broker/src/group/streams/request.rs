//! What a heartbeat's request says: whether it makes sense, and what of it a member takes over.

use std::collections::BTreeMap;

use kstreams_protocol::ResponseError;
use kstreams_protocol::streams_group::TaskOffset;
use kstreams_protocol::streams_group::heartbeat::StreamsGroupHeartbeatRequest;

use super::heartbeat::{JOIN, LEAVE_STATIC, Sender};
use super::member::Member;
use crate::error::Refusal;
use crate::group::tasks::TaskId;

/// Refuses requests that no group could accept.
pub(crate) fn check(request: &StreamsGroupHeartbeatRequest) -> Result<(), Refusal> {
    let invalid = |message: &str| Err(Refusal::new(ResponseError::InvalidRequest, message));
    let empty = |text: &Option<kstreams_protocol::protocol::StrBytes>| {
        text.as_ref().is_some_and(|text| text.trim().is_empty())
    };
    let tasks = [&request.active_tasks, &request.standby_tasks, &request.warmup_tasks];
    if request.member_id.trim().is_empty() {
        return invalid("MemberId can't be empty.");
    }
    if request.group_id.trim().is_empty() {
        return invalid("GroupId can't be empty.");
    }
    if empty(&request.instance_id) {
        return invalid("InstanceId can't be empty.");
    }
    if empty(&request.rack_id) {
        return invalid("RackId can't be empty.");
    }
    if request.member_epoch < LEAVE_STATIC {
        let epoch = request.member_epoch;
        return invalid(&format!(
            "MemberEpoch is {epoch}, but must be greater than or equal to -2."
        ));
    }
    if tasks.iter().any(|list| list.is_some()) && tasks.iter().any(|list| list.is_none()) {
        return invalid("If one task-type is non-null, all must be non-null.");
    }
    if request.member_epoch != JOIN {
        if request.topology.is_some() {
            return invalid("Topology can only be provided when (re-)joining.");
        }
        if request.member_epoch == LEAVE_STATIC && request.instance_id.is_none() {
            return invalid("InstanceId can't be null.");
        }
        return Ok(());
    }
    if request.rebalance_timeout_ms == -1 {
        return invalid("RebalanceTimeoutMs must be provided in first request.");
    }
    for (name, list) in ["ActiveTasks", "StandbyTasks", "WarmupTasks"].iter().zip(tasks) {
        if list.as_ref().is_none_or(|list| !list.is_empty()) {
            return invalid(&format!("{name} must be empty when (re-)joining."));
        }
    }
    let Some(topology) = &request.topology else {
        return invalid("Topology must be non-null when (re-)joining.");
    };
    if topology.subtopologies.iter().any(|s| !s.source_topic_regex.is_empty()) {
        return invalid("Regular expressions for source topics are not supported yet.");
    }
    Ok(())
}

/// Takes over what the request says; what it leaves out stays.
pub(super) fn update(
    member: &mut Member,
    request: &StreamsGroupHeartbeatRequest,
    sender: Sender<'_>,
) {
    let text = |field: &Option<kstreams_protocol::protocol::StrBytes>| {
        field.as_ref().map(ToString::to_string)
    };
    member.instance_id = text(&request.instance_id).or(member.instance_id.take());
    member.rack_id = text(&request.rack_id).or(member.rack_id.take());
    if request.rebalance_timeout_ms >= 0 {
        member.rebalance_timeout_ms = i64::from(request.rebalance_timeout_ms);
    }
    if let Some(topology) = &request.topology {
        member.topology_epoch = topology.epoch;
    }
    sender.client_id.clone_into(&mut member.client_id);
    sender.host.clone_into(&mut member.client_host);
    if let Some(process) = text(&request.process_id) {
        member.process_id = process;
    }
    if let Some(tags) = &request.client_tags {
        member.client_tags.clone_from(tags);
    }
    if request.user_endpoint.is_some() || request.member_epoch == JOIN {
        member.endpoint.clone_from(&request.user_endpoint);
    }
    if let Some(offsets) = &request.task_offsets {
        member.task_offsets = by_task(offsets);
    }
    if let Some(offsets) = &request.task_end_offsets {
        member.task_end_offsets = by_task(offsets);
    }
}

fn by_task(offsets: &[TaskOffset]) -> BTreeMap<TaskId, i64> {
    let one = |o: &TaskOffset| ((o.subtopology_id.to_string(), o.partition), o.offset);
    offsets.iter().map(one).collect()
}

/// Whether what changed about a member asks for another assignment.
pub(super) fn is_rebalance(before: &Member, after: &Member) -> bool {
    before.topology_epoch != after.topology_epoch
        || before.process_id != after.process_id
        || before.client_tags != after.client_tags
        || before.rack_id != after.rack_id
}

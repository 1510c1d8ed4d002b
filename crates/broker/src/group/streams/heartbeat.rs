//! The heartbeat of a member: it joins, tells what it owns, hears what it shall own, or leaves.

use std::collections::BTreeMap;

use kstreams_protocol::ResponseError;
use kstreams_protocol::streams_group::heartbeat::{
    EndpointToPartitions, Status, StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse,
    TopicPartition, Topology,
};

use super::member::Member;
use super::request::{is_rebalance, update};
use super::topology::{
    ASSIGNMENT_DELAYED, InternalTopic, MISSING_INTERNAL_TOPICS, SHUTDOWN_APPLICATION,
    STALE_TOPOLOGY, source_topics,
};
use super::{Around, StreamsGroup};
use crate::api::str_bytes;
use crate::error::Refusal;
use crate::group::tasks::{TaskId, Tasks, lists};

/// The epoch with which a member joins, and the one of a static member that will be back; -1 leaves.
pub(crate) const JOIN: i32 = 0;
pub(crate) const LEAVE_STATIC: i32 = -2;

/// `group.streams.acceptable.recovery.lag` and `group.streams.task.offset.interval.ms`.
const ACCEPTABLE_RECOVERY_LAG: i64 = 10_000;
const TASK_OFFSET_INTERVAL_MS: i32 = 60_000;

/// Who sent the heartbeat.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sender<'a> {
    pub(crate) client_id: &'a str,
    pub(crate) host: &'a str,
}

/// The answer, and what the broker has to do for the group.
#[derive(Debug)]
pub(crate) struct Heard {
    pub(crate) response: StreamsGroupHeartbeatResponse,
    pub(crate) create: Vec<InternalTopic>,
}

impl StreamsGroup {
    /// Handles the heartbeat of a member that joins or stays.
    pub(crate) fn heartbeat(
        &mut self,
        request: &StreamsGroupHeartbeatRequest,
        sender: Sender<'_>,
        around: Around<'_>,
    ) -> Result<Heard, Refusal> {
        let id = request.member_id.to_string();
        let joining = request.member_epoch == JOIN;
        self.check_topology(request.topology.as_ref())?;
        let before = self.known_member(request, around)?;
        let mut member = before.clone().unwrap_or_default();
        update(&mut member, request, sender);
        let is_new = before.is_none();
        if before.as_ref() != Some(&member) {
            self.changed.insert(id.clone());
        }
        let mut bump = before.as_ref().is_none_or(|before| is_rebalance(before, &member));
        let endpoint_changed =
            before.as_ref().map(|before| &before.endpoint) != Some(&member.endpoint);
        if self.topology.is_none() {
            self.topology.clone_from(&request.topology);
            self.configured_at = None;
            bump = true;
        }
        bump |= self.configure(around);
        self.check_tasks(request)?;
        if bump {
            self.epoch += 1;
        }
        let delay = around.config.streams_initial_rebalance_delay_ms;
        if self.members.is_empty() && delay > 0 {
            self.initial_delay_until.get_or_insert(around.now + delay);
        }
        member.session_until = around.now + around.config.streams_session_timeout_ms;
        self.members.insert(id.clone(), member);
        let mut status = self.stale_status(&id);
        let owned = Tasks::from_lists(
            request.active_tasks.as_deref(),
            request.standby_tasks.as_deref(),
            request.warmup_tasks.as_deref(),
        );
        let target = self.target(&id, around, &mut status);
        self.reconcile(&id, (target.0, &target.1), owned.as_ref(), around.now);
        if request.shutdown_application {
            self.shutdown_by = Some(id.clone());
        }
        self.describe_problems(&mut status);
        let assigned = before.map(|before| before.assigned);
        let news = joining || self.members.get(&id).map(|m| &m.assigned) != assigned.as_ref();
        if is_new {
            tracing::info!(member = id, epoch = self.epoch, "member joined the streams group");
        }
        let response = self.respond(request, (news, endpoint_changed), status, around);
        Ok(Heard { response, create: self.configured.missing.clone() })
    }

    /// The topology of a group is fixed: another one is refused, an older one is told so.
    fn check_topology(&self, asked: Option<&Topology>) -> Result<(), Refusal> {
        let (Some(asked), Some(own)) = (asked, &self.topology) else { return Ok(()) };
        if own.epoch > asked.epoch {
            return Ok(());
        }
        let by_id = |topology: &Topology| -> BTreeMap<_, _> {
            let subtopologies = topology.subtopologies.iter();
            subtopologies.map(|s| (s.subtopology_id.to_string(), s.clone())).collect()
        };
        if own.epoch == asked.epoch && by_id(own) == by_id(asked) {
            return Ok(());
        }
        let message = "Topology updates are not supported yet.";
        Err(Refusal::new(ResponseError::InvalidRequest, message))
    }

    /// The member as it is known, under an epoch that it may use; `None` for one that joins.
    fn known_member(
        &mut self,
        request: &StreamsGroupHeartbeatRequest,
        around: Around<'_>,
    ) -> Result<Option<Member>, Refusal> {
        let id = request.member_id.as_str();
        let epoch = request.member_epoch;
        if let Some(instance) = &request.instance_id
            && let Some(known) = self.take_over(instance, id, epoch)?
        {
            return Ok(Some(known));
        }
        let Some(member) = self.members.get(id) else {
            if epoch != JOIN {
                let message =
                    format!("Member {id} is not a member of group {}.", request.group_id.as_str());
                return Err(Refusal::new(ResponseError::UnknownMemberId, message));
            }
            if self.members.len() >= around.config.streams_max_size {
                let message = "The streams group has reached its maximum capacity.";
                return Err(Refusal::new(ResponseError::GroupMaxSizeReached, message));
            }
            return Ok(None);
        };
        let fenced = |what: &str| {
            let message = format!(
                "The streams group member has a {what} member epoch ({epoch}) than the one known by \
                 the group coordinator ({}). The member must abandon all its partitions and rejoin.",
                member.epoch
            );
            Err(Refusal::new(ResponseError::FencedMemberEpoch, message))
        };
        if epoch == JOIN || epoch == member.epoch {
            return Ok(Some(member.clone()));
        }
        if epoch > member.epoch {
            return fenced("greater");
        }
        // The answer with the new epoch was lost: fine if it can only have let go of tasks.
        let owned = Tasks::from_lists(
            request.active_tasks.as_deref(),
            request.standby_tasks.as_deref(),
            request.warmup_tasks.as_deref(),
        );
        let contained = owned.is_some_and(|owned| member.assigned.contains_all(&owned));
        if epoch == member.previous_epoch && contained {
            return Ok(Some(member.clone()));
        }
        fenced("smaller")
    }

    /// A static member comes back under another id: it gets what the one before it had.
    fn take_over(
        &mut self,
        instance: &str,
        id: &str,
        epoch: i32,
    ) -> Result<Option<Member>, Refusal> {
        let known = self.members.iter().find(|(_, m)| m.instance_id.as_deref() == Some(instance));
        let Some((known_id, known)) = known else { return Ok(None) };
        if known_id == id {
            return Ok(None);
        }
        if epoch != JOIN {
            return Err(ResponseError::FencedInstanceId.into());
        }
        if known.epoch != LEAVE_STATIC {
            return Err(ResponseError::UnreleasedInstanceId.into());
        }
        let known_id = known_id.clone();
        let mut member = self.members.remove(&known_id).unwrap_or_default();
        member.epoch = member.previous_epoch;
        self.changed.insert(known_id.clone());
        if let Some(target) = self.targets.remove(&known_id) {
            self.targets.insert(id.to_owned(), target);
        }
        Ok(Some(member))
    }

    fn check_tasks(&self, request: &StreamsGroupHeartbeatRequest) -> Result<(), Refusal> {
        if self.configured.problem.is_some() {
            return Ok(());
        }
        let all = [&request.active_tasks, &request.standby_tasks, &request.warmup_tasks];
        for list in all.into_iter().flatten().flatten() {
            let subtopology = list.subtopology_id.as_str();
            let Some(configured) = self.configured.subtopologies.get(subtopology) else {
                let message = format!("Subtopology {subtopology} does not exist in the topology.");
                return Err(Refusal::new(ResponseError::InvalidRequest, message));
            };
            for partition in &list.partitions {
                if !(0..configured.tasks).contains(partition) {
                    let message = format!(
                        "Task {partition} for subtopology {subtopology} is invalid. Number of tasks \
                         for this subtopology: {}",
                        configured.tasks
                    );
                    return Err(Refusal::new(ResponseError::InvalidRequest, message));
                }
            }
        }
        Ok(())
    }

    /// The assignment that the member goes towards, computed anew if it is time for that.
    fn target(&mut self, id: &str, around: Around<'_>, status: &mut Vec<Status>) -> (i32, Tasks) {
        if self.initial_delay_until.is_some() {
            let detail = "Assignment delayed due to the configured initial rebalance delay.";
            status.push(new_status(ASSIGNMENT_DELAYED, detail));
            return (self.assignment_epoch, Tasks::default());
        }
        if self.epoch > self.assignment_epoch {
            let interval = around.config.streams_assignment_interval_ms;
            if self.assignment_time.is_none_or(|last| around.now >= last + interval) {
                self.assign(around);
            } else {
                let detail = "Assignment delayed due to the configured assignment interval.";
                status.push(new_status(ASSIGNMENT_DELAYED, detail));
            }
        }
        (self.assignment_epoch, self.targets.get(id).cloned().unwrap_or_default())
    }

    fn stale_status(&self, id: &str) -> Vec<Status> {
        let group_epoch = self.topology.as_ref().map_or(0, |topology| topology.epoch);
        let member_epoch = self.members.get(id).map_or(group_epoch, |m| m.topology_epoch);
        if member_epoch >= group_epoch {
            return Vec::new();
        }
        let detail = format!(
            "The member's topology epoch {member_epoch} is behind the group's topology epoch \
             {group_epoch}."
        );
        vec![new_status(STALE_TOPOLOGY, &detail)]
    }

    fn describe_problems(&self, status: &mut Vec<Status>) {
        if let Some((code, detail)) = &self.configured.problem {
            let failed = match &self.creation_failed {
                Some(failed) if *code == MISSING_INTERNAL_TOPICS => {
                    format!("; Creation failed: {failed}.")
                }
                _ => String::new(),
            };
            status.push(new_status(*code, &format!("{detail}{failed}")));
        }
        if let Some(member) = &self.shutdown_by {
            let detail = format!(
                "Streams group member {member} encountered a fatal error and requested a shutdown \
                 for the entire application."
            );
            status.push(new_status(SHUTDOWN_APPLICATION, &detail));
        }
    }

    fn respond(
        &mut self,
        request: &StreamsGroupHeartbeatRequest,
        (news, endpoint_changed): (bool, bool),
        status: Vec<Status>,
        around: Around<'_>,
    ) -> StreamsGroupHeartbeatResponse {
        let member = self.members.get(request.member_id.as_str()).cloned().unwrap_or_default();
        if (news || endpoint_changed) && member.endpoint.is_some() {
            self.endpoint_epoch += 1;
        }
        let mut response = StreamsGroupHeartbeatResponse {
            member_id: request.member_id.clone(),
            member_epoch: member.epoch,
            heartbeat_interval_ms: around.config.streams_heartbeat_interval_ms,
            task_offset_interval_ms: TASK_OFFSET_INTERVAL_MS,
            acceptable_recovery_lag: ACCEPTABLE_RECOVERY_LAG,
            acceptable_recovery_lag_legacy: 10_000,
            endpoint_information_epoch: self.endpoint_epoch,
            status: Some(status),
            ..StreamsGroupHeartbeatResponse::default()
        };
        if news {
            response.active_tasks = Some(lists(&member.assigned.active));
            response.standby_tasks = Some(lists(&member.assigned.standby));
            response.warmup_tasks = Some(lists(&member.assigned.warmup));
        }
        if self.endpoint_epoch != request.endpoint_information_epoch {
            let members = self.members.values();
            let endpoints = members.filter_map(|member| self.endpoint_partitions(member, around));
            response.partitions_by_user_endpoint = Some(endpoints.collect());
        }
        response
    }

    fn endpoint_partitions(
        &self,
        member: &Member,
        around: Around<'_>,
    ) -> Option<EndpointToPartitions> {
        let user_endpoint = member.endpoint.clone()?;
        let partitions = |tasks: &mut dyn Iterator<Item = &TaskId>| {
            let mut by_topic: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
            for (subtopology, partition) in tasks {
                let all = self.topology.iter().flat_map(|topology| &topology.subtopologies);
                let found = all.into_iter().find(|s| s.subtopology_id.as_str() == subtopology);
                for topic in found.into_iter().flat_map(source_topics) {
                    if around.topics.log(topic, *partition).is_some() {
                        by_topic.entry(topic).or_default().push(*partition);
                    }
                }
            }
            let topic = |(topic, partitions): (&str, Vec<i32>)| TopicPartition {
                topic: str_bytes(topic),
                partitions,
            };
            by_topic.into_iter().map(topic).collect()
        };
        let assigned = &member.assigned;
        Some(EndpointToPartitions {
            user_endpoint,
            active_partitions: partitions(&mut assigned.active.iter()),
            standby_partitions: partitions(&mut assigned.standby.iter().chain(&assigned.warmup)),
        })
    }

    /// Handles the heartbeat of a member that leaves.
    pub(crate) fn leave(
        &mut self,
        request: &StreamsGroupHeartbeatRequest,
    ) -> Result<StreamsGroupHeartbeatResponse, Refusal> {
        let id = request.member_id.as_str();
        let unknown = || {
            let message =
                format!("Member {id} is not a member of group {}.", request.group_id.as_str());
            Refusal::new(ResponseError::UnknownMemberId, message)
        };
        let member = self.members.get_mut(id).ok_or_else(unknown)?;
        if request.member_epoch == LEAVE_STATIC {
            member.previous_epoch = member.epoch;
            member.epoch = LEAVE_STATIC;
            self.changed.insert(id.to_owned());
        } else {
            self.remove(id);
        }
        Ok(StreamsGroupHeartbeatResponse {
            member_id: request.member_id.clone(),
            member_epoch: request.member_epoch,
            ..StreamsGroupHeartbeatResponse::default()
        })
    }
}

fn new_status(code: i8, detail: &str) -> Status {
    Status { status_code: code, status_detail: str_bytes(detail) }
}

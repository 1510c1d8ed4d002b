//! What the coordinator answered to a heartbeat, or to a pushed description.

use super::resync::Resync;
use super::{Context, JOIN_EPOCH, Membership, NEEDS, Said, State, text};
use crate::admin::task_list;
use crate::connection::Ticket;
use crate::connections::{Lane, Node};
use crate::error::{ClientError, ErrorKind};
use crate::event::{EndpointPartitions, Event, GroupStatus, GroupStatusKind};
use crate::requests::Response;
use crate::types::{Tasks, Topic, TopicPartition};
use kstreams_protocol::streams_group::heartbeat::{
    EndpointToPartitions, StreamsGroupHeartbeatResponse, TopicPartition as WirePartitions,
};
use kstreams_protocol::streams_group::topology_description::StreamsGroupTopologyDescriptionUpdateRequest;
use std::time::Duration;

const COORDINATOR_LOAD_IN_PROGRESS: i16 = 14;
const COORDINATOR_NOT_AVAILABLE: i16 = 15;
const NOT_COORDINATOR: i16 = 16;
const UNKNOWN_MEMBER_ID: i16 = 25;
const GROUP_AUTHORIZATION_FAILED: i16 = 30;
const UNSUPPORTED_VERSION: i16 = 35;
const INVALID_REQUEST: i16 = 42;
const GROUP_ID_NOT_FOUND: i16 = 69;
const GROUP_MAX_SIZE_REACHED: i16 = 81;
const FENCED_MEMBER_EPOCH: i16 = 110;
const UNRELEASED_INSTANCE_ID: i16 = 111;

impl Membership {
    pub(crate) fn on_heartbeat(
        &mut self,
        node: Node,
        result: Result<Response, ClientError>,
        cx: &mut Context<'_>,
    ) {
        let said = self.in_flight.take().unwrap_or_default();
        match result {
            Ok(Response::StreamsGroupHeartbeat(answer)) => match self.state {
                State::Leaving { .. } if answer.error_code != 0 && self.next <= cx.now => {}
                State::Leaving { .. } => self.on_leave_answer(&answer, cx),
                State::Joining | State::Stable if answer.error_code == 0 => {
                    self.heard = said.at;
                    self.on_assignment(&answer, &said, cx);
                }
                State::Joining | State::Stable => self.on_error(&answer, cx),
                State::Lost | State::Gone | State::Failed => {}
            },
            Ok(_) => {}
            Err(error) => {
                tracing::debug!(group = %self.group, %error, ?node, "a heartbeat was lost");
                cx.coordinators.forget(&self.group, cx.now);
                // The broker takes the epoch before its last one only with what is owned.
                self.owned_told = false;
                self.resync.answer_lost();
                self.next = cx.now + cx.retry_backoff;
            }
        }
    }

    /// The answer to the heartbeat that leaves, or to one that was still on its way before it.
    fn on_leave_answer(&mut self, answer: &StreamsGroupHeartbeatResponse, cx: &mut Context<'_>) {
        match answer.error_code {
            0 if answer.member_epoch >= 0 => self.in_flight = Some(Said::default()),
            0 | UNKNOWN_MEMBER_ID | GROUP_ID_NOT_FOUND | FENCED_MEMBER_EPOCH => {
                self.end_leaving(Ok(()));
            }
            COORDINATOR_LOAD_IN_PROGRESS | COORDINATOR_NOT_AVAILABLE | NOT_COORDINATOR => {
                cx.coordinators.forget(&self.group, cx.now);
                self.next = cx.now + cx.retry_backoff;
            }
            code => {
                let context = format!("leave group {}", self.group);
                let detail = answer.error_message.as_deref();
                self.end_leaving(Err(ClientError::broker(code, context, detail)));
            }
        }
    }

    fn on_assignment(
        &mut self,
        answer: &StreamsGroupHeartbeatResponse,
        said: &Said,
        cx: &mut Context<'_>,
    ) {
        // The stream thread may have acknowledged others since.
        self.owned_told |= said.owned.as_ref() == Some(&self.owned);
        self.shut_down &= !said.shut_down;
        let joined = matches!(self.state, State::Joining);
        self.state = State::Stable;
        if joined {
            tracing::info!(group = %self.group, member = %self.member_id,
                epoch = answer.member_epoch, "joined the group");
        }
        self.interval = Duration::from_millis(answer.heartbeat_interval_ms.max(1) as u64);
        // What is still to be told is told at once.
        let all_told = self.owned_told && !self.shut_down;
        self.next = if all_told { cx.now + self.interval } else { cx.now };
        let epoch_changed = self.epoch != answer.member_epoch || joined;
        self.epoch = answer.member_epoch;
        let list = |ids: &Option<Vec<_>>| ids.as_deref().map(task_list);
        let lists =
            (list(&answer.active_tasks), list(&answer.standby_tasks), list(&answer.warmup_tasks));
        let target_changed = if let (Some(active), Some(standby), Some(warmup)) = lists {
            self.resync.told();
            self.set_target(Tasks { active, standby, warmup })
        } else {
            self.resync.not_told();
            false
        };
        if epoch_changed || target_changed {
            self.tell_target(cx);
        }
        self.on_status(answer, cx);
        self.on_endpoints(answer, cx);
        self.describe |= answer.topology_description_required && self.config.description.is_some();
    }

    /// Gives whether it is another than before.
    pub(super) fn set_target(&mut self, target: Tasks) -> bool {
        let changed = self.target.as_ref() != Some(&target);
        self.target = Some(target);
        changed
    }

    pub(super) fn tell_target(&self, cx: &mut Context<'_>) {
        let Some(tasks) = self.target.clone() else { return };
        tracing::info!(group = %self.group, member = %self.member_id, epoch = self.epoch,
            active = tasks.active.len(), standby = tasks.standby.len(),
            warmup = tasks.warmup.len(), "assigned");
        cx.events.push(Event::Assigned { epoch: self.epoch, tasks });
    }

    fn on_status(&mut self, answer: &StreamsGroupHeartbeatResponse, cx: &mut Context<'_>) {
        let status = answer.status.iter().flatten().map(|status| GroupStatus {
            kind: GroupStatusKind::from_code(status.status_code),
            detail: status.status_detail.to_string(),
        });
        let status: Vec<GroupStatus> = status.collect();
        if status != self.status {
            for one in &status {
                tracing::info!(group = %self.group, kind = ?one.kind, detail = %one.detail, "status");
            }
            self.status.clone_from(&status);
            cx.events.push(Event::GroupStatus(status));
        }
    }

    fn on_endpoints(&mut self, answer: &StreamsGroupHeartbeatResponse, cx: &mut Context<'_>) {
        let Some(endpoints) = &answer.partitions_by_user_endpoint else { return };
        self.endpoint_epoch = answer.endpoint_information_epoch;
        let endpoints: Vec<_> = endpoints.iter().map(endpoint).collect();
        if endpoints != self.endpoints {
            self.endpoints.clone_from(&endpoints);
            cx.events.push(Event::Endpoints(endpoints));
        }
    }

    fn on_error(&mut self, answer: &StreamsGroupHeartbeatResponse, cx: &mut Context<'_>) {
        let code = answer.error_code;
        let context = format!("group {}", self.group);
        let error = ClientError::broker(code, context, answer.error_message.as_deref());
        match code {
            COORDINATOR_LOAD_IN_PROGRESS => self.next = cx.now + cx.retry_backoff,
            COORDINATOR_NOT_AVAILABLE | NOT_COORDINATOR => {
                cx.coordinators.forget(&self.group, cx.now);
                self.next = cx.now + cx.retry_backoff;
            }
            FENCED_MEMBER_EPOCH | UNKNOWN_MEMBER_ID | GROUP_ID_NOT_FOUND => {
                self.on_fenced(error, cx);
            }
            // A static member that was killed: its session has to end first.
            UNRELEASED_INSTANCE_ID => self.next = cx.now + self.interval,
            code if crate::error::is_retriable(code) => self.next = cx.now + cx.retry_backoff,
            code => self.fail(explained(code, error, &self.group), cx),
        }
    }

    fn on_fenced(&mut self, error: ClientError, cx: &mut Context<'_>) {
        tracing::warn!(group = %self.group, member = %self.member_id, %error, "thrown out");
        self.epoch = JOIN_EPOCH;
        self.target = None;
        self.owned_told = false;
        self.resync = Resync::default();
        if matches!(self.state, State::Joining) && self.owned == Tasks::default() {
            // Nothing to lose: join again.
            self.next = cx.now + cx.retry_backoff;
            return;
        }
        self.state = State::Lost;
        self.owned = Tasks::default();
        cx.events.push(Event::Lost { error: error.of_kind(ErrorKind::Fenced) });
    }

    /// Pushes the topology's description if the group asked for it. It is there for tools only, so
    /// a failure is no more than a note.
    pub(super) fn push_description(&mut self, node: Node, cx: &mut Context<'_>) {
        let Some(description) = self.config.description.clone() else { return };
        if !self.describe || self.describing {
            return;
        }
        self.describe = false;
        let request = StreamsGroupTopologyDescriptionUpdateRequest {
            group_id: text(&self.config.group_id),
            member_id: text(&self.member_id),
            topology_epoch: self.config.topology.epoch,
            topology_description: description,
        };
        let ticket = Ticket::TopologyDescription;
        match cx.connections.send(node, Lane::Group, &request.into(), ticket, cx.now) {
            Ok(()) => self.describing = true,
            Err(error) => tracing::debug!(%error, "the topology's description cannot be sent"),
        }
    }

    pub(crate) fn on_description(&mut self, result: &Result<Response, ClientError>) {
        self.describing = false;
        match result {
            Ok(Response::TopologyDescription(answer)) if answer.error_code != 0 => {
                let message = answer.error_message.as_deref().unwrap_or_default();
                tracing::debug!(code = answer.error_code, message, "the description was refused");
            }
            Ok(_) => {}
            Err(error) => tracing::debug!(%error, "the description was lost"),
        }
    }
}

/// Adds what to do to an error that trying again cannot heal.
fn explained(code: i16, error: ClientError, group: &str) -> ClientError {
    match code {
        // The broker has no code of its own for it.
        INVALID_REQUEST if error.to_string().contains("opology") => error.advising(&format!(
            "Group {group} holds another topology than this program's, and Kafka 4.4 keeps the first \
             one for as long as the group exists. Run the old program, use another application.id, \
             or delete the group while it has no members (its offsets go with it)"
        )),
        UNSUPPORTED_VERSION => error.advising(NEEDS),
        GROUP_AUTHORIZATION_FAILED => {
            error.advising("Grant the user READ on the group, and CREATE on its internal topics")
        }
        GROUP_MAX_SIZE_REACHED => error.advising("Raise group.streams.max.size or run fewer members"),
        _ => error,
    }
}

fn endpoint(of: &EndpointToPartitions) -> EndpointPartitions {
    EndpointPartitions {
        host: of.user_endpoint.host.to_string(),
        port: of.user_endpoint.port,
        active: partitions(&of.active_partitions),
        standby: partitions(&of.standby_partitions),
    }
}

fn partitions(of: &[WirePartitions]) -> Vec<TopicPartition> {
    let mut all = Vec::new();
    for topic in of {
        let name = Topic::from(topic.topic.as_str());
        all.extend(topic.partitions.iter().map(|p| TopicPartition::new(name.clone(), *p)));
    }
    all
}

//! A member of a streams group (KIP-1071): joins, heartbeats, tells what it shall own, leaves.
//!
//! ```text
//!               answer               fenced                 acknowledged (no tasks)
//! Joining -----------------> Stable --------> Lost -----------------------------------> Joining
//!    |                         |                |
//!    |  refused for good       | leave()        | leave()
//!    '-----> Failed <----------+                |
//!                              '-> Leaving -> (gone)
//! ```
//! The broker counts the member's epoch up; heartbeats carry the last one heard. What the member
//! really owns it hears from [`Membership::acknowledge`] only: so a revocation is confirmed when
//! the stream thread has closed the tasks, while heartbeats go on.

mod answer;
mod join;
mod resync;

use crate::config::GroupConfig;
use crate::connection::Ticket;
use crate::connections::{Connections, Lane};
use crate::coordinator::Coordinators;
use crate::error::ClientError;
use crate::event::{EndpointPartitions, Event, GroupStatus};
use crate::pending::Completer;
use crate::types::{Now, Task, Tasks, Topic};
use kstreams_protocol::protocol::StrBytes;
use kstreams_protocol::streams_group::{StreamsGroupHeartbeatRequest, TaskIds};
use resync::Resync;
use std::time::Duration;

/// What a membership works with.
pub(crate) struct Context<'a> {
    pub(crate) connections: &'a mut Connections,
    pub(crate) coordinators: &'a mut Coordinators,
    pub(crate) events: &'a mut Vec<Event>,
    pub(crate) retry_backoff: Duration,
    pub(crate) request_timeout: Duration,
    pub(crate) now: Now,
}

#[derive(Debug)]
enum State {
    Joining,
    Stable,
    Lost,
    Leaving { deadline: Now },
    Gone,
    Failed,
}

/// What to do where streams groups are not to be had.
const NEEDS: &str = "Streams groups need Kafka 4.2 or later with the feature streams.version at \
                     least 1: see `kafka-features`";
/// Epoch that joins a group.
const JOIN_EPOCH: i32 = 0;
/// Epoch that leaves it.
const LEAVE_EPOCH: i32 = -1;

/// What a heartbeat said besides that the member lives.
#[derive(Debug, Default)]
struct Said {
    at: Now,
    owned: Option<Tasks>,
    shut_down: bool,
}

/// The machine of one membership.
#[derive(Debug)]
pub(crate) struct Membership {
    group: Topic,
    config: Box<GroupConfig>,
    member_id: String,
    state: State,
    /// The epoch heard last.
    epoch: i32,
    /// What the stream thread owns, and the epoch it acknowledged.
    owned: Tasks,
    /// Whether the group was told.
    owned_told: bool,
    /// What the member shall own.
    target: Option<Tasks>,
    endpoint_epoch: i32,
    endpoints: Vec<EndpointPartitions>,
    status: Vec<GroupStatus>,
    shut_down: bool,
    describe: bool,
    describing: bool,
    interval: Duration,
    /// When the last heartbeat that was answered was sent: the broker counts the session from then or later.
    heard: Now,
    /// When the next heartbeat is due.
    next: Now,
    /// What the heartbeat on its way says.
    in_flight: Option<Said>,
    resync: Resync,
    left: Option<Completer<()>>,
}

impl Membership {
    pub(crate) fn new(config: Box<GroupConfig>, member_id: String) -> Self {
        Self {
            group: config.group_id.as_str().into(),
            config,
            member_id,
            state: State::Joining,
            epoch: JOIN_EPOCH,
            owned: Tasks::default(),
            owned_told: false,
            target: None,
            endpoint_epoch: -1,
            endpoints: Vec::new(),
            status: Vec::new(),
            shut_down: false,
            describe: false,
            describing: false,
            interval: Duration::from_secs(5),
            heard: Now::ZERO,
            next: Now::ZERO,
            in_flight: None,
            resync: Resync::default(),
            left: None,
        }
    }

    /// The stream thread owns these tasks now, in answer to the assignment of `epoch`.
    pub(crate) fn acknowledge(&mut self, tasks: Tasks) {
        match self.state {
            State::Lost if tasks == Tasks::default() => {
                tracing::info!(group = %self.group, member = %self.member_id, "joins again");
                self.state = State::Joining;
                self.epoch = JOIN_EPOCH;
                self.next = Now::ZERO;
                self.target = None;
            }
            State::Lost | State::Leaving { .. } | State::Gone | State::Failed => return,
            State::Joining | State::Stable => {}
        }
        // Told even if nothing has changed: a task that was given and taken away again before the stream thread looked has to be
        // given back all the same. The group waits for it.
        self.owned = tasks;
        self.owned_told = false;
        self.next = Now::ZERO;
    }

    pub(crate) fn shut_down_application(&mut self) {
        self.shut_down = true;
        self.next = Now::ZERO;
    }

    pub(crate) fn leave(&mut self, completer: Completer<()>, cx: &Context<'_>) {
        match self.state {
            State::Joining | State::Stable => {
                self.state = State::Leaving { deadline: cx.now + cx.request_timeout };
                self.next = Now::ZERO;
                self.left = Some(completer);
            }
            State::Lost | State::Failed | State::Gone => {
                self.state = State::Gone;
                completer.complete(Ok(()));
            }
            State::Leaving { .. } => self.left = Some(completer),
        }
    }

    pub(crate) fn is_gone(&self) -> bool {
        matches!(self.state, State::Gone)
    }

    /// Whether the tasks are certain to be the member's: only then may records of theirs be written without a transaction.
    pub(crate) fn holds_tasks(&self, now: Now) -> bool {
        match self.state {
            State::Lost => false,
            State::Stable | State::Leaving { .. } => {
                self.config.session_timeout.is_none_or(|timeout| now < self.heard + timeout)
            }
            // It has none, or there is no group that could give them to others.
            State::Joining | State::Gone | State::Failed => true,
        }
    }

    /// Sends a heartbeat if one is due; gives when to look again.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Option<Now> {
        match self.state {
            State::Joining | State::Stable => {}
            State::Leaving { deadline } if deadline <= cx.now => {
                let message = "the coordinator could not be told in time; it will notice that the \
                               member is gone when its session ends";
                self.end_leaving(Err(ClientError::retriable(message)));
                return None;
            }
            State::Leaving { .. } => {}
            State::Lost | State::Gone | State::Failed => return None,
        }
        let limit = match self.state {
            State::Leaving { deadline } => Some(deadline),
            _ => None,
        };
        if self.in_flight.is_some() && !matches!(self.state, State::Leaving { .. }) {
            return limit;
        }
        self.ask_assignment(cx);
        if self.next > cx.now {
            return limit.into_iter().chain([self.next]).min();
        }
        let node = match cx.coordinators.node(&self.group) {
            Ok(Some(node)) => node,
            Ok(None) => return limit,
            Err(error) => {
                self.fail(error, cx);
                return None;
            }
        };
        if !cx.connections.is_ready(node, Lane::Group, cx.now) {
            if cx.connections.is_down(node, Lane::Group, cx.now) {
                cx.coordinators.forget(&self.group, cx.now);
            }
            return limit;
        }
        self.push_description(node, cx);
        let request = self.heartbeat();
        let owned = match self.state {
            State::Joining => Some(Tasks::default()),
            _ => request.active_tasks.is_some().then(|| self.owned.clone()),
        };
        let said = Said { at: cx.now, owned, shut_down: request.shutdown_application };
        match cx.connections.send(node, Lane::Group, &request.into(), Ticket::Heartbeat, cx.now) {
            Ok(()) => {
                self.in_flight = Some(said);
                self.next = if matches!(self.state, State::Leaving { .. }) {
                    cx.now + cx.request_timeout
                } else {
                    cx.now + self.interval
                };
            }
            Err(error) if error.is_retriable() => self.next = cx.now + cx.retry_backoff,
            Err(error) => {
                self.fail(error.advising(NEEDS), cx);
            }
        }
        limit.into_iter().chain([self.next]).min()
    }

    fn heartbeat(&self) -> StreamsGroupHeartbeatRequest {
        let mut request = StreamsGroupHeartbeatRequest {
            group_id: text(&self.config.group_id),
            member_id: text(&self.member_id),
            member_epoch: self.epoch,
            endpoint_information_epoch: self.endpoint_epoch,
            instance_id: self.config.instance_id.as_deref().map(text),
            ..Default::default()
        };
        match self.state {
            State::Leaving { .. } => request.member_epoch = LEAVE_EPOCH,
            State::Joining => join::describe_member(&mut request, &self.config),
            _ if !self.owned_told => {
                request.active_tasks = Some(task_ids(&self.owned.active));
                request.standby_tasks = Some(task_ids(&self.owned.standby));
                request.warmup_tasks = Some(task_ids(&self.owned.warmup));
            }
            _ => {}
        }
        request.shutdown_application = self.shut_down;
        request
    }

    fn fail(&mut self, error: ClientError, cx: &mut Context<'_>) {
        if matches!(self.state, State::Leaving { .. }) {
            return self.end_leaving(Err(error));
        }
        tracing::error!(group = %self.group, member = %self.member_id, %error, "membership ended");
        self.state = State::Failed;
        cx.events.push(Event::GroupFailed { error });
    }

    fn end_leaving(&mut self, result: Result<(), ClientError>) {
        tracing::info!(group = %self.group, member = %self.member_id, "left the group");
        self.state = State::Gone;
        if let Some(completer) = self.left.take() {
            completer.complete(result);
        }
    }
}

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

/// Tasks by sub-topology, as the protocol has them.
fn task_ids(tasks: &[Task]) -> Vec<TaskIds> {
    let mut ids: Vec<TaskIds> = Vec::new();
    for task in tasks {
        match ids.iter_mut().find(|id| *id.subtopology_id == *task.subtopology) {
            Some(id) => id.partitions.push(task.partition),
            None => ids.push(TaskIds {
                subtopology_id: text(&task.subtopology),
                partitions: vec![task.partition],
            }),
        }
    }
    ids
}

#[cfg(test)]
mod tests;

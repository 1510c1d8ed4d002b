//! Which broker coordinates a group.
//!
//! ```text
//! Unknown --> Asked --> Known --(NOT_COORDINATOR, connection lost)--> Unknown
//! ```

use crate::connection::Ticket;
use crate::connections::{Connections, Lane, Node};
use crate::error::ClientError;
use crate::metadata::any_node;
use crate::types::{Now, Topic};
use kstreams_protocol::messages::{FindCoordinatorRequest, FindCoordinatorResponse};
use kstreams_protocol::protocol::StrBytes;
use std::collections::BTreeMap;
use std::time::Duration;

#[derive(Debug)]
enum State {
    Unknown {
        not_before: Now,
    },
    Asked,
    Known(Node),
    /// The cluster refuses; the error stands until it is taken.
    Failed(ClientError),
}

/// The coordinators of the groups that are in use.
#[derive(Debug)]
pub(crate) struct Coordinators {
    groups: BTreeMap<Topic, State>,
    /// The group of the request in flight: one at a time.
    asked: Option<Topic>,
    backoff: Duration,
    rotation: usize,
}

impl Coordinators {
    pub(crate) fn new(backoff: Duration) -> Self {
        Self { groups: BTreeMap::new(), asked: None, backoff, rotation: 0 }
    }

    /// The group's coordinator if it is known; otherwise it will be looked for.
    pub(crate) fn node(&mut self, group: &Topic) -> Result<Option<Node>, ClientError> {
        let unknown = || State::Unknown { not_before: Now::ZERO };
        let state = self.groups.entry(group.clone()).or_insert_with(unknown);
        match state {
            State::Known(node) => Ok(Some(*node)),
            State::Unknown { .. } | State::Asked => Ok(None),
            State::Failed(error) => {
                let error = error.clone();
                *state = State::Unknown { not_before: Now::ZERO };
                Err(error)
            }
        }
    }

    /// The coordinator moved or cannot be reached: look again.
    pub(crate) fn forget(&mut self, group: &Topic, now: Now) {
        if let Some(state @ State::Known(_)) = self.groups.get_mut(group) {
            *state = State::Unknown { not_before: now + self.backoff };
        }
    }

    pub(crate) fn poll(&mut self, connections: &mut Connections, now: Now) -> Option<Now> {
        if self.asked.is_some() {
            return None;
        }
        let mut next: Option<Now> = None;
        for (group, state) in &mut self.groups {
            let State::Unknown { not_before } = state else { continue };
            if *not_before > now {
                next = Some(next.map_or(*not_before, |next| next.min(*not_before)));
                continue;
            }
            let Some(node) = any_node(connections, &mut self.rotation, now) else { continue };
            let request = FindCoordinatorRequest::default()
                .with_key_type(0)
                .with_coordinator_keys(vec![StrBytes::from_string(group.to_string())]);
            match connections.send(node, Lane::Control, &request.into(), Ticket::Coordinator, now) {
                Ok(()) => {
                    *state = State::Asked;
                    self.asked = Some(group.clone());
                    return None;
                }
                Err(error) if error.is_retriable() => *not_before = now + self.backoff,
                Err(error) => *state = State::Failed(error),
            }
        }
        next
    }

    pub(crate) fn on_answer(
        &mut self,
        found: Option<&FindCoordinatorResponse>,
        connections: &mut Connections,
        now: Now,
    ) {
        let Some(group) = self.asked.take() else { return };
        let again = State::Unknown { not_before: now + self.backoff };
        let state = match found {
            None => again,
            Some(answer) => match answer.coordinators.iter().find(|found| *found.key == *group) {
                Some(found) if found.error_code == 0 => {
                    let port = u16::try_from(found.port).unwrap_or(0);
                    connections.add_broker(found.node_id.0, &found.host, port);
                    tracing::debug!(group = %group, broker = found.node_id.0, "coordinator found");
                    State::Known(Node::Broker(found.node_id.0))
                }
                Some(found) if crate::error::is_retriable(found.error_code) => again,
                Some(found) => State::Failed(ClientError::broker(
                    found.error_code,
                    format_args!("coordinator of group {group}"),
                    found.error_message.as_deref(),
                )),
                None => again,
            },
        };
        self.groups.insert(group, state);
    }
}

//! Which broker coordinates a group, or the transactions of a transactional id.
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
use std::fmt;
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

/// What is coordinated.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Coordinated {
    Group(Topic),
    /// By transactional id.
    Transactions(Topic),
}

impl Coordinated {
    fn key_type(&self) -> i8 {
        match self {
            Self::Group(_) => 0,
            Self::Transactions(_) => 1,
        }
    }

    fn key(&self) -> &Topic {
        match self {
            Self::Group(key) | Self::Transactions(key) => key,
        }
    }
}

impl fmt::Display for Coordinated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Group(group) => write!(f, "group {group}"),
            Self::Transactions(id) => write!(f, "transactional id {id}"),
        }
    }
}

/// The coordinators of the groups and transactional ids that are in use.
#[derive(Debug)]
pub(crate) struct Coordinators {
    states: BTreeMap<Coordinated, State>,
    /// What the request in flight is about: one at a time.
    asked: Option<Coordinated>,
    backoff: Duration,
    rotation: usize,
}

impl Coordinators {
    pub(crate) fn new(backoff: Duration) -> Self {
        Self { states: BTreeMap::new(), asked: None, backoff, rotation: 0 }
    }

    /// The group's coordinator if it is known; otherwise it will be looked for.
    pub(crate) fn node(&mut self, group: &Topic) -> Result<Option<Node>, ClientError> {
        self.node_of(Coordinated::Group(group.clone()))
    }

    /// The same for whatever is coordinated.
    pub(crate) fn node_of(&mut self, what: Coordinated) -> Result<Option<Node>, ClientError> {
        let unknown = || State::Unknown { not_before: Now::ZERO };
        let state = self.states.entry(what).or_insert_with(unknown);
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
        self.forget_of(&Coordinated::Group(group.clone()), now);
    }

    /// The same for whatever is coordinated.
    pub(crate) fn forget_of(&mut self, what: &Coordinated, now: Now) {
        if let Some(state @ State::Known(_)) = self.states.get_mut(what) {
            *state = State::Unknown { not_before: now + self.backoff };
        }
    }

    pub(crate) fn poll(&mut self, connections: &mut Connections, now: Now) -> Option<Now> {
        if self.asked.is_some() {
            return None;
        }
        let mut next: Option<Now> = None;
        for (what, state) in &mut self.states {
            let State::Unknown { not_before } = state else { continue };
            if *not_before > now {
                next = Some(next.map_or(*not_before, |next| next.min(*not_before)));
                continue;
            }
            let Some(node) = any_node(connections, &mut self.rotation, now) else { continue };
            let request = FindCoordinatorRequest::default()
                .with_key_type(what.key_type())
                .with_coordinator_keys(vec![StrBytes::from_string(what.key().to_string())]);
            match connections.send(node, Lane::Control, &request.into(), Ticket::Coordinator, now) {
                Ok(()) => {
                    *state = State::Asked;
                    self.asked = Some(what.clone());
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
        let Some(what) = self.asked.take() else { return };
        let again = State::Unknown { not_before: now + self.backoff };
        let state = match found {
            None => again,
            Some(answer) => {
                match answer.coordinators.iter().find(|found| *found.key == **what.key()) {
                    Some(found) if found.error_code == 0 => {
                        let port = u16::try_from(found.port).unwrap_or(0);
                        connections.add_broker(found.node_id.0, &found.host, port);
                        tracing::debug!(%what, broker = found.node_id.0, "coordinator found");
                        State::Known(Node::Broker(found.node_id.0))
                    }
                    Some(found) if crate::error::is_retriable(found.error_code) => again,
                    Some(found) => State::Failed(ClientError::broker(
                        found.error_code,
                        format_args!("coordinator of {what}"),
                        found.error_message.as_deref(),
                    )),
                    None => again,
                }
            }
        };
        self.states.insert(what, state);
    }
}

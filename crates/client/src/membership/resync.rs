//! Finding out what a lost answer said.
//!
//! The broker tells a member's tasks once, in the answer to the heartbeat in which they changed. If
//! that answer is lost, later ones say "unchanged", and nobody would ever process the new tasks, or
//! give up the old ones. So after a lost answer the member looks itself up in the group's
//! description.
//!
//! ```text
//! Settled --(answer lost)--> Doubtful --(answer without tasks)--> Due --> Asked --> Settled
//!    ^                           |                                 ^        |
//!    '--(answer with tasks)------+                                 '-failed-'
//! ```

use super::{Context, Membership, State, text};
use crate::connection::Ticket;
use crate::connections::Lane;
use crate::error::ClientError;
use crate::requests::Response;
use kstreams_protocol::streams_group::StreamsGroupDescribeRequest;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Resync {
    #[default]
    Settled,
    Doubtful,
    Due,
    Asked,
}

impl Resync {
    pub(super) fn answer_lost(&mut self) {
        *self = Self::Doubtful;
    }

    /// An answer with tasks came.
    pub(super) fn told(&mut self) {
        *self = Self::Settled;
    }

    /// An answer without tasks came.
    pub(super) fn not_told(&mut self) {
        if *self == Self::Doubtful {
            *self = Self::Due;
        }
    }
}

impl Membership {
    pub(super) fn ask_assignment(&mut self, cx: &mut Context<'_>) {
        if self.resync != Resync::Due || !matches!(self.state, State::Stable) {
            return;
        }
        let Ok(Some(node)) = cx.coordinators.node(&self.group) else { return };
        if !cx.connections.is_ready(node, Lane::Group, cx.now) {
            return;
        }
        let group_ids = vec![text(&self.group)];
        let request = StreamsGroupDescribeRequest { group_ids, ..Default::default() };
        match cx.connections.send(node, Lane::Group, &request.into(), Ticket::Assignment, cx.now) {
            Ok(()) => self.resync = Resync::Asked,
            Err(error) => {
                tracing::debug!(%error, "the group cannot be described");
                self.resync = Resync::Doubtful;
            }
        }
    }

    pub(crate) fn on_described(
        &mut self,
        result: Result<Response, ClientError>,
        cx: &mut Context<'_>,
    ) {
        if self.resync != Resync::Asked || !matches!(self.state, State::Stable) {
            return;
        }
        // Unless it is found out now, the next heartbeat is followed by another try.
        self.resync = Resync::Doubtful;
        let Ok(Response::StreamsGroupDescribe(answer)) = result else { return };
        let group = answer.groups.iter().find(|group| *group.group_id == *self.group);
        let members = group.map(|group| group.members.as_slice()).unwrap_or_default();
        let Some(member) = members.iter().find(|m| *m.member_id == *self.member_id) else { return };
        if member.member_epoch != self.epoch {
            return;
        }
        self.resync = Resync::Settled;
        if self.set_target(crate::admin::tasks_of(&member.assignment)) {
            tracing::info!(group = %self.group, "found an assignment whose answer was lost");
            self.tell_target(cx);
        }
    }
}

//! How a classic group goes from one generation to the next, and what the time does to it.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use kstreams_protocol::ResponseError;
use kstreams_protocol::protocol::StrBytes;

use super::{ClassicGroup, ClassicMember, ClassicState, Waited, refused_sync};
use crate::config::BrokerConfig;

impl ClassicGroup {
    /// Begins a rebalance, or lets the first one wait longer.
    pub(super) fn prepare(
        &mut self,
        config: &BrokerConfig,
        is_new: bool,
        now: i64,
        waited: &mut Vec<Waited>,
    ) {
        let longest = self.members.values().map(|m| m.rebalance_timeout_ms).max().unwrap_or(0);
        let delay = config.group_initial_rebalance_delay_ms.min(longest);
        match self.state {
            ClassicState::Empty => {
                self.initial = delay > 0;
                self.phase_until = Some(now + if self.initial { delay } else { longest });
            }
            ClassicState::PreparingRebalance if self.initial && is_new => {
                self.phase_until = Some(now + delay);
            }
            ClassicState::PreparingRebalance => {}
            ClassicState::CompletingRebalance | ClassicState::Stable => {
                for member in self.members.values_mut() {
                    if let Some(call) = member.syncing.take() {
                        let refused = refused_sync(ResponseError::RebalanceInProgress);
                        waited.push(Waited::Sync(call, refused));
                    }
                    member.assignment = Bytes::new();
                }
                self.initial = false;
                self.phase_until = Some(now + longest);
            }
        }
        self.state = ClassicState::PreparingRebalance;
    }

    pub(super) fn complete_join_if_all(&mut self, now: i64, waited: &mut Vec<Waited>) {
        let all = self.members.values().all(|member| member.joining.is_some());
        let preparing = self.state == ClassicState::PreparingRebalance;
        if preparing && !self.initial && all && self.pending.is_empty() {
            self.complete_join(now, waited);
        }
    }

    /// Goes on with those that joined.
    fn complete_join(&mut self, now: i64, waited: &mut Vec<Waited>) {
        self.members.retain(|_, member| member.joining.is_some() || member.instance_id.is_some());
        self.initial = false;
        self.generation += 1;
        if self.members.is_empty() {
            (self.state, self.phase_until, self.leader) = (ClassicState::Empty, None, None);
            self.protocol = None;
            return;
        }
        self.state = ClassicState::CompletingRebalance;
        self.protocol = self.vote();
        if self.leader.as_ref().is_none_or(|leader| !self.members.contains_key(leader)) {
            self.leader = self.members.keys().next().cloned();
        }
        let longest = self.members.values().map(|m| m.rebalance_timeout_ms).max().unwrap_or(0);
        self.phase_until = Some(now + longest);
        let ids: Vec<String> = self.members.keys().cloned().collect();
        for id in ids {
            let Some(member) = self.members.get_mut(&id) else { continue };
            member.session_until = now + member.session_timeout_ms;
            if let Some(call) = member.joining.take() {
                let response = self.join_response(call.version, &id);
                waited.push(Waited::Join(call, response));
            }
        }
    }

    /// The protocol that most members like best of those that all know.
    fn vote(&self) -> Option<StrBytes> {
        let names = |member: &ClassicMember| {
            member.protocols.iter().map(|(name, _)| name.clone()).collect::<BTreeSet<_>>()
        };
        let known = self.members.values().map(names).reduce(|a, b| &a & &b)?;
        let mut votes: BTreeMap<StrBytes, usize> = BTreeMap::new();
        for member in self.members.values() {
            let liked = member.protocols.iter().map(|(name, _)| name);
            if let Some(name) = liked.into_iter().find(|name| known.contains(*name)) {
                *votes.entry(name.clone()).or_default() += 1;
            }
        }
        votes.into_iter().max_by_key(|(_, count)| *count).map(|(name, _)| name)
    }

    /// When something is due.
    pub(crate) fn next_deadline(&self) -> Option<i64> {
        let sessions = self.members.values().filter(|member| !member.is_waiting());
        let sessions = sessions.map(|member| member.session_until).min();
        let pending = self.pending.values().copied().min();
        [sessions, pending, self.phase_until].into_iter().flatten().min()
    }

    /// Removes members that were not heard of in time, and ends a phase that took too long.
    pub(crate) fn tick(&mut self, config: &BrokerConfig, now: i64, waited: &mut Vec<Waited>) {
        let gone = self.pending.len();
        self.pending.retain(|_, until| *until > now);
        if self.pending.len() < gone {
            self.complete_join_if_all(now, waited);
        }
        let late = self.members.iter().filter(|(_, m)| !m.is_waiting() && m.session_until <= now);
        let late: Vec<String> = late.map(|(id, _)| id.clone()).collect();
        for id in late {
            tracing::info!(member = id, "member removed: it was not heard of in time");
            self.remove(&id, config, now, waited);
        }
        if self.phase_until.is_none_or(|until| until > now) {
            return;
        }
        match self.state {
            ClassicState::PreparingRebalance => self.complete_join(now, waited),
            ClassicState::CompletingRebalance => {
                self.phase_until = None;
                let silent = self.members.iter().filter(|(_, m)| m.syncing.is_none());
                let silent: Vec<String> = silent.map(|(id, _)| id.clone()).collect();
                for id in silent {
                    self.remove(&id, config, now, waited);
                }
            }
            ClassicState::Empty | ClassicState::Stable => self.phase_until = None,
        }
    }
}

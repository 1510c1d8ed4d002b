//! A streams group (KIP-1071): its topology, its members, and who shall own which task. Java:
//! `StreamsGroup`.
//!
//! The group epoch grows with every change of members, topology or topics; the assignment follows
//! it, at most once an interval; each member follows the assignment at its own pace.

use std::collections::{BTreeMap, BTreeSet};

use kstreams_protocol::ResponseError;
use kstreams_protocol::streams_group::heartbeat::Topology;
use kstreams_protocol::streams_group::topology_description::TopologyDescription;
use uuid::Uuid;

use crate::config::BrokerConfig;
use crate::error::Refusal;
use crate::topics::Topics;

pub(crate) mod assignor;
pub(crate) mod describe;
pub(crate) mod heartbeat;
pub(crate) mod member;
pub(crate) mod request;
mod stored;
pub(crate) mod topology;

use super::tasks::{TaskId, Tasks};
use assignor::Candidate;
use member::{Held, Member, MemberState};
use topology::{Configured, required_topics, source_topics};

/// What a step of a group may look at besides the group.
#[derive(Clone, Copy)]
pub(crate) struct Around<'a> {
    pub(crate) topics: &'a Topics,
    pub(crate) config: &'a BrokerConfig,
    /// Grows with every change of topics.
    pub(crate) topics_generation: u64,
    pub(crate) now: i64,
}

/// Which of the topology's topics exist, and how many partitions they have.
type TopicsSeen = BTreeMap<String, (Uuid, usize)>;

/// A streams group.
#[derive(Debug)]
pub(crate) struct StreamsGroup {
    pub(crate) epoch: i32,
    pub(crate) assignment_epoch: i32,
    assignment_time: Option<i64>,
    pub(crate) topology: Option<Topology>,
    pub(crate) configured: Configured,
    configured_at: Option<u64>,
    topics_seen: TopicsSeen,
    /// The epoch of the topology, once all its topics are there; else -1.
    validated_topology_epoch: i32,
    pub(crate) members: BTreeMap<String, Member>,
    pub(crate) targets: BTreeMap<String, Tasks>,
    /// No assignment before then, ms.
    initial_delay_until: Option<i64>,
    shutdown_by: Option<String>,
    /// Internal topics that could not be created, and why.
    pub(crate) creation_failed: Option<String>,
    endpoint_epoch: i32,
    pub(crate) description: Option<TopologyDescription>,
    /// It was there before the broker restarted, and its topics were not looked at since.
    restored: bool,
    /// Members that the journal does not have as they are.
    changed: BTreeSet<String>,
    /// The group's and the assignment's epoch in the journal.
    recorded: Option<(i32, i32)>,
}

impl Default for StreamsGroup {
    fn default() -> Self {
        Self {
            epoch: 1,
            assignment_epoch: 1,
            assignment_time: None,
            topology: None,
            configured: Configured::default(),
            configured_at: None,
            topics_seen: TopicsSeen::new(),
            validated_topology_epoch: -1,
            members: BTreeMap::new(),
            targets: BTreeMap::new(),
            initial_delay_until: None,
            shutdown_by: None,
            creation_failed: None,
            endpoint_epoch: 0,
            description: None,
            restored: false,
            changed: BTreeSet::new(),
            recorded: None,
        }
    }
}

impl StreamsGroup {
    /// The group's state, in Kafka's words.
    pub(crate) fn state(&self) -> &'static str {
        let topology_epoch = self.topology.as_ref().map(|topology| topology.epoch);
        if self.members.is_empty() {
            "Empty"
        } else if topology_epoch != Some(self.validated_topology_epoch) {
            "NotReady"
        } else if self.epoch > self.assignment_epoch {
            "Assigning"
        } else if self.members.values().all(|m| m.is_reconciled_to(self.assignment_epoch)) {
            "Stable"
        } else {
            "Reconciling"
        }
    }

    /// When a session, a revocation or the initial delay ends.
    pub(crate) fn next_deadline(&self) -> Option<i64> {
        let of_member = |member: &Member| {
            let revoke = member.revoke_until.unwrap_or(i64::MAX);
            member.session_until.min(revoke)
        };
        let members = self.members.values().map(of_member).min();
        [members, self.initial_delay_until].into_iter().flatten().min()
    }

    /// Removes members that were not heard of, or did not let go in time, and ends the delay.
    pub(crate) fn tick(&mut self, group: &str, around: Around<'_>) {
        let now = around.now;
        let late: Vec<String> = self
            .members
            .iter()
            .filter(|(_, m)| m.session_until <= now || m.revoke_until.is_some_and(|at| at <= now))
            .map(|(id, _)| id.clone())
            .collect();
        for id in late {
            tracing::info!(group, member = id, "member removed: it was not heard of in time");
            self.remove(&id);
        }
        if self.initial_delay_until.is_some_and(|until| until <= now) {
            self.initial_delay_until = None;
            if self.epoch > self.assignment_epoch {
                self.assign(around);
            }
        }
    }

    /// Takes a member out; the next heartbeat of another one shares its tasks out.
    pub(crate) fn remove(&mut self, member: &str) {
        if self.members.remove(member).is_none() {
            return;
        }
        self.targets.remove(member);
        self.changed.insert(member.to_owned());
        self.epoch += 1;
        if self.members.is_empty() {
            self.assignment_epoch = self.epoch;
            self.shutdown_by = None;
            self.initial_delay_until = None;
        }
    }

    /// Looks at the topics again, if some changed. Says whether the group epoch must grow.
    fn configure(&mut self, around: Around<'_>) -> bool {
        let Some(topology) = &self.topology else { return false };
        if self.configured_at == Some(around.topics_generation) {
            return false;
        }
        let first = self.configured_at.is_none();
        self.configured_at = Some(around.topics_generation);
        let see = |name: &str| {
            let topic = around.topics.get(name)?;
            Some((name.to_owned(), (topic.id, topic.partitions.len())))
        };
        let seen: TopicsSeen = required_topics(topology).into_iter().filter_map(see).collect();
        let changed = seen != self.topics_seen;
        if changed || first {
            self.topics_seen = seen;
            self.configured = topology::configure(topology, |name| {
                let topic = around.topics.get(name)?;
                i32::try_from(topic.partitions.len()).ok()
            });
        }
        let validated = match self.configured.problem {
            None => topology.epoch,
            Some(_) => -1,
        };
        let changed = changed || validated != self.validated_topology_epoch;
        self.validated_topology_epoch = validated;
        // What was found after a restart is what had been there before it.
        changed && !std::mem::take(&mut self.restored)
    }

    /// Computes who shall own which task.
    fn assign(&mut self, around: Around<'_>) {
        let candidates = self.members.iter().map(|(id, member)| {
            let candidate = Candidate {
                process: member.process_id.clone(),
                before: self.targets.get(id).cloned().unwrap_or_default(),
                has_state: member.task_offsets.clone(),
            };
            (id.clone(), candidate)
        });
        let candidates: BTreeMap<String, Candidate> = candidates.collect();
        let (mut stateful, mut stateless) = (Vec::new(), Vec::new());
        if self.configured.problem.is_none() {
            for (id, subtopology) in &self.configured.subtopologies {
                let tasks = (0..subtopology.tasks).map(|partition| (id.clone(), partition));
                if subtopology.stateful { stateful.extend(tasks) } else { stateless.extend(tasks) }
            }
        }
        let standbys = around.config.streams_num_standby_replicas;
        self.targets = assignor::assign(&candidates, &stateful, &stateless, standbys);
        self.assignment_epoch = self.epoch;
        self.assignment_time = Some(around.now);
        self.changed.extend(self.members.keys().cloned());
    }

    /// Lets a member take its next step towards its target.
    fn reconcile(&mut self, id: &str, target: (i32, &Tasks), owned: Option<&Tasks>, now: i64) {
        let Some(mut member) = self.members.remove(id) else { return };
        if !member.is_reconciled_to(target.0) {
            let before = (member.state, member.epoch);
            let assigned = member.assigned.clone();
            member.reconcile(target.0, target.1, owned, &Others(&self.members));
            if (member.state, member.epoch) != before || member.assigned != assigned {
                self.changed.insert(id.to_owned());
            }
            if (member.state, member.epoch) != before {
                let waits = member.state == MemberState::UnrevokedTasks;
                member.revoke_until =
                    waits.then(|| now.saturating_add(member.rebalance_timeout_ms));
            }
        }
        self.members.insert(id.to_owned(), member);
    }

    /// Whether a member may commit under an epoch, and for which partitions. Without a member id
    /// and with an epoch of -1: only when the group is empty, or in a transaction.
    pub(crate) fn check_commit(
        &self,
        member_id: &str,
        epoch: i32,
        transactional: bool,
    ) -> Result<MayCommit<'_>, Refusal> {
        if epoch < 0 && self.members.is_empty() {
            return Ok(MayCommit::All);
        }
        if transactional && epoch == -1 && member_id.is_empty() {
            return Ok(MayCommit::All);
        }
        let member = self.members.get(member_id).ok_or(ResponseError::UnknownMemberId)?;
        if epoch == member.epoch {
            return Ok(MayCommit::All);
        }
        if epoch > member.epoch {
            let message = format!(
                "Received member epoch {epoch} is newer than current member epoch {}.",
                member.epoch
            );
            return Err(Refusal::new(ResponseError::StaleMemberEpoch, message));
        }
        match &self.topology {
            Some(topology) => Ok(MayCommit::Owned { topology, member, epoch }),
            None => Err(ResponseError::StaleMemberEpoch.into()),
        }
    }

    /// Whether a member may fetch the committed offsets.
    pub(crate) fn check_fetch(&self, member_id: Option<&str>, epoch: i32) -> Result<(), Refusal> {
        let Some(member_id) = member_id.filter(|id| !id.is_empty() || epoch >= 0) else {
            return Ok(());
        };
        let member = self.members.get(member_id).ok_or(ResponseError::UnknownMemberId)?;
        if member.epoch != epoch {
            return Err(ResponseError::StaleMemberEpoch.into());
        }
        Ok(())
    }

    /// Whether a live member reads the topic.
    pub(crate) fn reads(&self, topic: &str) -> bool {
        let subtopologies = self.topology.iter().flat_map(|topology| &topology.subtopologies);
        !self.members.is_empty()
            && subtopologies.flat_map(source_topics).any(|source| source == topic)
    }
}

/// What a member may commit.
#[derive(Debug)]
pub(crate) enum MayCommit<'a> {
    /// Any partition: who owns it is not looked at under the current epoch.
    All,
    /// Partitions of tasks that the member has, or is letting go of, since that epoch or before.
    Owned { topology: &'a Topology, member: &'a Member, epoch: i32 },
}

impl MayCommit<'_> {
    pub(crate) fn allows(&self, topic: &str, partition: i32) -> bool {
        match self {
            Self::All => true,
            Self::Owned { topology, member, epoch } => {
                let reads = topology
                    .subtopologies
                    .iter()
                    .find(|subtopology| source_topics(subtopology).any(|source| source == topic));
                let task = reads.map(|s| (s.subtopology_id.to_string(), partition));
                task.and_then(|task| member.since.get(&task)).is_some_and(|since| epoch >= since)
            }
        }
    }
}

/// The other members, while one takes a step.
struct Others<'a>(&'a BTreeMap<String, Member>);

impl Held for Others<'_> {
    fn is_active(&self, task: &TaskId) -> bool {
        self.0
            .values()
            .any(|m| m.assigned.active.contains(task) || m.revoking.active.contains(task))
    }

    fn is_active_in(&self, task: &TaskId, process: &str) -> bool {
        self.0.values().filter(|member| member.process_id == process).any(|member| {
            member.assigned.active.contains(task) || member.revoking.active.contains(task)
        })
    }

    fn is_passive_in(&self, task: &TaskId, process: &str) -> bool {
        self.0.values().filter(|member| member.process_id == process).any(|member| {
            let holds = |tasks: &Tasks| tasks.standby.contains(task) || tasks.warmup.contains(task);
            holds(&member.assigned) || holds(&member.revoking)
        })
    }
}

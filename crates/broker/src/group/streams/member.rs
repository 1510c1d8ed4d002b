//! A member of a streams group, and how what it owns comes to be what it shall own: a task is given
//! only when nobody else has it, and taken only when its owner said that it let go.
//! Java: `StreamsGroupMember` and `CurrentAssignmentBuilder`.
//!
//! ```text
//!            new target                    let go of all of them
//!   Stable ------------> UnrevokedTasks ------------------------> Stable, at the target's epoch
//!     ^                                                             |
//!     +---- the others let go ---- UnreleasedTasks <--- some are still others' --+
//! ```

use std::collections::{BTreeMap, BTreeSet};

use kstreams_protocol::streams_group::{Endpoint, KeyValue};

use super::super::tasks::{TaskId, Tasks};

/// Where a member is on its way to the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum MemberState {
    /// It has what the target gives it.
    #[default]
    Stable,
    /// It has to let go of tasks and has not said so yet.
    UnrevokedTasks,
    /// It waits for tasks that others have not let go of yet.
    UnreleasedTasks,
}

/// A member of a streams group.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Member {
    pub(crate) epoch: i32,
    pub(crate) previous_epoch: i32,
    pub(crate) state: MemberState,
    pub(crate) assigned: Tasks,
    /// What it has to let go of.
    pub(crate) revoking: Tasks,
    /// Since which member epoch it has its active tasks, those it is letting go of among them.
    pub(crate) since: BTreeMap<TaskId, i32>,
    pub(crate) instance_id: Option<String>,
    pub(crate) rack_id: Option<String>,
    pub(crate) rebalance_timeout_ms: i64,
    pub(crate) topology_epoch: i32,
    pub(crate) client_id: String,
    pub(crate) client_host: String,
    pub(crate) process_id: String,
    pub(crate) client_tags: Vec<KeyValue>,
    pub(crate) endpoint: Option<Endpoint>,
    pub(crate) task_offsets: BTreeMap<TaskId, i64>,
    pub(crate) task_end_offsets: BTreeMap<TaskId, i64>,
    /// Removed, if it is not heard of until then, ms.
    pub(crate) session_until: i64,
    /// Removed, if it has not let go until then, ms.
    pub(crate) revoke_until: Option<i64>,
}

/// Who else has a task.
pub(crate) trait Held {
    /// A member other than the asking one has it as an active task.
    fn is_active(&self, task: &TaskId) -> bool;
    /// A member of the process has it as an active task.
    fn is_active_in(&self, task: &TaskId, process: &str) -> bool;
    /// A member of the process has it as a standby or warm-up task.
    fn is_passive_in(&self, task: &TaskId, process: &str) -> bool;
}

impl Member {
    pub(crate) fn is_reconciled_to(&self, target_epoch: i32) -> bool {
        self.state == MemberState::Stable && self.epoch == target_epoch
    }

    /// Takes the next step towards the target; `owned` is what the member says that it owns, if it
    /// says so.
    pub(crate) fn reconcile(
        &mut self,
        target_epoch: i32,
        target: &Tasks,
        owned: Option<&Tasks>,
        held: &dyn Held,
    ) {
        match self.state {
            MemberState::Stable if self.epoch == target_epoch => {}
            MemberState::Stable | MemberState::UnreleasedTasks => {
                self.next_assignment(self.epoch, (target_epoch, target), owned, held);
            }
            MemberState::UnrevokedTasks => {
                let let_go = owned.is_some_and(|owned| !owned.contains_any(&self.revoking));
                if let_go {
                    self.next_assignment(self.epoch + 1, (target_epoch, target), owned, held);
                }
            }
        }
    }

    fn next_assignment(
        &mut self,
        epoch: i32,
        (target_epoch, target): (i32, &Tasks),
        owned: Option<&Tasks>,
        held: &dyn Held,
    ) {
        let process = self.process_id.clone();
        let active_is_held =
            |task: &TaskId| held.is_active(task) || held.is_passive_in(task, &process);
        let passive_is_held =
            |task: &TaskId| held.is_active_in(task, &process) || held.is_passive_in(task, &process);
        let active = Difference::new(&self.assigned.active, &target.active, active_is_held);
        let standby = Difference::new(&self.assigned.standby, &target.standby, passive_is_held);
        let warmup = Difference::new(&self.assigned.warmup, &target.warmup, passive_is_held);
        let unreleased = active.unreleased || standby.unreleased || warmup.unreleased;
        let revoking =
            Tasks { active: active.revoking, standby: standby.revoking, warmup: warmup.revoking };
        let mut kept = Tasks { active: active.kept, standby: standby.kept, warmup: warmup.kept };
        let given = Tasks { active: active.given, standby: standby.given, warmup: warmup.given };
        if !revoking.is_empty() && owned.is_none_or(|owned| owned.contains_any(&revoking)) {
            self.go_to(epoch, MemberState::UnrevokedTasks, kept, revoking);
            return;
        }
        let state = if unreleased { MemberState::UnreleasedTasks } else { MemberState::Stable };
        kept.active.extend(given.active);
        kept.standby.extend(given.standby);
        kept.warmup.extend(given.warmup);
        self.go_to(target_epoch, state, kept, Tasks::default());
    }

    fn go_to(&mut self, epoch: i32, state: MemberState, assigned: Tasks, revoking: Tasks) {
        self.previous_epoch = self.epoch;
        self.epoch = epoch;
        self.since
            .retain(|task, _| assigned.active.contains(task) || revoking.active.contains(task));
        for task in &assigned.active {
            self.since.entry(task.clone()).or_insert(epoch);
        }
        (self.state, self.assigned, self.revoking) = (state, assigned, revoking);
    }
}

/// Of one role: what stays, what must go, and what can be given now.
struct Difference {
    kept: BTreeSet<TaskId>,
    revoking: BTreeSet<TaskId>,
    given: BTreeSet<TaskId>,
    /// There is something to give that others have not let go of.
    unreleased: bool,
}

impl Difference {
    fn new(
        current: &BTreeSet<TaskId>,
        target: &BTreeSet<TaskId>,
        is_held: impl Fn(&TaskId) -> bool,
    ) -> Self {
        let mut given: BTreeSet<TaskId> = target.difference(current).cloned().collect();
        let wanted = given.len();
        given.retain(|task| !is_held(task));
        Self {
            kept: current.intersection(target).cloned().collect(),
            revoking: current.difference(target).cloned().collect(),
            unreleased: given.len() < wanted,
            given,
        }
    }
}

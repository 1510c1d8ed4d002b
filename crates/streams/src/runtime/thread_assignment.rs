//! A stream thread's part in the group: which tasks it has, gives up and takes over.

use super::clock::Now;
use super::lifecycle::ThreadState;
use super::task_slot::{SlotContext, TaskSlot};
use super::thread::StreamThread;
use super::thread_commit::Commit;
use super::topics;
use crate::error::{Error, ErrorKind, Result};
use crate::processor::TaskId;
use kstreams_client::{ClientError, Tasks};
use std::collections::BTreeSet;

impl StreamThread {
    pub(super) fn on_assigned(&mut self, epoch: i32, tasks: &Tasks) -> Result<()> {
        let wanted: BTreeSet<TaskId> =
            tasks.active.iter().filter_map(topics::from_member_task).collect();
        let count = self.plan.topology.graph().subtopologies.len() as u32;
        if let Some(unknown) = wanted.iter().find(|task| task.subtopology >= count) {
            let message =
                format!("the group assigned task {unknown}, which the topology does not have");
            return Err(Error::new(ErrorKind::Broker, message));
        }
        self.target = Some((epoch, wanted));
        Ok(())
    }

    /// The group gave the tasks to others: nothing of them may be committed.
    pub(super) fn on_lost(&mut self, error: &ClientError, now: Now) {
        tracing::warn!("all tasks are lost, the member joins again: {error}");
        self.recovery.end_failures();
        self.undo(false, now);
        self.target = None;
        self.client.acknowledge(Tasks::default(), 0);
        self.become_state(ThreadState::Assigned);
    }

    /// Closes all tasks without a commit.
    pub(super) fn drop_tasks(&mut self) {
        self.commit = Commit::Idle;
        for (task, mut slot) in std::mem::take(&mut self.slots) {
            if let Err(error) = slot.close(&mut self.client) {
                tracing::warn!(%task, "while closing: {error}");
            }
        }
    }

    /// Carries out an assignment: commits and closes what is not in it, then opens what is new, then tells the group.
    pub(super) fn reconcile(&mut self, now: Now) -> Result<()> {
        let Some((epoch, wanted)) = &self.target else { return Ok(()) };
        let (epoch, wanted) = (*epoch, wanted.clone());
        let given_up: Vec<TaskId> =
            self.slots.keys().filter(|task| !wanted.contains(task)).copied().collect();
        if given_up.iter().any(|task| self.needs_commit(*task)) {
            self.become_state(ThreadState::Assigned);
            return self.begin_commit(now);
        }
        for task in &given_up {
            if let Some(mut slot) = self.slots.remove(task) {
                slot.close(&mut self.client)?;
            }
        }
        for task in &wanted {
            self.slots.entry(*task).or_insert_with(|| TaskSlot::new(*task));
        }
        let (name, client) = (&self.name, &self.client);
        self.queries.assigned(self.index, name, wanted.clone(), |topic| client.partitions(topic));
        let active = wanted.iter().map(|task| topics::to_member_task(*task)).collect();
        self.client.acknowledge(Tasks { active, ..Tasks::default() }, epoch);
        tracing::info!(epoch, tasks = ?wanted.iter().map(ToString::to_string).collect::<Vec<_>>(), "assignment");
        self.target = None;
        self.become_state(ThreadState::Assigned);
        Ok(())
    }

    pub(super) fn needs_commit(&self, task: TaskId) -> bool {
        let running = self.slots.get(&task).and_then(TaskSlot::running);
        running.is_some_and(crate::task::StreamTask::needs_commit)
    }

    /// Lets tasks that do not run yet take a step.
    pub(super) fn advance_tasks(&mut self, now: Now) -> Result<bool> {
        let mut cx = SlotContext {
            client: &mut self.client,
            collector: &self.collector,
            directory: self.directory.as_ref(),
            plan: &self.plan,
            budget: &self.budget,
            settings: &self.settings,
            queries: &self.queries,
            now,
        };
        let mut moved = false;
        for slot in self.slots.values_mut().filter(|slot| !slot.is_running()) {
            moved |= slot.advance(&mut cx)?;
        }
        Ok(moved)
    }

    pub(super) fn settle(&mut self) {
        // A group without internal topics or source topics has tasks for nobody yet.
        let settled = self.target.is_none()
            && self.problem.is_none()
            && self.slots.values().all(TaskSlot::is_running);
        if settled && self.state == ThreadState::Assigned {
            self.become_state(ThreadState::Running);
            self.queries.runs();
        }
    }
}

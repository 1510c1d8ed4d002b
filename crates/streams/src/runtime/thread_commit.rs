//! A stream thread's part of the commit protocol ([`crate::task::commit`]): steps 2 and 3, without waiting for either.
//!
//! ```text
//! Idle -> Deferred -> Flushing -> Offsets -> Idle
//!         records     Kafka has   the group   the engines have what
//!         wait for    every       has the     Kafka has confirmed
//!         metadata    record      offsets
//! ```
//! All tasks of the thread that have something to commit do it together. The offsets are committed under the epoch that this
//! thread acknowledged last: the broker refuses it (113) while it knows of a newer one, so the commit is tried again after the next
//! heartbeat; if the member is gone (25), the tasks are someone else's and are dropped.

use super::clock::Now;
use super::task_slot::client_error;
use super::thread::StreamThread;
use crate::error::Result;
use crate::processor::TaskId;
use crate::task::{CommitOffset, offset_metadata};
use kstreams_client::{
    ClientError, CommittedOffset, ErrorKind as ClientErrorKind, Flushed, PartitionHandle, Pending,
    Results, TopicPartition,
};
use std::collections::BTreeMap;
use std::time::Duration;

/// Where a commit is.
pub(super) enum Commit {
    Idle,
    Deferred(Vec<TaskId>),
    Flushing(Vec<TaskId>, Pending<Flushed>),
    Offsets {
        pending: Pending<Results<TopicPartition>>,
        batch: Batch,
    },
    /// The group has to hear of the new epoch first.
    Again {
        at: Duration,
        batch: Batch,
    },
}

/// What a commit is about.
pub(super) struct Batch {
    /// The offset behind the last record of each partition that was written.
    ends: BTreeMap<PartitionHandle, i64>,
    offsets: BTreeMap<TopicPartition, CommittedOffset>,
    tasks: Vec<TaskId>,
    since: Duration,
}

impl Commit {
    pub(super) fn is_idle(&self) -> bool {
        matches!(self, Commit::Idle)
    }

    /// How long the thread may sleep; results wake it.
    pub(super) fn wait(&self, now: Now) -> Duration {
        match self {
            Commit::Again { at, .. } => at.saturating_sub(now.monotonic),
            _ => Duration::from_millis(100),
        }
    }
}

impl StreamThread {
    /// Begins a commit when the interval is over, a processor asked for one, or memory is short.
    pub(super) fn begin_commit_if_due(&mut self, now: Now) -> Result<()> {
        if !self.commit.is_idle() {
            return Ok(());
        }
        let running = || self.slots.values().filter_map(|slot| slot.running());
        let requested = running().filter(|task| task.take_commit_request()).count() > 0;
        let uncommitted: usize = running().map(|task| task.stores().uncommitted_bytes()).sum();
        let full = self.settings.uncommitted_bytes.is_some_and(|limit| uncommitted > limit);
        if self.until_commit(now).is_zero() || requested || full {
            return self.begin_commit(now);
        }
        Ok(())
    }

    pub(super) fn until_commit(&self, now: Now) -> Duration {
        (self.last_commit + self.settings.commit_interval).saturating_sub(now.monotonic)
    }

    /// Step 1: everything that the processed records lead to goes to the producer.
    pub(super) fn begin_commit(&mut self, now: Now) -> Result<()> {
        self.last_commit = now.monotonic;
        let mut tasks = Vec::new();
        for (id, slot) in &mut self.slots {
            if let Some(task) = slot.running_mut().filter(|task| task.needs_commit()) {
                task.flush()?;
                tasks.push(*id);
            }
        }
        if !tasks.is_empty() {
            self.commit = Commit::Deferred(tasks);
            self.advance_commit(now)?;
        }
        Ok(())
    }

    /// Goes on with a commit as far as it can.
    pub(super) fn advance_commit(&mut self, now: Now) -> Result<()> {
        loop {
            let commit = std::mem::replace(&mut self.commit, Commit::Idle);
            let (next, moved) = self.step_commit(commit, now)?;
            self.commit = next;
            if !moved {
                return Ok(());
            }
        }
    }

    fn step_commit(&mut self, commit: Commit, now: Now) -> Result<(Commit, bool)> {
        Ok(match commit {
            Commit::Deferred(tasks) if !self.collector.borrow().has_deferred() => {
                (Commit::Flushing(tasks, self.collector.borrow_mut().flush()), true)
            }
            Commit::Flushing(tasks, mut pending) => match pending.try_take() {
                None => (Commit::Flushing(tasks, pending), false),
                Some(flushed) => {
                    let flushed = flushed.map_err(client_error)?;
                    let batch = self.batch(tasks, flushed, now);
                    (self.send_offsets(batch)?, true)
                }
            },
            Commit::Offsets { mut pending, batch } => match pending.try_take() {
                None => (Commit::Offsets { pending, batch }, false),
                Some(answer) => (self.on_offsets(answer, batch, now)?, true),
            },
            Commit::Again { at, batch } if now.monotonic >= at => (self.send_offsets(batch)?, true),
            waiting => (waiting, false),
        })
    }

    fn batch(&self, tasks: Vec<TaskId>, flushed: Flushed, now: Now) -> Batch {
        let mut batch = Batch {
            ends: flushed.end_offsets.into_iter().filter(|(_, end)| *end >= 0).collect(),
            offsets: BTreeMap::new(),
            tasks,
            since: now.monotonic,
        };
        let running = batch.tasks.iter().filter_map(|id| self.slots.get(id)?.running());
        for task in running {
            for CommitOffset { topic, partition, offset, leader_epoch, partition_time } in
                task.offsets()
            {
                let metadata = offset_metadata::encode(partition_time);
                let leader_epoch = (leader_epoch >= 0).then_some(leader_epoch);
                let committed = CommittedOffset { offset, leader_epoch, metadata };
                batch.offsets.insert(TopicPartition::new(&*topic, partition), committed);
            }
        }
        batch
    }

    /// Step 3, unless no offset has moved.
    fn send_offsets(&mut self, batch: Batch) -> Result<Commit> {
        if batch.offsets.is_empty() {
            self.finish_commit(&batch)?;
            return Ok(Commit::Idle);
        }
        Ok(Commit::Offsets { pending: self.client.commit_offsets(batch.offsets.clone()), batch })
    }

    fn on_offsets(
        &mut self,
        answer: Result<Results<TopicPartition>, ClientError>,
        batch: Batch,
        now: Now,
    ) -> Result<Commit> {
        let error = match answer {
            Ok(results) => results.into_values().find_map(Result::err),
            Err(error) => Some(error),
        };
        let Some(error) = error else {
            self.finish_commit(&batch)?;
            return Ok(Commit::Idle);
        };
        match error.kind() {
            ClientErrorKind::Fenced => {
                tracing::warn!("the group refused a commit, the tasks are dropped: {error}");
                self.drop_tasks();
                Ok(Commit::Idle)
            }
            ClientErrorKind::StaleMemberEpoch | ClientErrorKind::Retriable
                if now.monotonic - batch.since < self.settings.task_timeout =>
            {
                let at = now.monotonic + self.settings.wire.retry_backoff;
                Ok(Commit::Again { at, batch })
            }
            _ => Err(client_error(error).context("committing offsets")),
        }
    }

    /// Step 4: what Kafka has confirmed goes to the engines.
    fn finish_commit(&mut self, batch: &Batch) -> Result<()> {
        for id in &batch.tasks {
            let Some(slot) = self.slots.get_mut(id) else { continue };
            let collector = self.collector.borrow();
            let Some(task) = slot.running_mut() else { continue };
            let ends: Vec<Option<i64>> = task
                .changelogs()
                .iter()
                .map(|topic| collector.written((*topic)?, id.partition))
                .map(|handle| batch.ends.get(&handle?).copied())
                .collect();
            task.committed(&ends)?;
        }
        for (partition, committed) in &batch.offsets {
            if self.repartition_topics.contains(&partition.topic) {
                self.purge.committed(partition.clone(), committed.offset);
            }
        }
        Ok(())
    }
}

//! A stream thread's part of the commit protocol ([`crate::task::commit`]): steps 2 and 3, without waiting for either.
//!
//! ```text
//!                     ,--> Flushing -----> Offsets ---.     at least once
//! Idle --> Deferred --+                      |        +--> Idle
//!          records    '--> Transaction ------|--------'     exactly once
//!          wait for                 ^        v
//!          metadata                 '----- Again
//! ```
//! At least once, Kafka has to confirm every record before the group gets the offsets. Exactly once, records and offsets become
//! visible with the end of one transaction, which the client carries out. Then the engines get what Kafka has confirmed.
//!
//! All tasks of the thread that have something to commit do it together. The offsets are committed under the epoch that this
//! thread acknowledged last: that is what fences an owner of the past. The broker refuses an epoch that is not the member's (113)
//! while heartbeats and coordinator still disagree, so the commit is tried again; if the member is gone (25), or the group has
//! given another assignment meanwhile, the tasks go back to the last commit ([`super::recovery`]).

use super::clock::Now;
use super::thread::StreamThread;
use crate::config::Guarantee;
use crate::error::Result;
use crate::processor::TaskId;
use crate::task::{CommitOffset, offset_metadata};
use kstreams_client::{
    ClientError, Committed, CommittedOffset, ErrorKind as ClientErrorKind, Flushed,
    PartitionHandle, Pending, Results, TopicPartition,
};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// Where a commit is.
pub(super) enum Commit {
    Idle,
    Deferred(Vec<TaskId>),
    Flushing {
        pending: Pending<Flushed>,
        batch: Batch,
    },
    Offsets {
        pending: Pending<Results<TopicPartition>>,
        batch: Batch,
    },
    Transaction {
        pending: Pending<Committed>,
        batch: Batch,
    },
    /// The group did not take the offsets, and may do so soon.
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

impl fmt::Debug for Commit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Commit::Idle => "Idle",
            Commit::Deferred(_) => "Deferred",
            Commit::Flushing { .. } => "Flushing",
            Commit::Offsets { .. } => "Offsets",
            Commit::Transaction { .. } => "Transaction",
            Commit::Again { .. } => "Again",
        })
    }
}

/// How long a commit may be refused for its epoch: heartbeats come every 5 s at most.
const STALE: Duration = Duration::from_secs(10);

impl Batch {
    /// The same with where the written partitions end; -1 is not known.
    fn ending(mut self, ends: Vec<(PartitionHandle, i64)>) -> Self {
        self.ends = ends.into_iter().filter(|(_, end)| *end >= 0).collect();
        self
    }
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
        if self.until_commit(now).is_zero() || requested || full || self.pace.is_exhausted() {
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
                if let Err(error) = task.flush() {
                    let task = *id;
                    return self.flush_failed(task, error, now);
                }
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
        let next = match commit {
            Commit::Deferred(tasks) if !self.collector.borrow().has_deferred() => {
                self.send_records(tasks, now)
            }
            Commit::Flushing { mut pending, batch } => match pending.try_take() {
                None => return Ok((Commit::Flushing { pending, batch }, false)),
                Some(Ok(flushed)) => self.send_offsets(batch.ending(flushed.end_offsets))?,
                Some(Err(error)) => {
                    self.roll_back(error, now)?;
                    Commit::Idle
                }
            },
            Commit::Offsets { mut pending, batch } => match pending.try_take() {
                None => return Ok((Commit::Offsets { pending, batch }, false)),
                Some(answer) => match first_error(answer) {
                    None => self.finish_commit(&batch)?,
                    Some(error) => self.refused(error, batch, now)?,
                },
            },
            Commit::Transaction { mut pending, batch } => match pending.try_take() {
                None => return Ok((Commit::Transaction { pending, batch }, false)),
                Some(Ok(committed)) => self.finish_commit(&batch.ending(committed.end_offsets))?,
                Some(Err(error)) => self.refused(error, batch, now)?,
            },
            Commit::Again { at, batch } if now.monotonic >= at => match self.settings.guarantee {
                Guarantee::AtLeastOnce => self.send_offsets(batch)?,
                Guarantee::ExactlyOnce => self.send_transaction(batch),
            },
            waiting => return Ok((waiting, false)),
        };
        Ok((next, true))
    }

    /// Step 2, and with a transaction step 3 as well.
    fn send_records(&mut self, tasks: Vec<TaskId>, now: Now) -> Commit {
        let batch = self.batch(tasks, now);
        match self.settings.guarantee {
            Guarantee::AtLeastOnce => {
                Commit::Flushing { pending: self.collector.borrow_mut().flush(), batch }
            }
            Guarantee::ExactlyOnce => self.send_transaction(batch),
        }
    }

    fn batch(&self, tasks: Vec<TaskId>, now: Now) -> Batch {
        let mut offsets = BTreeMap::new();
        for task in tasks.iter().filter_map(|id| self.slots.get(id)?.running()) {
            for CommitOffset { topic, partition, offset, leader_epoch, times } in task.offsets() {
                let metadata = offset_metadata::encode(&times);
                let leader_epoch = (leader_epoch >= 0).then_some(leader_epoch);
                let committed = CommittedOffset { offset, leader_epoch, metadata };
                offsets.insert(TopicPartition::new(&*topic, partition), committed);
            }
        }
        Batch { ends: BTreeMap::new(), offsets, tasks, since: now.monotonic }
    }

    fn send_transaction(&mut self, batch: Batch) -> Commit {
        let group = self.client.group_metadata();
        let pending = self.collector.borrow_mut().commit(batch.offsets.clone(), group);
        Commit::Transaction { pending, batch }
    }

    /// Step 3, unless there is no offset.
    fn send_offsets(&mut self, batch: Batch) -> Result<Commit> {
        if batch.offsets.is_empty() {
            return self.finish_commit(&batch);
        }
        Ok(Commit::Offsets { pending: self.client.commit_offsets(batch.offsets.clone()), batch })
    }

    /// The offsets may be taken a moment later; everything else is for [`Self::roll_back`].
    fn refused(&mut self, error: ClientError, batch: Batch, now: Now) -> Result<Commit> {
        let tried = now.monotonic - batch.since;
        let again = match (error.kind(), self.settings.guarantee) {
            (ClientErrorKind::StaleMemberEpoch, _) => self.target.is_none() && tried < STALE,
            (ClientErrorKind::Retriable, Guarantee::AtLeastOnce) => {
                tried < self.settings.task_timeout
            }
            _ => false,
        };
        if again {
            let at = now.monotonic + self.settings.wire.retry_backoff;
            return Ok(Commit::Again { at, batch });
        }
        self.roll_back(error, now)?;
        Ok(Commit::Idle)
    }

    /// Step 4: what Kafka has confirmed goes to the engines.
    fn finish_commit(&mut self, batch: &Batch) -> Result<Commit> {
        self.pace.committed();
        self.recovery.end_failures();
        self.failing.committed();
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
            slot.committed(&batch.offsets);
        }
        for (partition, committed) in &batch.offsets {
            if self.repartition_topics.contains(&partition.topic) {
                self.purge.committed(partition.clone(), committed.offset);
            }
        }
        Ok(Commit::Idle)
    }
}

fn first_error(answer: Result<Results<TopicPartition>, ClientError>) -> Option<ClientError> {
    match answer {
        Ok(results) => results.into_values().find_map(Result::err),
        Err(error) => Some(error),
    }
}

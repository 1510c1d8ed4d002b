//! The transactions: which producer has a transactional id, what its transaction spans, and how far
//! it is. Java: `TransactionCoordinator` and `TransactionMetadata`.
//!
//! ```text
//!            a partition or group is added            commit, or abort
//!   Empty ------------------------------> Ongoing --------------------> PrepareCommit, PrepareAbort
//!     ^                                     ^                                |
//!     | another epoch is asked for          +------ the next one ------+     | markers and offsets
//!     +---------------------------- CompleteCommit, CompleteAbort <----------+ are written (complete.rs)
//! ```
//!
//! Nothing waits here: a step of the node goes from Ongoing to Complete. Only a broker that ended in
//! between finds a prepared one in its journal, and completes it.

use std::collections::{BTreeMap, BTreeSet};

use kstreams_protocol::ResponseError;

use crate::journal::{Journal, key};

mod complete;
mod stored;

/// The highest epoch that a producer is given.
const LAST_EPOCH: i16 = i16::MAX - 1;
/// No producer id, no epoch.
const NONE: i16 = -1;

/// A producer id and its epoch.
pub(crate) type ProducerEpoch = (i64, i16);

/// How far a transaction is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum State {
    /// Nothing since the producer got its epoch.
    #[default]
    Empty,
    /// It spans something.
    Ongoing,
    /// It is decided; markers and offsets are not all written.
    PrepareCommit,
    PrepareAbort,
    /// It has ended.
    CompleteCommit,
    CompleteAbort,
}

impl State {
    pub(crate) const ALL: [Self; 6] = [
        Self::Empty,
        Self::Ongoing,
        Self::PrepareCommit,
        Self::PrepareAbort,
        Self::CompleteCommit,
        Self::CompleteAbort,
    ];

    /// Kafka's name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::Ongoing => "Ongoing",
            Self::PrepareCommit => "PrepareCommit",
            Self::PrepareAbort => "PrepareAbort",
            Self::CompleteCommit => "CompleteCommit",
            Self::CompleteAbort => "CompleteAbort",
        }
    }

    fn is_prepared(self) -> bool {
        matches!(self, Self::PrepareCommit | Self::PrepareAbort)
    }
}

/// What there is of a transactional id.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Transaction {
    pub(crate) producer_id: i64,
    pub(crate) epoch: i16,
    /// The epoch before: who comes with it repeats what gave it the current one.
    last_epoch: i16,
    /// The producer id before, when its epochs came to an end; else -1.
    previous_id: i64,
    pub(crate) timeout_ms: i32,
    pub(crate) state: State,
    pub(crate) partitions: BTreeSet<(String, i32)>,
    pub(crate) groups: BTreeSet<String>,
    /// When the transaction began, ms; -1 if there is none.
    pub(crate) started: i64,
    updated: i64,
}

/// What becomes a part of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Part {
    Partition(String, i32),
    Group(String),
}

/// What is to be done for a producer that asks for its epoch.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Init {
    Given(ProducerEpoch),
    /// Its transaction is to be aborted; the producer asks again.
    Abort,
}

/// What to do for a producer that wants to end its transaction.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// It has ended like that already.
    Done(ProducerEpoch),
    /// It is prepared, and to be completed.
    Prepared,
}

/// All transactional ids, and the producer ids.
#[derive(Debug, Default)]
pub(crate) struct Transactions {
    by_id: BTreeMap<String, Transaction>,
    pub(crate) producer_ids: ProducerIds,
}

/// Gives out producer ids, each of them once.
#[derive(Debug, Default)]
pub(crate) struct ProducerIds {
    next: i64,
}

impl ProducerIds {
    /// A producer id that was never given out.
    pub(crate) fn take(&mut self, journal: &mut Journal) -> i64 {
        let id = self.next;
        self.next += 1;
        journal.put(key(&["producers", "next"]), Some(self.next.to_string().as_bytes()));
        id
    }
}

impl Transaction {
    fn is_exhausted(&self) -> bool {
        self.epoch >= LAST_EPOCH
    }

    /// Gives a producer its next epoch, or once more what it was given when it asked before.
    fn next_epoch(&mut self, expected: Option<ProducerEpoch>) -> Result<(), ResponseError> {
        match expected {
            None => self.last_epoch = NONE,
            Some((_, epoch)) if epoch == self.epoch || self.epoch == NONE => {
                self.last_epoch = self.epoch;
            }
            Some((_, epoch)) if epoch == self.last_epoch => return Ok(()),
            Some(_) => return Err(ResponseError::ProducerFenced),
        }
        self.epoch += 1;
        Ok(())
    }

    /// Whether a producer that comes with this is the one that has the id.
    fn is_of(&self, (id, epoch): ProducerEpoch) -> bool {
        self.epoch == NONE
            || id == self.producer_id
            || (id == self.previous_id && epoch >= LAST_EPOCH)
    }

    fn has(&self, part: &Part) -> bool {
        match part {
            Part::Partition(topic, partition) => {
                self.partitions.contains(&(topic.clone(), *partition))
            }
            Part::Group(group) => self.groups.contains(group),
        }
    }

    /// Decides; with `bump` the producer goes on under another epoch, or another id.
    fn prepare(&mut self, commit: bool, bump: bool, now: i64) {
        self.state = if commit { State::PrepareCommit } else { State::PrepareAbort };
        self.updated = now;
        if bump {
            self.last_epoch = self.epoch;
            self.epoch += 1;
        }
    }
}

impl Transactions {
    pub(crate) fn get(&self, id: &str) -> Option<&Transaction> {
        self.by_id.get(id)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Transaction)> {
        self.by_id.iter().map(|(id, transaction)| (id.as_str(), transaction))
    }

    /// Gives the id to a producer. `expected` is who it thinks it is.
    pub(crate) fn init(
        &mut self,
        id: &str,
        timeout_ms: i32,
        expected: Option<ProducerEpoch>,
        (journal, now): (&mut Journal, i64),
    ) -> Result<Init, ResponseError> {
        let ids = &mut self.producer_ids;
        let transaction = self.by_id.entry(id.to_owned()).or_insert_with(|| Transaction {
            producer_id: ids.take(journal),
            epoch: NONE,
            last_epoch: NONE,
            previous_id: -1,
            started: -1,
            ..Transaction::default()
        });
        if expected.is_some_and(|expected| !transaction.is_of(expected)) {
            return Err(ResponseError::ProducerFenced);
        }
        match transaction.state {
            State::Ongoing => return Ok(Init::Abort),
            State::PrepareCommit | State::PrepareAbort => {
                return Err(ResponseError::ConcurrentTransactions);
            }
            State::Empty | State::CompleteCommit | State::CompleteAbort => {}
        }
        let is_current = |(_, epoch): ProducerEpoch| epoch == transaction.epoch;
        if transaction.is_exhausted() && expected.is_none_or(is_current) {
            transaction.previous_id = transaction.producer_id;
            transaction.last_epoch = if expected.is_some() { transaction.epoch } else { NONE };
            transaction.producer_id = ids.take(journal);
            transaction.epoch = 0;
        } else {
            transaction.next_epoch(expected)?;
        }
        transaction.timeout_ms = timeout_ms;
        transaction.state = State::Empty;
        transaction.updated = now;
        Ok(Init::Given((transaction.producer_id, transaction.epoch)))
    }

    /// The id's transaction, if this producer has it.
    fn owned(
        &mut self,
        id: &str,
        (producer_id, epoch): ProducerEpoch,
    ) -> Result<&mut Transaction, ResponseError> {
        if id.is_empty() {
            return Err(ResponseError::InvalidRequest);
        }
        let transaction = self.by_id.get_mut(id).filter(|t| t.producer_id == producer_id);
        let transaction = transaction.ok_or(ResponseError::InvalidProducerIdMapping)?;
        if transaction.epoch != epoch {
            return Err(ResponseError::ProducerFenced);
        }
        if transaction.state.is_prepared() {
            return Err(ResponseError::ConcurrentTransactions);
        }
        Ok(transaction)
    }

    /// Makes `parts` part of the id's transaction; says whether they were not yet.
    pub(crate) fn add(
        &mut self,
        id: &str,
        producer: ProducerEpoch,
        parts: Vec<Part>,
        now: i64,
    ) -> Result<bool, ResponseError> {
        let transaction = self.owned(id, producer)?;
        if transaction.state == State::Ongoing && parts.iter().all(|part| transaction.has(part)) {
            return Ok(false);
        }
        if transaction.state != State::Ongoing {
            transaction.state = State::Ongoing;
            transaction.started = now;
        }
        transaction.updated = now;
        for part in parts {
            match part {
                Part::Partition(topic, partition) => {
                    transaction.partitions.insert((topic, partition));
                }
                Part::Group(group) => {
                    transaction.groups.insert(group);
                }
            }
        }
        Ok(true)
    }

    /// Whether `part` is part of the id's ongoing transaction.
    pub(crate) fn verify(
        &mut self,
        id: &str,
        producer: ProducerEpoch,
        part: &Part,
    ) -> Result<bool, ResponseError> {
        let transaction = self.owned(id, producer)?;
        Ok(transaction.state == State::Ongoing && transaction.has(part))
    }

    /// Decides the id's transaction as its producer asks; with `bump` (transaction version 2) it
    /// goes on under the next epoch, and may abort what has not begun.
    pub(crate) fn end(
        &mut self,
        id: &str,
        (producer_id, epoch): ProducerEpoch,
        (commit, bump): (bool, bool),
        now: i64,
    ) -> Result<End, ResponseError> {
        if id.is_empty() {
            return Err(ResponseError::InvalidRequest);
        }
        let transaction = self.by_id.get_mut(id).ok_or(ResponseError::InvalidProducerIdMapping)?;
        // It asked before, and did not hear that it goes on under another epoch or id.
        let of_old_id =
            transaction.previous_id == producer_id && epoch == LAST_EPOCH && transaction.epoch == 0;
        if transaction.producer_id != producer_id && !of_old_id {
            return Err(ResponseError::InvalidProducerIdMapping);
        }
        let again = bump && (of_old_id || transaction.epoch == epoch.saturating_add(1));
        if transaction.epoch != epoch && !again {
            return Err(ResponseError::ProducerFenced);
        }
        let wanted = if commit { State::CompleteCommit } else { State::CompleteAbort };
        match transaction.state {
            State::Ongoing | State::Empty if again => Err(ResponseError::ProducerFenced),
            State::Ongoing => {
                transaction.prepare(commit, bump, now);
                Ok(End::Prepared)
            }
            State::PrepareCommit | State::PrepareAbort => {
                Err(ResponseError::ConcurrentTransactions)
            }
            state if again || !bump => match state == wanted {
                true => Ok(End::Done((transaction.producer_id, transaction.epoch))),
                false => Err(ResponseError::InvalidTxnState),
            },
            _ if commit => Err(ResponseError::InvalidTxnState),
            _ => {
                transaction.started = now;
                transaction.prepare(false, true, now);
                Ok(End::Prepared)
            }
        }
    }

    /// Takes the id's ongoing transaction away from its producer: it is prepared to be aborted under
    /// the next epoch. From `level` 2 of `transaction.version` on the producer may come back with
    /// the epoch that it has.
    pub(crate) fn fence(&mut self, id: &str, level: i16, now: i64) {
        let Some(transaction) = self.by_id.get_mut(id) else { return };
        transaction.prepare(false, true, now);
        if level < 2 {
            transaction.last_epoch = NONE;
        }
    }

    /// Those whose producer took longer than it may.
    pub(crate) fn timed_out(&self, now: i64) -> Vec<String> {
        let is_late = |t: &Transaction| {
            t.state == State::Ongoing && t.started + i64::from(t.timeout_ms) < now
        };
        self.by_id.iter().filter(|(_, t)| is_late(t)).map(|(id, _)| id.clone()).collect()
    }

    /// When the first of them will have taken too long.
    pub(crate) fn next_timeout(&self) -> Option<i64> {
        let ongoing = self.by_id.values().filter(|t| t.state == State::Ongoing);
        ongoing.map(|t| t.started + i64::from(t.timeout_ms) + 1).min()
    }

    /// Those that a broker left half done.
    pub(crate) fn prepared(&self) -> Vec<String> {
        let prepared = self.by_id.iter().filter(|(_, t)| t.state.is_prepared());
        prepared.map(|(id, _)| id.clone()).collect()
    }

    /// Forgets ids that nobody used since `before` (ms), and that have nothing open.
    pub(crate) fn expire(&mut self, before: i64, journal: &mut Journal) {
        let unused = |t: &Transaction| {
            t.state != State::Ongoing && !t.state.is_prepared() && t.updated <= before
        };
        let expired = self.by_id.iter().filter(|(_, t)| unused(t));
        for id in expired.map(|(id, _)| id.clone()).collect::<Vec<_>>() {
            self.by_id.remove(&id);
            journal.put(key(&["txn", &id]), None);
        }
    }

    /// A topic is gone; so are its partitions.
    pub(crate) fn topic_deleted(&mut self, topic: &str, journal: &mut Journal) {
        let mut changed = Vec::new();
        for (id, transaction) in &mut self.by_id {
            let before = transaction.partitions.len();
            transaction.partitions.retain(|(name, _)| name != topic);
            if transaction.partitions.len() < before {
                changed.push(id.clone());
            }
        }
        for id in changed {
            self.record(&id, journal);
        }
    }

    /// The markers are written.
    fn completed(&mut self, id: &str, now: i64, journal: &mut Journal) {
        let Some(transaction) = self.by_id.get_mut(id) else { return };
        let committed = transaction.state == State::PrepareCommit;
        transaction.state = if committed { State::CompleteCommit } else { State::CompleteAbort };
        transaction.partitions.clear();
        transaction.groups.clear();
        transaction.started = -1;
        transaction.updated = now;
        if transaction.epoch > LAST_EPOCH {
            transaction.previous_id = transaction.producer_id;
            transaction.producer_id = self.producer_ids.take(journal);
            transaction.epoch = 0;
        }
        self.record(id, journal);
    }
}

#[cfg(test)]
mod tests;

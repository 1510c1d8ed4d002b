//! The offsets that a group committed, and those that transactions will commit with their end.

use std::collections::BTreeMap;

use crate::journal::{Journal, key};
use crate::topics::text;
use crate::txn::ProducerEpoch;

/// A committed offset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Committed {
    pub(crate) offset: i64,
    pub(crate) leader_epoch: i32,
    pub(crate) metadata: String,
}

/// A group's committed offsets, by topic and partition.
#[derive(Debug, Default)]
pub(crate) struct Offsets {
    by_topic: BTreeMap<String, BTreeMap<i32, Committed>>,
    /// By producer id, topic and partition.
    pending: BTreeMap<i64, BTreeMap<(String, i32), Pending>>,
    next_order: u64,
}

/// An offset of a transaction that has not ended.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Pending {
    committed: Committed,
    producer_epoch: i16,
    /// Which was written after which.
    order: u64,
    /// A later one was committed meanwhile: it counts.
    superseded: bool,
}

impl Offsets {
    pub(crate) fn get(&self, topic: &str, partition: i32) -> Option<&Committed> {
        self.by_topic.get(topic)?.get(&partition)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_topic.is_empty() && self.pending.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &BTreeMap<i32, Committed>)> {
        self.by_topic.iter().map(|(topic, partitions)| (topic.as_str(), partitions))
    }

    /// Commits outside of transactions.
    pub(crate) fn put(
        &mut self,
        group: &str,
        at: (&str, i32),
        committed: Committed,
        journal: &mut Journal,
    ) {
        self.supersede(group, at, self.next_order, journal);
        self.set(group, at, committed, journal);
    }

    fn set(&mut self, group: &str, at: (&str, i32), committed: Committed, journal: &mut Journal) {
        let (topic, partition) = at;
        let Committed { offset, leader_epoch, metadata } = &committed;
        let value = format!("{offset} {leader_epoch} {metadata}");
        let key = key(&["offset", group, topic, &partition.to_string()]);
        journal.put(key, Some(value.as_bytes()));
        self.by_topic.entry(topic.to_owned()).or_default().insert(partition, committed);
    }

    pub(crate) fn remove(&mut self, group: &str, at: (&str, i32), journal: &mut Journal) {
        let (topic, partition) = at;
        let Some(partitions) = self.by_topic.get_mut(topic) else { return };
        if partitions.remove(&partition).is_some() {
            journal.put(key(&["offset", group, topic, &partition.to_string()]), None);
        }
        if partitions.is_empty() {
            self.by_topic.remove(topic);
        }
    }

    /// Holds an offset until the producer's transaction ends.
    pub(crate) fn put_pending(
        &mut self,
        group: &str,
        at: (&str, i32),
        (producer_id, producer_epoch): ProducerEpoch,
        committed: Committed,
        journal: &mut Journal,
    ) {
        let order = self.next_order;
        self.next_order += 1;
        let pending = Pending { committed, producer_epoch, order, superseded: false };
        let at = (at.0.to_owned(), at.1);
        pending.record(group, producer_id, &at, journal);
        self.pending.entry(producer_id).or_default().insert(at, pending);
    }

    /// Whether a transaction will commit an offset of the partition, or may.
    pub(crate) fn is_pending(&self, topic: &str, partition: i32) -> bool {
        let is_at = |at: &(String, i32)| at.0 == topic && at.1 == partition;
        self.pending.values().any(|offsets| offsets.keys().any(is_at))
    }

    /// Whether the producer has offsets here in a transaction that has not ended.
    pub(crate) fn is_pending_of(&self, (producer_id, epoch): ProducerEpoch) -> bool {
        let offsets = self.pending.get(&producer_id).into_iter().flatten();
        offsets.into_iter().any(|(_, pending)| pending.producer_epoch == epoch)
    }

    /// The producer's transaction has ended: its offsets count, or go.
    pub(crate) fn end_transaction(
        &mut self,
        group: &str,
        (producer_id, commit): (i64, bool),
        journal: &mut Journal,
    ) {
        for (at, pending) in self.pending.remove(&producer_id).unwrap_or_default() {
            let at_ref = (at.0.as_str(), at.1);
            if commit && !pending.superseded {
                self.supersede(group, at_ref, pending.order, journal);
                self.set(group, at_ref, pending.committed, journal);
            }
            journal.put(pending_key(group, producer_id, at_ref), None);
        }
    }

    /// What was written before `order` for a partition does not count any more.
    fn supersede(&mut self, group: &str, at: (&str, i32), order: u64, journal: &mut Journal) {
        for (producer_id, offsets) in &mut self.pending {
            for (place, pending) in offsets {
                if place.0 == at.0 && place.1 == at.1 && pending.order < order {
                    pending.superseded = true;
                    pending.record(group, *producer_id, place, journal);
                }
            }
        }
    }

    pub(crate) fn remove_topic(&mut self, group: &str, topic: &str, journal: &mut Journal) {
        for (producer_id, offsets) in &mut self.pending {
            for (at, _) in offsets.extract_if(.., |at, _| at.0 == topic) {
                journal.put(pending_key(group, *producer_id, (&at.0, at.1)), None);
            }
        }
        self.pending.retain(|_, offsets| !offsets.is_empty());
        if self.by_topic.remove(topic).is_some() {
            journal.remove_under(&["offset", group, topic]);
        }
    }

    /// Takes in what the journal has: the key's parts after the group, and the value.
    pub(crate) fn restore(&mut self, topic: &str, partition: &str, value: &[u8]) -> Option<()> {
        let text = text(value);
        let mut parts = text.splitn(3, ' ');
        let offset = parts.next()?.parse().ok()?;
        let leader_epoch = parts.next()?.parse().ok()?;
        let metadata = parts.next()?.to_owned();
        let committed = Committed { offset, leader_epoch, metadata };
        let partitions = self.by_topic.entry(topic.to_owned()).or_default();
        partitions.insert(partition.parse().ok()?, committed);
        Some(())
    }

    /// Takes in an offset of a transaction: the key's parts after the group, and the value.
    pub(crate) fn restore_pending(
        &mut self,
        (topic, partition, producer_id): (&str, &str, &str),
        value: &[u8],
    ) -> Option<()> {
        let text = text(value);
        let mut parts = text.splitn(6, ' ');
        let pending = Pending {
            producer_epoch: parts.next()?.parse().ok()?,
            order: parts.next()?.parse().ok()?,
            superseded: parts.next()?.parse().ok()?,
            committed: Committed {
                offset: parts.next()?.parse().ok()?,
                leader_epoch: parts.next()?.parse().ok()?,
                metadata: parts.next()?.to_owned(),
            },
        };
        self.next_order = self.next_order.max(pending.order.checked_add(1)?);
        let offsets = self.pending.entry(producer_id.parse().ok()?).or_default();
        offsets.insert((topic.to_owned(), partition.parse().ok()?), pending);
        Some(())
    }
}

impl Pending {
    fn record(&self, group: &str, producer_id: i64, at: &(String, i32), journal: &mut Journal) {
        if !journal.is_kept() {
            return;
        }
        let Self { committed, producer_epoch, order, superseded } = self;
        let Committed { offset, leader_epoch, metadata } = committed;
        let value =
            format!("{producer_epoch} {order} {superseded} {offset} {leader_epoch} {metadata}");
        let key = pending_key(group, producer_id, (&at.0, at.1));
        journal.put(key, Some(value.as_bytes()));
    }
}

fn pending_key(group: &str, producer_id: i64, (topic, partition): (&str, i32)) -> Vec<u8> {
    key(&["pending", group, topic, &partition.to_string(), &producer_id.to_string()])
}

//! The offsets that a group committed.

use std::collections::BTreeMap;

use crate::journal::{Journal, key};
use crate::topics::text;

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
}

impl Offsets {
    pub(crate) fn get(&self, topic: &str, partition: i32) -> Option<&Committed> {
        self.by_topic.get(topic)?.get(&partition)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_topic.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &BTreeMap<i32, Committed>)> {
        self.by_topic.iter().map(|(topic, partitions)| (topic.as_str(), partitions))
    }

    pub(crate) fn put(
        &mut self,
        group: &str,
        at: (&str, i32),
        committed: Committed,
        journal: &mut Journal,
    ) {
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

    pub(crate) fn remove_topic(&mut self, group: &str, topic: &str, journal: &mut Journal) {
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
}

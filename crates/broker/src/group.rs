//! The groups: what each committed, and who its members are. Java: `GroupMetadataManager`.

use std::collections::BTreeMap;

use crate::journal::Journal;

pub(crate) mod offsets;

use offsets::Offsets;

/// All groups by name.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    by_name: BTreeMap<String, Group>,
}

/// A group of any kind.
#[derive(Debug, Default)]
pub(crate) struct Group {
    pub(crate) offsets: Offsets,
}

impl Groups {
    pub(crate) fn open(journal: &Journal) -> Self {
        let mut groups = Self::default();
        for (parts, value) in journal.under("offset") {
            let [group, topic, partition] = &parts[..] else { continue };
            let group = groups.by_name.entry(group.clone()).or_default();
            if group.offsets.restore(topic, partition, &value).is_none() {
                tracing::warn!(topic, partition, "a committed offset is not readable");
            }
        }
        groups
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Group> {
        self.by_name.get(name)
    }

    pub(crate) fn next_deadline(&self) -> Option<i64> {
        None
    }

    pub(crate) fn topics_changed(&mut self) {}

    pub(crate) fn delete_topic(&mut self, topic: &str, journal: &mut Journal) {
        for (name, group) in &mut self.by_name {
            group.offsets.remove_topic(name, topic, journal);
        }
    }
}

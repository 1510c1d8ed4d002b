//! The groups: what each committed, and who its members are. Java: `GroupMetadataManager`.

use std::collections::BTreeMap;

use kstreams_protocol::ResponseError;

use crate::error::Refusal;
use crate::journal::{Journal, key};

pub(crate) mod classic;
pub(crate) mod offsets;
pub(crate) mod streams;
pub(crate) mod tasks;

use classic::ClassicGroup;
use offsets::Offsets;
use streams::StreamsGroup;

/// All groups by name.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    by_name: BTreeMap<String, Group>,
    /// Grows with every change of topics.
    pub(crate) topics_generation: u64,
}

/// A group of any kind.
#[derive(Debug, Default)]
pub(crate) struct Group {
    pub(crate) offsets: Offsets,
    pub(crate) kind: GroupKind,
}

/// What a group's members speak.
#[derive(Debug)]
pub(crate) enum GroupKind {
    /// Consumers, Connect and Streams before 4.2; also a group that only has offsets.
    Classic(ClassicGroup),
    /// Streams, from 4.2 on.
    Streams(Box<StreamsGroup>),
}

impl Default for GroupKind {
    fn default() -> Self {
        Self::Classic(ClassicGroup::default())
    }
}

impl Group {
    /// No members.
    pub(crate) fn is_empty(&self) -> bool {
        match &self.kind {
            GroupKind::Classic(group) => group.is_empty(),
            GroupKind::Streams(group) => group.members.is_empty(),
        }
    }

    pub(crate) fn state(&self) -> &'static str {
        match &self.kind {
            GroupKind::Classic(group) => group.state.name(),
            GroupKind::Streams(group) => group.state(),
        }
    }

    fn next_deadline(&self) -> Option<i64> {
        match &self.kind {
            GroupKind::Classic(group) => group.next_deadline(),
            GroupKind::Streams(group) => group.next_deadline(),
        }
    }
}

impl Groups {
    /// The groups that the journal knows: their offsets, and streams groups with their members, whose
    /// sessions begin anew and end at `until` (ms).
    pub(crate) fn open(journal: &Journal, until: i64) -> Self {
        let mut groups = Self::default();
        for (parts, value) in journal.under("streams") {
            let Some(name) = parts.first() else { continue };
            let Some(group) = StreamsGroup::restore(&value) else {
                tracing::warn!(group = name, "the topology of this group is not readable");
                continue;
            };
            groups.get_or_create(name).kind = GroupKind::Streams(Box::new(group));
        }
        for (parts, value) in journal.under("member") {
            let [name, member] = &parts[..] else { continue };
            if let Some(GroupKind::Streams(group)) = groups.get_mut(name).map(|g| &mut g.kind)
                && group.restore_member(member, &value, until).is_none()
            {
                tracing::warn!(group = name, member, "this member is not readable");
            }
        }
        for (parts, value) in journal.under("offset") {
            let [group, topic, partition] = &parts[..] else { continue };
            let group = groups.by_name.entry(group.clone()).or_default();
            if group.offsets.restore(topic, partition, &value).is_none() {
                tracing::warn!(topic, partition, "a committed offset is not readable");
            }
        }
        for (parts, value) in journal.under("pending") {
            let [group, topic, partition, producer] = &parts[..] else { continue };
            let group = groups.by_name.entry(group.clone()).or_default();
            if group.offsets.restore_pending((topic, partition, producer), &value).is_none() {
                tracing::warn!(topic, partition, "an offset of a transaction is not readable");
            }
        }
        groups
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Group> {
        self.by_name.get(name)
    }

    pub(crate) fn get_mut(&mut self, name: &str) -> Option<&mut Group> {
        self.by_name.get_mut(name)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Group)> {
        self.by_name.iter().map(|(name, group)| (name.as_str(), group))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (&str, &mut Group)> {
        self.by_name.iter_mut().map(|(name, group)| (name.as_str(), group))
    }

    pub(crate) fn get_or_create(&mut self, name: &str) -> &mut Group {
        self.by_name.entry(name.to_owned()).or_default()
    }

    /// The classic group of that name. One is made if `create`, also of a streams group without
    /// members.
    pub(crate) fn classic(
        &mut self,
        name: &str,
        create: bool,
        journal: &mut Journal,
    ) -> Result<&mut ClassicGroup, ResponseError> {
        if !create && !self.by_name.contains_key(name) {
            return Err(ResponseError::UnknownMemberId);
        }
        let group = self.get_or_create(name);
        if matches!(group.kind, GroupKind::Streams(_)) {
            if !create || !group.is_empty() {
                return Err(ResponseError::InconsistentGroupProtocol);
            }
            group.kind = GroupKind::default();
            journal.put(key(&["streams", name]), None);
            journal.remove_under(&["member", name]);
        }
        match &mut group.kind {
            GroupKind::Classic(group) => Ok(group),
            GroupKind::Streams(_) => Err(ResponseError::InconsistentGroupProtocol),
        }
    }

    /// The streams group of that name. One is made if `create`, also of a classic group without
    /// members; its offsets stay.
    pub(crate) fn streams(
        &mut self,
        name: &str,
        create: bool,
    ) -> Result<&mut StreamsGroup, Refusal> {
        let not_found = |message: String| Refusal::new(ResponseError::GroupIdNotFound, message);
        if !create && !self.by_name.contains_key(name) {
            return Err(not_found(format!("Streams group {name} not found.")));
        }
        let group = self.get_or_create(name);
        if create && group.is_empty() && matches!(group.kind, GroupKind::Classic(_)) {
            group.kind = GroupKind::Streams(Box::default());
        }
        match &mut group.kind {
            GroupKind::Streams(group) => Ok(group),
            GroupKind::Classic(_) => {
                Err(not_found(format!("Group {name} is not a streams group.")))
            }
        }
    }

    /// Remembers what changed about a streams group.
    pub(crate) fn record_streams(&mut self, name: &str, journal: &mut Journal) {
        if let Some(GroupKind::Streams(group)) = self.get_mut(name).map(|group| &mut group.kind) {
            group.record(name, journal);
        }
    }

    /// Forgets a group that could not be begun.
    pub(crate) fn drop_if_unused(&mut self, name: &str) {
        let unused = |group: &Group| {
            let begun = match &group.kind {
                GroupKind::Classic(group) => group.generation > 0,
                GroupKind::Streams(group) => group.topology.is_some(),
            };
            group.is_empty() && group.offsets.is_empty() && !begun
        };
        if self.by_name.get(name).is_some_and(unused) {
            self.by_name.remove(name);
        }
    }

    /// Deletes a group without members, and all that it committed.
    pub(crate) fn delete(
        &mut self,
        name: &str,
        journal: &mut Journal,
    ) -> Result<(), ResponseError> {
        let group = self.by_name.get(name).ok_or(ResponseError::GroupIdNotFound)?;
        if !group.is_empty() {
            return Err(ResponseError::NonEmptyGroup);
        }
        self.by_name.remove(name);
        journal.put(key(&["streams", name]), None);
        journal.remove_under(&["member", name]);
        journal.remove_under(&["offset", name]);
        journal.remove_under(&["pending", name]);
        Ok(())
    }

    /// When a group's time comes.
    pub(crate) fn next_deadline(&self) -> Option<i64> {
        self.by_name.values().filter_map(Group::next_deadline).min()
    }

    pub(crate) fn topics_changed(&mut self) {
        self.topics_generation += 1;
    }

    pub(crate) fn delete_topic(&mut self, topic: &str, journal: &mut Journal) {
        for (name, group) in &mut self.by_name {
            group.offsets.remove_topic(name, topic, journal);
        }
    }
}

//! Sets of tasks, as members own them and as they are assigned.

use std::collections::{BTreeMap, BTreeSet};

use kstreams_protocol::streams_group::{Assignment, TaskIds};

use crate::api::str_bytes;

/// A task: its sub-topology and partition.
pub(crate) type TaskId = (String, i32);

/// Tasks by role.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Tasks {
    pub(crate) active: BTreeSet<TaskId>,
    pub(crate) standby: BTreeSet<TaskId>,
    pub(crate) warmup: BTreeSet<TaskId>,
}

impl Tasks {
    /// The tasks of a heartbeat; `None` unless all three lists are there.
    pub(crate) fn from_lists(
        active: Option<&[TaskIds]>,
        standby: Option<&[TaskIds]>,
        warmup: Option<&[TaskIds]>,
    ) -> Option<Self> {
        Some(Self { active: ids(active?), standby: ids(standby?), warmup: ids(warmup?) })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.active.is_empty() && self.standby.is_empty() && self.warmup.is_empty()
    }

    /// Whether one of `others` is among these, in the same role.
    pub(crate) fn contains_any(&self, others: &Self) -> bool {
        !self.active.is_disjoint(&others.active)
            || !self.standby.is_disjoint(&others.standby)
            || !self.warmup.is_disjoint(&others.warmup)
    }

    pub(crate) fn contains_all(&self, others: &Self) -> bool {
        others.active.is_subset(&self.active)
            && others.standby.is_subset(&self.standby)
            && others.warmup.is_subset(&self.warmup)
    }

    pub(crate) fn to_assignment(&self) -> Assignment {
        Assignment {
            active_tasks: lists(&self.active),
            standby_tasks: lists(&self.standby),
            warmup_tasks: lists(&self.warmup),
        }
    }
}

fn ids(lists: &[TaskIds]) -> BTreeSet<TaskId> {
    let mut all = BTreeSet::new();
    for list in lists {
        let subtopology = list.subtopology_id.as_str();
        all.extend(list.partitions.iter().map(|partition| (subtopology.to_owned(), *partition)));
    }
    all
}

pub(crate) fn lists(tasks: &BTreeSet<TaskId>) -> Vec<TaskIds> {
    let mut by_subtopology: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
    for (subtopology, partition) in tasks {
        by_subtopology.entry(subtopology).or_default().push(*partition);
    }
    by_subtopology
        .into_iter()
        .map(|(id, partitions)| TaskIds { subtopology_id: str_bytes(id), partitions })
        .collect()
}

//! The local partitions of one store, as handles ask for them.

use super::{Inner, LocalTask, Located, Queries, starting, stopped};
use crate::error::Result;
use crate::processor::TaskId;
use crate::runtime::lifecycle::State;
use crate::runtime::shared::Shared;
use crate::state::{GlobalStores, PartitionReader, Scope, StoreSource, StoreSpec};
use crate::task::partition_for_key;
use std::collections::BTreeSet;
use std::sync::Arc;

/// One store of this instance.
pub(in crate::runtime) struct LocalStores {
    pub(super) queries: Arc<Queries>,
    pub(super) shared: Arc<Shared>,
    pub(super) globals: Arc<GlobalStores>,
    pub(super) spec: StoreSpec,
    /// The sub-topology of the store; a global one has none.
    pub(super) subtopology: Option<u32>,
}

impl LocalStores {
    pub(super) fn reader(&self, task: &LocalTask) -> Option<PartitionReader> {
        task.stores.get(&self.spec.name).cloned()
    }

    fn readers(&self, tasks: Vec<(i32, Arc<LocalTask>)>) -> Vec<PartitionReader> {
        tasks.iter().filter_map(|(_, task)| self.reader(task)).collect()
    }

    /// The tasks of the store that run, with their partitions.
    pub(super) fn running(&self, inner: &Inner, scope: Scope) -> Vec<(i32, Arc<LocalTask>)> {
        let wanted = |id: &TaskId| {
            Some(id.subtopology) == self.subtopology
                && scope.partition.is_none_or(|partition| partition == id.partition)
        };
        let tasks = inner.tasks.iter().filter(|(id, _)| wanted(id));
        tasks.map(|(id, task)| (id.partition, task.clone())).collect()
    }

    /// The tasks that should run here.
    pub(super) fn assigned(&self, inner: &Inner) -> BTreeSet<TaskId> {
        let tasks = inner.assigned.values().flat_map(|thread| &thread.tasks);
        tasks.filter(|id| Some(id.subtopology) == self.subtopology).copied().collect()
    }

    pub(super) fn check_open(&self) -> Result<()> {
        match self.shared.state() {
            State::Created | State::Rebalancing | State::Running => Ok(()),
            _ => Err(stopped(&self.spec.name)),
        }
    }

    pub(super) fn task(&self, partition: i32) -> TaskId {
        TaskId { subtopology: self.subtopology.unwrap_or_default(), partition }
    }

    /// Why there are no tasks to ask.
    fn check_some(
        &self,
        inner: &Inner,
        scope: Scope,
        found: Vec<(i32, Arc<LocalTask>)>,
    ) -> Located {
        if !found.is_empty() {
            return Ok(found);
        }
        let first = self.assigned(inner).first().copied();
        let missing = match scope.partition {
            Some(partition) => self.task(partition),
            None => first.unwrap_or(self.task(0)),
        };
        Err(self.queries.absent(inner, &self.spec.name, missing))
    }
}

impl StoreSource for LocalStores {
    fn spec(&self) -> &StoreSpec {
        &self.spec
    }

    fn serde_topic(&self) -> Arc<str> {
        crate::topology::changelog_name(&self.queries.application_id, &self.spec.name)
    }

    fn globals(&self) -> &GlobalStores {
        &self.globals
    }

    fn present(&self, scope: Scope) -> Result<Vec<PartitionReader>> {
        self.check_open()?;
        let inner = self.queries.read();
        let found = self.running(&inner, scope);
        Ok(self.readers(self.check_some(&inner, scope, found)?))
    }

    fn all(&self, scope: Scope) -> Result<Vec<PartitionReader>> {
        self.check_open()?;
        let inner = self.queries.read();
        let found = self.running(&inner, scope);
        if !scope.allow_stale && scope.partition.is_none() {
            if inner.assigned.len() < self.queries.threads {
                return Err(starting(&self.spec.name));
            }
            let running: BTreeSet<i32> = found.iter().map(|(partition, _)| *partition).collect();
            let assigned = self.assigned(&inner);
            if let Some(missing) = assigned.iter().find(|id| !running.contains(&id.partition)) {
                return Err(self.queries.absent(&inner, &self.spec.name, *missing));
            }
        }
        Ok(self.readers(self.check_some(&inner, scope, found)?))
    }

    fn check_absent(&self, scope: Scope, key: &[u8]) -> Result<()> {
        if scope.partition.is_some() || scope.allow_stale {
            return Ok(());
        }
        let inner = self.queries.read();
        let count = self.subtopology.and_then(|number| inner.partitions.get(&number));
        let Some(count) = count.filter(|count| **count > 0) else { return Ok(()) };
        let task = self.task(partition_for_key(key, *count));
        match inner.tasks.contains_key(&task) {
            true => Ok(()),
            false => Err(self.queries.absent(&inner, &self.spec.name, task)),
        }
    }
}

//! The stores of one task, and their part in a commit.
//!
//! A commit goes: flush the record caches (their changes move downstream, perhaps into other caches), log the writes, let Kafka
//! confirm them, then hand the write buffers to the engines in one atomic batch with the changelog offsets
//! (`task/commit.rs` tells the whole protocol).

use super::engine::{Backend, CommitBatch, DiskBackend, Engine, MemoryBackend};
use super::layers::{KeyValueLayers, LogMode, StoreBudget};
use super::restore_batch::RestoreBatch;
use super::spec::StoreSpec;
use crate::error::{Error, Result};
use crate::processor::TaskContext;
use crate::topology::erased::Fault;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

/// So many writes of a restore are loaded in bulk; fewer are a batch as those of a commit.
const BULK: usize = 10_000;

/// A write on its way to a changelog topic.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LogRecord<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) value: Option<&'a [u8]>,
    pub(crate) timestamp: i64,
}

/// The engines of a task: those on disk and those in memory. `Send`, so that they can be filled before the task is built.
pub(crate) struct TaskBackends {
    /// The directory of the stores on disk; opened when the first one is asked for.
    path: Option<PathBuf>,
    disk: Option<DiskBackend>,
    memory: MemoryBackend,
}

impl TaskBackends {
    /// For a task whose stores on disk live in `path`; without one all stores are in memory.
    pub(crate) fn new(path: Option<PathBuf>) -> Self {
        TaskBackends { path, disk: None, memory: MemoryBackend::default() }
    }

    fn backend(&mut self, spec: &StoreSpec) -> Result<&mut dyn Backend> {
        let Some(path) = self.path.as_ref().filter(|_| spec.persistent) else {
            return Ok(&mut self.memory);
        };
        if self.disk.is_none() {
            std::fs::create_dir_all(path).map_err(|error| {
                Error::state(format!("cannot make the directory {}", path.display()))
                    .with_source(error)
            })?;
            self.disk = Some(DiskBackend::open(path)?);
        }
        Ok(self.disk.as_mut().map_or(&mut self.memory, |disk| disk as &mut dyn Backend))
    }

    fn engine(&mut self, spec: &StoreSpec) -> Result<Box<dyn Engine>> {
        self.backend(spec)?.engine(&spec.name)
    }

    /// The offset after the last changelog record that the store holds, if it holds any.
    pub(crate) fn offset(&mut self, spec: &StoreSpec, changelog: &str) -> Result<Option<i64>> {
        Ok(self.backend(spec)?.offsets()?.get(changelog).copied())
    }

    /// Writes what was read from a changelog, and how far it was read. The offset goes last: after a crash before it the same
    /// records are read and written again, which changes nothing.
    pub(crate) fn restore(
        &mut self,
        spec: &StoreSpec,
        batch: &mut RestoreBatch,
        changelog: &Arc<str>,
        offset: i64,
    ) -> Result<()> {
        let (is_bulk, mut writes) = (batch.len() >= BULK, batch.drain());
        let backend = self.backend(spec)?;
        if is_bulk {
            backend.load(&spec.name, &mut writes)?;
        }
        let writes = vec![(spec.name.clone(), writes.collect())];
        let offsets = BTreeMap::from([(changelog.clone(), offset)]);
        backend.commit(CommitBatch { writes, offsets })
    }
}

struct Store {
    spec: StoreSpec,
    changelog: Option<Arc<str>>,
    layers: Rc<RefCell<KeyValueLayers>>,
}

/// All stores of one task.
pub(crate) struct StoreSet {
    application_id: Arc<str>,
    stores: Vec<Store>,
    backends: TaskBackends,
}

impl StoreSet {
    /// Opens the stores; `changelog` names each one's changelog topic, if it has one.
    pub(crate) fn open(
        application_id: &Arc<str>,
        specs: impl IntoIterator<Item = (StoreSpec, Option<Arc<str>>)>,
        mut backends: TaskBackends,
        log_mode: LogMode,
        budget: &StoreBudget,
    ) -> Result<Self> {
        let mut stores = Vec::new();
        for (spec, changelog) in specs {
            let engine = backends.engine(&spec)?;
            let layers = KeyValueLayers::new(&spec, engine, log_mode, budget)?;
            stores.push(Store { spec, changelog, layers: Rc::new(RefCell::new(layers)) });
        }
        Ok(StoreSet { application_id: application_id.clone(), stores, backends })
    }

    pub(crate) fn layers(&self, name: &str) -> Result<Rc<RefCell<KeyValueLayers>>> {
        let store = self.stores.iter().find(|store| *store.spec.name == *name);
        store
            .map(|store| store.layers.clone())
            .ok_or_else(|| Error::topology(format!("the task has no store {name}")))
    }

    /// The topic that a store's serdes are shown.
    pub(crate) fn serde_topic(&self, name: &str) -> Arc<str> {
        crate::topology::changelog_name(&self.application_id, name)
    }

    /// The changelog topics, by place of the store.
    pub(crate) fn changelogs(&self) -> impl Iterator<Item = Option<&Arc<str>>> {
        self.stores.iter().map(|store| store.changelog.as_ref())
    }

    /// Flushes the caches that are too large. Called between two records.
    pub(crate) fn relieve(&self, task: &TaskContext) -> Result<(), Fault> {
        if self.stores.iter().any(|store| store.layers.borrow_mut().is_cache_full()) {
            self.flush(task)?;
        }
        Ok(())
    }

    /// Flushes all caches: their changes go downstream, until none holds any.
    pub(crate) fn flush(&self, task: &TaskContext) -> Result<(), Fault> {
        while self.stores.iter().any(|store| store.layers.borrow().has_cached_changes()) {
            for store in &self.stores {
                let flushed = store.layers.borrow_mut().flush_cache();
                let flushed = flushed.map_err(|error| Fault::at(&store.spec.name, error))?;
                let Some(listener) = store.layers.borrow().listener.clone() else { continue };
                for change in flushed {
                    task.restore(&change.record);
                    listener(change)?;
                }
            }
        }
        Ok(())
    }

    /// Bytes that only a commit frees.
    pub(crate) fn uncommitted_bytes(&self) -> usize {
        self.stores.iter().map(|store| store.layers.borrow().uncommitted_bytes()).sum()
    }

    /// Gives the writes that have to be logged: the place of the store, and the record.
    pub(crate) fn drain_changelogs<E>(
        &self,
        mut append: impl FnMut(usize, LogRecord) -> Result<(), E>,
    ) -> Result<(), E> {
        for (place, store) in self.stores.iter().enumerate() {
            store.layers.borrow_mut().drain_changelog(|key, value, timestamp| {
                append(place, LogRecord { key, value, timestamp })
            })?;
        }
        Ok(())
    }

    /// Hands the writes since the last commit to the engines. `offsets` has, by place of the store, the offset after the last
    /// record that Kafka confirmed for its changelog; `None` where nothing new was logged.
    pub(crate) fn commit(&mut self, offsets: &[Option<i64>]) -> Result<()> {
        let (mut disk, mut memory) = (CommitBatch::default(), CommitBatch::default());
        for (store, offset) in self.stores.iter().zip(offsets) {
            let batch = if store.spec.persistent { &mut disk } else { &mut memory };
            let writes = store.layers.borrow_mut().take_writes();
            if !writes.is_empty() {
                batch.writes.push((store.spec.name.clone(), writes));
            }
            if let (Some(changelog), Some(offset)) = (&store.changelog, offset) {
                batch.offsets.insert(changelog.clone(), *offset);
            }
        }
        self.backends.memory.commit(memory)?;
        if disk.writes.is_empty() && disk.offsets.is_empty() {
            return Ok(());
        }
        match &mut self.backends.disk {
            Some(backend) => backend.commit(disk),
            None => self.backends.memory.commit(disk),
        }
    }

    /// Takes the engines back, without what was not committed.
    pub(crate) fn into_backends(self) -> TaskBackends {
        self.backends
    }
}

//! The stores of one task, and their part in a commit.
//!
//! A commit goes: flush the record caches (their changes move downstream, perhaps into other caches), log the writes, let Kafka
//! confirm them, then hand the write buffers to the engines in one atomic batch with the changelog offsets
//! (`task/commit.rs` tells the whole protocol).

use super::engine::{Backend, CommitBatch, DiskBackend, Engine, MemoryBackend};
use super::kind::StoreKind;
use super::layers::{
    ChangeBufferLayers, KeyValueLayers, LogRecord, StoreBudget, StoreClock, StoreLayers,
    StoreUsage, VersionedLayers, VersionedSettings, WindowLayers, WindowSettings,
};
use super::read_only::PartitionReader;
use super::restore_batch::RestoreBatch;
use super::spec::StoreSpec;
use crate::config::Compatibility;
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

/// Why a write of a store that goes by time counts as a dropped record.
pub(super) const TOO_LATE: &str = "it is too late for the store";

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
            self.disk = Some(DiskBackend::open(path)?);
        }
        Ok(self.disk.as_mut().map_or(&mut self.memory, |disk| disk as &mut dyn Backend))
    }

    pub(super) fn engine(&mut self, spec: &StoreSpec) -> Result<Box<dyn Engine>> {
        self.backend(spec)?.engine(&spec.name)
    }

    /// How far a store that goes by time had got at its last commit.
    pub(crate) fn clock(&mut self, spec: &StoreSpec) -> Result<StoreClock> {
        let marks = self.backend(spec)?.offsets()?;
        clock_of(&spec.name, |mark| Ok(marks.get(mark).copied()))
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
        clock: Option<StoreClock>,
    ) -> Result<()> {
        let (is_bulk, mut writes) = (batch.len() >= BULK, batch.drain());
        let backend = self.backend(spec)?;
        if is_bulk {
            backend.load(&spec.name, &mut writes)?;
        }
        let writes = vec![(spec.name.clone(), writes.collect())];
        let mut offsets = BTreeMap::from([(changelog.clone(), offset)]);
        if let Some(clock) = clock {
            offsets.extend(marked(&spec.name, clock));
        }
        backend.commit(CommitBatch { writes, offsets, ..CommitBatch::default() })
    }
}

/// The names under which a store's clock is kept beside the offsets. No topic has a slash in its name.
fn clock_marks(store: &str) -> [Arc<str>; 2] {
    [format!("{store}/observed").into(), format!("{store}/sequence").into()]
}

/// How far a store had got, from what is kept under its marks.
pub(super) fn clock_of(
    store: &str,
    kept: impl Fn(&str) -> Result<Option<i64>>,
) -> Result<StoreClock> {
    let [observed, sequence] = clock_marks(store);
    Ok(StoreClock {
        observed: kept(&observed)?.unwrap_or(StoreClock::NEW.observed),
        sequence: kept(&sequence)?.map_or(0, |sequence| sequence as u32),
    })
}

fn marked(store: &str, clock: StoreClock) -> [(Arc<str>, i64); 2] {
    let [observed, sequence] = clock_marks(store);
    [(observed, clock.observed), (sequence, i64::from(clock.sequence))]
}

struct Store {
    spec: StoreSpec,
    changelog: Option<Arc<str>>,
    layers: Layers,
    /// What was written last of its clock.
    clock: Option<StoreClock>,
}

/// The layers of a store, by its kind.
enum Layers {
    KeyValue(Rc<RefCell<KeyValueLayers>>),
    Window(Rc<RefCell<WindowLayers>>),
    Versioned(Rc<RefCell<VersionedLayers>>),
    ChangeBuffer(Rc<RefCell<ChangeBufferLayers>>),
}

impl Layers {
    fn open(
        spec: &StoreSpec,
        backends: &mut TaskBackends,
        compatibility: Compatibility,
        budget: &StoreBudget,
    ) -> Result<Self> {
        let engine = backends.engine(spec)?;
        if let Some(settings) = WindowSettings::of(spec, compatibility) {
            let clock = backends.clock(spec)?;
            let layers = WindowLayers::new(spec, settings, engine, clock, budget)?;
            return Ok(Layers::Window(Rc::new(RefCell::new(layers))));
        }
        if let Some(settings) = VersionedSettings::of(spec, compatibility) {
            let (clock, cache) = (backends.clock(spec)?, budget.read_cache.clone());
            let layers = VersionedLayers::new(spec, settings, engine, clock, cache)?;
            return Ok(Layers::Versioned(Rc::new(RefCell::new(layers))));
        }
        if spec.kind == StoreKind::ChangeBuffer {
            let layers = ChangeBufferLayers::new(spec, &*engine)?;
            return Ok(Layers::ChangeBuffer(Rc::new(RefCell::new(layers))));
        }
        let layers = KeyValueLayers::new(spec, engine, compatibility.log_mode(), budget)?;
        Ok(Layers::KeyValue(Rc::new(RefCell::new(layers))))
    }

    fn with<T>(&self, ask: impl FnOnce(&mut dyn StoreLayers) -> T) -> T {
        match self {
            Layers::KeyValue(layers) => ask(&mut *layers.borrow_mut()),
            Layers::Window(layers) => ask(&mut *layers.borrow_mut()),
            Layers::Versioned(layers) => ask(&mut *layers.borrow_mut()),
            Layers::ChangeBuffer(layers) => ask(&mut *layers.borrow_mut()),
        }
    }
}

/// All stores of one task.
pub(crate) struct StoreSet {
    application_id: Arc<str>,
    stores: Vec<Store>,
    backends: TaskBackends,
    compatibility: Compatibility,
}

impl StoreSet {
    /// Opens the stores; `changelog` names each one's changelog topic, if it has one.
    pub(crate) fn open(
        application_id: &Arc<str>,
        specs: impl IntoIterator<Item = (StoreSpec, Option<Arc<str>>)>,
        mut backends: TaskBackends,
        compatibility: Compatibility,
        budget: &StoreBudget,
    ) -> Result<Self> {
        let mut stores = Vec::new();
        for (spec, changelog) in specs {
            let layers = Layers::open(&spec, &mut backends, compatibility, budget)?;
            stores.push(Store { spec, changelog, layers, clock: None });
        }
        Ok(StoreSet { application_id: application_id.clone(), stores, backends, compatibility })
    }

    fn find(&self, name: &str) -> Option<&Store> {
        self.stores.iter().find(|store| *store.spec.name == *name)
    }

    /// The name of the store at a place.
    pub(crate) fn name(&self, place: usize) -> &str {
        self.stores.get(place).map_or("", |store| &store.spec.name)
    }

    /// Whether the task has that store.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    /// Refuses a token that is not that of its store.
    pub(crate) fn check_token(&self, asked: &StoreSpec) -> Result<()> {
        self.find(&asked.name).map_or(Ok(()), |store| store.spec.check_token(asked))
    }

    fn layers<T>(&self, name: &str, pick: impl FnOnce(&Layers) -> Option<T>) -> Result<T> {
        let missing = || Error::topology(format!("the task has no store {name}"));
        let layers = &self.find(name).ok_or_else(missing)?.layers;
        pick(layers).ok_or_else(|| Error::topology(format!("store {name} is of another kind")))
    }

    pub(crate) fn key_value(&self, name: &str) -> Result<Rc<RefCell<KeyValueLayers>>> {
        self.layers(name, |layers| match layers {
            Layers::KeyValue(layers) => Some(layers.clone()),
            _ => None,
        })
    }

    pub(crate) fn windows(&self, name: &str) -> Result<Rc<RefCell<WindowLayers>>> {
        self.layers(name, |layers| match layers {
            Layers::Window(layers) => Some(layers.clone()),
            _ => None,
        })
    }

    pub(crate) fn change_buffer(&self, name: &str) -> Result<Rc<RefCell<ChangeBufferLayers>>> {
        self.layers(name, |layers| match layers {
            Layers::ChangeBuffer(layers) => Some(layers.clone()),
            _ => None,
        })
    }

    pub(crate) fn versioned(&self, name: &str) -> Result<Rc<RefCell<VersionedLayers>>> {
        self.layers(name, |layers| match layers {
            Layers::Versioned(layers) => Some(layers.clone()),
            _ => None,
        })
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
        if self.stores.iter().any(|store| store.layers.with(|layers| layers.is_cache_full())) {
            self.flush(task)?;
        }
        Ok(())
    }

    /// Flushes all caches: their changes go downstream, until none holds any.
    pub(crate) fn flush(&self, task: &TaskContext) -> Result<(), Fault> {
        while self.stores.iter().any(|store| store.layers.with(|l| l.has_cached_changes())) {
            for store in &self.stores {
                let flushed = store.layers.with(|layers| layers.flush_cache());
                let flushed = flushed.map_err(|error| Fault::at(&store.spec.name, error))?;
                for _ in 0..store.layers.with(|layers| layers.take_expired()) {
                    task.drop_record(&store.spec.name, TOO_LATE);
                }
                let Some(listener) = store.layers.with(|layers| layers.listener()) else {
                    continue;
                };
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
        self.stores.iter().map(|store| store.layers.with(|l| l.uncommitted_bytes())).sum()
    }

    /// Gives the writes that have to be logged: the place of the store, and the record.
    pub(crate) fn drain_changelogs(
        &self,
        mut append: impl FnMut(usize, LogRecord) -> Result<()>,
    ) -> Result<()> {
        for (place, store) in self.stores.iter().enumerate() {
            store
                .layers
                .with(|layers| layers.drain_changelog(&mut |record| append(place, record)))?;
        }
        Ok(())
    }

    /// Hands the writes since the last commit to the engines. `offsets` has, by place of the store, the offset after the last
    /// record that Kafka confirmed for its changelog; `None` where nothing new was logged.
    pub(crate) fn commit(&mut self, offsets: &[Option<i64>]) -> Result<()> {
        let (mut disk, mut memory) = (CommitBatch::default(), CommitBatch::default());
        for (store, offset) in self.stores.iter_mut().zip(offsets) {
            let batch = if store.spec.persistent { &mut disk } else { &mut memory };
            let taken = store.layers.with(|layers| layers.take_writes());
            let name = &store.spec.name;
            if !taken.writes.is_empty() {
                batch.writes.push((name.clone(), taken.writes));
            }
            if let Some(end) = taken.expired {
                batch.expired.push((name.clone(), end));
            }
            if let (Some(changelog), Some(offset)) = (&store.changelog, offset) {
                batch.offsets.insert(changelog.clone(), *offset);
            }
            if let Some(clock) = taken.clock
                && store.clock != Some(clock)
            {
                store.clock = Some(clock);
                batch.offsets.extend(marked(name, clock));
            }
        }
        self.backends.memory.commit(memory)?;
        if disk.is_empty() {
            return Ok(());
        }
        match &mut self.backends.disk {
            Some(backend) => backend.commit(disk),
            None => self.backends.memory.commit(disk),
        }
    }

    /// How much each store is used.
    pub(crate) fn usage(&self) -> impl Iterator<Item = (&Arc<str>, StoreUsage)> {
        self.stores.iter().map(|store| (&store.spec.name, store.layers.with(|l| l.usage())))
    }

    /// What other threads may read of the stores, by name.
    pub(crate) fn readers(&mut self) -> Result<Vec<(Arc<str>, PartitionReader)>> {
        let StoreSet { stores, backends, compatibility, .. } = self;
        let reader = |store: &Store| {
            let committed = backends.backend(&store.spec)?.committed_store(&store.spec.name)?;
            let (spec, compatibility) = (Arc::new(store.spec.clone()), *compatibility);
            Ok((store.spec.name.clone(), PartitionReader { spec, committed, compatibility }))
        };
        stores.iter().map(reader).collect()
    }

    /// Takes the engines back, without what was not committed.
    pub(crate) fn into_backends(self) -> TaskBackends {
        self.backends
    }
}

//! Stores from the typed handle down to the engine: in memory and on disk, over commits, restarts and restores.

mod answers;
mod join_list;
mod model;
mod read_only;
mod session;
mod versioned;
mod window;

use super::engine::Direction;
use super::layers::{Budget, LogRecord, StoreBudget};
use super::restore_batch::{RestoreBatch, Restored};
use super::spec::{StoreToken, StoreType};
use super::store_set::{StoreSet, TaskBackends};
use crate::config::{Compatibility, OperatorRules, StreamsConfig};
use crate::handlers::ErrorPolicy;
use crate::processor::{Elapsed, InitContext, TaskContext, TaskId};
use crate::topology::erased::Fault;
use std::ops::Bound;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use tempfile::TempDir;

const CHANGELOG: &str = "app-s-changelog";

/// A record of the changelog.
type Logged = (Vec<u8>, Option<Vec<u8>>, i64);

/// One store of one task, and the steps of a commit.
struct Bench<S: StoreType> {
    token: StoreToken<S>,
    dir: Option<TempDir>,
    budget: StoreBudget,
    task: Rc<TaskContext>,
    /// Whose rules of expiry.
    compatibility: Compatibility,
    set: Option<StoreSet>,
    store: Option<S>,
    offset: i64,
}

impl<S: StoreType> Bench<S> {
    /// A store in memory or on disk, as the token says.
    fn open(token: StoreToken<S>) -> Self {
        Bench::with_cache_of(token, 0, 1 << 20)
    }

    /// The same by the right rules, not Java's.
    fn correct(token: StoreToken<S>, record_cache: usize, read_cache: usize) -> Self {
        let mut bench = Bench::with_cache_of(token, record_cache, read_cache);
        bench.compatibility = Compatibility::Correct;
        bench.restart();
        bench
    }

    fn with_cache_of(token: StoreToken<S>, record_cache: usize, read_cache: usize) -> Self {
        let dir = token.spec.persistent.then(|| tempfile::tempdir().expect("a directory"));
        let budget = StoreBudget {
            record_cache: Budget::new(record_cache),
            read_cache: Budget::new(read_cache),
        };
        let id = TaskId { subtopology: 0, partition: 0 };
        let settings = StreamsConfig::new("app", "unused:1").resolve().expect("settings");
        let task = TaskContext::new(
            settings.application,
            id,
            OperatorRules::CORRECT,
            Arc::default(),
            Elapsed::none(),
            ErrorPolicy::default(),
        );
        let task = Rc::new(task);
        let compatibility = Compatibility::Java44;
        let mut bench =
            Bench { token, dir, budget, task, compatibility, set: None, store: None, offset: 0 };
        let backends = TaskBackends::new(bench.path());
        bench.reopen(backends);
        bench
    }

    fn path(&self) -> Option<PathBuf> {
        Some(self.dir.as_ref()?.path().join("kstreams"))
    }

    fn reopen(&mut self, backends: TaskBackends) {
        let changelog = self.token.spec.logging.as_ref().map(|_| Arc::from(CHANGELOG));
        let spec = (self.token.spec.clone(), changelog);
        let set = StoreSet::open(&"app".into(), [spec], backends, self.compatibility, &self.budget);
        let set = set.expect("opens");
        let connected = [self.token.spec.name.clone()];
        let context =
            InitContext { task: &self.task, stores: &set, node: "test", connected: &connected };
        self.store = Some(context.store(&self.token).expect("a store"));
        self.set = Some(set);
    }

    fn store(&self) -> &S {
        self.store.as_ref().expect("open")
    }

    /// The time of the record in hand.
    fn at(&self, timestamp: i64) -> &S {
        self.task.enter_record(timestamp, timestamp);
        self.store()
    }

    /// What was logged.
    fn commit(&mut self) -> Vec<Logged> {
        let set = self.set.as_mut().expect("open");
        set.flush(&self.task).map_err(Fault::into_error).expect("flushes");
        let mut logged = Vec::new();
        let drained = set.drain_changelogs(|_, LogRecord { key, value, timestamp, .. }| {
            logged.push((key.to_vec(), value.map(<[u8]>::to_vec), timestamp));
            Ok(())
        });
        drained.expect("logs");
        self.offset += logged.len() as i64;
        set.commit(&[Some(self.offset)]).expect("commits");
        logged
    }

    /// What was not committed is lost.
    fn restart(&mut self) {
        self.store = None;
        let backends = self.set.take().expect("open").into_backends();
        let backends = match self.path() {
            Some(path) => {
                drop(backends);
                TaskBackends::new(Some(path))
            }
            None => backends,
        };
        self.reopen(backends);
    }

    /// Starts anew with nothing but the changelog.
    fn restored(token: StoreToken<S>, log: &[Logged]) -> Self {
        let mut bench = Bench::open(token);
        bench.store = None;
        drop(bench.set.take());
        let mut backends = TaskBackends::new(bench.path());
        let spec = bench.token.spec;
        // In two parts, as after a restore that was interrupted.
        let (one, two) = log.split_at(log.len() / 2);
        let mut offset = 0;
        for part in [one, two] {
            let mut restored = Restored::begin(spec, &mut backends).expect("begins");
            let mut batch = RestoreBatch::new(bench.budget.read_cache.clone());
            for (key, value, timestamp) in part {
                let origin = || unreachable!("only suppression buffers ask");
                let value = value.as_deref();
                let taken = restored.take(&mut batch, key, value, *timestamp, origin);
                taken.expect("takes");
                offset += 1;
            }
            let (changelog, clock) = (CHANGELOG.into(), restored.clock());
            let done = backends.restore(spec, &mut batch, &changelog, offset, clock);
            done.expect("restores");
        }
        bench.offset = offset;
        bench.reopen(backends);
        bench
    }

    /// How many rows the engine has, expired ones too.
    fn rows(&mut self) -> usize {
        self.store = None;
        let mut backends = self.set.take().expect("open").into_backends();
        let engine = backends.engine(self.token.spec).expect("an engine");
        let rows = engine.range(&(Bound::Unbounded, Bound::Unbounded), Direction::Forward);
        let count = rows.expect("rows").count();
        drop(engine);
        self.reopen(backends);
        count
    }

    fn dropped(&self) -> u64 {
        self.task.dropped()
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// `key=value@time` in the order of logging, keys in hex.
fn log_text(log: &[Logged]) -> String {
    let text = |(key, value, timestamp): &Logged| {
        let value = value.as_ref().map_or("-".into(), |value| String::from_utf8_lossy(value));
        format!("{}={value}@{timestamp}", hex(key))
    };
    log.iter().map(text).collect::<Vec<_>>().join(" ")
}

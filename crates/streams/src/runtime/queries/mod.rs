//! Queries: what other threads may ask of the stores of this instance, and where the rest is.
//!
//! Stream threads tell the registry which tasks they have, what runs, and how far it is committed; handles ask it each time they are
//! used. Its lock is held for a look-up or an entry, never while a store is read.

mod handle;
mod metadata;
mod position;
mod request;
mod source;

pub use self::metadata::{HostInfo, KeyOwner, StreamsMetadata, TaskMetadata, ThreadMetadata};
pub use self::position::Position;
pub use self::request::{
    FailureReason, InStore, KeyQuery, MultiVersionedKeyQuery, PartitionResult, RangeQuery,
    StateQuery, StateQueryRequest, StateQueryResult, VersionedKeyQuery, WindowKeyQuery,
    WindowRangeQuery,
};
pub(super) use self::source::LocalStores;

use crate::error::{Error, ErrorKind, Result};
use crate::processor::TaskId;
use crate::runtime::TaskWaiting;
use crate::state::{PartitionReader, StoreSpec, StoreUsage};
use crate::topology::Topology;
use kstreams_client::{CommittedOffset, EndpointPartitions, TopicPartition};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// What stream threads and queries know together.
pub(super) struct Queries {
    topology: Topology,
    application_id: Arc<str>,
    threads: usize,
    inner: RwLock<Inner>,
}

#[derive(Default)]
struct Inner {
    /// The tasks that run.
    tasks: BTreeMap<TaskId, Arc<LocalTask>>,
    /// What each thread was assigned last, run or not.
    assigned: BTreeMap<usize, Assigned>,
    /// How many partitions each sub-topology has.
    partitions: BTreeMap<u32, i32>,
    /// Who has which input partitions, of those that tell where they can be asked.
    hosts: Vec<EndpointPartitions>,
    /// Whether a thread has run all its tasks before.
    has_run: bool,
}

#[derive(Default)]
struct Assigned {
    thread: String,
    tasks: BTreeSet<TaskId>,
}

/// A task that runs here.
struct LocalTask {
    stores: BTreeMap<Arc<str>, PartitionReader>,
    status: Mutex<TaskStatus>,
}

/// How a task is doing.
#[derive(Default)]
struct TaskStatus {
    /// How far it is committed.
    position: Position,
    waiting: Option<TaskWaiting>,
    /// How much its stores were used, at the last commit.
    usage: BTreeMap<Arc<str>, StoreUsage>,
}

impl LocalTask {
    fn status(&self) -> MutexGuard<'_, TaskStatus> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn position(&self) -> Position {
        self.status().position.clone()
    }
}

/// A running task in the registry; it ends with this.
pub(super) struct Registered {
    queries: Arc<Queries>,
    id: TaskId,
    task: Arc<LocalTask>,
}

impl Registered {
    /// The task waits, or does so no longer.
    pub(super) fn waits(&self, waiting: Option<TaskWaiting>) {
        self.task.status().waiting = waiting;
    }

    /// How much the stores are used by now.
    pub(super) fn used<'a>(&self, stores: impl Iterator<Item = (&'a Arc<str>, StoreUsage)>) {
        let usage = &mut self.task.status().usage;
        for (store, used) in stores {
            match usage.get_mut(store) {
                Some(known) => *known = used,
                None => drop(usage.insert(store.clone(), used)),
            }
        }
    }

    /// The stores hold what these inputs led to, up to the committed offsets.
    pub(super) fn committed(&self, offsets: &BTreeMap<TopicPartition, CommittedOffset>) {
        let position = &mut self.task.status().position;
        for (input, committed) in offsets {
            if position.has(input) {
                position.reach(&input.topic, input.partition, committed.offset - 1);
            }
        }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        let mut inner = self.queries.write();
        // The same task may run on another thread by now.
        if inner.tasks.get(&self.id).is_some_and(|task| Arc::ptr_eq(task, &self.task)) {
            inner.tasks.remove(&self.id);
        }
    }
}

impl Queries {
    pub(super) fn new(topology: Topology, application_id: Arc<str>, threads: usize) -> Arc<Self> {
        Arc::new(Queries { topology, application_id, threads, inner: RwLock::default() })
    }

    fn read(&self) -> RwLockReadGuard<'_, Inner> {
        self.inner.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Inner> {
        self.inner.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// A thread has these tasks now, and gives up or opens what that takes.
    pub(super) fn assigned(
        &self,
        index: usize,
        thread: &str,
        tasks: BTreeSet<TaskId>,
        partitions: impl Fn(&str) -> Option<i32>,
    ) {
        let numbers = self.topology.graph().with_tasks();
        let counts: Vec<_> =
            numbers.filter_map(|number| Some((number, self.count(number, &partitions)?))).collect();
        let mut inner = self.write();
        inner.partitions.extend(counts);
        inner.assigned.insert(index, Assigned { thread: thread.into(), tasks });
    }

    /// How many partitions a sub-topology has, as far as that is known.
    fn count(&self, subtopology: u32, partitions: impl Fn(&str) -> Option<i32>) -> Option<i32> {
        self.topics(subtopology).iter().filter_map(|topic| partitions(topic)).max()
    }

    /// A task of a sub-topology knows its topics: at the time of the assignment the client may not have heard of them.
    pub(super) fn learn_count(&self, subtopology: u32, partitions: impl Fn(&str) -> Option<i32>) {
        if let Some(count) = self.count(subtopology, partitions)
            && self.read().partitions.get(&subtopology) != Some(&count)
        {
            self.write().partitions.insert(subtopology, count);
        }
    }

    /// A thread runs all its tasks.
    pub(super) fn runs(&self) {
        if !self.read().has_run {
            self.write().has_run = true;
        }
    }

    pub(super) fn learn_hosts(&self, hosts: Vec<EndpointPartitions>) {
        self.write().hosts = hosts;
    }

    /// A task runs. Its inputs are processed up to these offsets.
    pub(super) fn register(
        self: &Arc<Self>,
        id: TaskId,
        stores: Vec<(Arc<str>, PartitionReader)>,
        inputs: impl Iterator<Item = (TopicPartition, Option<i64>)>,
    ) -> Registered {
        let mut position = Position::new();
        for (input, offset) in inputs {
            position.reach(&input.topic, input.partition, offset.unwrap_or(0) - 1);
        }
        let stores = stores.into_iter().collect();
        let status = Mutex::new(TaskStatus { position, ..TaskStatus::default() });
        let task = Arc::new(LocalTask { stores, status });
        self.write().tasks.insert(id, task.clone());
        Registered { queries: self.clone(), id, task }
    }

    /// The description of a store and the sub-topology that it belongs to.
    fn find(&self, store: &str) -> Option<(&StoreSpec, u32)> {
        let graph = self.topology.graph();
        let spec = graph.stores.iter().find(|spec| *spec.name == *store)?;
        let owner = graph.with_tasks().find(|number| graph.stores_of(*number).contains(&spec.name));
        Some((spec, owner?))
    }

    /// What a store is called otherwise, for who misspelled it.
    fn unknown(&self, store: &str) -> Error {
        let graph = self.topology.graph();
        let names = graph.stores.iter().map(|spec| &*spec.name);
        let names: Vec<&str> = names.chain(graph.globals.iter().map(|spec| &*spec.name)).collect();
        let known = match names.is_empty() {
            true => "it has no stores".to_string(),
            false => format!("it has {}", names.join(", ")),
        };
        let message = format!("the topology has no store {store}: {known}");
        Error::new(ErrorKind::UnknownStore, message)
    }

    /// The source topics of a sub-topology on the cluster.
    fn topics(&self, subtopology: u32) -> BTreeSet<Arc<str>> {
        let graph = self.topology.graph();
        let topics = graph.source_topics(subtopology);
        topics.iter().map(|topic| graph.topic_name(&self.application_id, topic)).collect()
    }

    /// Who says that it has a partition of a sub-topology.
    fn host(&self, inner: &Inner, task: TaskId) -> Option<HostInfo> {
        let topics = self.topics(task.subtopology);
        let has = |host: &&EndpointPartitions| {
            host.active
                .iter()
                .any(|input| input.partition == task.partition && topics.contains(&*input.topic))
        };
        inner.hosts.iter().find(has).map(HostInfo::of)
    }

    /// Why a task of this application cannot be asked here.
    fn absent(&self, inner: &Inner, store: &str, task: TaskId) -> Error {
        let partition = task.partition;
        let count = inner.partitions.get(&task.subtopology);
        if partition < 0 || count.is_some_and(|count| partition >= *count) {
            return no_partition(store, partition);
        }
        let is_assigned = inner.assigned.values().any(|thread| thread.tasks.contains(&task));
        if inner.assigned.len() < self.threads || (is_assigned && !inner.has_run) {
            return starting(store);
        }
        if is_assigned {
            let message = format!(
                "partition {partition} of store {store} is being moved or restored here: try again in a moment, or allow stale reads"
            );
            return Error::new(ErrorKind::Rebalancing, message);
        }
        let whose = match self.host(inner, task) {
            Some(host) => format!("it is at {host}: ask there"),
            None => "another instance has it, or will have it in a moment; instances tell where they are once \
                     application.server is set"
                .to_string(),
        };
        let message =
            format!("partition {partition} of store {store} is not on this instance: {whose}");
        Error::new(ErrorKind::Moved, message)
    }
}

fn no_partition(store: &str, partition: i32) -> Error {
    Error::new(ErrorKind::UnknownStore, format!("store {store} has no partition {partition}"))
}

fn starting(store: &str) -> Error {
    let message = format!(
        "store {store} is not ready, the application starts: wait until its state is Running (KafkaStreams::wait_for)"
    );
    Error::new(ErrorKind::Starting, message)
}

fn stopped(store: &str) -> Error {
    let message = format!("store {store} cannot be read any more: the application is closed");
    Error::new(ErrorKind::Stopped, message)
}

type Located = Result<Vec<(i32, Arc<LocalTask>)>>;

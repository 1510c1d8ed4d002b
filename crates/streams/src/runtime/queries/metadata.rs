//! Who has what: the owner of a key, the instances of the application, the threads of this one.

use super::{Inner, LocalStores, Position, Queries, no_partition, starting};
use crate::error::Result;
use crate::processor::TaskId;
use crate::runtime::TaskWaiting;
use crate::runtime::lifecycle::State;
use crate::state::StoreUsage;
use crate::task::partition_for_key;
use kstreams_client::{EndpointPartitions, TopicPartition};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Where an instance can be asked: its `application.server`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostInfo {
    /// The host's name or address.
    pub host: String,
    /// Its port.
    pub port: u16,
}

impl HostInfo {
    pub(super) fn of(endpoint: &EndpointPartitions) -> Self {
        HostInfo { host: endpoint.host.clone(), port: endpoint.port }
    }
}

impl fmt::Display for HostInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // An IPv6 address has colons of its own.
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

/// Which instance has a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyOwner {
    /// The partition of the key.
    pub partition: i32,
    /// Whether it is this instance.
    pub is_local: bool,
    /// Where to ask; `None`: the owner does not set `application.server`, or nobody has the partition right now.
    pub host: Option<HostInfo>,
}

/// An instance of the application, as it told the group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamsMetadata {
    /// Where it can be asked.
    pub host: HostInfo,
    /// The stores of which it has a partition.
    pub stores: BTreeSet<String>,
    /// The input partitions that it processes: topic and partition.
    pub active: BTreeSet<(String, i32)>,
    /// The stores of which it has a standby copy.
    pub standby_stores: BTreeSet<String>,
    /// The input partitions behind its standby copies.
    pub standby: BTreeSet<(String, i32)>,
}

/// A stream thread of this instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadMetadata {
    /// Its name.
    pub name: String,
    /// The tasks that it was assigned last.
    pub tasks: Vec<TaskMetadata>,
}

/// A task of this instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskMetadata {
    /// Which one.
    pub id: TaskId,
    /// Whether it processes; else it is being opened or restored.
    pub is_running: bool,
    /// How far it is committed.
    pub committed: Position,
    /// Why it does not process the records that it has, if that is so.
    pub waiting: Option<TaskWaiting>,
    /// Its stores, and how much they were used up to the last commit.
    pub stores: BTreeMap<String, StoreUsage>,
}

impl Queries {
    /// The instances that tell where they are.
    pub(in crate::runtime) fn all_metadata(&self) -> Vec<StreamsMetadata> {
        let graph = self.topology.graph();
        let stores_by_topic: Vec<(BTreeSet<_>, Vec<String>)> = graph
            .with_tasks()
            .map(|number| {
                let stores = graph.stores_of(number).into_iter().map(ToString::to_string);
                (self.topics(number), stores.collect())
            })
            .collect();
        let stores = |inputs: &[TopicPartition]| {
            let reads = |topics: &BTreeSet<_>| inputs.iter().any(|i| topics.contains(&i.topic));
            let owned = stores_by_topic.iter().filter(|(topics, _)| reads(topics));
            owned.flat_map(|(_, stores)| stores.iter().cloned()).collect::<BTreeSet<_>>()
        };
        let mut by_host: BTreeMap<HostInfo, StreamsMetadata> = BTreeMap::new();
        for endpoint in &self.read().hosts {
            // Each thread of an instance tells of its own tasks.
            let host = HostInfo::of(endpoint);
            let known = by_host.entry(host.clone()).or_insert_with(|| StreamsMetadata {
                host,
                stores: BTreeSet::new(),
                active: BTreeSet::new(),
                standby_stores: BTreeSet::new(),
                standby: BTreeSet::new(),
            });
            known.stores.extend(stores(&endpoint.active));
            known.active.extend(endpoint.active.iter().map(input));
            known.standby_stores.extend(stores(&endpoint.standby));
            known.standby.extend(endpoint.standby.iter().map(input));
        }
        by_host.into_values().collect()
    }

    /// The threads of this instance that have joined the group.
    pub(in crate::runtime) fn threads(&self) -> Vec<ThreadMetadata> {
        let inner = self.read();
        let task = |id: &TaskId| {
            let (mut committed, mut waiting, mut stores) = (Position::new(), None, BTreeMap::new());
            let task = inner.tasks.get(id);
            if let Some(task) = task {
                let status = task.status();
                (committed, waiting) = (status.position.clone(), status.waiting.clone());
                let usage = status.usage.iter().map(|(name, usage)| (name.to_string(), *usage));
                stores.extend(usage);
            }
            TaskMetadata { id: *id, is_running: task.is_some(), committed, waiting, stores }
        };
        let threads = inner.assigned.values().map(|assigned| ThreadMetadata {
            name: assigned.thread.clone(),
            tasks: assigned.tasks.iter().map(task).collect(),
        });
        threads.collect()
    }

    fn owner(&self, inner: &Inner, task: TaskId) -> KeyOwner {
        let is_local = inner.assigned.values().any(|thread| thread.tasks.contains(&task));
        KeyOwner { partition: task.partition, is_local, host: self.host(inner, task) }
    }
}

fn input(input: &TopicPartition) -> (String, i32) {
    (input.topic.to_string(), input.partition)
}

impl LocalStores {
    /// Who has the partition that Java's default partitioner gives a key.
    pub(in crate::runtime) fn key_owner(&self, key: &[u8]) -> Result<KeyOwner> {
        self.check_open()?;
        let inner = self.queries.read();
        let count = self.subtopology.and_then(|number| inner.partitions.get(&number).copied());
        match count {
            Some(count) if count > 0 => {
                Ok(self.queries.owner(&inner, self.task(partition_for_key(key, count))))
            }
            // A global table is everywhere.
            None if self.subtopology.is_none() => {
                Ok(KeyOwner { partition: 0, is_local: true, host: None })
            }
            _ => Err(starting(&self.spec.name)),
        }
    }

    /// Who has a partition.
    pub(in crate::runtime) fn partition_owner(&self, partition: i32) -> Result<KeyOwner> {
        self.check_open()?;
        let inner = self.queries.read();
        let has_started = self.shared.state() == State::Running || inner.has_run;
        if !has_started {
            return Err(starting(&self.spec.name));
        }
        let count = self.subtopology.and_then(|number| inner.partitions.get(&number));
        if partition < 0 || count.is_some_and(|count| partition >= *count) {
            return Err(no_partition(&self.spec.name, partition));
        }
        Ok(self.queries.owner(&inner, self.task(partition)))
    }
}

//! Runs the tasks of a topology and carries records between them.

mod builder;
mod start;

pub use self::builder::TopologyTestDriverBuilder;
pub use self::start::LocalState;

use super::cluster::Cluster;
use super::collector::{ProducedRecord, Recorder};
use super::topics::{TestInputTopic, TestOutputTopic};
use crate::config::{Settings, StreamsConfig};
use crate::error::{Error, ErrorKind, Result};
use crate::processor::{InitContext, TaskContext, TaskId};
use crate::record::Headers;
use crate::serde::{DefaultSerde, SerdeRef};
use crate::state::{GlobalRecord, StoreSet, StoreToken, StoreType, TaskBackends};
use crate::task::{StreamTask, TaskPlan, send_dead_letter};
use crate::topology::Topology;
use bytes::Bytes;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

/// Records that one may lead to, before the driver takes it for a circle.
const RECORDS_MAX: usize = 100_000;

/// Drives a topology record by record, on real tasks: each record is processed, committed, and its results are there when the call
/// returns. [`Self::builder`] changes that: several partitions, commits by hand, settings, a clock that begins elsewhere.
///
/// Stores are in memory unless the settings have a `state.dir`.
///
/// ```
/// use kstreams::prelude::*;
///
/// let builder = StreamsBuilder::new();
/// let words = builder.stream("words", Consumed::<(), String>::new());
/// words.map_values(|word| word.to_uppercase()).to("loud", Produced::<(), String>::new());
///
/// let mut driver = TopologyTestDriver::new(builder.build()?)?;
/// let mut words = driver.input::<(), String>("words");
/// let mut loud = driver.output::<(), String>("loud");
/// words.pipe_at(&mut driver, 0, "hey")?;
/// assert_eq!(loud.read_values(&mut driver)?, ["HEY"]);
/// # Ok::<(), kstreams::Error>(())
/// ```
pub struct TopologyTestDriver {
    settings: Settings,
    plan: TaskPlan,
    tasks: Vec<StreamTask>,
    /// The tasks of global stores' processors.
    global_tasks: Vec<StreamTask>,
    recorder: Rc<RefCell<Recorder>>,
    cluster: Rc<RefCell<Cluster>>,
    has_directory: bool,
    commits_by_hand: bool,
    wall_clock: i64,
    /// Committed records that nobody was given yet.
    published: VecDeque<ProducedRecord>,
    /// Records that the test has not read.
    pub(super) outputs: BTreeMap<String, VecDeque<ProducedRecord>>,
}

impl TopologyTestDriver {
    /// Drives a topology with default settings.
    ///
    /// # Errors
    /// When the topology cannot be run; the text names the node.
    pub fn new(topology: Topology) -> Result<Self> {
        TopologyTestDriver::builder(topology).build()
    }

    /// Drives a topology with these settings. Caches are flushed after each record, as at a commit.
    ///
    /// # Errors
    /// When the settings are wrong or the topology cannot be run.
    pub fn with_config(topology: Topology, config: &StreamsConfig) -> Result<Self> {
        TopologyTestDriver::builder(topology).config(config).build()
    }

    /// Drives a topology as the builder is told.
    pub fn builder(topology: Topology) -> TopologyTestDriverBuilder {
        TopologyTestDriverBuilder::new(topology)
    }

    /// An input topic with the types' own serdes.
    pub fn input<K: DefaultSerde, V: DefaultSerde>(&self, topic: &str) -> TestInputTopic<K, V> {
        self.input_with(topic, K::default_serde(), V::default_serde())
    }

    /// An input topic with these serdes.
    pub fn input_with<K: 'static, V: 'static>(
        &self,
        topic: &str,
        key: SerdeRef<K>,
        value: SerdeRef<V>,
    ) -> TestInputTopic<K, V> {
        TestInputTopic::new(topic, key, value)
    }

    /// An output topic with the types' own serdes.
    pub fn output<K: DefaultSerde, V: DefaultSerde>(&self, topic: &str) -> TestOutputTopic<K, V> {
        self.output_with(topic, K::default_serde(), V::default_serde())
    }

    /// An output topic with these serdes.
    pub fn output_with<K: 'static, V: 'static>(
        &self,
        topic: &str,
        key: SerdeRef<K>,
        value: SerdeRef<V>,
    ) -> TestOutputTopic<K, V> {
        TestOutputTopic::new(topic, key, value)
    }

    /// Turns the wall clock; punctuators that are due run, and what follows from them.
    ///
    /// # Errors
    /// What a punctuator that is due reports.
    pub fn advance_wall_clock(&mut self, by: Duration) -> Result<()> {
        self.wall_clock += by.as_millis() as i64;
        let done = self.punctuate().and_then(|()| self.run());
        done.inspect_err(|_| self.keep_dead_letters())
    }

    /// The topics that something was written to, internal ones included, in the order of their names.
    pub fn produced_topics(&self) -> impl Iterator<Item = &str> {
        self.outputs.keys().map(String::as_str)
    }

    /// Takes all records of a topic that were not read yet, in bytes.
    pub fn take_records(&mut self, topic: &str) -> Vec<ProducedRecord> {
        self.outputs.get_mut(topic).map(|records| records.drain(..).collect()).unwrap_or_default()
    }

    /// How many records the operators have left out so far.
    pub fn dropped_records(&self) -> u64 {
        let tasks = self.tasks.iter().chain(&self.global_tasks);
        tasks.map(|task| task.context().dropped()).sum()
    }

    /// A store, to read or to prepare: the one that the topology uses, with what is not committed yet. A token made here again, of the
    /// same name and types, does as well as the one that the topology was given; the store of a table or an aggregation is a
    /// [`Stores::timestamped_key_value`](crate::state::Stores::timestamped_key_value) of its name. With several partitions it is the
    /// first one's: see [`Self::store_in`].
    ///
    /// ```
    /// use kstreams::prelude::*;
    ///
    /// let builder = StreamsBuilder::new();
    /// let words = builder.stream("words", Consumed::<String, String>::new());
    /// let _ = words.group_by_key(Grouped::new()).count(Materialized::named("counts"));
    /// let mut driver = TopologyTestDriver::new(builder.build()?)?;
    /// driver.input::<String, String>("words").pipe_key_value_at(&mut driver, 7, "a", "x")?;
    /// let counts = driver.store(&Stores::timestamped_key_value::<String, i64>("counts"))?;
    /// assert_eq!(counts.get(&"a".to_string())?, Some((1, 7)));
    /// assert_eq!(driver.store_names(), ["counts"]);
    /// # Ok::<(), kstreams::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the topology has no such store.
    pub fn store<S: StoreType>(&self, token: &StoreToken<S>) -> Result<S> {
        self.store_in(token, 0)
    }

    /// A store as the task of a partition has it.
    ///
    /// # Errors
    /// When the topology has no such store, or no such partition.
    pub fn store_in<S: StoreType>(&self, token: &StoreToken<S>, partition: i32) -> Result<S> {
        let name = [token.spec.name.clone()];
        let has = |task: &&StreamTask| {
            S::IS_GLOBAL || (task.id().partition == partition && task.stores().has(token.name()))
        };
        if let Some(task) = self.tasks.iter().chain(&self.global_tasks).find(has) {
            let (task, stores, node) = (task.context(), task.stores(), "test");
            return InitContext { task, stores, node, connected: &name }.store(token);
        }
        if S::IS_GLOBAL {
            let (task, stores) = self.nobody()?;
            let ctx = InitContext { task: &task, stores: &stores, node: "test", connected: &name };
            return ctx.store(token);
        }
        let message =
            format!("partition {partition} of the topology has no store {}", token.name());
        Err(Error::new(ErrorKind::InvalidTopology, message))
    }

    /// A task that does nothing, for a topology that has none.
    fn nobody(&self) -> Result<(Rc<TaskContext>, StoreSet)> {
        let id = TaskId { subtopology: 0, partition: 0 };
        let context = Rc::new(self.plan.context(id));
        let (backends, budget) = (TaskBackends::new(None), self.settings.store_budget());
        let (app, rules) = (&self.plan.application.id, self.plan.rules.compatibility);
        Ok((context, StoreSet::open(app, [], backends, rules, &budget)?))
    }

    /// The names of all stores, global ones included.
    pub fn store_names(&self) -> Vec<String> {
        let graph = self.plan.topology.graph();
        let stores = graph.stores.iter().map(|spec| &spec.name);
        let names = stores.chain(graph.globals.iter().map(|spec| &spec.name));
        names.map(ToString::to_string).collect()
    }

    /// What the wall clock shows, in milliseconds since the epoch.
    pub fn wall_clock(&self) -> i64 {
        self.wall_clock
    }

    /// What was written to a topic and is not committed yet.
    pub fn uncommitted_records(&self, topic: &str) -> Vec<ProducedRecord> {
        let recorder = self.recorder.borrow();
        recorder.written.iter().filter(|record| record.topic == *topic).cloned().collect()
    }

    /// Pipes one record, in bytes, and processes everything that follows from it. It goes to the partition of its key.
    ///
    /// # Errors
    /// When no source reads the topic, and what processing reports.
    pub fn pipe_bytes(
        &mut self,
        topic: &str,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        timestamp: i64,
        headers: &Headers,
    ) -> Result<()> {
        let partition = self.cluster.borrow_mut().partition_of(topic, key);
        let bytes = |bytes: Option<&[u8]>| bytes.map(Bytes::copy_from_slice);
        let (topic, key, value) = (topic.to_string(), bytes(key), bytes(value));
        let headers = headers.clone();
        self.pipe_produced(&ProducedRecord { topic, partition, key, value, timestamp, headers })
    }

    /// As [`Self::pipe_bytes`], to the partition that the record names.
    ///
    /// # Errors
    /// When no source reads the topic or it has no such partition, and what processing reports.
    pub fn pipe_produced(&mut self, record: &ProducedRecord) -> Result<()> {
        let done = self.deliver(record).and_then(|()| self.run());
        done.inspect_err(|_| self.keep_dead_letters())
    }

    /// Commits what was processed since the last commit: what was written is in its topics then, and what other sub-topologies make of it
    /// is processed (and committed with the next call). Only of use with
    /// [`TopologyTestDriverBuilder::commits_by_hand`].
    ///
    /// # Errors
    /// What caches and stores report, and what processing does.
    pub fn commit(&mut self) -> Result<()> {
        let done = self.commit_all().and_then(|()| self.carry()).and_then(|()| self.run());
        done.inspect_err(|_| self.keep_dead_letters())
    }

    /// What a task that failed leaves is there to be read; it goes nowhere else. What it wrote is so only if the driver commits.
    fn keep_dead_letters(&mut self) {
        let uncommitted = match self.commits_by_hand {
            true => self.recorder.borrow().written.len(),
            false => 0,
        };
        for task in self.tasks.iter_mut().chain(&mut self.global_tasks) {
            for letter in task.take_remains().map_or(Vec::new(), |remains| remains.dead_letters) {
                // The recorder takes everything.
                let _ = send_dead_letter(&mut *self.recorder.borrow_mut(), &letter);
            }
        }
        for record in self.recorder.borrow_mut().written.split_off(uncommitted) {
            self.outputs.entry(record.topic.clone()).or_default().push_back(record);
        }
    }

    /// Calls what is due, and goes on until the walks that it has begun are at their ends.
    fn punctuate(&mut self) -> Result<()> {
        for place in 0..self.tasks.len() {
            while self.tasks[place].punctuate(self.wall_clock)? {
                self.settle(place)?;
            }
        }
        self.carry()
    }

    /// Appends a record to its topic and gives it to who reads it.
    fn deliver(&mut self, record: &ProducedRecord) -> Result<()> {
        let ProducedRecord { topic, partition, key, value, timestamp, headers } = record;
        let count = self.cluster.borrow().partitions(topic);
        if !(0..count).contains(partition) {
            let message = format!("topic {topic} has {count} partitions, none is {partition}");
            return Err(Error::new(ErrorKind::InvalidTopology, message));
        }
        let (batch, next) = self.cluster.borrow_mut().append(record)?;
        for task in self.tasks.iter_mut().chain(&mut self.global_tasks) {
            task.set_wall_clock(self.wall_clock);
            if task.id().partition == *partition
                && task.add(topic, *partition, vec![batch.clone()], next)?.is_some()
            {
                return Ok(());
            }
        }
        if self.plan.globals.topics().any(|global| **global == *topic) {
            let (key, value, timestamp) = (key.as_deref(), value.as_deref(), *timestamp);
            let record = GlobalRecord { key, value, timestamp, headers };
            let applied = self.plan.globals.apply(topic, &record);
            return applied.map(drop).map_err(|unreadable| {
                let message = format!("cannot read a record of topic {topic}");
                Error::new(ErrorKind::BadRecord, message).with_source(unreadable.error)
            });
        }
        let message = format!("no source of the topology reads topic {topic}");
        Err(Error::new(ErrorKind::InvalidTopology, message))
    }

    /// Processes until nothing is left, sub-topology by sub-topology and partition by partition.
    fn run(&mut self) -> Result<()> {
        for _ in 0..RECORDS_MAX {
            for task in &mut self.global_tasks {
                while task.process(1, self.wall_clock)? > 0 {}
            }
            let ready = self.tasks.iter().position(|task| !task.group().is_empty());
            let Some(place) = ready else {
                if self.commits_by_hand {
                    return Ok(());
                }
                // A record that was left out makes no head but moves the position, and may have left a dead letter.
                self.commit_all()?;
                self.carry()?;
                if self.tasks.iter().all(|task| task.group().is_empty()) {
                    return Ok(());
                }
                continue;
            };
            self.tasks[place].process(1, self.wall_clock)?;
            self.settle(place)?;
            while self.tasks[place].punctuate(self.wall_clock)? {
                self.settle(place)?;
            }
            self.carry()?;
        }
        let message = format!(
            "one record led to more than {RECORDS_MAX}: does the topology read a topic that it writes?"
        );
        Err(Error::new(ErrorKind::InvalidTopology, message))
    }

    /// A task has done something: it is committed, unless the test does that.
    fn settle(&mut self, place: usize) -> Result<()> {
        if self.commits_by_hand {
            return Ok(());
        }
        self.tasks[place].flush()?;
        self.publish()?;
        self.seal(place)
    }

    fn commit_all(&mut self) -> Result<()> {
        for task in &mut self.tasks {
            task.flush()?;
        }
        self.publish()?;
        (0..self.tasks.len()).try_for_each(|place| self.seal(place))
    }

    /// What was written is in its topics: for the test, for restores, and for who reads it.
    fn publish(&mut self) -> Result<()> {
        for record in std::mem::take(&mut self.recorder.borrow_mut().written) {
            if self.cluster.borrow().is_changelog(&record.topic) && !self.is_read(&record.topic) {
                self.cluster.borrow_mut().append(&record)?;
            }
            self.published.push_back(record.clone());
            self.outputs.entry(record.topic.clone()).or_default().push_back(record);
        }
        Ok(())
    }

    /// The last step of a commit: Kafka has confirmed everything.
    fn seal(&mut self, place: usize) -> Result<()> {
        let task = &mut self.tasks[place];
        let (cluster, recorder) = (&self.cluster, self.recorder.borrow());
        let partition = task.id().partition;
        let end = |handle: &Option<_>| cluster.borrow().end(recorder.name((*handle)?), partition);
        let ends: Vec<Option<i64>> = task.changelogs().iter().map(end).collect();
        task.committed(&ends)?;
        task.offsets().into_iter().for_each(|offset| cluster.borrow_mut().commit(offset));
        Ok(())
    }

    /// Brings published records to their readers.
    fn carry(&mut self) -> Result<()> {
        while let Some(record) = self.published.pop_front() {
            if self.is_read(&record.topic) {
                self.deliver(&record)?;
            }
        }
        Ok(())
    }

    fn is_read(&self, topic: &str) -> bool {
        let graph = self.plan.topology.graph();
        let app = &self.plan.application.id;
        let mut of_tasks = graph.with_tasks();
        of_tasks.any(|subtopology| {
            let mut sources = graph.source_topics(subtopology).into_iter();
            sources.any(|source| *graph.topic_name(app, &source) == *topic)
        }) || self.plan.globals.topics().any(|global| **global == *topic)
    }
}

impl fmt::Debug for TopologyTestDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tasks: Vec<TaskId> = self.tasks.iter().map(StreamTask::id).collect();
        f.debug_struct("TopologyTestDriver").field("tasks", &tasks).finish()
    }
}

//! Runs one task a sub-topology on partition 0 and carries records between them.

use super::collector::{ProducedRecord, Recorder};
use super::topics::{TestInputTopic, TestOutputTopic};
use crate::config::{Settings, StreamsConfig};
use crate::error::{Error, ErrorKind, Result};
use crate::processor::{Elapsed, InitContext, TaskId};
use crate::record::Headers;
use crate::serde::{DefaultSerde, SerdeRef};
use crate::state::{GlobalRecord, GlobalStores, StoreToken, StoreType, TaskBackends};
use crate::task::{StreamTask, TaskPlan, send_dead_letter};
use crate::topology::Topology;
use bytes::Bytes;
use kstreams_protocol::batch::{BatchHead, BatchWriter, RecordReader, batches};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Records that one may lead to, before the driver takes it for a circle.
const RECORDS_MAX: usize = 100_000;

/// Drives a topology record by record: each one is processed, committed, and its results are there when the call returns.
///
/// Stores are in memory unless the configuration given to [`Self::with_config`] has a `state.dir`.
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
    topology: Topology,
    tasks: Vec<StreamTask>,
    globals: Arc<GlobalStores>,
    recorder: Rc<RefCell<Recorder>>,
    wall_clock: i64,
    next_offsets: BTreeMap<String, i64>,
    pub(super) outputs: BTreeMap<String, VecDeque<ProducedRecord>>,
}

impl TopologyTestDriver {
    /// Drives a topology with default settings.
    ///
    /// # Errors
    /// When the topology cannot be run; the text names the node.
    pub fn new(topology: Topology) -> Result<Self> {
        TopologyTestDriver::with_config(topology, &StreamsConfig::new("test", "unused:1"))
    }

    /// Drives a topology with these settings. Caches are flushed after each record, as at a commit.
    ///
    /// # Errors
    /// When the settings are wrong or the topology cannot be run.
    pub fn with_config(topology: Topology, config: &StreamsConfig) -> Result<Self> {
        let mut settings = config.resolve()?;
        if !config.is_set("emit.interval.ms") {
            // Final results are there at once, as in Java's test driver.
            settings.rules.emit_interval = 0;
        }
        let recorder = Rc::new(RefCell::new(Recorder::default()));
        let globals = Arc::new(GlobalStores::new(&topology.graph().globals));
        let plan = TaskPlan::new(topology.clone(), &settings, globals, Elapsed::none());
        let budget = settings.store_budget();
        let has_directory = config.is_set("state.dir");
        let mut tasks = Vec::new();
        for subtopology in topology.graph().with_tasks() {
            let id = TaskId { subtopology, partition: 0 };
            let path = has_directory
                .then(|| settings.application.state_dir.join(id.to_string()).join("kstreams"));
            let backends = TaskBackends::new(path);
            tasks.push(StreamTask::build(
                &plan,
                id,
                backends,
                &budget,
                recorder.clone(),
                0,
                |_| true,
            )?);
        }
        for subtopology in topology.graph().with_global_processors() {
            let id = TaskId { subtopology, partition: 0 };
            tasks.push(StreamTask::build_global(&plan, id, 0)?);
        }
        Ok(TopologyTestDriver {
            settings,
            topology,
            tasks,
            globals: plan.globals,
            recorder,
            wall_clock: 0,
            next_offsets: BTreeMap::new(),
            outputs: BTreeMap::new(),
        })
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
        self.tasks.iter().map(|task| task.context().dropped()).sum()
    }

    /// A store, to read or to prepare.
    ///
    /// # Errors
    /// When the topology has no such store.
    pub fn store<S: StoreType>(&self, token: &StoreToken<S>) -> Result<S> {
        let name = [token.spec.name.clone()];
        for task in &self.tasks {
            if task.stores().has(token.name()) {
                let context = task.context();
                let (stores, node) = (task.stores(), "test");
                return InitContext { task: context, stores, node, connected: &name }.store(token);
            }
        }
        let message = format!("the topology has no store {}", token.name());
        Err(Error::new(ErrorKind::InvalidTopology, message))
    }

    /// Pipes one record, in bytes, and processes everything that follows from it.
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
        let done = self.deliver(topic, key, value, timestamp, headers).and_then(|()| self.run());
        done.inspect_err(|_| self.keep_dead_letters())
    }

    /// What a task that failed leaves is there to be read; it goes nowhere else.
    fn keep_dead_letters(&mut self) {
        for task in &mut self.tasks {
            for letter in task.take_remains().map_or(Vec::new(), |remains| remains.dead_letters) {
                // The recorder takes everything.
                let _ = send_dead_letter(&mut *self.recorder.borrow_mut(), &letter);
            }
        }
        for record in std::mem::take(&mut self.recorder.borrow_mut().written) {
            self.outputs.entry(record.topic.clone()).or_default().push_back(record);
        }
    }

    /// Calls what is due, and goes on until the walks that it has begun are at their ends.
    fn punctuate(&mut self) -> Result<()> {
        for task in &mut self.tasks {
            while task.punctuate(self.wall_clock)? {
                commit(task)?;
            }
        }
        self.carry()
    }

    fn deliver(
        &mut self,
        topic: &str,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        timestamp: i64,
        headers: &Headers,
    ) -> Result<()> {
        let offset = self.next_offsets.entry(topic.to_string()).or_insert(0);
        let batch = one_record(*offset, timestamp, key, value, headers)?;
        *offset += 1;
        for task in &mut self.tasks {
            task.set_wall_clock(self.wall_clock);
            if task.add(topic, 0, vec![batch.clone()], *offset)?.is_some() {
                return Ok(());
            }
        }
        if self.globals.topics().any(|global| **global == *topic) {
            let record = GlobalRecord { key, value, timestamp, headers };
            let applied = self.globals.apply(topic, &record);
            return applied.map(drop).map_err(|unreadable| {
                let message = format!("cannot read a record of topic {topic}");
                Error::new(ErrorKind::BadRecord, message).with_source(unreadable.error)
            });
        }
        let message = format!("no source of the topology reads topic {topic}");
        Err(Error::new(ErrorKind::InvalidTopology, message))
    }

    /// Processes and commits until nothing is left, sub-topology by sub-topology.
    fn run(&mut self) -> Result<()> {
        for _ in 0..RECORDS_MAX {
            let wall_clock = self.wall_clock;
            let ready = self.tasks.iter_mut().find(|task| !task.group().is_empty());
            let Some(task) = ready else {
                // A record that was left out makes no head but moves the position.
                for task in &mut self.tasks {
                    commit(task)?;
                }
                // It may have left a dead letter.
                self.carry()?;
                if self.tasks.iter().all(|task| task.group().is_empty()) {
                    return Ok(());
                }
                continue;
            };
            task.process(1, wall_clock)?;
            commit(task)?;
            while task.punctuate(wall_clock)? {
                commit(task)?;
            }
            self.carry()?;
        }
        let message = format!(
            "one record led to more than {RECORDS_MAX}: does the topology read a topic that it writes?"
        );
        Err(Error::new(ErrorKind::InvalidTopology, message))
    }

    /// Files what was written, and brings records of repartition topics to their readers.
    fn carry(&mut self) -> Result<()> {
        let written = std::mem::take(&mut self.recorder.borrow_mut().written);
        for record in written {
            self.outputs.entry(record.topic.clone()).or_default().push_back(record.clone());
            if self.is_read(&record.topic) {
                let ProducedRecord { topic, key, value, timestamp, headers } = &record;
                self.deliver(topic, key.as_deref(), value.as_deref(), *timestamp, headers)?;
            }
        }
        Ok(())
    }

    fn is_read(&self, topic: &str) -> bool {
        let graph = self.topology.graph();
        let app = &self.settings.application_id;
        let mut of_tasks = graph.with_tasks();
        of_tasks.any(|subtopology| {
            let mut sources = graph.source_topics(subtopology).into_iter();
            sources.any(|source| *graph.topic_name(app, &source) == *topic)
        }) || self.globals.topics().any(|global| **global == *topic)
    }
}

/// The whole commit protocol, with a Kafka that confirms everything at once.
fn commit(task: &mut StreamTask) -> Result<()> {
    task.flush()?;
    let offsets = vec![None; task.changelogs().len()];
    task.committed(&offsets)
}

/// A record as it would be fetched.
fn one_record(
    offset: i64,
    timestamp: i64,
    key: Option<&[u8]>,
    value: Option<&[u8]>,
    headers: &Headers,
) -> Result<RecordReader> {
    let failed =
        |error| Error::new(ErrorKind::BadRecord, "cannot write a test record").with_source(error);
    let mut writer = BatchWriter::new();
    let headers = headers.iter().map(|header| (&*header.name, header.value.as_deref()));
    writer.append(timestamp, key, value, &headers.collect::<Vec<_>>());
    let mut bytes = writer.seal(&BatchHead::default()).map_err(failed)?.to_vec();
    bytes[..8].copy_from_slice(&offset.to_be_bytes());
    let batch = batches(&Bytes::from(bytes)).next();
    let Some(batch) = batch else {
        return Err(Error::new(ErrorKind::BadRecord, "a test record makes no batch"));
    };
    batch.and_then(kstreams_protocol::batch::Batch::into_records).map_err(failed)
}

impl fmt::Debug for TopologyTestDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tasks: Vec<TaskId> = self.tasks.iter().map(StreamTask::id).collect();
        f.debug_struct("TopologyTestDriver").field("tasks", &tasks).finish()
    }
}

//! Runs one task on whole fetched batches, as a stream thread does: to measure what the library itself costs a record.
//!
//! Records that the task writes go into batches as those of a producer, which are dropped when they are full.

use crate::config::StreamsConfig;
use crate::error::Result;
use crate::processor::{Elapsed, TaskId};
use crate::state::TaskBackends;
use crate::task::{Outgoing, Placement, RecordCollector, StreamTask, TaskPlan, TopicHandle};
use crate::topology::Topology;
use kstreams_protocol::batch::{BatchWriter, RecordReader};
use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

/// Records that a stream thread processes before it looks around.
const RECORDS_A_TURN: usize = 1000;
const BATCH_BYTES: usize = 256 << 10;

/// The first sub-topology of a topology on partition 0.
pub struct TaskDriver {
    task: StreamTask,
    written: Rc<RefCell<Batches>>,
}

impl TaskDriver {
    /// Builds the task. Its stores are in memory unless `state.dir` is set.
    ///
    /// # Errors
    /// When the settings are wrong or the topology cannot be run.
    pub fn new(topology: Topology, config: &StreamsConfig) -> Result<Self> {
        let settings = config.resolve()?;
        let plan = TaskPlan::new(topology, &settings, Arc::default(), Elapsed::none());
        let path = config.is_set("state.dir").then(|| settings.state_dir.join("task"));
        let written = Rc::new(RefCell::new(Batches::default()));
        let id = TaskId { subtopology: 0, partition: 0 };
        let (backends, budget) = (TaskBackends::new(path), settings.store_budget());
        let task = StreamTask::build(&plan, id, backends, &budget, written.clone(), 0, |_| true)?;
        Ok(TaskDriver { task, written })
    }

    /// Processes fetched batches of a topic to their end; gives how many records there were.
    ///
    /// # Errors
    /// What processing reports.
    pub fn process(
        &mut self,
        topic: &str,
        batches: Vec<RecordReader>,
        next_offset: i64,
    ) -> Result<usize> {
        self.task.add(topic, 0, batches, next_offset)?;
        let mut processed = 0;
        loop {
            match self.task.process(RECORDS_A_TURN, 0)? {
                0 => return Ok(processed),
                count => processed += count,
            }
        }
    }

    /// Commits, with a Kafka that confirms everything at once.
    ///
    /// # Errors
    /// What flushing and the engines report.
    pub fn commit(&mut self) -> Result<()> {
        self.task.flush()?;
        let offsets = vec![None; self.task.changelogs().len()];
        self.task.committed(&offsets)
    }

    /// How many records the task has written, to all topics.
    pub fn written(&self) -> u64 {
        self.written.borrow().records
    }
}

impl fmt::Debug for TaskDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TaskDriver").field(&self.task.id()).finish()
    }
}

/// An open batch a topic.
#[derive(Default)]
struct Batches {
    topics: Vec<(String, BatchWriter)>,
    records: u64,
}

impl RecordCollector for Batches {
    fn topic(&mut self, name: &str) -> TopicHandle {
        let known = self.topics.iter().position(|(topic, _)| topic == name);
        TopicHandle(known.unwrap_or_else(|| {
            self.topics.push((name.into(), BatchWriter::with_capacity(BATCH_BYTES)));
            self.topics.len() - 1
        }))
    }

    fn partitions(&mut self, _: TopicHandle) -> Result<i32> {
        Ok(1)
    }

    fn append(&mut self, topic: TopicHandle, _: Placement, record: Outgoing) -> Result<()> {
        let open = &mut self.topics[topic.0].1;
        if open.len() >= BATCH_BYTES {
            *open = BatchWriter::with_capacity(BATCH_BYTES);
        }
        let headers: Vec<(&str, Option<&[u8]>)> =
            record.headers.iter().map(|header| (&*header.name, header.value.as_deref())).collect();
        open.append(record.timestamp, record.key, record.value, &headers);
        self.records += 1;
        Ok(())
    }
}

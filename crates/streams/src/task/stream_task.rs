//! One sub-topology on one partition: its nodes, its stores, its input.

use super::collector::{Outgoing, Placement, RecordCollector, TopicHandle};
use super::offset_metadata::CommittedTimes;
use super::partition_group::PartitionGroup;
use super::source::SourceSettings;
use crate::config::OperatorRules;
use crate::error::{Error, ErrorKind, Result};
use crate::processor::{Elapsed, Punctuate, PunctuationType, TaskContext, TaskId};
use crate::state::{GlobalStores, LogRecord, StoreBudget, StoreSet, TaskBackends};
use crate::topology::erased::{Close, Fault};
use crate::topology::{ChangelogTopic, TaskNodes, Topology};
use kstreams_protocol::batch::RecordReader;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;

/// What tasks are made from. It is `Send`; the task is not.
#[derive(Clone)]
pub(crate) struct TaskPlan {
    pub(crate) topology: Topology,
    pub(crate) application_id: Arc<str>,
    pub(crate) source: SourceSettings,
    pub(crate) rules: OperatorRules,
    pub(crate) globals: Arc<GlobalStores>,
    /// A clock that never goes back.
    pub(crate) elapsed: Elapsed,
}

/// The offset to commit for an input partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CommitOffset {
    pub(crate) topic: Rc<str>,
    pub(crate) partition: i32,
    pub(crate) offset: i64,
    pub(crate) leader_epoch: i32,
    pub(crate) times: CommittedTimes,
}

/// A running task. It lives on the thread that made it.
pub(crate) struct StreamTask {
    context: Rc<TaskContext>,
    group: PartitionGroup,
    stores: StoreSet,
    collector: Rc<RefCell<dyn RecordCollector>>,
    /// The changelog of each store, by place.
    changelogs: Vec<Option<TopicHandle>>,
    /// The stores whose changelog is an input: their places and topics.
    source_changelogs: Vec<(usize, Arc<str>)>,
    closers: Vec<Rc<dyn Close>>,
    punctuated: Vec<Rc<dyn Punctuate>>,
    /// Whether records were processed since the last commit.
    dirty: bool,
}

impl StreamTask {
    /// Builds the nodes over restored engines. `reads` tells whether a topic has the task's partition.
    pub(crate) fn build(
        plan: &TaskPlan,
        id: TaskId,
        backends: TaskBackends,
        budget: &StoreBudget,
        collector: Rc<RefCell<dyn RecordCollector>>,
        wall_clock: i64,
        reads: impl Fn(&str) -> bool,
    ) -> Result<Self> {
        let graph = plan.topology.graph();
        let app = &plan.application_id;
        let globals = plan.globals.clone();
        let context = TaskContext::new(app.clone(), id, plan.rules, globals, plan.elapsed.clone());
        let context = Rc::new(context);
        context.set_wall_clock(wall_clock);
        let used = graph.stores_of(id.subtopology);
        let specs = graph.stores.iter().filter(|spec| used.contains(&spec.name));
        let specs = specs.map(|spec| (spec.clone(), ChangelogTopic::name_of(app, spec)));
        let specs: Vec<_> = specs.collect();
        let source_topics = specs.iter().map(|(spec, _)| spec.source_topic.clone());
        let source_topics: Vec<Option<Arc<str>>> = source_topics.collect();
        let stores = StoreSet::open(app, specs, backends, plan.rules.compatibility, budget)?;
        let instantiate =
            AssertUnwindSafe(|| graph.instantiate(id.subtopology, &context, &stores, &collector));
        let nodes = catch_unwind(instantiate).map_err(|panic| panicked(&*panic))?;
        let TaskNodes { sources, closers, punctuated } = nodes?;
        let mut inputs = Vec::new();
        for (topics, source) in sources {
            for topic in topics {
                let topic = graph.topic_name(app, &topic);
                if reads(&topic) {
                    inputs.push(source.input((*topic).into(), id.partition, &plan.source));
                }
            }
        }
        let changelogs = stores
            .changelogs()
            .zip(&source_topics)
            .map(|(changelog, source)| {
                // What is an input is not written.
                let changelog = changelog.filter(|_| source.is_none())?;
                Some(collector.borrow_mut().topic(changelog))
            })
            .collect();
        let numbered = source_topics.into_iter().enumerate();
        let source_changelogs =
            numbered.filter_map(|(place, topic)| Some((place, topic?))).collect();
        let group = PartitionGroup::new(inputs);
        Ok(StreamTask {
            context,
            group,
            stores,
            collector,
            changelogs,
            source_changelogs,
            closers,
            punctuated,
            dirty: false,
        })
    }

    pub(crate) fn id(&self) -> TaskId {
        self.context.task_id
    }

    pub(crate) fn group(&self) -> &PartitionGroup {
        &self.group
    }

    pub(crate) fn stores(&self) -> &StoreSet {
        &self.stores
    }

    pub(crate) fn context(&self) -> &Rc<TaskContext> {
        &self.context
    }

    /// Where reading of an input partition begins, and the times that were reached there.
    pub(crate) fn start_at(
        &mut self,
        topic: &str,
        partition: i32,
        offset: i64,
        times: &CommittedTimes,
    ) {
        self.context.progress.reach(&times.progress);
        self.context.reach(times.partition);
        if let Some(input) = self.group.input_mut(topic, partition) {
            input.start_at(offset, times.partition);
        }
    }

    /// Adds fetched records; gives how far the partition is now, or nothing if the task does not read it.
    pub(crate) fn add(
        &mut self,
        topic: &str,
        partition: i32,
        batches: Vec<RecordReader>,
        next_offset: i64,
    ) -> Result<Option<i64>> {
        let Some(input) = self.group.input_mut(topic, partition) else { return Ok(None) };
        let before = input.position();
        // Serdes and timestamp extractors are user code as well.
        let add = AssertUnwindSafe(|| input.add(batches, next_offset));
        catch_unwind(add).map_err(|panic| {
            panicked(&*panic)
                .context(format!(
                    "reading topic {topic}, partition {partition}, after offset {}",
                    before.0
                ))
                .context(format!("task {}", self.context.task_id))
        })?;
        // Records that are left out move the position without being processed.
        self.dirty |= input.position() != before && input.head_time().is_none();
        Ok(Some(input.position().0))
    }

    /// The wall clock of this turn.
    pub(crate) fn set_wall_clock(&self, wall_clock: i64) {
        self.context.set_wall_clock(wall_clock);
    }

    /// Processes up to `count` records; gives how many there were. A panic of user code becomes an error.
    pub(crate) fn process(&mut self, count: usize, wall_clock: i64) -> Result<usize> {
        self.context.set_wall_clock(wall_clock);
        let run = AssertUnwindSafe(|| {
            for done in 0..count {
                if !self.group.process_next()? {
                    return Ok(done);
                }
                self.stores.relieve(&self.context).map_err(Fault::into_error)?;
                self.context
                    .punctuate(&self.punctuated, PunctuationType::StreamTime)
                    .map_err(Fault::into_error)?;
            }
            Ok(count)
        });
        let result = catch_unwind(run).unwrap_or_else(|panic| Err(self.panicked(&*panic)));
        let done = result.map_err(|error| error.context(format!("task {}", self.id())))?;
        self.dirty |= done > 0;
        Ok(done)
    }

    /// Calls the punctuators that are due, and does a piece of the walks that they have begun; whether there were any. A panic of user
    /// code becomes an error.
    pub(crate) fn punctuate(&mut self, wall_clock: i64) -> Result<bool> {
        self.context.set_wall_clock(wall_clock);
        let run = AssertUnwindSafe(|| {
            let by_records =
                self.context.punctuate(&self.punctuated, PunctuationType::StreamTime)?;
            let by_clock =
                self.context.punctuate(&self.punctuated, PunctuationType::WallClockTime)?;
            let walked = self.context.walk(&self.punctuated)?;
            Ok(by_records || by_clock || walked)
        });
        let result = catch_unwind(run).unwrap_or_else(|panic| {
            let error = panicked(&*panic).context("in a punctuator".to_string());
            Err(Fault::at(&"punctuator".into(), error))
        });
        let fired = result
            .map_err(|fault: Fault| fault.into_error().context(format!("task {}", self.id())))?;
        self.dirty |= fired;
        Ok(fired)
    }

    /// When the wall clock makes a punctuator due, if one waits for it.
    pub(crate) fn next_punctuation(&self) -> Option<i64> {
        self.context.next_punctuation(PunctuationType::WallClockTime)
    }

    /// A panic while the record in hand was processed.
    fn panicked(&self, panic: &(dyn std::any::Any + Send)) -> Error {
        let record = self.context.record();
        panicked(panic).context(format!(
            "topic {}, partition {}, offset {}",
            record.topic, record.partition, record.offset
        ))
    }

    /// Whether a commit would change anything.
    pub(crate) fn needs_commit(&self) -> bool {
        self.dirty
    }

    pub(crate) fn take_commit_request(&self) -> bool {
        self.context.take_commit_request()
    }

    /// The first step of a commit (see [`super::commit`]): everything that the records since the last one lead to goes to the
    /// collector.
    pub(crate) fn flush(&mut self) -> Result<()> {
        // What happens from here on belongs to the next commit.
        self.dirty = false;
        let run = AssertUnwindSafe(|| self.stores.flush(&self.context).map_err(Fault::into_error));
        let flushed = catch_unwind(run).unwrap_or_else(|panic| Err(self.panicked(&*panic)));
        flushed
            .and_then(|()| self.log_changes())
            .map_err(|e| e.context(format!("task {}", self.id())))
    }

    fn log_changes(&self) -> Result<()> {
        let mut collector = self.collector.borrow_mut();
        self.stores.drain_changelogs(|place, LogRecord { key, value, timestamp, headers }| {
            let Some(topic) = self.changelogs[place] else { return Ok(()) };
            // A changelog's partition is the task's; it is never hashed again.
            let placement = Placement::Partition(self.context.task_id.partition);
            let record = Outgoing { timestamp, key: Some(key), value, headers };
            collector.append(topic, placement, record)
        })
    }

    /// The offsets to commit.
    pub(crate) fn offsets(&self) -> Vec<CommitOffset> {
        let inputs = self.group.inputs().filter(|input| input.position().0 >= 0);
        let progress = self.context.progress.times();
        inputs
            .map(|input| {
                let (offset, leader_epoch) = input.position();
                CommitOffset {
                    topic: input.topic().clone(),
                    partition: input.partition(),
                    offset,
                    leader_epoch,
                    times: CommittedTimes {
                        partition: input.partition_time(),
                        progress: progress.clone(),
                    },
                }
            })
            .collect()
    }

    /// The changelog topics with the places of their stores.
    pub(crate) fn changelogs(&self) -> &[Option<TopicHandle>] {
        &self.changelogs
    }

    /// The last step of a commit: what Kafka has confirmed goes to the engines.
    pub(crate) fn committed(&mut self, changelog_offsets: &[Option<i64>]) -> Result<()> {
        let mut offsets = changelog_offsets.to_vec();
        for (place, topic) in &self.source_changelogs {
            let mut inputs = self.group.inputs();
            let input = inputs.find(|input| **input.topic() == **topic);
            if let Some(offset) = offsets.get_mut(*place) {
                *offset = input.map(|input| input.position().0).filter(|offset| *offset >= 0);
            }
        }
        let committed = self.stores.commit(&offsets);
        committed.map_err(|error| error.context(format!("task {}", self.id())))
    }

    /// Ends the task after a commit: processors are closed, the engines can be used again.
    pub(crate) fn close(self) -> TaskBackends {
        for closer in self.closers.iter().rev() {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| closer.close())) {
                // The task ends in any case, and everything of it is committed or given up.
                tracing::error!(task = %self.context.task_id, "while closing a processor: {}", panicked(&*panic));
            }
        }
        self.stores.into_backends()
    }
}

/// What user code said when it panicked.
fn panicked(panic: &(dyn std::any::Any + Send)) -> Error {
    let message = panic
        .downcast_ref::<&str>()
        .map(ToString::to_string)
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".into());
    Error::new(ErrorKind::Processing, format!("user code panicked: {message}"))
}

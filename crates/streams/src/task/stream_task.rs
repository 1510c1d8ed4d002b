//! One sub-topology on one partition: its nodes, its stores, its input.

use super::collector::{Outgoing, Placement, RecordCollector, TopicHandle, send_dead_letter};
use super::offset_metadata::CommittedTimes;
use super::partition_group::PartitionGroup;
use super::source::SourceSettings;
use crate::config::{OperatorRules, Settings};
use crate::error::{Error, Result};
use crate::handlers::{DeadLetter, ErrorPolicy};
use crate::processor::{
    Application, Elapsed, Failure, Punctuate, PunctuationType, TaskContext, TaskId,
};
use crate::record::RecordMetadata;
use crate::state::{GlobalStores, LogRecord, PartitionReader, StoreBudget, StoreSet, TaskBackends};
use crate::topology::erased::{Fault, Named, catch_panic};
use crate::topology::{ChangelogTopic, TaskNodes, Topology};
use kstreams_protocol::batch::RecordReader;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// What tasks are made from. It is `Send`; the task is not.
#[derive(Clone)]
pub(crate) struct TaskPlan {
    pub(crate) topology: Topology,
    pub(crate) application: Arc<Application>,
    pub(crate) source: SourceSettings,
    pub(crate) errors: ErrorPolicy,
    pub(crate) rules: OperatorRules,
    pub(crate) globals: Arc<GlobalStores>,
    /// A clock that never goes back.
    pub(crate) elapsed: Elapsed,
}

impl TaskPlan {
    /// What the nodes of a task share.
    pub(crate) fn context(&self, id: TaskId) -> TaskContext {
        let (application, globals) = (self.application.clone(), self.globals.clone());
        let (elapsed, errors) = (self.elapsed.clone(), self.errors.clone());
        TaskContext::new(application, id, self.rules, globals, elapsed, errors)
    }

    pub(crate) fn new(
        topology: Topology,
        settings: &Settings,
        globals: Arc<GlobalStores>,
        elapsed: Elapsed,
    ) -> Self {
        TaskPlan {
            topology,
            application: settings.application.clone(),
            source: settings.source.clone(),
            errors: settings.errors.clone(),
            rules: settings.rules,
            globals,
            elapsed,
        }
    }
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
    closers: Vec<Named>,
    punctuated: Vec<Rc<dyn Punctuate>>,
    /// Whether records were processed since the last commit.
    dirty: bool,
    /// The record that is not processed, as it is known to fail.
    halt: Option<RecordMetadata>,
    remains: Option<Remains>,
}

/// What is left of a record that ended its task.
pub(crate) struct Remains {
    /// The record, if there was one.
    pub(crate) place: Option<RecordMetadata>,
    /// To be written if nothing else of it is.
    pub(crate) dead_letters: Vec<DeadLetter>,
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
        let app = &plan.application.id;
        let context = Rc::new(plan.context(id));
        context.set_wall_clock(wall_clock);
        let used = graph.stores_of(id.subtopology);
        let specs = graph.stores.iter().filter(|spec| used.contains(&spec.name));
        let specs = specs.map(|spec| (spec.clone(), ChangelogTopic::name_of(app, spec)));
        let specs: Vec<_> = specs.collect();
        let source_topics = specs.iter().map(|(spec, _)| spec.source_topic.clone());
        let source_topics: Vec<Option<Arc<str>>> = source_topics.collect();
        let stores = StoreSet::open(app, specs, backends, plan.rules.compatibility, budget)?;
        let nodes =
            catch_panic(|| graph.instantiate(id.subtopology, &context, &stores, &collector))?;
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
            halt: None,
            remains: None,
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

    /// What other threads may read of its stores.
    pub(crate) fn readers(&mut self) -> Result<Vec<(Arc<str>, PartitionReader)>> {
        self.stores.readers()
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
        // Timestamp extractors are user code as well.
        let added = catch_panic(|| input.add(batches, next_offset));
        let (position, head) = (input.position(), input.head_time());
        if let Err(panic) = added {
            let (topic, offset) = (input.topic().clone(), position.0);
            let error = panic
                .context(format!("reading topic {topic}, partition {partition}, offset {offset}"));
            let place = Some(RecordMetadata { topic, partition, offset });
            let failure = Failure { error, place, dead_letters: Vec::new() };
            let sign = self.context.failures.keep(failure);
            return Err(self.failed(sign));
        }
        // Records that are left out move the position without being processed.
        self.dirty |= position != before && head.is_none();
        self.send_dead_letters()?;
        Ok(Some(position.0))
    }

    /// The wall clock of this turn.
    pub(crate) fn set_wall_clock(&self, wall_clock: i64) {
        self.context.set_wall_clock(wall_clock);
    }

    /// Processes up to `count` records; gives how many there were. A panic of user code becomes an error.
    pub(crate) fn process(&mut self, count: usize, wall_clock: i64) -> Result<usize> {
        self.context.set_wall_clock(wall_clock);
        let mut done = 0;
        let processed = catch_panic(|| {
            while done < count && !self.is_halted() && self.group.process_next()? {
                self.stores.relieve(&self.context)?;
                self.context.punctuate(&self.punctuated, PunctuationType::StreamTime)?;
                self.check_failed()?;
                done += 1;
            }
            Ok(())
        });
        self.dirty |= done > 0;
        self.checked(processed)?;
        self.send_dead_letters()?;
        Ok(done)
    }

    /// Calls the punctuators that are due, and does a piece of the walks that they have begun; whether there were any. A panic of user
    /// code becomes an error.
    pub(crate) fn punctuate(&mut self, wall_clock: i64) -> Result<bool> {
        self.context.set_wall_clock(wall_clock);
        let punctuated = catch_panic(|| {
            let by_records =
                self.context.punctuate(&self.punctuated, PunctuationType::StreamTime)?;
            let by_clock =
                self.context.punctuate(&self.punctuated, PunctuationType::WallClockTime)?;
            let walked = self.context.walk(&self.punctuated)?;
            self.check_failed()?;
            Ok(by_records || by_clock || walked)
        });
        let fired = self.checked(punctuated)?;
        self.dirty |= fired;
        self.send_dead_letters()?;
        Ok(fired)
    }

    /// Stops before a record that is known to fail, so that what comes before it can be committed.
    pub(crate) fn halt_at(&mut self, place: RecordMetadata) {
        self.halt = Some(place);
    }

    /// Whether the next record is the one that is known to fail.
    pub(crate) fn is_halted(&mut self) -> bool {
        self.halt.as_ref().is_some_and(|place| self.group.is_at(place))
    }

    /// Whether a record and everything before it in its partition is processed.
    pub(crate) fn is_behind(&self, place: &RecordMetadata) -> bool {
        self.group.inputs().any(|input| {
            *input.topic() == place.topic
                && input.partition() == place.partition
                && input.position().0 > place.offset
        })
    }

    /// What is left of the record that ended the task, for who asks first.
    pub(crate) fn take_remains(&mut self) -> Option<Remains> {
        self.remains.take()
    }

    /// Whether user code has hidden a failure.
    #[inline]
    fn check_failed(&self) -> Result<(), Fault> {
        match self.context.failures.has_failed() {
            true => Err(Fault::settled("a failure that user code has hidden")),
            false => Ok(()),
        }
    }

    fn checked<T>(&mut self, result: Result<Result<T, Fault>>) -> Result<T> {
        let fault = match result {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(fault)) => fault,
            // Outside of all operators.
            Err(panic) => self.context.fail(&"task".into(), panic.into(), Vec::new()),
        };
        Err(self.failed(fault))
    }

    /// The error that ends the task.
    fn failed(&mut self, fault: Fault) -> Error {
        let error = match self.context.failures.take() {
            Some(Failure { error, place, dead_letters }) => {
                self.remains = Some(Remains { place, dead_letters });
                error
            }
            None => fault.into_error(),
        };
        error.context(format!("task {}", self.id()))
    }

    /// Sends what is left of records that were left out.
    fn send_dead_letters(&self) -> Result<()> {
        for letter in self.context.failures.take_dead_letters() {
            self.send_dead_letter(&letter)?;
        }
        Ok(())
    }

    /// Sends a dead letter.
    pub(crate) fn send_dead_letter(&self, letter: &DeadLetter) -> Result<()> {
        send_dead_letter(&mut *self.collector.borrow_mut(), letter)
            .map_err(|error| error.context(format!("task {}", self.id())))
    }

    /// When the wall clock makes a punctuator due, if one waits for it.
    pub(crate) fn next_punctuation(&self) -> Option<i64> {
        self.context.next_punctuation(PunctuationType::WallClockTime)
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
        let flushed = catch_panic(|| {
            self.stores.flush(&self.context)?;
            self.check_failed()
        });
        self.checked(flushed)?;
        self.send_dead_letters()?;
        self.log_changes().map_err(|error| error.context(format!("task {}", self.id())))?;
        // What happens from here on belongs to the next commit.
        self.dirty = false;
        Ok(())
    }

    fn log_changes(&self) -> Result<()> {
        let mut collector = self.collector.borrow_mut();
        self.stores.drain_changelogs(|place, LogRecord { key, value, timestamp, headers }| {
            let Some(topic) = self.changelogs[place] else { return Ok(()) };
            // A changelog's partition is the task's; it is never hashed again.
            let placement = Placement::Partition(self.context.task_id.partition);
            let record = Outgoing { timestamp, key: Some(key), value, headers };
            collector.append(topic, placement, record).map_err(|error| {
                let (store, key) = (self.stores.name(place), key.len());
                let value = value.map_or(0, <[u8]>::len);
                error.context(format!(
                    "changelog of store {store}: key of {key} bytes, value of {value} bytes"
                ))
            })
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

    /// Ends the task as a crash does: processors hear nothing of it.
    pub(crate) fn abandon(self) -> TaskBackends {
        self.stores.into_backends()
    }

    /// Ends the task after a commit: processors are closed, the engines can be used again.
    pub(crate) fn close(self) -> TaskBackends {
        for (node, closer) in self.closers.iter().rev() {
            if let Err(panic) = catch_panic(|| closer.close()) {
                // The task ends in any case, and everything of it is committed or given up.
                let task = self.context.task_id;
                tracing::error!(%task, "while closing processor {node}: {panic}");
            }
        }
        self.stores.into_backends()
    }
}

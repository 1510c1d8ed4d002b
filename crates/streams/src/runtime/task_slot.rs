//! One task of a stream thread, from its assignment to its end.
//!
//! ```text
//! Waiting      for the directory, which another thread of the process may still have, for metadata and for global tables
//! Listing      the ends of the changelogs are asked for
//! Restoring    the stores are filled
//! Positioning  the task is built; the committed offsets of its inputs are asked for
//! Running      records are processed
//! ```
//! A step is taken by `advance`, which never waits.

use super::clock::Now;
use super::collector::ProducerCollector;
use super::positions::InputPosition;
use super::queries::{Queries, Registered};
use super::topics;
use crate::config::Settings;
use crate::error::{Error, ErrorKind, Result};
use crate::processor::TaskId;
use crate::state::{DirectoryLock, StateDirectory, StoreBudget, TaskBackends};
use crate::task::offset_metadata::{self, CommittedTimes};
use crate::task::{Restoring, StreamTask, TaskPlan};
use crate::topology::{AutoOffsetReset, NodeKind};
use kstreams_client::{
    Client, ClientError, CommittedOffset, ErrorKind as ClientErrorKind, Fetched, Isolation,
    ListedOffset, OffsetSpec, Pending, Reader, ResetPolicy, Results, Start, TopicPartition,
};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

type Listing = Pending<Results<TopicPartition, ListedOffset>>;
type Committed = Pending<Results<TopicPartition, Option<CommittedOffset>>>;

/// What a task needs of its thread to move on.
pub(super) struct SlotContext<'a> {
    pub(super) client: &'a mut Client,
    pub(super) collector: &'a Rc<RefCell<ProducerCollector>>,
    pub(super) directory: Option<&'a Arc<StateDirectory>>,
    pub(super) plan: &'a TaskPlan,
    pub(super) budget: &'a StoreBudget,
    pub(super) settings: &'a Settings,
    pub(super) queries: &'a Arc<Queries>,
    pub(super) now: Now,
}

/// One task.
pub(super) struct TaskSlot {
    pub(super) id: TaskId,
    /// Where queries find the stores; before `phase`, so that nobody finds them once they close.
    registered: Option<Registered>,
    phase: Phase,
    /// Held as long as the stores are open; declared after `phase`, so that it is given up last.
    lock: Option<DirectoryLock>,
    inputs: BTreeMap<TopicPartition, InputPosition>,
    /// When the task began to wait for an input that is known to be empty.
    idle_since: Option<Duration>,
}

enum Phase {
    Waiting,
    Listing {
        restoring: Restoring,
        begins: Listing,
        ends: Listing,
        /// How far inputs are processed that are changelogs as well.
        committed: Option<Committed>,
    },
    Restoring(Restoring),
    Positioning {
        task: Box<StreamTask>,
        committed: Committed,
        ends: Listing,
    },
    /// The group did not answer about offsets; ask again then.
    Repositioning {
        task: Box<StreamTask>,
        at: Duration,
    },
    Running(Box<StreamTask>),
    Closed,
}

impl fmt::Debug for TaskSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let phase = match &self.phase {
            Phase::Waiting => "waiting",
            Phase::Listing { .. } => "listing",
            Phase::Restoring(_) => "restoring",
            Phase::Positioning { .. } => "positioning",
            Phase::Repositioning { .. } => "repositioning",
            Phase::Running(_) => "running",
            Phase::Closed => "closed",
        };
        write!(f, "{} {phase} {:?}", self.id, self.inputs)
    }
}

impl TaskSlot {
    pub(super) fn new(id: TaskId) -> Self {
        let (phase, inputs) = (Phase::Waiting, BTreeMap::new());
        TaskSlot { id, registered: None, phase, lock: None, inputs, idle_since: None }
    }

    pub(super) fn is_running(&self) -> bool {
        matches!(self.phase, Phase::Running(_))
    }

    pub(super) fn running(&self) -> Option<&StreamTask> {
        match &self.phase {
            Phase::Running(task) => Some(task),
            _ => None,
        }
    }

    pub(super) fn running_mut(&mut self) -> Option<&mut StreamTask> {
        match &mut self.phase {
            Phase::Running(task) => Some(task),
            _ => None,
        }
    }

    /// The stores hold what is committed up to these offsets.
    pub(super) fn committed(&self, offsets: &BTreeMap<TopicPartition, CommittedOffset>) {
        if let Some(registered) = &self.registered {
            registered.committed(offsets);
        }
    }

    /// Takes the next step if it can be taken; true if it was.
    pub(super) fn advance(&mut self, cx: &mut SlotContext<'_>) -> Result<bool> {
        let phase = std::mem::replace(&mut self.phase, Phase::Closed);
        let (phase, moved) =
            self.step(phase, cx).map_err(|error| error.context(format!("task {}", self.id)))?;
        self.phase = phase;
        Ok(moved)
    }

    fn step(&mut self, phase: Phase, cx: &mut SlotContext<'_>) -> Result<(Phase, bool)> {
        match phase {
            Phase::Waiting => self.open(cx),
            Phase::Listing { restoring, mut begins, mut ends, mut committed } => {
                let known = committed.as_mut().is_none_or(|committed| committed.is_done());
                if !(begins.is_done() && ends.is_done() && known) {
                    return Ok((Phase::Listing { restoring, begins, ends, committed }, false));
                }
                let committed = match committed.map(|mut committed| committed.try_take()) {
                    Some(committed) => answer_or_retry(committed)?,
                    None => Some(BTreeMap::new()),
                };
                let Some(committed) = committed else {
                    // The group did not answer; begin again.
                    restoring.finish()?;
                    return Ok((Phase::Waiting, false));
                };
                let ranges = (answer(begins.try_take())?, answer(ends.try_take())?);
                Ok((self.begin_restore(restoring, ranges, &committed, cx)?, true))
            }
            Phase::Restoring(restoring) if restoring.is_done() => {
                for store in &restoring.stores {
                    let partition = TopicPartition::new(store.changelog.clone(), self.id.partition);
                    cx.client.stop_fetching(Reader::Changelog, partition);
                }
                let restored = restoring.restored();
                let phase = self.build(restoring.finish()?, cx)?;
                tracing::info!(task = %self.id, restored, "task restored");
                Ok((phase, true))
            }
            Phase::Positioning { task, mut committed, mut ends } => {
                // A partitioner needs to know how many partitions its topic has.
                let known = cx.collector.borrow().knows_topics();
                if !(known && committed.is_done() && ends.is_done()) {
                    return Ok((Phase::Positioning { task, committed, ends }, false));
                }
                let (committed, ends) = (committed.try_take(), ends.try_take());
                self.position(task, committed, ends, cx).map(|phase| (phase, true))
            }
            Phase::Repositioning { task, at } if cx.now.monotonic >= at => {
                Ok((self.ask_positions(task, cx), true))
            }
            settled => Ok((settled, false)),
        }
    }

    /// Takes the directory and looks how far the stores are.
    fn open(&mut self, cx: &mut SlotContext<'_>) -> Result<(Phase, bool)> {
        if !cx.plan.globals.are_filled() {
            return Ok((Phase::Waiting, false));
        }
        let graph = cx.plan.topology.graph();
        let app = &cx.settings.application_id;
        let partitions = |topic: &str| cx.client.partitions(topic);
        let Some(inputs) = topics::inputs(graph, app, self.id, partitions) else {
            return Ok((Phase::Waiting, false));
        };
        let persistent = graph.stores.iter().any(|store| store.persistent);
        if let Some(directory) = cx.directory.filter(|_| persistent)
            && self.lock.is_none()
        {
            let Some(lock) = directory.try_own(self.id) else {
                return Ok((Phase::Waiting, false));
            };
            self.lock = Some(lock);
        }
        self.inputs = inputs.into_iter().map(|input| (input, InputPosition::default())).collect();
        let path = self.lock.as_ref().map(|lock| lock.stores().to_path_buf());
        let restoring = Restoring::begin(graph, app, self.id, TaskBackends::new(path), cx.budget)?;
        if restoring.stores.is_empty() {
            return Ok((self.build(restoring.finish()?, cx)?, true));
        }
        let partition = |topic: &Arc<str>| TopicPartition::new(topic.clone(), self.id.partition);
        let mut list = |spec: OffsetSpec| {
            let wanted = restoring.stores.iter().map(|s| (partition(&s.changelog), spec)).collect();
            cx.client.list_offsets(wanted)
        };
        let begins = list(OffsetSpec::Earliest);
        let ends = list(OffsetSpec::Latest(Isolation::ReadUncommitted));
        // What is an input as well is a changelog as far as it was processed.
        let inputs: Vec<_> = restoring.source_changelogs().iter().map(partition).collect();
        let committed = (!inputs.is_empty()).then(|| cx.client.committed(inputs));
        Ok((Phase::Listing { restoring, begins, ends, committed }, true))
    }

    fn begin_restore(
        &self,
        mut restoring: Restoring,
        (begins, ends): (
            BTreeMap<TopicPartition, ListedOffset>,
            BTreeMap<TopicPartition, ListedOffset>,
        ),
        committed: &BTreeMap<TopicPartition, Option<CommittedOffset>>,
        cx: &mut SlotContext<'_>,
    ) -> Result<Phase> {
        for (partition, end) in ends {
            let begin = begins.get(&partition).map_or(0, |begin| begin.offset);
            let committed = committed.get(&partition).and_then(Option::as_ref);
            let committed = committed.map(|committed| committed.offset);
            restoring.set_range(&partition.topic, begin, end.offset, committed)?;
        }
        for store in restoring.stores.iter().filter(|store| !store.is_done()) {
            let partition = TopicPartition::new(store.changelog.clone(), self.id.partition);
            let position = store.position.unwrap_or(0);
            tracing::info!(
                task = %self.id,
                changelog = &*store.changelog,
                position,
                end = store.end(),
                "restoring a store"
            );
            // The application's own reset policy is for its inputs: a changelog is always read from where the store is.
            cx.client.fetch(Reader::Changelog, partition, Start::at(position), ResetPolicy::None);
        }
        Ok(Phase::Restoring(restoring))
    }

    fn build(&mut self, backends: TaskBackends, cx: &mut SlotContext<'_>) -> Result<Phase> {
        let read: BTreeSet<&str> = self.inputs.keys().map(|input| &*input.topic).collect();
        let collector = cx.collector.clone();
        let times = cx.now.wall;
        let task =
            StreamTask::build(cx.plan, self.id, backends, cx.budget, collector, times, |topic| {
                read.contains(topic)
            })?;
        Ok(self.ask_positions(Box::new(task), cx))
    }

    fn ask_positions(&self, task: Box<StreamTask>, cx: &mut SlotContext<'_>) -> Phase {
        let inputs: Vec<TopicPartition> = self.inputs.keys().cloned().collect();
        let spec = OffsetSpec::Latest(Isolation::ReadCommitted);
        let ends = cx.client.list_offsets(inputs.iter().map(|p| (p.clone(), spec)).collect());
        Phase::Positioning { task, committed: cx.client.committed(inputs), ends }
    }

    fn position(
        &mut self,
        mut task: Box<StreamTask>,
        committed: Option<Result<Results<TopicPartition, Option<CommittedOffset>>, ClientError>>,
        ends: Option<Result<Results<TopicPartition, ListedOffset>, ClientError>>,
        cx: &mut SlotContext<'_>,
    ) -> Result<Phase> {
        let committed = match answer_or_retry(committed)? {
            Some(committed) => committed,
            None => {
                let at = cx.now.monotonic + cx.settings.wire.retry_backoff;
                return Ok(Phase::Repositioning { task, at });
            }
        };
        for (partition, end) in answer(ends)? {
            if let Some(input) = self.inputs.get_mut(&partition) {
                input.set_end(end.offset);
            }
        }
        let offsets = committed.iter().map(|(partition, committed)| {
            (partition.clone(), committed.as_ref().map(|committed| committed.offset))
        });
        self.registered = Some(cx.queries.register(self.id, task.readers()?, offsets));
        for (partition, offset) in committed {
            let reset = reset_policy(cx.plan, cx.settings, &partition.topic, cx.now);
            let start = match offset {
                Some(CommittedOffset { offset, leader_epoch, metadata }) => {
                    let times = offset_metadata::decode(&metadata);
                    let times = times.unwrap_or_else(CommittedTimes::unknown);
                    task.start_at(&partition.topic, partition.partition, offset, &times);
                    if let Some(input) = self.inputs.get_mut(&partition) {
                        input.start_at(offset);
                    }
                    Start::Offset { offset, leader_epoch }
                }
                None => Start::Reset,
            };
            cx.client.fetch(Reader::Source, partition, start, reset);
        }
        tracing::info!(task = %self.id, "task running");
        Ok(Phase::Running(task))
    }

    /// Takes records of an input partition.
    pub(super) fn add_input(&mut self, fetched: Fetched, now: Now) -> Result<()> {
        let Phase::Running(task) = &mut self.phase else { return Ok(()) };
        let Some(input) = self.inputs.get_mut(&fetched.partition) else { return Ok(()) };
        if !input.accepts(&fetched) {
            return Ok(());
        }
        task.set_wall_clock(now.wall);
        let Fetched { partition, batches, next_offset, credit, .. } = fetched;
        let position = task.add(&partition.topic, partition.partition, batches, next_offset)?;
        if let Some(position) = position {
            input.hold(next_offset, credit);
            // Records that are left out are used up already.
            input.release(position);
        }
        Ok(())
    }

    /// Takes records of a changelog.
    pub(super) fn add_changelog(&mut self, fetched: Fetched) -> Result<()> {
        let Phase::Restoring(restoring) = &mut self.phase else { return Ok(()) };
        let Fetched { partition, position, batches, next_offset, .. } = fetched;
        // What an earlier restore asked for is of no use any more.
        let next = restoring.stores.iter().find(|store| store.changelog == partition.topic);
        if next.is_none_or(|store| store.position != Some(position)) {
            return Ok(());
        }
        restoring.add(&partition.topic, batches, next_offset)
    }

    pub(super) fn reads(&self, reader: Reader, partition: &TopicPartition) -> bool {
        match (&self.phase, reader) {
            (Phase::Restoring(restoring), Reader::Changelog) => {
                self.id.partition == partition.partition
                    && restoring.stores.iter().any(|store| store.changelog == partition.topic)
            }
            (_, Reader::Source) => self.inputs.contains_key(partition),
            _ => false,
        }
    }

    /// An input had no usable position and is read from `to` on.
    pub(super) fn reset(&mut self, partition: &TopicPartition, to: i64) {
        if let Phase::Running(task) = &mut self.phase {
            let times = CommittedTimes::unknown();
            task.start_at(&partition.topic, partition.partition, to, &times);
            if let Some(input) = self.inputs.get_mut(partition) {
                input.start_at(to);
            }
        }
    }

    /// Calls the punctuators that are due; whether there were any.
    pub(super) fn punctuate(&mut self, now: Now) -> Result<bool> {
        match &mut self.phase {
            Phase::Running(task) => task.punctuate(now.wall),
            _ => Ok(false),
        }
    }

    /// How long the wall clock has to run until a punctuator is due, if one waits for it.
    pub(super) fn until_punctuation(&self, now: Now) -> Option<Duration> {
        let next = self.running()?.next_punctuation()?;
        Some(Duration::from_millis(u64::try_from(next - now.wall).unwrap_or(0)))
    }

    /// Processes up to `count` records, unless the task has to wait for an input whose next record may be an earlier one.
    pub(super) fn process(&mut self, count: usize, settings: &Settings, now: Now) -> Result<usize> {
        let Phase::Running(task) = &mut self.phase else { return Ok(0) };
        if task.group().is_empty() {
            return Ok(0);
        }
        let complete = task.group().all_buffered()
            || may_go_on(task, &self.inputs, &mut self.idle_since, settings, now);
        if !complete {
            return Ok(0);
        }
        let several = task.group().inputs().count() > 1;
        let done = match several {
            // Which input is empty changes with every record.
            true => process_while_complete(task, count, now)?,
            false => task.process(count, now.wall)?,
        };
        self.idle_since = None;
        for input in task.group().inputs() {
            let partition = TopicPartition::new(&**input.topic(), input.partition());
            if let Some(books) = self.inputs.get_mut(&partition) {
                books.release(input.position().0);
            }
        }
        Ok(done)
    }

    /// Stops reading and gives the engines back to the disk. What was not committed is gone.
    pub(super) fn close(&mut self, client: &mut Client) -> Result<()> {
        for partition in self.inputs.keys() {
            client.stop_fetching(Reader::Source, partition.clone());
        }
        self.registered = None;
        match std::mem::replace(&mut self.phase, Phase::Closed) {
            Phase::Running(task)
            | Phase::Positioning { task, .. }
            | Phase::Repositioning { task, .. } => drop(task.close()),
            Phase::Restoring(restoring) | Phase::Listing { restoring, .. } => {
                for store in &restoring.stores {
                    let partition = TopicPartition::new(store.changelog.clone(), self.id.partition);
                    client.stop_fetching(Reader::Changelog, partition);
                }
                restoring.finish()?;
            }
            Phase::Waiting | Phase::Closed => {}
        }
        self.lock = None;
        tracing::info!(task = %self.id, "task closed");
        Ok(())
    }
}

/// Whether a task may process although an input is empty: the broker has no more for it, and the idle time is over.
fn may_go_on(
    task: &StreamTask,
    inputs: &BTreeMap<TopicPartition, InputPosition>,
    idle_since: &mut Option<Duration>,
    settings: &Settings,
    now: Now,
) -> bool {
    let Some(idle) = settings.max_task_idle else { return true };
    let all_known_empty = task.group().empty_inputs().all(|input| {
        let partition = TopicPartition::new(&**input.topic(), input.partition());
        inputs.get(&partition).is_some_and(|books| books.is_caught_up(input.position().0))
    });
    if !all_known_empty {
        *idle_since = None;
        return false;
    }
    now.monotonic - *idle_since.get_or_insert(now.monotonic) >= idle
}

/// Processes until an input runs dry: what is there was in order up to here.
fn process_while_complete(task: &mut StreamTask, count: usize, now: Now) -> Result<usize> {
    let mut done = 0;
    while done < count {
        let was_complete = task.group().all_buffered();
        done += task.process(1, now.wall)?;
        if task.group().is_empty() || (was_complete && !task.group().all_buffered()) {
            break;
        }
    }
    Ok(done)
}

/// Where to begin on a source topic without a position: its own policy, else the application's. Repartition topics begin at the
/// beginning.
fn reset_policy(plan: &TaskPlan, settings: &Settings, topic: &str, now: Now) -> ResetPolicy {
    let graph = plan.topology.graph();
    let app = &settings.application_id;
    let own = graph.nodes.iter().find_map(|node| match &node.kind {
        NodeKind::Source(source) => source
            .topics
            .iter()
            .find(|source| *graph.topic_name(app, source) == *topic)
            .map(|found| (graph.repartition_topics.contains_key(found), source.reset)),
        _ => None,
    });
    let policy = match own {
        Some((true, _)) => AutoOffsetReset::Earliest,
        Some((false, Some(reset))) => reset,
        _ => settings.offset_reset,
    };
    match policy {
        AutoOffsetReset::Earliest => ResetPolicy::Earliest,
        AutoOffsetReset::Latest => ResetPolicy::Latest,
        AutoOffsetReset::ByDuration(age) => {
            let age = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
            ResetPolicy::Since(now.wall.saturating_sub(age).max(0))
        }
        AutoOffsetReset::None => ResetPolicy::None,
    }
}

/// The values of an answer, or its first error.
fn answer<V>(
    answer: Option<Result<Results<TopicPartition, V>, ClientError>>,
) -> Result<BTreeMap<TopicPartition, V>> {
    let Some(answer) = answer else { return Ok(BTreeMap::new()) };
    let values = answer.map_err(client_error)?.into_iter();
    values.map(|(partition, value)| Ok((partition, value.map_err(client_error)?))).collect()
}

/// As [`answer`]; `None` if the group wants to be asked again.
fn answer_or_retry<V>(
    given: Option<Result<Results<TopicPartition, V>, ClientError>>,
) -> Result<Option<BTreeMap<TopicPartition, V>>> {
    let again = |error: &ClientError| {
        let kind = error.kind();
        error.is_retriable()
            || matches!(kind, ClientErrorKind::StaleMemberEpoch | ClientErrorKind::Fenced)
    };
    let retry = match &given {
        Some(Ok(results)) => results.values().any(|r| r.as_ref().err().is_some_and(again)),
        Some(Err(error)) => again(error),
        None => false,
    };
    if retry { Ok(None) } else { answer(given).map(Some) }
}

/// An error of the client as one of ours.
pub(super) fn client_error(error: ClientError) -> Error {
    let kind = match error.kind() {
        ClientErrorKind::Fenced
        | ClientErrorKind::ProducerFenced
        | ClientErrorKind::Abortable
        | ClientErrorKind::StaleMemberEpoch => ErrorKind::Migrated,
        ClientErrorKind::Retriable => ErrorKind::Timeout,
        ClientErrorKind::TooLarge => ErrorKind::BadRecord,
        _ => ErrorKind::Broker,
    };
    Error::new(kind, error.to_string())
}

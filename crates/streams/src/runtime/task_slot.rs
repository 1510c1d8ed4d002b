//! One task of a stream thread, from its assignment to its end.
//!
//! ```text
//! Waiting      for the directory, which another thread of the process may still have, for metadata and for global tables
//! Listing      the ends of the changelogs are asked for
//! Restoring    the stores are filled
//! Positioning  the task is built; the committed offsets of its inputs are asked for
//! Running      records are processed
//! ```
//! A step is taken by `advance` (in `task_start`), which never waits.

use super::clock::Now;
use super::collector::ProducerCollector;
use super::idling::Idling;
use super::positions::InputPosition;
use super::queries::{Queries, Registered};
use crate::config::Settings;
use crate::error::{Error, ErrorKind, Result};
use crate::processor::TaskId;
use crate::state::{DirectoryLock, StateDirectory, StoreBudget};
use crate::task::offset_metadata::CommittedTimes;
use crate::task::{Restoring, StreamTask, TaskPlan};
use kstreams_client::{
    Client, ClientError, CommittedOffset, ErrorKind as ClientErrorKind, Fetched, ListedOffset,
    Pending, Reader, Results, TopicPartition,
};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

pub(super) type Listing = Pending<Results<TopicPartition, ListedOffset>>;
pub(super) type Committed = Pending<Results<TopicPartition, Option<CommittedOffset>>>;

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
    pub(super) registered: Option<Registered>,
    pub(super) phase: Phase,
    /// Held as long as the stores are open; declared after `phase`, so that it is given up last.
    pub(super) lock: Option<DirectoryLock>,
    pub(super) inputs: BTreeMap<TopicPartition, InputPosition>,
    idling: Idling,
}

/// Where a task is on its way.
pub(super) enum Phase {
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
        TaskSlot { id, registered: None, phase, lock: None, inputs, idling: Idling::default() }
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
            if let Phase::Running(task) = &self.phase {
                registered.used(task.stores().usage());
            }
        }
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

    /// How long the task waits at most for an input that is empty, if it does.
    pub(super) fn until_idle_enough(&self, settings: &Settings, now: Now) -> Option<Duration> {
        self.idling.left(settings.max_task_idle, now)
    }

    /// Processes up to `count` records, unless the task has to wait for an input whose next record may be an earlier one.
    pub(super) fn process(&mut self, count: usize, settings: &Settings, now: Now) -> Result<usize> {
        let Phase::Running(task) = &mut self.phase else { return Ok(0) };
        if task.group().is_empty() {
            end_waiting(&mut self.idling, self.registered.as_ref());
            return Ok(0);
        }
        if !task.group().all_buffered() {
            let checked = self.idling.check(task, &self.inputs, settings.max_task_idle, now);
            if let Err(waiting) = checked {
                if let Some(registered) = &self.registered {
                    registered.waits(Some(waiting));
                }
                return Ok(0);
            }
        }
        let several = task.group().inputs().count() > 1;
        let done = match several {
            // Which input is empty changes with every record.
            true => process_while_complete(task, count, now)?,
            false => task.process(count, now.wall)?,
        };
        end_waiting(&mut self.idling, self.registered.as_ref());
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

fn end_waiting(idling: &mut Idling, registered: Option<&Registered>) {
    if idling.end()
        && let Some(registered) = registered
    {
        registered.waits(None);
    }
}

/// Processes until an input runs dry: what is there was in order up to here.
fn process_while_complete(task: &mut StreamTask, count: usize, now: Now) -> Result<usize> {
    let mut done = 0;
    while done < count {
        let was_complete = task.group().all_buffered();
        let processed = task.process(1, now.wall)?;
        done += processed;
        // Nothing is processed when the next record is known to fail.
        if processed == 0
            || task.group().is_empty()
            || (was_complete && !task.group().all_buffered())
        {
            break;
        }
    }
    Ok(done)
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

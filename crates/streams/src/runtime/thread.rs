//! A stream thread: one member of the group with its tasks, as a step that never blocks.
//!
//! A turn takes what the client has to tell, goes on with a running commit, gives up and takes over tasks, processes records, and
//! begins a commit when it is time. While a commit runs, nothing is processed (see [`crate::task::commit`]).

use super::clock::{Clock, Now};
use super::collector::ProducerCollector;
use super::lifecycle::ThreadState;
use super::pace::{self, Pace};
use super::purge::Purge;
use super::queries::Queries;
use super::recovery::Recovery;
use super::task_slot::{TaskSlot, client_error};
use super::thread_closing::Closing;
use super::thread_commit::Commit;
use super::thread_failure::Failing;
use super::topics;
use crate::config::Settings;
use crate::error::{Error, ErrorKind, Result};
use crate::processor::TaskId;
use crate::state::{StateDirectory, StoreBudget};
use crate::task::{RecordCollector, TaskPlan};
use kstreams_client::{
    Client, ClientError, Event, Fetched, GroupConfig, GroupStatus, GroupStatusKind, ProducerConfig,
    Reader, TopicPartition,
};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How long source topics may be missing before it is an error; a topic that was just made needs a moment.
const MISSING_TOPICS: Duration = Duration::from_secs(5);

/// What a thread is made from. It is `Send`; the thread is not.
pub(super) struct ThreadParts {
    /// The thread's number in the process.
    pub(super) index: usize,
    pub(super) name: String,
    pub(super) queries: Arc<Queries>,
    pub(super) client: Client,
    /// For within a turn.
    pub(super) clock: Arc<dyn Clock>,
    pub(super) settings: Arc<Settings>,
    pub(super) plan: TaskPlan,
    pub(super) group: GroupConfig,
    pub(super) producer: ProducerConfig,
    pub(super) directory: Option<Arc<StateDirectory>>,
    /// Whether this thread also cleans the state directory.
    pub(super) cleans: bool,
}

/// When the thread wants its next turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// At once.
    Again,
    /// When the client has something, or after this time.
    Wait(Duration),
    /// Never: it has left the group.
    Finished,
}

pub(super) struct StreamThread {
    pub(super) index: usize,
    pub(super) name: String,
    pub(super) queries: Arc<Queries>,
    pub(super) client: Client,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) settings: Arc<Settings>,
    pub(super) slots: BTreeMap<TaskId, TaskSlot>,
    pub(super) collector: Rc<RefCell<ProducerCollector>>,
    pub(super) commit: Commit,
    pub(super) purge: Purge,
    pub(super) recovery: Recovery,
    pub(super) pace: Pace,
    pub(super) last_commit: Duration,
    /// The repartition topics of the application, with their names on the cluster.
    pub(super) repartition_topics: BTreeSet<Arc<str>>,
    pub(super) plan: TaskPlan,
    pub(super) producer: ProducerConfig,
    pub(super) budget: StoreBudget,
    pub(super) directory: Option<Arc<StateDirectory>>,
    /// The assignment that is not carried out yet.
    pub(super) target: Option<(i32, BTreeSet<TaskId>)>,
    pub(super) state: ThreadState,
    pub(super) problem: Option<(Duration, Vec<GroupStatus>)>,
    pub(super) closing: Closing,
    pub(super) failing: Failing,
    next_clean: Option<Duration>,
}

impl StreamThread {
    /// Joins the group. Called on the thread that runs it.
    pub(super) fn new(parts: ThreadParts, now: Now) -> Self {
        let ThreadParts { index, name, queries, mut client, clock, settings, .. } = parts;
        let ThreadParts { plan, group, producer, directory, cleans, .. } = parts;
        let buffer = settings.wire.buffer_memory;
        let (graph, app) = (plan.topology.graph(), &settings.application.id);
        let repartition_topics = topics::repartition_topics(graph, app);
        let opened = client.producer(producer.clone());
        let sources = topics::source_topics(graph, app);
        client.watch(sources.into_iter().collect());
        client.join(group);
        StreamThread {
            index,
            name,
            queries,
            collector: Rc::new(RefCell::new(ProducerCollector::new(opened, buffer))),
            purge: Purge::new(settings.repartition_purge_interval),
            next_clean: cleans.then(|| now.monotonic + settings.state_cleanup_delay),
            client,
            clock,
            budget: settings.store_budget(),
            settings,
            slots: BTreeMap::new(),
            commit: Commit::Idle,
            recovery: Recovery::new(),
            pace: Pace::new(),
            last_commit: now.monotonic,
            repartition_topics,
            plan,
            producer,
            directory,
            target: None,
            state: ThreadState::Starting,
            problem: None,
            closing: Closing::No,
            failing: Failing::default(),
        }
    }

    pub(super) fn state(&self) -> ThreadState {
        self.state
    }

    /// One turn.
    pub(super) fn run_once(&mut self, now: Now) -> Result<Turn> {
        while let Some(event) = self.client.next_event() {
            self.on_event(event, now)?;
        }
        self.pace.begin_turn(now);
        self.check_problem(now)?;
        let lingering = self.send_output(now)?;
        self.advance_commit(now)?;
        if !self.commit.is_idle() {
            self.check_closing(now)?;
            return Ok(Turn::Wait(self.commit.wait(now)));
        }
        if self.is_closing() {
            return self.close_tasks(now);
        }
        if !self.advance_recovery(now)? {
            return Ok(Turn::Wait(self.recovery.wait(now)));
        }
        self.reconcile(now)?;
        let moved = self.advance_tasks(now)?;
        let (mut processed, mut punctuated) = (0, false);
        if self.commit.is_idle() && self.advance_failing(now)? {
            punctuated = self.punctuate(now)?;
            processed = self.process(now)?;
        }
        self.begin_commit_if_due(now)?;
        self.purge.poll(&mut self.client, now.monotonic);
        self.clean(now);
        self.settle();
        if moved || punctuated || processed > 0 || !self.commit.is_idle() {
            return Ok(Turn::Again);
        }
        let linger = lingering.map_or(self.settings.poll, |due| due.saturating_sub(now.monotonic));
        let uncommitted = self.slots.keys().any(|task| self.needs_commit(*task));
        let commit = if uncommitted { self.until_commit(now) } else { self.settings.poll };
        let due = self.slots.values().filter_map(|slot| slot.until_punctuation(now)).min();
        let idle =
            self.slots.values().filter_map(|slot| slot.until_idle_enough(&self.settings, now));
        let due = due.into_iter().chain(idle).min().unwrap_or(self.settings.poll);
        Ok(Turn::Wait(linger.min(self.settings.poll).min(commit).min(due)))
    }

    fn on_event(&mut self, event: Event, now: Now) -> Result<()> {
        match event {
            Event::Fetched(fetched) => return self.on_fetched(fetched, now),
            Event::PositionReset { reader: Reader::Source, partition, to, .. } => {
                if let Some(slot) = self.slot_of(Reader::Source, &partition) {
                    slot.reset(&partition, to);
                }
            }
            Event::FetchFailed { reader, partition, error }
                if self.slot_of(reader, &partition).is_some() =>
            {
                return Err(match reader {
                    Reader::Source => client_error(error).context(format!("reading {partition}")),
                    Reader::Changelog => unreadable_changelog(&partition, &error),
                });
            }
            Event::Assigned { epoch, tasks } => self.on_assigned(epoch, &tasks)?,
            Event::Lost { error } => self.on_lost(&error, now),
            Event::GroupStatus(status) if status.is_empty() => self.problem = None,
            Event::GroupStatus(status) => {
                tracing::info!(?status, "group status");
                self.problem.get_or_insert((now.monotonic, Vec::new())).1 = status;
            }
            Event::Endpoints(hosts) => self.queries.learn_hosts(hosts),
            Event::GroupFailed { error } => return Err(client_error(error)),
            Event::MetadataChanged(changed) => {
                for (topic, state) in changed {
                    self.collector.borrow_mut().learn(&topic, state, now.monotonic)?;
                }
            }
            Event::Unreachable { error } => tracing::warn!("no broker can be reached: {error}"),
            _ => {}
        }
        Ok(())
    }

    fn on_fetched(&mut self, fetched: Fetched, now: Now) -> Result<()> {
        let reader = fetched.reader;
        // Records of a task that has left meanwhile are dropped here, with their credit.
        let Some(slot) = self.slot_of(reader, &fetched.partition) else { return Ok(()) };
        let task = slot.id;
        match reader {
            Reader::Source => match slot.add_input(fetched, now) {
                Ok(()) => Ok(()),
                Err(error) => self.task_failed(task, error, now),
            },
            Reader::Changelog => slot.add_changelog(fetched),
        }
    }

    fn slot_of(&mut self, reader: Reader, partition: &TopicPartition) -> Option<&mut TaskSlot> {
        self.slots.values_mut().find(|slot| slot.reads(reader, partition))
    }

    fn check_problem(&self, now: Now) -> Result<()> {
        let Some((since, statuses)) = &self.problem else { return Ok(()) };
        for status in statuses {
            let (kind, advice) = match status.kind {
                GroupStatusKind::MissingSourceTopics if now.monotonic - *since > MISSING_TOPICS => {
                    (ErrorKind::Broker, "create the topics that the application reads")
                }
                GroupStatusKind::IncorrectlyPartitionedTopics => {
                    (ErrorKind::InvalidTopology, "give the topics equally many partitions")
                }
                GroupStatusKind::ShutdownApplication => {
                    (ErrorKind::InvalidState, "a member asked for the whole application to stop")
                }
                _ => continue,
            };
            return Err(Error::new(kind, format!("{}: {advice}", status.detail)));
        }
        Ok(())
    }

    /// Has new topics watched and lingering batches sent; gives when the next batch will have lingered.
    pub(super) fn send_output(&mut self, now: Now) -> Result<Option<Duration>> {
        let mut collector = self.collector.borrow_mut();
        let unwatched = collector.take_unwatched();
        if !unwatched.is_empty() {
            for topic in &unwatched {
                if let Some(state) = self.client.topic_state(topic) {
                    collector.learn(topic, state, now.monotonic)?;
                }
            }
            self.client.watch(unwatched);
        }
        collector.set_wall_clock(now.wall);
        collector.poll(now.monotonic)
    }

    /// Each task's share of the turn.
    fn process(&mut self, now: Now) -> Result<usize> {
        let mut processed = 0;
        let tasks: Vec<TaskId> = self.slots.keys().copied().collect();
        for task in tasks {
            match self.process_task(task, now) {
                Ok(done) => processed += done,
                // All tasks are dropped, or the thread ends.
                Err(error) => return self.task_failed(task, error, now).map(|()| processed + 1),
            }
        }
        Ok(processed)
    }

    /// Records that become slow all at once are noticed after few of them: a task begins with one, and takes four times as many each
    /// time as long as its share is young. The next one has its share whatever this one took.
    fn process_task(&mut self, task: TaskId, now: Now) -> Result<usize> {
        let Some(slot) = self.slots.get_mut(&task) else { return Ok(0) };
        let began = self.clock.now().monotonic;
        let (mut processed, mut left, mut step) = (0, self.pace.allowance(), 1);
        while left > 0 && !self.collector.borrow().is_full() {
            let most = left.min(step);
            let done = slot.process(most, &self.settings, now)?;
            self.pace.processed(done, now);
            if done > 0 {
                self.failing.last = Some(task);
            }
            processed += done;
            if done < most || self.clock.now().monotonic - began > pace::LONG {
                break;
            }
            left -= done;
            step *= 4;
        }
        Ok(processed)
    }

    /// Calls the punctuators that are due; whether there were any.
    fn punctuate(&mut self, now: Now) -> Result<bool> {
        let mut punctuated = false;
        for (task, slot) in &mut self.slots {
            match slot.punctuate(now) {
                Ok(fired) => punctuated |= fired,
                Err(error) => {
                    let task = *task;
                    return self.task_failed(task, error, now).map(|()| true);
                }
            }
        }
        Ok(punctuated)
    }

    /// Sleeps until the client has something, at most `timeout`: where a stream thread that works waits.
    pub(super) fn wait(&mut self, timeout: Duration) {
        self.client.wait(timeout);
    }

    /// Deletes the directories of tasks that went elsewhere long ago.
    fn clean(&mut self, now: Now) {
        let (Some(due), Some(directory)) = (self.next_clean, &self.directory) else { return };
        if now.monotonic < due || self.state != ThreadState::Running {
            return;
        }
        let delay = self.settings.state_cleanup_delay;
        self.next_clean = Some(now.monotonic + delay.max(Duration::from_secs(1)));
        let wall = UNIX_EPOCH + Duration::from_millis(now.wall.unsigned_abs());
        let age_of = |path: &std::path::Path| {
            let changed: SystemTime =
                std::fs::metadata(path).and_then(|data| data.modified()).ok()?;
            Some(wall.duration_since(changed).unwrap_or_default())
        };
        if let Err(error) = directory.clean(delay, age_of) {
            tracing::warn!("cannot clean the state directory: {error}");
        }
    }

    pub(super) fn become_state(&mut self, next: ThreadState) {
        if self.state != next && self.state.may_become(next) {
            tracing::info!(from = ?self.state, to = ?next, "stream thread");
            self.state = next;
        }
    }
}

fn unreadable_changelog(partition: &TopicPartition, error: &ClientError) -> Error {
    let message = format!(
        "cannot restore from {partition}: {error}; if the topic was cut or made again, delete the local state \
         (KafkaStreams::clean_up) to restore from what is there"
    );
    Error::new(ErrorKind::State, message)
}

//! A stream thread: one member of the group with its tasks, as a step that never blocks.
//!
//! A turn takes what the client has to tell, goes on with a running commit, gives up and takes over tasks, processes records, and
//! begins a commit when it is time. While a commit runs, nothing is processed (see [`crate::task::commit`]).

use super::clock::Now;
use super::collector::ProducerCollector;
use super::lifecycle::ThreadState;
use super::purge::Purge;
use super::task_slot::{SlotContext, TaskSlot, client_error};
use super::thread_commit::Commit;
use super::topics;
use crate::config::Settings;
use crate::error::{Error, ErrorKind, Result};
use crate::processor::TaskId;
use crate::state::{StateDirectory, StoreBudget};
use crate::task::{RecordCollector, TaskPlan};
use kstreams_client::{
    Client, ClientError, Event, Fetched, GroupConfig, GroupStatus, GroupStatusKind, Pending,
    ProducerConfig, Reader, Tasks, TopicPartition,
};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Records that a task may process before the thread looks around.
const RECORDS_A_TURN: usize = 1000;
/// How long the group has to take notice of a member that leaves; if no broker can be reached, its session ends by itself.
const LEAVE: Duration = Duration::from_secs(5);
/// How long the last commit may take while closing.
const LAST_COMMIT: Duration = Duration::from_secs(20);
/// How long source topics may be missing before it is an error; a topic that was just made needs a moment.
const MISSING_TOPICS: Duration = Duration::from_secs(5);

/// What a thread is made from. It is `Send`; the thread is not.
pub(super) struct ThreadParts {
    pub(super) client: Client,
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
    pub(super) client: Client,
    pub(super) settings: Arc<Settings>,
    pub(super) slots: BTreeMap<TaskId, TaskSlot>,
    pub(super) collector: Rc<RefCell<ProducerCollector>>,
    pub(super) commit: Commit,
    pub(super) purge: Purge,
    pub(super) last_commit: Duration,
    /// The repartition topics of the application, with their names on the cluster.
    pub(super) repartition_topics: BTreeSet<Arc<str>>,
    plan: TaskPlan,
    budget: StoreBudget,
    directory: Option<Arc<StateDirectory>>,
    /// The assignment that is not carried out yet.
    target: Option<(i32, BTreeSet<TaskId>)>,
    state: ThreadState,
    problem: Option<(Duration, Vec<GroupStatus>)>,
    closing: Closing,
    next_clean: Option<Duration>,
}

enum Closing {
    No,
    /// Since then.
    Requested(Duration),
    Leaving(Pending<()>, Duration),
    Left,
}

impl StreamThread {
    /// Joins the group. Called on the thread that runs it.
    pub(super) fn new(parts: ThreadParts, now: Now) -> Self {
        let ThreadParts { mut client, settings, plan, group, producer, directory, cleans } = parts;
        let buffer = settings.wire.buffer_memory;
        let (graph, app) = (plan.topology.graph(), &settings.application_id);
        let repartition_topics = topics::repartition_topics(graph, app);
        let producer = client.producer(producer);
        let sources = topics::source_topics(graph, app);
        client.watch(sources.into_iter().collect());
        client.join(group);
        StreamThread {
            collector: Rc::new(RefCell::new(ProducerCollector::new(producer, buffer))),
            purge: Purge::new(settings.repartition_purge_interval),
            next_clean: cleans.then(|| now.monotonic + settings.state_cleanup_delay),
            client,
            budget: settings.store_budget(),
            settings,
            slots: BTreeMap::new(),
            commit: Commit::Idle,
            last_commit: now.monotonic,
            repartition_topics,
            plan,
            directory,
            target: None,
            state: ThreadState::Starting,
            problem: None,
            closing: Closing::No,
        }
    }

    pub(super) fn state(&self) -> ThreadState {
        self.state
    }

    /// Asks the thread to commit, close its tasks and leave the group.
    pub(super) fn request_close(&mut self, now: Now) {
        if matches!(self.closing, Closing::No) {
            self.closing = Closing::Requested(now.monotonic);
            self.become_state(ThreadState::PendingShutdown);
        }
    }

    /// One turn.
    pub(super) fn run_once(&mut self, now: Now) -> Result<Turn> {
        while let Some(event) = self.client.next_event() {
            self.on_event(event, now)?;
        }
        self.check_problem(now)?;
        let lingering = self.send_output(now)?;
        self.advance_commit(now)?;
        if !self.commit.is_idle() {
            self.check_closing(now)?;
            return Ok(Turn::Wait(self.commit.wait(now)));
        }
        if !matches!(self.closing, Closing::No) {
            return self.close_tasks(now);
        }
        self.reconcile(now)?;
        let moved = self.advance_tasks(now)?;
        let processed = if self.commit.is_idle() { self.process(now)? } else { 0 };
        self.begin_commit_if_due(now)?;
        self.purge.poll(&mut self.client, now.monotonic);
        self.clean(now);
        self.settle();
        if moved || processed > 0 || !self.commit.is_idle() {
            return Ok(Turn::Again);
        }
        let linger = lingering.map_or(self.settings.poll, |due| due.saturating_sub(now.monotonic));
        let uncommitted = self.slots.keys().any(|task| self.needs_commit(*task));
        let commit = if uncommitted { self.until_commit(now) } else { self.settings.poll };
        Ok(Turn::Wait(linger.min(self.settings.poll).min(commit)))
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
            Event::Lost { error } => self.on_lost(&error),
            Event::GroupStatus(status) if status.is_empty() => self.problem = None,
            Event::GroupStatus(status) => {
                tracing::info!(?status, "group status");
                self.problem.get_or_insert((now.monotonic, Vec::new())).1 = status;
            }
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
        match reader {
            Reader::Source => slot.add_input(fetched, now),
            Reader::Changelog => slot.add_changelog(fetched),
        }
    }

    fn slot_of(&mut self, reader: Reader, partition: &TopicPartition) -> Option<&mut TaskSlot> {
        self.slots.values_mut().find(|slot| slot.reads(reader, partition))
    }

    fn on_assigned(&mut self, epoch: i32, tasks: &Tasks) -> Result<()> {
        let wanted: BTreeSet<TaskId> =
            tasks.active.iter().filter_map(topics::from_member_task).collect();
        let count = self.plan.topology.graph().subtopologies.len() as u32;
        if let Some(unknown) = wanted.iter().find(|task| task.subtopology >= count) {
            let message =
                format!("the group assigned task {unknown}, which the topology does not have");
            return Err(Error::new(ErrorKind::Broker, message));
        }
        self.target = Some((epoch, wanted));
        Ok(())
    }

    /// The group gave the tasks to others: nothing of them may be committed.
    fn on_lost(&mut self, error: &ClientError) {
        tracing::warn!("all tasks are lost, the member joins again: {error}");
        self.drop_tasks();
        self.target = None;
        self.client.acknowledge(Tasks::default(), 0);
        self.become_state(ThreadState::Assigned);
    }

    /// Closes all tasks without a commit.
    pub(super) fn drop_tasks(&mut self) {
        self.commit = Commit::Idle;
        for (task, mut slot) in std::mem::take(&mut self.slots) {
            if let Err(error) = slot.close(&mut self.client) {
                tracing::warn!(%task, "while closing: {error}");
            }
        }
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
    fn send_output(&mut self, now: Now) -> Result<Option<Duration>> {
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
        collector.poll(now.monotonic)
    }

    /// Carries out an assignment: commits and closes what is not in it, then opens what is new, then tells the group.
    fn reconcile(&mut self, now: Now) -> Result<()> {
        let Some((epoch, wanted)) = &self.target else { return Ok(()) };
        let (epoch, wanted) = (*epoch, wanted.clone());
        let given_up: Vec<TaskId> =
            self.slots.keys().filter(|task| !wanted.contains(task)).copied().collect();
        if given_up.iter().any(|task| self.needs_commit(*task)) {
            self.become_state(ThreadState::Assigned);
            return self.begin_commit(now);
        }
        for task in &given_up {
            if let Some(mut slot) = self.slots.remove(task) {
                slot.close(&mut self.client)?;
            }
        }
        for task in &wanted {
            self.slots.entry(*task).or_insert_with(|| TaskSlot::new(*task));
        }
        let active = wanted.iter().map(|task| topics::to_member_task(*task)).collect();
        self.client.acknowledge(Tasks { active, ..Tasks::default() }, epoch);
        tracing::info!(epoch, tasks = ?wanted.iter().map(ToString::to_string).collect::<Vec<_>>(), "assignment");
        self.target = None;
        self.become_state(ThreadState::Assigned);
        Ok(())
    }

    fn needs_commit(&self, task: TaskId) -> bool {
        let running = self.slots.get(&task).and_then(TaskSlot::running);
        running.is_some_and(crate::task::StreamTask::needs_commit)
    }

    /// Lets tasks that do not run yet take a step.
    fn advance_tasks(&mut self, now: Now) -> Result<bool> {
        let mut cx = SlotContext {
            client: &mut self.client,
            collector: &self.collector,
            directory: self.directory.as_ref(),
            plan: &self.plan,
            budget: &self.budget,
            settings: &self.settings,
            now,
        };
        let mut moved = false;
        for slot in self.slots.values_mut().filter(|slot| !slot.is_running()) {
            moved |= slot.advance(&mut cx)?;
        }
        Ok(moved)
    }

    fn process(&mut self, now: Now) -> Result<usize> {
        let mut processed = 0;
        for slot in self.slots.values_mut() {
            if self.collector.borrow().is_full() {
                break;
            }
            processed += slot.process(RECORDS_A_TURN, &self.settings, now)?;
        }
        Ok(processed)
    }

    /// A last commit does not wait for brokers for ever.
    fn check_closing(&self, now: Now) -> Result<()> {
        match self.closing {
            Closing::Requested(since) if now.monotonic - since > LAST_COMMIT => {
                let message = format!(
                    "the brokers did not confirm the last commit within {LAST_COMMIT:?}: \
                     what came after the one before is processed again"
                );
                Err(Error::new(ErrorKind::Timeout, message))
            }
            _ => Ok(()),
        }
    }

    /// Commits, closes all tasks, leaves the group.
    fn close_tasks(&mut self, now: Now) -> Result<Turn> {
        match &mut self.closing {
            Closing::No | Closing::Left => Ok(Turn::Finished),
            Closing::Requested(_) => {
                if self.slots.keys().any(|task| self.needs_commit(*task)) {
                    self.begin_commit(now)?;
                    return Ok(Turn::Again);
                }
                self.drop_tasks();
                let limit = now.monotonic + LEAVE;
                self.closing = Closing::Leaving(self.client.leave(), limit);
                Ok(Turn::Again)
            }
            Closing::Leaving(pending, limit) => {
                if !pending.is_done() && now.monotonic < *limit {
                    return Ok(Turn::Wait(self.settings.poll));
                }
                if let Some(Err(error)) = pending.try_take() {
                    tracing::warn!("cannot leave the group, its session has to end: {error}");
                }
                self.closing = Closing::Left;
                self.become_state(ThreadState::Dead);
                Ok(Turn::Finished)
            }
        }
    }

    /// After a fatal error: tasks are dropped as they are, the group is left.
    pub(super) fn abandon(&mut self) {
        self.drop_tasks();
        self.become_state(ThreadState::PendingShutdown);
        if let Err(error) = self.client.leave().wait(LEAVE) {
            tracing::warn!("cannot leave the group, its session has to end: {error}");
        }
        self.become_state(ThreadState::Dead);
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

    fn settle(&mut self) {
        // A group without internal topics or source topics has tasks for nobody yet.
        let settled = self.target.is_none()
            && self.problem.is_none()
            && self.slots.values().all(TaskSlot::is_running);
        if settled && self.state == ThreadState::Assigned {
            self.become_state(ThreadState::Running);
        }
    }

    fn become_state(&mut self, next: ThreadState) {
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

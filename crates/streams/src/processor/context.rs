//! What nodes know while a record passes: the task they belong to, the record's place and time, and where to forward.

use super::application::Application;
use super::failures::{Failures, RawSource};
use super::progress::Progress;
use super::punctuation::{Cancellable, Punctuate, PunctuationType, Schedules, Timing};
use super::walk::{Chunk, ChunkedWalk, Elapsed};
use super::{KeyOf, ProcessResult, Processor, RecordOf, ValueOf};
use crate::config::{Compatibility, OperatorRules};
use crate::error::{Error, ErrorKind, Result};
use crate::handlers::ErrorPolicy;
use crate::record::RecordMetadata;
use crate::state::{
    GlobalStores, GlobalTable, GlobalTableWriter, StoreSet, StoreToken, StoreType, Walkable,
};
use crate::topology::erased::{Fault, Output};
use std::cell::{Cell, RefCell};
use std::fmt;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// A task: one sub-topology on one partition. Written `0_3` as in Kafka.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId {
    /// The sub-topology's number.
    pub subtopology: u32,
    /// The partition.
    pub partition: i32,
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}_{}", self.subtopology, self.partition)
    }
}

/// Where and when the record in hand was read.
#[derive(Debug, Clone)]
pub(crate) struct RecordContext {
    pub(crate) topic: Rc<str>,
    pub(crate) partition: i32,
    pub(crate) offset: i64,
    pub(crate) timestamp: i64,
}

/// What all nodes of one task share. Everything is on the task's thread, so cells are enough.
#[derive(Debug)]
pub(crate) struct TaskContext {
    pub(crate) application: Arc<Application>,
    pub(crate) task_id: TaskId,
    pub(crate) rules: OperatorRules,
    /// How far in time the operators are that close something.
    pub(crate) progress: Progress,
    topic: RefCell<Rc<str>>,
    partition: Cell<i32>,
    offset: Cell<i64>,
    timestamp: Cell<i64>,
    stream_time: Cell<i64>,
    wall_clock: Cell<i64>,
    commit_requested: Cell<bool>,
    dropped: Cell<u64>,
    /// When the next punctuator of each clock is due; the largest number: none.
    next_punctuation: [Cell<i64>; 2],
    /// Whether a walk may be under way.
    is_walking: Cell<bool>,
    globals: Arc<GlobalStores>,
    /// The clock that never goes back, for walks.
    elapsed: Elapsed,
    pub(crate) failures: Failures,
}

impl TaskContext {
    pub(crate) fn new(
        application: Arc<Application>,
        task_id: TaskId,
        rules: OperatorRules,
        globals: Arc<GlobalStores>,
        elapsed: Elapsed,
        policy: ErrorPolicy,
    ) -> Self {
        TaskContext {
            globals,
            elapsed,
            failures: Failures::new(policy),
            is_walking: Cell::new(false),
            application,
            task_id,
            rules,
            progress: Progress::default(),
            topic: RefCell::new("".into()),
            partition: Cell::new(-1),
            offset: Cell::new(-1),
            timestamp: Cell::new(-1),
            stream_time: Cell::new(-1),
            wall_clock: Cell::new(0),
            commit_requested: Cell::new(false),
            dropped: Cell::new(0),
            next_punctuation: [Cell::new(i64::MAX), Cell::new(i64::MAX)],
        }
    }

    /// The partition that the next records come from; only its offsets and times change record by record.
    pub(crate) fn enter_source(
        &self,
        topic: &Rc<str>,
        partition: i32,
        source: &Rc<impl RawSource + 'static>,
    ) {
        // A record cache may have brought the topic back without its source.
        if !Rc::ptr_eq(&self.topic.borrow(), topic) || !self.failures.has_source() {
            self.topic.replace(topic.clone());
            self.failures.set_source(Some(source.clone()));
        }
        self.partition.set(partition);
    }

    fn enter_partition(&self, topic: &Rc<str>, partition: i32) {
        if !Rc::ptr_eq(&self.topic.borrow(), topic) {
            self.topic.replace(topic.clone());
            self.failures.set_source(None);
        }
        self.partition.set(partition);
    }

    pub(crate) fn enter_record(&self, offset: i64, timestamp: i64) {
        self.offset.set(offset);
        self.timestamp.set(timestamp);
        self.reach(timestamp);
    }

    /// Moves the stream time, which never goes back.
    pub(crate) fn reach(&self, time: i64) {
        self.stream_time.set(self.stream_time.get().max(time));
    }

    /// There is no record in hand: a punctuator runs at that time.
    pub(crate) fn enter_punctuation(&self, time: i64) {
        self.enter_partition(&"".into(), -1);
        self.offset.set(-1);
        self.timestamp.set(time);
    }

    fn next_of(&self, kind: PunctuationType) -> &Cell<i64> {
        &self.next_punctuation[usize::from(kind == PunctuationType::WallClockTime)]
    }

    /// A punctuator will be due at that time.
    pub(crate) fn expect_punctuation(&self, kind: PunctuationType, at: i64) {
        let next = self.next_of(kind);
        next.set(next.get().min(at));
    }

    /// When the next punctuator of a clock is due, if there is one.
    pub(crate) fn next_punctuation(&self, kind: PunctuationType) -> Option<i64> {
        Some(self.next_of(kind).get()).filter(|next| *next < i64::MAX)
    }

    /// Calls the punctuators of these nodes that are due; whether there were any.
    pub(crate) fn punctuate(
        &self,
        nodes: &[Rc<dyn Punctuate>],
        kind: PunctuationType,
    ) -> Result<bool, Fault> {
        let now = match kind {
            PunctuationType::StreamTime => self.stream_time(),
            PunctuationType::WallClockTime => self.wall_clock(),
        };
        if self.next_punctuation(kind).is_none_or(|next| now < next) {
            return Ok(false);
        }
        self.next_of(kind).set(i64::MAX);
        // Backwards: nodes are built children first.
        for node in nodes.iter().rev() {
            node.punctuate(kind, now)?;
            if let Some(next) = node.next(kind) {
                self.expect_punctuation(kind, next);
            }
        }
        Ok(true)
    }

    pub(super) fn begin_walk(&self) {
        self.is_walking.set(true);
    }

    /// Since some moment in the past.
    pub(super) fn elapsed(&self) -> Duration {
        self.elapsed.read()
    }

    /// A piece of each walk of these nodes that is under way; whether there was one.
    pub(crate) fn walk(&self, nodes: &[Rc<dyn Punctuate>]) -> Result<bool, Fault> {
        if !self.is_walking.take() {
            return Ok(false);
        }
        for node in nodes.iter().rev() {
            if node.walk()? {
                self.is_walking.set(true);
            }
        }
        Ok(true)
    }

    pub(crate) fn record(&self) -> RecordContext {
        RecordContext {
            topic: self.topic.borrow().clone(),
            partition: self.partition.get(),
            offset: self.offset.get(),
            timestamp: self.timestamp.get(),
        }
    }

    /// Where the record in hand was read, if there is one.
    pub(crate) fn metadata(&self) -> Option<RecordMetadata> {
        let RecordContext { topic, partition, offset, .. } = self.record();
        (partition >= 0).then_some(RecordMetadata { topic, partition, offset })
    }

    /// Puts back the context of an earlier record, while its cached result is forwarded.
    pub(crate) fn restore(&self, record: &RecordContext) {
        self.enter_partition(&record.topic, record.partition);
        self.offset.set(record.offset);
        self.timestamp.set(record.timestamp);
    }

    /// Whether results are Java 4.4's where those are not right.
    pub(crate) fn is_java_4_4(&self) -> bool {
        self.rules.compatibility == Compatibility::Java44
    }

    /// The global tables of the process.
    pub(crate) fn globals(&self) -> &GlobalStores {
        &self.globals
    }

    pub(crate) fn timestamp(&self) -> i64 {
        self.timestamp.get()
    }

    pub(crate) fn stream_time(&self) -> i64 {
        self.stream_time.get()
    }

    pub(crate) fn set_wall_clock(&self, now: i64) {
        self.wall_clock.set(now);
    }

    pub(crate) fn take_commit_request(&self) -> bool {
        self.commit_requested.take()
    }

    /// Counts a record that an operator left out; the 1st, 2nd, 4th, 8th and so on of a task is reported.
    pub(crate) fn drop_record(&self, node: &str, reason: impl fmt::Display) {
        let topic = self.topic.borrow().clone();
        self.drop_record_at(node, &topic, self.partition.get(), self.offset.get(), reason);
    }

    /// As [`Self::drop_record`] for a record that is not in hand yet.
    pub(crate) fn drop_record_at(
        &self,
        node: &str,
        topic: &str,
        partition: i32,
        offset: i64,
        reason: impl fmt::Display,
    ) {
        let dropped = self.dropped.get() + 1;
        self.dropped.set(dropped);
        if dropped.is_power_of_two() {
            let task = self.task_id;
            tracing::warn!(%task, node, dropped, topic, partition, offset, "record dropped: {reason}");
        }
    }

    /// Counts a record that was left out and already reported.
    pub(crate) fn count_dropped(&self) {
        self.dropped.set(self.dropped.get() + 1);
    }

    /// The highest time that an operator has seen. It outlives the task, so that nothing which was closed opens again, and operators
    /// on one `state` share it, so that none closes what another still takes. Java 4.4 has one for each node, and forgets it.
    pub(crate) fn observed_time(&self, state: &str, node: &str) -> Rc<Cell<i64>> {
        match self.rules.compatibility {
            Compatibility::Correct => self.progress.own_time(state),
            Compatibility::Java44 => self.progress.passing_time(node, -1),
        }
    }

    pub(crate) fn wall_clock(&self) -> i64 {
        self.wall_clock.get()
    }

    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.get()
    }
}

/// What a processor sees of its task while it has a record in hand.
pub struct Context<'a, P: Processor + ?Sized> {
    task: &'a TaskContext,
    out: &'a Output<KeyOf<P::Out>, ValueOf<P::Out>>,
    schedules: &'a Schedules<P>,
}

impl<'a, P: Processor + ?Sized> Context<'a, P> {
    pub(crate) fn new(
        task: &'a TaskContext,
        out: &'a Output<KeyOf<P::Out>, ValueOf<P::Out>>,
        schedules: &'a Schedules<P>,
    ) -> Self {
        Context { task, out, schedules }
    }

    pub(super) fn task(&self) -> &TaskContext {
        self.task
    }

    /// The same context for another hand.
    pub(super) fn again(&self) -> Self {
        Context { task: self.task, out: self.out, schedules: self.schedules }
    }

    /// Sends a record to all children, one after the other.
    ///
    /// # Errors
    /// What a node further down reports; pass it on with `?`.
    pub fn forward(&mut self, record: RecordOf<P::Out>) -> ProcessResult {
        Ok(self.out.send(record)?)
    }

    /// Sends a record to the child of that name only.
    ///
    /// # Errors
    /// When there is no child of that name, and what a node further down reports.
    pub fn forward_to(&mut self, child: &str, record: RecordOf<P::Out>) -> ProcessResult {
        let child = self.out.child(child).ok_or_else(|| {
            let known: Vec<&str> = self.out.names().collect();
            format!("there is no child `{child}` here: the children are {known:?}")
        })?;
        Ok(child.send(record)?)
    }

    /// Topic, partition and offset of the record in hand; `None` outside of a record.
    pub fn metadata(&self) -> Option<RecordMetadata> {
        self.task.metadata()
    }

    /// The highest timestamp that the task has seen, in milliseconds; -1 before the first record.
    pub fn stream_time(&self) -> i64 {
        self.task.stream_time()
    }

    /// The wall clock in milliseconds since the epoch, read once a loop of the stream thread.
    pub fn wall_clock(&self) -> i64 {
        self.task.wall_clock.get()
    }

    /// The task.
    pub fn task_id(&self) -> TaskId {
        self.task.task_id
    }

    /// The `application.id`.
    pub fn application_id(&self) -> &str {
        &self.task.application.id
    }

    /// A setting of the application: what was set, else its default; `None` for a key that does not exist or has neither.
    pub fn app_config(&self, key: &str) -> Option<&str> {
        self.task.application.config.get(key)
    }

    /// The directory of the task, `<state.dir>/<application.id>/<task>`, made if it is not there: a place for files of the
    /// processor's own, except for the names `kstreams` and `rocksdb`. They stay when the task moves to another instance, and nobody
    /// but the processor deletes them.
    ///
    /// # Errors
    /// When the directory cannot be made.
    pub fn state_dir(&self) -> Result<PathBuf> {
        self.task.application.directory_of(self.task.task_id)
    }

    /// Calls `punctuator` again and again, with the time that has come, in milliseconds. By stream time it is called after the first
    /// record, then whenever the time has moved past the next multiple of the interval; by the wall clock for the first time
    /// after one interval. What was missed is not made up for. An interval of less than a millisecond is one of a millisecond. Outside
    /// of a record [`Self::metadata`] is `None`.
    ///
    /// ```
    /// use kstreams::prelude::*;
    ///
    /// /// Sends on what has gathered, every ten seconds of stream time.
    /// struct Outbox {
    ///     waiting: KeyValueStore<String, String>,
    /// }
    ///
    /// impl Processor for Outbox {
    ///     type In = (String, String);
    ///     type Out = (String, String);
    ///
    ///     fn init(&mut self, ctx: &mut Context<Self>) -> ProcessResult {
    ///         ctx.schedule(seconds(10), PunctuationType::StreamTime, |outbox, now, ctx| {
    ///             for entry in outbox.waiting.all()? {
    ///                 let (key, value) = entry?;
    ///                 outbox.waiting.delete(&key)?;
    ///                 ctx.forward(Record::new(key, value, now))?;
    ///             }
    ///             Ok(())
    ///         });
    ///         Ok(())
    ///     }
    ///
    ///     fn process(&mut self, record: Record<String, String>, _: &mut Context<Self>) -> ProcessResult {
    ///         Ok(self.waiting.put(&record.key, Some(&record.value))?)
    ///     }
    /// }
    /// ```
    pub fn schedule<F>(
        &mut self,
        interval: Duration,
        kind: PunctuationType,
        punctuator: F,
    ) -> Cancellable
    where
        F: Fn(&mut P, i64, &mut Context<'_, P>) -> ProcessResult + 'static,
    {
        let timing = Timing { kind, interval, anchor: None };
        self.schedules.add(self.task, timing, Rc::new(punctuator))
    }

    /// As [`Self::schedule`], on a grid that goes through `anchor`, in milliseconds since the epoch: it fires for the first time
    /// then, or if that has gone by, at the next point of the grid. So a punctuator runs at the same hours after every restart.
    ///
    /// ```
    /// # use kstreams::prelude::*;
    /// # struct Daily;
    /// # impl Processor for Daily {
    /// #     type In = (String, String);
    /// #     type Out = ((), ());
    /// fn init(&mut self, ctx: &mut Context<Self>) -> ProcessResult {
    ///     let three_at_night = 3 * 3_600_000; // UTC, of every day since 1970
    ///     ctx.schedule_at(three_at_night, days(1), PunctuationType::WallClockTime, |_, _, _| Ok(()));
    ///     Ok(())
    /// }
    /// #     fn process(&mut self, _: Record<String, String>, _: &mut Context<Self>) -> ProcessResult { Ok(()) }
    /// # }
    /// ```
    pub fn schedule_at<F>(
        &mut self,
        anchor: i64,
        interval: Duration,
        kind: PunctuationType,
        punctuator: F,
    ) -> Cancellable
    where
        F: Fn(&mut P, i64, &mut Context<'_, P>) -> ProcessResult + 'static,
    {
        let timing = Timing { kind, interval, anchor: Some(anchor.max(0)) };
        self.schedules.add(self.task, timing, Rc::new(punctuator))
    }

    /// Walks a store again and again, entry by entry in the order of the keys' bytes, a [`Chunk`] at a time: between two chunks the
    /// thread processes records, commits and does everything else, so that a store of any size can be walked without a pause.
    /// When it is time, as for [`Self::schedule`], a walk begins; `punctuator` gets that time and the entries. A walk that is still
    /// under way when the next is due goes on instead.
    ///
    /// A walk goes by key: each chunk goes on behind the last key, and sees the store as it is then. So every key that is there all
    /// the time is met once, with the value of that moment, deleted keys are not met any more, and without other writes in between
    /// the result is that of one walk in one piece. The punctuator may change the store, also the entry that it was given. A
    /// walk that ends with its task (at a restart, or when the task moves) begins anew when it is due next.
    ///
    /// ```
    /// use kstreams::prelude::*;
    ///
    /// struct Prices {
    ///     prices: KeyValueStore<String, i64>,
    /// }
    ///
    /// impl Processor for Prices {
    ///     type In = (String, i64);
    ///     type Out = ((), ());
    ///
    ///     fn init(&mut self, ctx: &mut Context<Self>) -> ProcessResult {
    ///         let chunk = Chunk::entries(1_000).time(millis(5));
    ///         ctx.schedule_chunked(&self.prices, days(1), PunctuationType::WallClockTime, chunk, |this, _now, (item, price), _ctx| {
    ///             Ok(this.prices.put(&item, Some(&(price - 1)).filter(|price| **price > 0))?)
    ///         });
    ///         Ok(())
    ///     }
    ///
    ///     fn process(&mut self, record: Record<String, i64>, _: &mut Context<Self>) -> ProcessResult {
    ///         Ok(self.prices.put(&record.key, Some(&record.value))?)
    ///     }
    /// }
    ///
    /// let prices = Stores::key_value::<String, i64>("prices");
    /// let builder = StreamsBuilder::new();
    /// let _ = builder
    ///     .stream("prices", Consumed::<String, i64>::new())
    ///     .process(move |ctx| Ok(Prices { prices: ctx.store(&prices)? }), Processed::named("prices").store(&prices));
    ///
    /// let mut driver = TopologyTestDriver::new(builder.build()?)?;
    /// let mut input = driver.input::<String, i64>("prices");
    /// input.pipe_key_value_at(&mut driver, 0, "apple", 2)?;
    /// input.pipe_key_value_at(&mut driver, 0, "pear", 1)?;
    /// driver.advance_wall_clock(days(1))?;
    /// let store = driver.store(&prices)?;
    /// assert_eq!((store.get(&"apple".into())?, store.get(&"pear".into())?), (Some(1), None));
    /// # Ok::<(), kstreams::Error>(())
    /// ```
    pub fn schedule_chunked<S, F>(
        &mut self,
        store: &S,
        interval: Duration,
        kind: PunctuationType,
        chunk: Chunk,
        punctuator: F,
    ) -> Cancellable
    where
        P: Sized,
        S: Walkable,
        F: Fn(&mut P, i64, (S::Key, S::Value), &mut Context<'_, P>) -> ProcessResult + 'static,
    {
        let walk = ChunkedWalk::new(store.share(), chunk, punctuator);
        let timing = Timing { kind, interval, anchor: None };
        self.schedules.add_walk(self.task, timing, Rc::new(walk))
    }

    /// Asks for a commit soon, before the commit interval is over.
    pub fn request_commit(&mut self) {
        self.task.commit_requested.set(true);
    }
}

impl<P: Processor + ?Sized> fmt::Debug for Context<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Context").field(&self.task.task_id).finish()
    }
}

/// What a supplier sees when it makes the processor of a task.
pub struct InitContext<'a> {
    pub(crate) task: &'a Rc<TaskContext>,
    pub(crate) stores: &'a StoreSet,
    pub(crate) node: &'a str,
    pub(crate) connected: &'a [Arc<str>],
}

impl InitContext<'_> {
    /// The store of that token. The handle stays on this thread (P62):
    ///
    /// ```compile_fail,E0277
    /// fn to_another_thread(store: kstreams::state::KeyValueStore<String, i64>) {
    ///     std::thread::spawn(move || drop(store));
    /// }
    /// ```
    ///
    /// # Errors
    /// When the store was not connected to this processor.
    pub fn store<S: StoreType>(&self, token: &StoreToken<S>) -> Result<S> {
        if !S::IS_GLOBAL && !self.has(token.name()) {
            return Err(Error::new(
                ErrorKind::InvalidTopology,
                format!(
                    "processor {} has no access to store {}: connect it with .store(&token) \
                     on its Processed options, or connect_store of the topology builder",
                    self.node,
                    token.name()
                ),
            ));
        }
        if !S::IS_GLOBAL {
            self.stores.check_token(token.spec)?;
        }
        S::open(token, self)
    }

    /// The store that the processor fills: see [`crate::topology::TopologyBuilder::add_global_store_updated_by`].
    ///
    /// # Errors
    /// When it is not the store of this processor.
    pub fn global_writer<K: 'static, V: 'static>(
        &self,
        token: &StoreToken<GlobalTable<K, V>>,
    ) -> Result<GlobalTableWriter<K, V>> {
        if !self.has(token.name()) {
            let (node, store) = (self.node, token.name());
            return Err(Error::topology(format!(
                "processor {node} does not fill the global store {store}: it can only read it"
            )));
        }
        self.store(token).map(GlobalTableWriter::new)
    }

    fn has(&self, store: &str) -> bool {
        self.connected.iter().any(|name| **name == *store)
    }

    /// The task.
    pub fn task_id(&self) -> TaskId {
        self.task.task_id
    }

    /// The `application.id`.
    pub fn application_id(&self) -> &str {
        &self.task.application.id
    }

    /// As [`Context::app_config`].
    pub fn app_config(&self, key: &str) -> Option<&str> {
        self.task.application.config.get(key)
    }

    /// As [`Context::state_dir`].
    ///
    /// # Errors
    /// When the directory cannot be made.
    pub fn state_dir(&self) -> Result<PathBuf> {
        self.task.application.directory_of(self.task.task_id)
    }
}

impl fmt::Debug for InitContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("InitContext").field(&self.task.task_id).field(&self.node).finish()
    }
}

//! Runs one processor, without a topology around it: for unit tests of user code.

use super::test_task::TestTask;
use crate::config::StreamsConfig;
use crate::dsl::Processed;
use crate::error::Result;
use crate::processor::{
    FixedKey, FixedKeyProcessor, InitContext, KeyOf, Processor, PunctuationType, RecordOf, TaskId,
    ValueOf,
};
use crate::record::Record;
use crate::state::{StoreToken, StoreType};
use crate::topology::erased::{AloneOf, Fault, PortOf, Receive};
use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// A record that a processor forwarded, for each child that gets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forwarded<K, V> {
    /// The child's name; `child`, unless the test names others.
    pub child: String,
    /// The record.
    pub record: Record<K, V>,
}

/// A forwarded record of a pair.
pub type ForwardedOf<P> = Forwarded<KeyOf<P>, ValueOf<P>>;

type Forwards<P> = Rc<RefCell<Vec<ForwardedOf<P>>>>;

/// Runs one processor with its stores, and keeps what it forwards. Stores are in memory, and the same in type and behaviour as in an
/// application; punctuators fire by the rules of a task.
///
/// ```
/// use kstreams::prelude::*;
/// use kstreams::testing::ProcessorTestDriver;
///
/// /// Sums up, and tells every ten seconds.
/// struct Totals {
///     totals: KeyValueStore<String, i64>,
/// }
///
/// impl Processor for Totals {
///     type In = (String, i64);
///     type Out = (String, i64);
///
///     fn init(&mut self, ctx: &mut Context<Self>) -> ProcessResult {
///         ctx.schedule(seconds(10), PunctuationType::WallClockTime, |this, now, ctx| {
///             for entry in this.totals.all()? {
///                 let (key, total) = entry?;
///                 ctx.forward(Record::new(key, total, now))?;
///             }
///             ctx.request_commit();
///             Ok(())
///         });
///         Ok(())
///     }
///
///     fn process(&mut self, record: Record<String, i64>, _: &mut Context<Self>) -> ProcessResult {
///         let total = self.totals.get(&record.key)?.unwrap_or(0) + record.value;
///         Ok(self.totals.put(&record.key, Some(&total))?)
///     }
/// }
///
/// let totals = Stores::key_value::<String, i64>("totals");
/// let supplier = move |ctx: &mut InitContext| Ok(Totals { totals: ctx.store(&totals)? });
/// let mut driver = ProcessorTestDriver::new(supplier, Processed::new().store(&totals))?;
/// driver.process(Record::new("a".to_string(), 2, 0))?;
/// driver.process(Record::new("a".to_string(), 3, 1))?;
/// assert!(driver.take_forwarded().is_empty());
/// assert_eq!(driver.store(&totals)?.get(&"a".to_string())?, Some(5));
///
/// assert_eq!(driver.next_punctuation(PunctuationType::WallClockTime), Some(10_000));
/// driver.advance_wall_clock(seconds(10))?;
/// assert_eq!(driver.take_forwarded()[0].record, Record::new("a".to_string(), 5, 10_000));
/// assert!(driver.take_commit_request());
/// # Ok::<(), kstreams::Error>(())
/// ```
pub struct ProcessorTestDriver<P: Processor> {
    task: TestTask,
    node: AloneOf<P::In>,
    forwarded: Forwards<P::Out>,
}

/// Options of a [`ProcessorTestDriver`].
pub struct ProcessorTestDriverBuilder<F> {
    supplier: F,
    processed: Processed,
    children: Vec<String>,
    config: StreamsConfig,
    task_id: TaskId,
    wall_clock: i64,
}

impl<F> fmt::Debug for ProcessorTestDriverBuilder<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProcessorTestDriverBuilder")
            .field("processed", &self.processed)
            .finish_non_exhaustive()
    }
}

impl<F> ProcessorTestDriverBuilder<F> {
    /// The names of the children; one that is called `child`, if nothing is said.
    #[must_use]
    pub fn children(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.children = names.into_iter().map(Into::into).collect();
        self
    }

    /// The settings of the application.
    #[must_use]
    pub fn config(mut self, config: &StreamsConfig) -> Self {
        self.config = config.clone();
        self
    }

    /// The task that the processor thinks it is in; `0_0`, if nothing is said.
    #[must_use]
    pub fn task_id(mut self, id: TaskId) -> Self {
        self.task_id = id;
        self
    }

    /// What the wall clock shows at the start, in milliseconds since the epoch; 0, if nothing is said.
    #[must_use]
    pub fn wall_clock(mut self, milliseconds: i64) -> Self {
        self.wall_clock = milliseconds;
        self
    }

    /// Makes the processor and calls its `init`.
    ///
    /// # Errors
    /// What supplier and `init` report, and wrong settings.
    pub fn build<P>(self) -> Result<ProcessorTestDriver<P>>
    where
        P: Processor,
        F: Fn(&mut InitContext) -> Result<P> + Send + Sync + 'static,
    {
        let ProcessorTestDriverBuilder {
            supplier,
            processed,
            children,
            config,
            task_id,
            wall_clock,
        } = self;
        let task = TestTask::new(&processed, &config, task_id, wall_clock)?;
        let forwarded: Forwards<P::Out> = Rc::default();
        let children = children.into_iter().map(|child| {
            let keeper = Keeper { child: child.clone(), forwarded: forwarded.clone() };
            (Arc::from(child), Rc::new(keeper) as PortOf<P::Out>)
        });
        let node = task.build_processor(Arc::new(supplier), children.collect())?;
        Ok(ProcessorTestDriver { task, node, forwarded })
    }
}

impl<P: Processor> ProcessorTestDriver<P> {
    /// The processor of a supplier, placed as [`Processed`] says: with a name, and with stores.
    ///
    /// # Errors
    /// What supplier and `init` report.
    pub fn new<F>(supplier: F, processed: Processed) -> Result<Self>
    where
        F: Fn(&mut InitContext) -> Result<P> + Send + Sync + 'static,
    {
        ProcessorTestDriver::<P>::builder(supplier, processed).build()
    }

    /// The same with more options.
    pub fn builder<F>(supplier: F, processed: Processed) -> ProcessorTestDriverBuilder<F>
    where
        F: Fn(&mut InitContext) -> Result<P> + Send + Sync + 'static,
    {
        ProcessorTestDriverBuilder {
            supplier,
            processed,
            children: vec!["child".into()],
            config: StreamsConfig::new("test", "unused:1"),
            task_id: TaskId { subtopology: 0, partition: 0 },
            wall_clock: 0,
        }
    }

    /// Hands a record to the processor, as one of the topic and the offset that [`Self::set_metadata`] names; the next one has the next
    /// offset. Stream time reaches the record's, and punctuators that are due by it run.
    ///
    /// # Errors
    /// What the processor reports, or that it panicked.
    pub fn process(&mut self, record: RecordOf<P::In>) -> Result<()> {
        self.task.enter_record(record.timestamp);
        self.task.caught(|| self.node.port.receive(record))?;
        self.punctuate(PunctuationType::StreamTime)
    }

    /// Where the next record was read.
    pub fn set_metadata(&mut self, topic: &str, partition: i32, offset: i64) {
        self.task.set_place(topic, partition, offset);
    }

    /// Moves stream time to `time`, in milliseconds, unless it is further already; punctuators that are due run.
    ///
    /// # Errors
    /// What they report.
    pub fn advance_stream_time(&mut self, time: i64) -> Result<()> {
        self.task.context.reach(time);
        self.punctuate(PunctuationType::StreamTime)
    }

    /// Turns the wall clock; punctuators that are due run, and the walks that they begin, to their ends.
    ///
    /// # Errors
    /// What they report.
    pub fn advance_wall_clock(&mut self, by: Duration) -> Result<()> {
        let by = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
        let context = &self.task.context;
        context.set_wall_clock(context.wall_clock().saturating_add(by));
        self.punctuate(PunctuationType::WallClockTime)
    }

    fn punctuate(&mut self, kind: PunctuationType) -> Result<()> {
        let (context, punctuated) = (&self.task.context, &self.node.punctuated);
        self.task.caught(|| {
            context.punctuate(punctuated, kind)?;
            while context.walk(punctuated)? {}
            Ok(())
        })
    }

    /// When the next punctuator of a clock is due, in milliseconds of it; none, if there is no such punctuator.
    pub fn next_punctuation(&self, kind: PunctuationType) -> Option<i64> {
        self.task.context.next_punctuation(kind)
    }

    /// What was forwarded since the last call, in order.
    pub fn take_forwarded(&mut self) -> Vec<ForwardedOf<P::Out>> {
        self.forwarded.take()
    }

    /// Whether the processor has asked for a commit since the last call.
    pub fn take_commit_request(&mut self) -> bool {
        self.task.context.take_commit_request()
    }

    /// A store of the processor.
    ///
    /// # Errors
    /// When it has no such store.
    pub fn store<S: StoreType>(&self, token: &StoreToken<S>) -> Result<S> {
        self.task.init_context().store(token)
    }

    /// Closes the processor.
    ///
    /// # Errors
    /// When it panics.
    pub fn close(self) -> Result<()> {
        self.task.caught(|| {
            self.node.closers.iter().for_each(|(_, closer)| closer.close());
            Ok(())
        })
    }
}

impl<P: FixedKeyProcessor> ProcessorTestDriver<FixedKey<P>> {
    /// The same for a processor that cannot change keys.
    ///
    /// ```
    /// use kstreams::prelude::*;
    /// use kstreams::testing::ProcessorTestDriver;
    ///
    /// struct Length;
    ///
    /// impl FixedKeyProcessor for Length {
    ///     type Key = String;
    ///     type In = String;
    ///     type Out = usize;
    ///
    ///     fn process(
    ///         &mut self,
    ///         record: FixedKeyRecord<String, String>,
    ///         ctx: &mut FixedKeyContext<Self>,
    ///     ) -> ProcessResult {
    ///         ctx.forward(record.map_value(|value| value.len()))
    ///     }
    /// }
    ///
    /// let mut driver = ProcessorTestDriver::fixed_key(|_| Ok(Length), Processed::new())?;
    /// driver.process(Record::new("a".to_string(), "four".to_string(), 0))?;
    /// assert_eq!(driver.take_forwarded()[0].record.value, 4);
    /// # Ok::<(), kstreams::Error>(())
    /// ```
    ///
    /// # Errors
    /// What supplier and `init` report.
    pub fn fixed_key<F>(supplier: F, processed: Processed) -> Result<Self>
    where
        F: Fn(&mut InitContext) -> Result<P> + Send + Sync + 'static,
    {
        let supplier = move |ctx: &mut InitContext| supplier(ctx).map(FixedKey);
        ProcessorTestDriver::new(supplier, processed)
    }
}

impl<P: Processor> fmt::Debug for ProcessorTestDriver<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ProcessorTestDriver").field(&self.task.context.task_id).finish()
    }
}

/// A child that keeps what it gets.
struct Keeper<K, V> {
    child: String,
    forwarded: Rc<RefCell<Vec<Forwarded<K, V>>>>,
}

impl<K, V> Receive<K, V> for Keeper<K, V> {
    fn receive(&self, record: Record<K, V>) -> Result<(), Fault> {
        let child = self.child.clone();
        self.forwarded.borrow_mut().push(Forwarded { child, record });
        Ok(())
    }
}

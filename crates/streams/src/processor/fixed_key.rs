//! Processors that cannot change the key, so that nothing below them has to be repartitioned.

use super::{Cancellable, Chunk, Context, ProcessResult, Processor, PunctuationType};
use crate::record::{Headers, Record};
use crate::state::Walkable;
use std::fmt;
use std::ops::Deref;
use std::time::Duration;

/// A record whose key stays as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FixedKeyRecord<K, V>(Record<K, V>);

impl<K, V> FixedKeyRecord<K, V> {
    /// The key.
    pub fn key(&self) -> &K {
        &self.0.key
    }

    /// The value.
    pub fn value(&self) -> &V {
        &self.0.value
    }

    /// Milliseconds since the epoch.
    pub fn timestamp(&self) -> i64 {
        self.0.timestamp
    }

    /// The headers.
    pub fn headers(&self) -> &Headers {
        &self.0.headers
    }

    /// The same record with another value.
    pub fn with_value<V2>(self, value: V2) -> FixedKeyRecord<K, V2> {
        FixedKeyRecord(self.0.with_value(value))
    }

    /// The same record with what `change` makes of its value.
    pub fn map_value<V2>(self, change: impl FnOnce(V) -> V2) -> FixedKeyRecord<K, V2> {
        let Record { key, value, timestamp, headers } = self.0;
        FixedKeyRecord(Record { key, value: change(value), timestamp, headers })
    }

    /// The same record at another time, in milliseconds since the epoch.
    #[must_use]
    pub fn with_timestamp(self, timestamp: i64) -> Self {
        FixedKeyRecord(self.0.with_timestamp(timestamp))
    }

    /// The same record with other headers.
    #[must_use]
    pub fn with_headers(self, headers: Headers) -> Self {
        FixedKeyRecord(Record { headers, ..self.0 })
    }
}

/// User code that takes records one by one and gives records of the same key: the operator of `process_values`. Each task has an
/// instance of its own.
///
/// ```
/// use kstreams::prelude::*;
///
/// /// Numbers the values of each key.
/// struct Numbered {
///     last: KeyValueStore<String, i64>,
/// }
///
/// impl FixedKeyProcessor for Numbered {
///     type Key = String;
///     type In = String;
///     type Out = (i64, String);
///
///     fn process(&mut self, record: FixedKeyRecord<String, String>, ctx: &mut FixedKeyContext<Self>) -> ProcessResult {
///         let number = self.last.get(record.key())?.unwrap_or(0) + 1;
///         self.last.put(record.key(), Some(&number))?;
///         ctx.forward(record.map_value(|value| (number, value)))
///     }
/// }
///
/// let last = Stores::key_value::<String, i64>("last");
/// let builder = StreamsBuilder::new();
/// builder
///     .stream("names", Consumed::<String, String>::new())
///     .process_values(move |ctx| Ok(Numbered { last: ctx.store(&last)? }), Processed::new().store(&last))
///     .map_values(|(number, name)| format!("{number} {name}"))
///     .to("numbered", Produced::new());
/// builder.build()?;
/// # Ok::<(), kstreams::Error>(())
/// ```
pub trait FixedKeyProcessor: 'static {
    /// The key of what comes in and goes out.
    type Key: Clone + 'static;
    /// The value that comes in.
    type In: Clone + 'static;
    /// The value that goes out.
    type Out: Clone + 'static;

    /// Called once, when the nodes below are there, before the first record.
    ///
    /// # Errors
    /// An error stops the task; the application treats it like one of [`FixedKeyProcessor::process`].
    fn init(&mut self, _ctx: &mut FixedKeyContext<'_, Self>) -> ProcessResult {
        Ok(())
    }

    /// Takes one record.
    ///
    /// # Errors
    /// An error, or a panic, is for the processing handler ([`crate::handlers`]); by default it stops the application, when everything
    /// before the record is committed.
    fn process(
        &mut self,
        record: FixedKeyRecord<Self::Key, Self::In>,
        ctx: &mut FixedKeyContext<'_, Self>,
    ) -> ProcessResult;

    /// Called once, when the task is closed cleanly.
    fn close(&mut self) {}
}

/// What a [`FixedKeyProcessor`] sees of its task: everything that [`Context`] shows, but records go on only under their own key.
pub struct FixedKeyContext<'a, P: FixedKeyProcessor + ?Sized>(Context<'a, FixedKey<P>>);

impl<P: FixedKeyProcessor + ?Sized> FixedKeyContext<'_, P> {
    /// Sends a record to all children, one after the other.
    ///
    /// # Errors
    /// What a node further down reports; pass it on with `?`.
    pub fn forward(&mut self, record: FixedKeyRecord<P::Key, P::Out>) -> ProcessResult {
        self.0.forward(record.0)
    }

    /// Sends a record to the child of that name only.
    ///
    /// # Errors
    /// When there is no child of that name, and what a node further down reports.
    pub fn forward_to(
        &mut self,
        child: &str,
        record: FixedKeyRecord<P::Key, P::Out>,
    ) -> ProcessResult {
        self.0.forward_to(child, record.0)
    }

    /// As [`Context::schedule`].
    pub fn schedule<F>(
        &mut self,
        interval: Duration,
        kind: PunctuationType,
        punctuator: F,
    ) -> Cancellable
    where
        F: Fn(&mut P, i64, &mut FixedKeyContext<'_, P>) -> ProcessResult + 'static,
    {
        self.0.schedule(interval, kind, move |processor, now, ctx| {
            punctuator(&mut processor.0, now, &mut FixedKeyContext(ctx.again()))
        })
    }

    /// As [`Context::schedule_at`].
    pub fn schedule_at<F>(
        &mut self,
        anchor: i64,
        interval: Duration,
        kind: PunctuationType,
        punctuator: F,
    ) -> Cancellable
    where
        F: Fn(&mut P, i64, &mut FixedKeyContext<'_, P>) -> ProcessResult + 'static,
    {
        self.0.schedule_at(anchor, interval, kind, move |processor, now, ctx| {
            punctuator(&mut processor.0, now, &mut FixedKeyContext(ctx.again()))
        })
    }

    /// As [`Context::schedule_chunked`].
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
        F: Fn(&mut P, i64, (S::Key, S::Value), &mut FixedKeyContext<'_, P>) -> ProcessResult
            + 'static,
    {
        self.0.schedule_chunked(store, interval, kind, chunk, move |processor, now, entry, ctx| {
            punctuator(&mut processor.0, now, entry, &mut FixedKeyContext(ctx.again()))
        })
    }

    /// Asks for a commit soon, before the commit interval is over.
    pub fn request_commit(&mut self) {
        self.0.request_commit();
    }
}

impl<'a, P: FixedKeyProcessor + ?Sized> Deref for FixedKeyContext<'a, P> {
    type Target = Context<'a, FixedKey<P>>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<P: FixedKeyProcessor + ?Sized> fmt::Debug for FixedKeyContext<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A fixed-key processor as the processor that a task runs.
#[doc(hidden)]
#[derive(Debug)]
pub struct FixedKey<P: ?Sized>(pub(crate) P);

impl<P: FixedKeyProcessor + ?Sized> Processor for FixedKey<P> {
    type In = (P::Key, P::In);
    type Out = (P::Key, P::Out);

    fn init(&mut self, ctx: &mut Context<'_, Self>) -> ProcessResult {
        self.0.init(&mut FixedKeyContext(ctx.again()))
    }

    fn process(
        &mut self,
        record: Record<P::Key, P::In>,
        ctx: &mut Context<'_, Self>,
    ) -> ProcessResult {
        self.0.process(FixedKeyRecord(record), &mut FixedKeyContext(ctx.again()))
    }

    fn close(&mut self) {
        self.0.close();
    }
}

//! Typed session stores: a value a key and session.

use super::codec::{Codec, KeyValueSerdes, NO_HEADERS, TableChange};
use super::engine::Direction;
use super::layers::{
    FlushListener, Flushed, Hit, KeyedHits, Order, TimeSpan, WindowLayers, WindowWrite,
};
use super::layout::windowed_key::RowKey;
use super::spec::sealed::Open;
use super::spec::{StoreToken, StoreType};
use super::window::{report_expired, span};
use crate::error::{Error, Result};
use crate::processor::{InitContext, TaskContext};
use crate::record::Headers;
use crate::topology::erased::Fault;
use crate::windowed::{SessionWindowed, Window};
use byteview::ByteView;
use std::cell::RefCell;
use std::fmt;
use std::ops::{Bound, RangeBounds};
use std::rc::Rc;
use std::sync::Arc;

struct Typed<K, V> {
    codec: Arc<Codec<K, V>>,
    layers: Rc<RefCell<WindowLayers>>,
    task: Rc<TaskContext>,
    /// For the bytes of a key and of a value.
    scratch: RefCell<(Vec<u8>, Vec<u8>)>,
}

/// A session store of one task: a value a key and session. Made by [`crate::processor::InitContext::store`]; it stays on the task's
/// thread.
///
/// Times are in milliseconds since the epoch; both ends belong to a session. The store keeps sessions for its retention behind the
/// one that ends last: older ones are not shown any more, and a write that comes too late is dropped, which counts as a dropped
/// record.
///
/// ```
/// use kstreams::prelude::*;
/// use std::time::Duration;
///
/// let visits = Stores::session::<String, i64>("visits", Duration::from_secs(3_600));
/// # struct Count(SessionStore<String, i64>);
/// impl Processor for Count {
///     type In = (String, String);
///     type Out = (String, i64);
///
///     fn process(&mut self, record: Record<String, String>, ctx: &mut Context<'_, Self>) -> ProcessResult {
///         let (key, at, gap) = (&record.key, record.timestamp, 60_000);
///         // What is no further away than a minute grows together.
///         let (mut window, mut count) = (Window::new(at, at), 1);
///         for found in self.0.find_sessions(key, at - gap, at + gap)? {
///             let (session, visits) = found?;
///             window = Window::new(window.start.min(session.start), window.end.max(session.end));
///             count += visits;
///             self.0.remove(key, session)?;
///         }
///         self.0.put(key, window, Some(&count))?;
///         ctx.forward(record.with_value(count))
///     }
/// }
///
/// let builder = StreamsBuilder::new();
/// let supplier = move |ctx: &mut InitContext<'_>| Ok(Count(ctx.store(&visits)?));
/// builder
///     .stream("pages", Consumed::<String, String>::new())
///     .process(supplier, Processed::new().store(&visits))
///     .to("counts", Produced::<String, i64>::new());
///
/// let mut driver = TopologyTestDriver::new(builder.build()?)?;
/// let mut pages = driver.input::<String, String>("pages");
/// pages.pipe_key_value_at(&mut driver, 0, "ann", "/home")?;
/// pages.pipe_key_value_at(&mut driver, 50_000, "ann", "/away")?;
/// assert_eq!(driver.store(&visits)?.fetch_session(&"ann".to_string(), Window::new(0, 50_000))?, Some(2));
/// # Ok::<(), kstreams::Error>(())
/// ```
pub struct SessionStore<K, V>(Rc<Typed<K, V>>);

impl<K: 'static, V: 'static> Typed<K, V> {
    /// Does something with the row of a session, whose value is written before that.
    fn change(
        &self,
        key: &K,
        window: Window,
        value: Option<&V>,
        change: impl FnOnce(&mut WindowLayers, &RowKey, Option<ByteView>) -> Result<()>,
    ) -> Result<()> {
        if window.start < 0 || window.end < window.start {
            let Window { start, end } = window;
            let message = format!("store {}: no session is from {start} to {end}", self.codec.name);
            return Err(Error::state(message));
        }
        let (key_bytes, bytes) = &mut *self.scratch.borrow_mut();
        let value = self.codec.value_bytes(value, None, bytes)?;
        key_bytes.clear();
        self.codec.write_key(key, key_bytes)?;
        let row = RowKey { key: key_bytes, time: window.end, minor: window.start };
        let mut layers = self.layers.borrow_mut();
        change(&mut layers, &row, value)?;
        report_expired(&mut layers, &self.task, &self.codec.name);
        Ok(())
    }
}

impl<K: 'static, V: 'static> SessionStore<K, V> {
    /// Sets the value of a session; `None` deletes it.
    ///
    /// # Errors
    /// When key or value cannot be serialized, or the session ends before it starts.
    pub fn put(&self, key: &K, window: Window, value: Option<&V>) -> Result<()> {
        self.put_at(key, window, value, self.0.task.timestamp(), &NO_HEADERS)
    }

    /// The write of an operator for a record of that time; a cached change is forwarded with these headers.
    pub(crate) fn put_at(
        &self,
        key: &K,
        window: Window,
        value: Option<&V>,
        timestamp: i64,
        headers: &Headers,
    ) -> Result<()> {
        let (task, write) = (&self.0.task, WindowWrite::at(timestamp, headers));
        self.0.change(key, window, value, |layers, row, value| layers.put(row, value, task, write))
    }

    /// Deletes a session.
    ///
    /// # Errors
    /// As [`Self::put`].
    pub fn remove(&self, key: &K, window: Window) -> Result<()> {
        self.remove_at(key, window, self.0.task.timestamp(), &NO_HEADERS)
    }

    /// The deletion of an operator for a record of that time; a cached change is forwarded with these headers.
    pub(crate) fn remove_at(
        &self,
        key: &K,
        window: Window,
        timestamp: i64,
        headers: &Headers,
    ) -> Result<()> {
        let (task, write) = (&self.0.task, WindowWrite::at(timestamp, headers));
        self.0.change(key, window, None, |layers, row, _| layers.remove(row, task, write))
    }

    /// The value of exactly this session.
    ///
    /// # Errors
    /// When the engine fails or the bytes are not a `V`.
    pub fn fetch_session(&self, key: &K, window: Window) -> Result<Option<V>> {
        let (key_bytes, _) = &mut *self.0.scratch.borrow_mut();
        key_bytes.clear();
        self.0.codec.write_key(key, key_bytes)?;
        let row = RowKey { key: key_bytes, time: window.end, minor: window.start };
        let value = self.0.layers.borrow_mut().get(&row)?;
        value.map(|bytes| self.0.codec.read_value(&bytes)).transpose()
    }

    /// The sessions of a key that end at or after `earliest_end` and start at or before `latest_start`, by their ends: a snapshot of
    /// this moment.
    ///
    /// # Errors
    /// When the key cannot be serialized or the engine fails.
    pub fn find_sessions(
        &self,
        key: &K,
        earliest_end: i64,
        latest_start: i64,
    ) -> Result<SessionValues<K, V>> {
        self.values(key, found(earliest_end, latest_start), false)
    }

    /// The same, from the last to the first.
    ///
    /// # Errors
    /// As [`Self::find_sessions`].
    pub fn backward_find_sessions(
        &self,
        key: &K,
        earliest_end: i64,
        latest_start: i64,
    ) -> Result<SessionValues<K, V>> {
        self.values(key, found(earliest_end, latest_start), true)
    }

    /// The same for several keys. On disk sessions come by time segment and key, in memory by end and key, as in Java.
    ///
    /// # Errors
    /// As [`Self::find_sessions`].
    pub fn find_sessions_of_keys(
        &self,
        keys: impl RangeBounds<K>,
        earliest_end: i64,
        latest_start: i64,
    ) -> Result<SessionEntries<K, V>> {
        let span = found(earliest_end, latest_start);
        self.entries(&keys, span, Order::Store(Direction::Forward))
    }

    /// The same, from the last to the first.
    ///
    /// # Errors
    /// As [`Self::find_sessions`].
    pub fn backward_find_sessions_of_keys(
        &self,
        keys: impl RangeBounds<K>,
        earliest_end: i64,
        latest_start: i64,
    ) -> Result<SessionEntries<K, V>> {
        let span = found(earliest_end, latest_start);
        self.entries(&keys, span, Order::Store(Direction::Reverse))
    }

    /// All sessions of a key, by their ends.
    ///
    /// # Errors
    /// As [`Self::find_sessions`].
    pub fn fetch(&self, key: &K) -> Result<SessionValues<K, V>> {
        self.find_sessions(key, 0, i64::MAX)
    }

    /// The same, from the last to the first.
    ///
    /// # Errors
    /// As [`Self::find_sessions`].
    pub fn backward_fetch(&self, key: &K) -> Result<SessionValues<K, V>> {
        self.backward_find_sessions(key, 0, i64::MAX)
    }

    /// All sessions of several keys, in the order of [`Self::find_sessions_of_keys`].
    ///
    /// # Errors
    /// As [`Self::find_sessions`].
    pub fn fetch_keys(&self, keys: impl RangeBounds<K>) -> Result<SessionEntries<K, V>> {
        self.find_sessions_of_keys(keys, 0, i64::MAX)
    }

    /// The same, from the last to the first.
    ///
    /// # Errors
    /// As [`Self::find_sessions`].
    pub fn backward_fetch_keys(&self, keys: impl RangeBounds<K>) -> Result<SessionEntries<K, V>> {
        self.backward_find_sessions_of_keys(keys, 0, i64::MAX)
    }

    /// The sessions of all keys that end at these times, by end and start, then by the key's bytes. Sessions that the store does not
    /// show any more are among them until it gives them up.
    ///
    /// # Errors
    /// When the engine fails.
    pub fn find_sessions_by_end(
        &self,
        ends: impl RangeBounds<i64>,
    ) -> Result<SessionEntries<K, V>> {
        let all = (Bound::Unbounded, Bound::Unbounded);
        let hits = match span(&ends) {
            Some(span) => self.0.layers.borrow_mut().of_keys(&all, span, Order::Time, true)?,
            None => Box::new(std::iter::empty()),
        };
        Ok(SessionEntries { hits, codec: self.0.codec.clone() })
    }

    fn values(&self, key: &K, span: TimeSpan, backward: bool) -> Result<SessionValues<K, V>> {
        let (key_bytes, _) = &mut *self.0.scratch.borrow_mut();
        key_bytes.clear();
        self.0.codec.write_key(key, key_bytes)?;
        let hits = self.0.layers.borrow_mut().of_key(key_bytes, span)?.into_iter();
        Ok(SessionValues { hits, backward, codec: self.0.codec.clone() })
    }

    fn entries(
        &self,
        keys: &impl RangeBounds<K>,
        span: TimeSpan,
        order: Order,
    ) -> Result<SessionEntries<K, V>> {
        let keys = self.0.codec.key_bounds(keys)?;
        let hits = self.0.layers.borrow_mut().of_keys(&keys, span, order, false)?;
        Ok(SessionEntries { hits, codec: self.0.codec.clone() })
    }

    /// Whether changes are kept back until the next commit; then `listener` gets them, else the caller forwards them itself.
    pub(crate) fn forward_changes(
        &self,
        listener: impl Fn(TableChange<SessionWindowed<K>, V>, Headers) -> Result<(), Fault> + 'static,
        node: Arc<str>,
        sends_old_values: bool,
    ) -> bool {
        let mut layers = self.0.layers.borrow_mut();
        if !layers.is_cached() {
            return false;
        }
        let (codec, layout) = (self.0.codec.clone(), layers.layout());
        let change = move |flushed: &Flushed| {
            let row = layout.split(&flushed.key).ok_or_else(|| codec.damaged_key())?;
            let read =
                |bytes: &Option<ByteView>| bytes.as_ref().map(|b| codec.read_value(b)).transpose();
            let window = Window::new(row.minor, row.time);
            Ok::<_, Error>(TableChange {
                key: SessionWindowed { key: codec.read_key(row.key)?, window },
                new: read(&flushed.new)?,
                old: read(&flushed.old)?,
                timestamp: flushed.record.timestamp,
            })
        };
        let listener: FlushListener = Rc::new(move |flushed: Flushed| {
            let change = change(&flushed).map_err(|error| Fault::at(&node, error))?;
            listener(change, flushed.headers)
        });
        layers.listener = Some(listener);
        layers.sends_old_values = sends_old_values;
        true
    }
}

pub(super) fn found(earliest_end: i64, latest_start: i64) -> TimeSpan {
    TimeSpan { from: earliest_end, to: i64::MAX, minor_to: latest_start }
}

/// Sessions of one key with their values: an iterator that owns its snapshot.
pub struct SessionValues<K, V> {
    hits: std::vec::IntoIter<Hit>,
    backward: bool,
    codec: Arc<Codec<K, V>>,
}

impl<K, V> SessionValues<K, V> {
    pub(super) fn new(hits: Vec<Hit>, backward: bool, codec: Arc<Codec<K, V>>) -> Self {
        SessionValues { hits: hits.into_iter(), backward, codec }
    }
}

impl<K: 'static, V: 'static> Iterator for SessionValues<K, V> {
    type Item = Result<(Window, V)>;

    fn next(&mut self) -> Option<Self::Item> {
        let hit = if self.backward { self.hits.next_back() } else { self.hits.next() }?;
        let value = self.codec.read_value(&hit.value);
        Some(value.map(|value| (Window::new(hit.minor, hit.time), value)))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.hits.size_hint()
    }
}

/// Sessions of several keys with their values: an iterator that owns its snapshot.
pub struct SessionEntries<K, V> {
    hits: KeyedHits,
    codec: Arc<Codec<K, V>>,
}

impl<K, V> SessionEntries<K, V> {
    pub(super) fn new(hits: KeyedHits, codec: Arc<Codec<K, V>>) -> Self {
        SessionEntries { hits, codec }
    }
}

impl<K: 'static, V: 'static> Iterator for SessionEntries<K, V> {
    type Item = Result<(SessionWindowed<K>, V)>;

    fn next(&mut self) -> Option<Self::Item> {
        let hit = self.hits.next()?;
        Some(hit.and_then(|(key, hit)| {
            let window = Window::new(hit.minor, hit.time);
            let key = SessionWindowed { key: self.codec.read_key(&key)?, window };
            Ok((key, self.codec.read_value(&hit.value)?))
        }))
    }
}

impl<K: 'static, V: 'static> StoreType for SessionStore<K, V> {}

impl<K: 'static, V: 'static> Open for SessionStore<K, V> {
    type Serdes = KeyValueSerdes<K, V>;

    fn open(token: &StoreToken<Self>, ctx: &InitContext<'_>) -> Result<Self> {
        let name = &token.spec.name;
        let topic = ctx.stores.serde_topic(name);
        Ok(SessionStore(Rc::new(Typed {
            codec: Arc::new(Codec::new(name.clone(), topic, token.serdes.clone())),
            layers: ctx.stores.windows(name)?,
            task: ctx.task.clone(),
            scratch: RefCell::default(),
        })))
    }
}

impl<K, V> fmt::Debug for SessionStore<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SessionStore").field(&self.0.codec.name).finish()
    }
}

impl<K, V> fmt::Debug for SessionValues<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SessionValues").field(&self.codec.name).finish()
    }
}

impl<K, V> fmt::Debug for SessionEntries<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SessionEntries").field(&self.codec.name).finish()
    }
}

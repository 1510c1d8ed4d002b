//! Typed window stores: a value a key and window start.

use super::codec::{Codec, KeyValueSerdes, NO_HEADERS, ReadValue, TableChange};
use super::engine::{Direction, KeyRange};
use super::layers::{
    FlushListener, Flushed, Hit, KeyedHits, Order, TimeSpan, WindowLayers, WindowWrite,
};
use super::layout::windowed_key::RowKey;
use super::spec::sealed::Open;
use super::spec::{StoreToken, StoreType};
use super::store_set::TOO_LATE;
use crate::error::{Error, Result};
use crate::processor::{InitContext, TaskContext};
use crate::record::Headers;
use crate::topology::erased::Fault;
use crate::windowed::{TimeWindowed, Window};
use byteview::ByteView;
use std::cell::RefCell;
use std::fmt;
use std::ops::{Bound, RangeBounds};
use std::rc::Rc;
use std::sync::Arc;

/// What both kinds of store share: bytes below, serdes above.
struct Typed<K, V> {
    codec: Arc<Codec<K, V>>,
    layers: Rc<RefCell<WindowLayers>>,
    task: Rc<TaskContext>,
    /// The length of the windows in milliseconds.
    size: i64,
    /// For the bytes of a key and of a value.
    scratch: RefCell<(Vec<u8>, Vec<u8>)>,
}

/// A window store of one task: a value a key and window start. Made by [`crate::processor::InitContext::store`]; it stays on the
/// task's thread.
///
/// Times are in milliseconds since the epoch. The store keeps windows for its retention behind the newest one: older ones are not
/// shown any more, and a write that comes too late is dropped, which counts as a dropped record. With
/// [`StoreToken::retain_duplicates`] it keeps everything that is put, in that order, and nothing can be deleted.
///
/// ```
/// use kstreams::prelude::*;
/// use std::time::Duration;
///
/// let (day, hour) = (Duration::from_secs(86_400), Duration::from_secs(3_600));
/// let visits = Stores::window::<String, i64>("visits", day, hour);
/// # struct Count(WindowStore<String, i64>);
/// impl Processor for Count {
///     type In = (String, String);
///     type Out = (String, i64);
///
///     fn process(&mut self, record: Record<String, String>, ctx: &mut Context<'_, Self>) -> ProcessResult {
///         let hour = record.timestamp / 3_600_000 * 3_600_000;
///         let count = self.0.fetch(&record.key, hour)?.unwrap_or(0) + 1;
///         self.0.put(&record.key, Some(&count), hour)?;
///         // The last three hours, oldest first.
///         for visits in self.0.fetch_range(&record.key, hour - 2 * 3_600_000..=hour)? {
///             let (_start, count) = visits?;
///             ctx.forward(record.clone().with_value(count))?;
///         }
///         Ok(())
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
/// pages.pipe_key_value_at(&mut driver, 3_600_000, "ann", "/home")?;
/// assert_eq!(driver.store(&visits)?.fetch(&"ann".to_string(), 3_600_000)?, Some(1));
/// # Ok::<(), kstreams::Error>(())
/// ```
pub struct WindowStore<K, V>(Rc<Typed<K, V>>);

/// A window store that keeps each value's timestamp, as windowed tables do. Apart from that it is as [`WindowStore`].
pub struct TimestampedWindowStore<K, V>(Rc<Typed<K, V>>);

impl<K: 'static, V: 'static> Typed<K, V> {
    fn open(
        token_name: &Arc<str>,
        size: i64,
        serdes: &KeyValueSerdes<K, V>,
        ctx: &InitContext<'_>,
    ) -> Result<Self> {
        let topic = ctx.stores.serde_topic(token_name);
        Ok(Typed {
            codec: Arc::new(Codec::new(token_name.clone(), topic, serdes.clone())),
            layers: ctx.stores.windows(token_name)?,
            task: ctx.task.clone(),
            size,
            scratch: RefCell::default(),
        })
    }

    /// Writes a value behind a timestamp as `prefix`, or deletes.
    fn put(
        &self,
        key: &K,
        value: Option<&V>,
        prefix: Option<i64>,
        start: i64,
        write: WindowWrite<'_>,
    ) -> Result<()> {
        if start < 0 {
            let message = format!("store {}: a window cannot start at {start}", self.codec.name);
            return Err(Error::state(message));
        }
        let (key_bytes, bytes) = &mut *self.scratch.borrow_mut();
        let value = self.codec.value_bytes(value, prefix, bytes)?;
        key_bytes.clear();
        self.codec.write_key(key, key_bytes)?;
        let task = &self.task;
        let row = RowKey { key: key_bytes, time: start, minor: 0 };
        let mut layers = self.layers.borrow_mut();
        layers.put(&row, value, task, write)?;
        report_expired(&mut layers, task, &self.codec.name);
        Ok(())
    }

    fn hits(&self, key: &K, times: &impl RangeBounds<i64>) -> Result<Vec<Hit>> {
        let Some(span) = span(times) else { return Ok(Vec::new()) };
        let (key_bytes, _) = &mut *self.scratch.borrow_mut();
        key_bytes.clear();
        self.codec.write_key(key, key_bytes)?;
        self.layers.borrow_mut().of_key(key_bytes, span)
    }

    /// The value that was put last at that time.
    fn last_at(&self, key: &K, start: i64) -> Result<Option<ByteView>> {
        let (key_bytes, _) = &mut *self.scratch.borrow_mut();
        key_bytes.clear();
        self.codec.write_key(key, key_bytes)?;
        let mut layers = self.layers.borrow_mut();
        if layers.has_duplicates() {
            let span = TimeSpan { from: start, to: start, minor_to: i64::MAX };
            return Ok(layers.of_key(key_bytes, span)?.pop().map(|hit| hit.value));
        }
        layers.get(&RowKey { key: key_bytes, time: start, minor: 0 })
    }

    fn keyed(
        &self,
        keys: &impl RangeBounds<K>,
        times: &impl RangeBounds<i64>,
        order: Order,
    ) -> Result<KeyedHits> {
        let keys = self.codec.key_bounds(keys)?;
        self.bytes_keyed(&keys, times, order)
    }

    fn bytes_keyed(
        &self,
        keys: &KeyRange,
        times: &impl RangeBounds<i64>,
        order: Order,
    ) -> Result<KeyedHits> {
        let Some(span) = span(times) else { return Ok(Box::new(std::iter::empty())) };
        self.layers.borrow_mut().of_keys(keys, span, order, false)
    }
}

/// Counts the writes that were too late for a store.
pub(super) fn report_expired(layers: &mut WindowLayers, task: &TaskContext, store: &str) {
    for _ in 0..super::layers::StoreLayers::take_expired(layers) {
        task.drop_record(store, TOO_LATE);
    }
}

/// Times with both ends; `None` when there are none.
pub(super) fn span(times: &impl RangeBounds<i64>) -> Option<TimeSpan> {
    let from = match times.start_bound() {
        Bound::Included(&from) => from,
        Bound::Excluded(&from) => from.checked_add(1)?,
        Bound::Unbounded => i64::MIN,
    };
    let to = match times.end_bound() {
        Bound::Included(&to) => to,
        Bound::Excluded(&to) => to.checked_sub(1)?,
        Bound::Unbounded => i64::MAX,
    };
    (from <= to).then_some(TimeSpan { from, to, minor_to: i64::MAX })
}

/// Values of one key with the starts of their windows: an iterator that owns its snapshot.
pub struct WindowValues<K, V, T = V> {
    hits: std::vec::IntoIter<Hit>,
    backward: bool,
    codec: Arc<Codec<K, V>>,
    read: ReadValue<K, V, T>,
}

impl<K, V, T> WindowValues<K, V, T> {
    pub(super) fn new(
        hits: Vec<Hit>,
        backward: bool,
        codec: Arc<Codec<K, V>>,
        read: ReadValue<K, V, T>,
    ) -> Self {
        WindowValues { hits: hits.into_iter(), backward, codec, read }
    }
}

impl<K, V, T> Iterator for WindowValues<K, V, T> {
    type Item = Result<(i64, T)>;

    fn next(&mut self) -> Option<Self::Item> {
        let hit = if self.backward { self.hits.next_back() } else { self.hits.next() }?;
        Some((self.read)(&self.codec, &hit.value).map(|value| (hit.time, value)))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.hits.size_hint()
    }
}

/// Values of several keys with their windows: an iterator that owns its snapshot.
pub struct WindowEntries<K, V, T = V> {
    hits: KeyedHits,
    codec: Arc<Codec<K, V>>,
    size: i64,
    read: ReadValue<K, V, T>,
}

impl<K, V, T> WindowEntries<K, V, T> {
    pub(super) fn new(
        hits: KeyedHits,
        codec: Arc<Codec<K, V>>,
        size: i64,
        read: ReadValue<K, V, T>,
    ) -> Self {
        WindowEntries { hits, codec, size, read }
    }
}

impl<K: 'static, V: 'static, T> Iterator for WindowEntries<K, V, T> {
    type Item = Result<(TimeWindowed<K>, T)>;

    fn next(&mut self) -> Option<Self::Item> {
        let hit = self.hits.next()?;
        Some(hit.and_then(|(key, hit)| {
            let window = Window::new(hit.time, hit.time.saturating_add(self.size));
            let key = TimeWindowed { key: self.codec.read_key(&key)?, window };
            Ok((key, (self.read)(&self.codec, &hit.value)?))
        }))
    }
}

/// The reads, which both kinds of store have: `$value` is what they give, `$read` how it is read.
macro_rules! window_reads {
    ($store:ident, $value:ty, $read:path) => {
        impl<K: 'static, V: 'static> $store<K, V> {
            /// The value of a key in the window that starts at `window_start`; of duplicates the one that was put last.
            ///
            /// # Errors
            /// When the engine fails or the bytes are not a `V`.
            pub fn fetch(&self, key: &K, window_start: i64) -> Result<Option<$value>> {
                let value = self.0.last_at(key, window_start)?;
                value.map(|bytes| $read(&self.0.codec, &bytes)).transpose()
            }

            /// The values of a key in the windows that start at these times, oldest first: a snapshot of this moment.
            ///
            /// # Errors
            /// When the key cannot be serialized or the engine fails.
            pub fn fetch_range(
                &self,
                key: &K,
                times: impl RangeBounds<i64>,
            ) -> Result<WindowValues<K, V, $value>> {
                self.values(key, &times, false)
            }

            /// The same, newest first.
            ///
            /// # Errors
            /// As [`Self::fetch_range`].
            pub fn backward_fetch_range(
                &self,
                key: &K,
                times: impl RangeBounds<i64>,
            ) -> Result<WindowValues<K, V, $value>> {
                self.values(key, &times, true)
            }

            /// The values of these keys in the windows that start at these times. On disk they come by time segment and key, in
            /// memory by time and key, as in Java.
            ///
            /// # Errors
            /// As [`Self::fetch_range`].
            pub fn fetch_keys(
                &self,
                keys: impl RangeBounds<K>,
                times: impl RangeBounds<i64>,
            ) -> Result<WindowEntries<K, V, $value>> {
                Ok(self.entries(self.0.keyed(&keys, &times, Order::Store(Direction::Forward))?))
            }

            /// The same, from the last to the first.
            ///
            /// # Errors
            /// As [`Self::fetch_range`].
            pub fn backward_fetch_keys(
                &self,
                keys: impl RangeBounds<K>,
                times: impl RangeBounds<i64>,
            ) -> Result<WindowEntries<K, V, $value>> {
                Ok(self.entries(self.0.keyed(&keys, &times, Order::Store(Direction::Reverse))?))
            }

            /// The values of all keys in the windows that start at these times, in the order of [`Self::fetch_keys`].
            ///
            /// # Errors
            /// When the engine fails.
            pub fn fetch_all(
                &self,
                times: impl RangeBounds<i64>,
            ) -> Result<WindowEntries<K, V, $value>> {
                self.all_in(&times, Order::Store(Direction::Forward))
            }

            /// The same, from the last to the first.
            ///
            /// # Errors
            /// When the engine fails.
            pub fn backward_fetch_all(
                &self,
                times: impl RangeBounds<i64>,
            ) -> Result<WindowEntries<K, V, $value>> {
                self.all_in(&times, Order::Store(Direction::Reverse))
            }

            /// Everything that the store shows, in the order of [`Self::fetch_keys`].
            ///
            /// # Errors
            /// When the engine fails.
            pub fn all(&self) -> Result<WindowEntries<K, V, $value>> {
                self.fetch_all(..)
            }

            /// The same, from the last to the first.
            ///
            /// # Errors
            /// When the engine fails.
            pub fn backward_all(&self) -> Result<WindowEntries<K, V, $value>> {
                self.backward_fetch_all(..)
            }

            /// The values of all keys in the windows that start at these times, by time, then by the key's bytes.
            ///
            /// # Errors
            /// When the engine fails.
            pub fn fetch_all_by_time(
                &self,
                times: impl RangeBounds<i64>,
            ) -> Result<WindowEntries<K, V, $value>> {
                self.all_in(&times, Order::Time)
            }

            fn values(
                &self,
                key: &K,
                times: &impl RangeBounds<i64>,
                backward: bool,
            ) -> Result<WindowValues<K, V, $value>> {
                let hits = self.0.hits(key, times)?.into_iter();
                Ok(WindowValues { hits, backward, codec: self.0.codec.clone(), read: $read })
            }

            fn all_in(
                &self,
                times: &impl RangeBounds<i64>,
                order: Order,
            ) -> Result<WindowEntries<K, V, $value>> {
                let all = (Bound::Unbounded, Bound::Unbounded);
                Ok(self.entries(self.0.bytes_keyed(&all, times, order)?))
            }

            fn entries(&self, hits: KeyedHits) -> WindowEntries<K, V, $value> {
                let Typed { codec, size, .. } = &*self.0;
                WindowEntries { hits, codec: codec.clone(), size: *size, read: $read }
            }
        }
    };
}

window_reads!(WindowStore, V, Codec::read_value);
window_reads!(TimestampedWindowStore, (V, i64), Codec::read_timestamped);

impl<K: 'static, V: 'static> WindowStore<K, V> {
    /// Sets the value of a key in the window that starts at `window_start`; `None` deletes it. With duplicates it adds a value, and
    /// `None` changes nothing.
    ///
    /// # Errors
    /// When key or value cannot be serialized, or the start is negative.
    pub fn put(&self, key: &K, value: Option<&V>, window_start: i64) -> Result<()> {
        let timestamp = self.0.task.timestamp();
        self.0.put(key, value, None, window_start, WindowWrite::at(timestamp, &NO_HEADERS))
    }

    /// The write of a stream-stream join: the changelog record has the time and the headers of the record in hand.
    pub(crate) fn put_logging_headers(
        &self,
        key: &K,
        value: Option<&V>,
        window_start: i64,
        headers: &Headers,
    ) -> Result<()> {
        let write = WindowWrite { timestamp: window_start, headers, logs_headers: true };
        self.0.put(key, value, None, window_start, write)
    }
}

impl<K: 'static, V: 'static> StoreToken<WindowStore<K, V>> {
    /// Keeps everything that is put: a second value of the same key and start does not replace the first.
    #[must_use]
    pub fn retain_duplicates(self) -> Self {
        self.with_duplicates()
    }
}

impl<K: 'static, V: 'static> TimestampedWindowStore<K, V> {
    /// Sets the value of a key in the window that starts at `window_start`, with its timestamp; `None` deletes it.
    ///
    /// # Errors
    /// When key or value cannot be serialized, or the start is negative.
    pub fn put(&self, key: &K, value: Option<(&V, i64)>, window_start: i64) -> Result<()> {
        let ((value, timestamp), at) = (value.unzip(), self.0.task.timestamp());
        self.0.put(key, value, timestamp, window_start, WindowWrite::at(at, &NO_HEADERS))
    }

    /// The write of an operator for a record of that time, which a deletion has as well; a cached change is forwarded with these
    /// headers.
    pub(crate) fn put_at(
        &self,
        key: &K,
        value: Option<&V>,
        window_start: i64,
        timestamp: i64,
        headers: &Headers,
    ) -> Result<()> {
        let write = WindowWrite::at(timestamp, headers);
        self.0.put(key, value, Some(timestamp), window_start, write)
    }

    /// Whether changes are kept back until the next commit; then `listener` gets them, else the caller forwards them itself.
    pub(crate) fn forward_changes(
        &self,
        listener: impl Fn(TableChange<TimeWindowed<K>, V>, Headers) -> Result<(), Fault> + 'static,
        node: Arc<str>,
        sends_old_values: bool,
    ) -> bool {
        let mut layers = self.0.layers.borrow_mut();
        if !layers.is_cached() {
            return false;
        }
        let (codec, size, layout) = (self.0.codec.clone(), self.0.size, layers.layout());
        let change = move |flushed: &Flushed| {
            let row = layout.split(&flushed.key).ok_or_else(|| codec.damaged_key())?;
            let read = |bytes: &Option<ByteView>| {
                bytes.as_ref().map(|bytes| codec.read_timestamped(bytes)).transpose()
            };
            let new = read(&flushed.new)?;
            let window = Window::new(row.time, row.time.saturating_add(size));
            Ok::<_, Error>(TableChange {
                key: TimeWindowed { key: codec.read_key(row.key)?, window },
                timestamp: new.as_ref().map_or(flushed.record.timestamp, |(_, time)| *time),
                new: new.map(|(value, _)| value),
                old: read(&flushed.old)?.map(|(value, _)| value),
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

macro_rules! store_type {
    ($store:ident) => {
        impl<K: 'static, V: 'static> StoreType for $store<K, V> {}

        impl<K: 'static, V: 'static> Open for $store<K, V> {
            type Serdes = KeyValueSerdes<K, V>;

            fn open(token: &StoreToken<Self>, ctx: &InitContext<'_>) -> Result<Self> {
                let size = token.spec.kind.window_size();
                Ok($store(Rc::new(Typed::open(&token.spec.name, size, token.serdes, ctx)?)))
            }
        }

        impl<K, V> fmt::Debug for $store<K, V> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_tuple(stringify!($store)).field(&self.0.codec.name).finish()
            }
        }
    };
}

store_type!(WindowStore);
store_type!(TimestampedWindowStore);

impl<K, V, T> fmt::Debug for WindowValues<K, V, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WindowValues").field(&self.codec.name).finish()
    }
}

impl<K, V, T> fmt::Debug for WindowEntries<K, V, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WindowEntries").field(&self.codec.name).finish()
    }
}

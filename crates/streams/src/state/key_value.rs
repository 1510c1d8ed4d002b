//! Typed key-value stores: the outermost layer, where keys and values get and lose their types.

use super::engine::{Direction, EngineEntries, KeyRange, prefix_range};
use super::layers::{FlushListener, Flushed, KeyValueLayers};
use super::layout::timestamped_value;
use super::spec::sealed::Open;
use super::spec::{StoreToken, StoreType};
use crate::error::{BoxError, Error, ErrorKind, Result};
use crate::processor::{InitContext, RecordContext, TaskContext};
use crate::record::Headers;
use crate::serde::{At, Presence, SerdeRef};
use crate::topology::erased::Fault;
use byteview::ByteView;
use std::cell::RefCell;
use std::fmt;
use std::ops::{Bound, RangeBounds};
use std::rc::Rc;
use std::sync::Arc;

/// The serdes of a key-value store.
#[doc(hidden)]
pub struct KeyValueSerdes<K, V> {
    pub(crate) key: SerdeRef<K>,
    pub(crate) value: SerdeRef<V>,
}

impl<K, V> fmt::Debug for KeyValueSerdes<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyValueSerdes")
    }
}

impl<K, V> Clone for KeyValueSerdes<K, V> {
    fn clone(&self) -> Self {
        KeyValueSerdes { key: self.key.clone(), value: self.value.clone() }
    }
}

/// The serdes of a store with what they want to know. It is apart from [`Typed`], so that the listener which the layers hold does
/// not hold the layers.
struct Codec<K, V> {
    name: Arc<str>,
    /// Stores show serdes their changelog's name, as Java does.
    topic: Arc<str>,
    serdes: KeyValueSerdes<K, V>,
}

/// What both kinds of store share: bytes below, serdes above.
struct Typed<K, V> {
    codec: Rc<Codec<K, V>>,
    layers: Rc<RefCell<KeyValueLayers>>,
    task: Rc<TaskContext>,
    /// For the bytes of a key and of a value.
    scratch: RefCell<(Vec<u8>, Vec<u8>)>,
}

static NO_HEADERS: Headers = Headers::new();

impl<K: 'static, V: 'static> Codec<K, V> {
    fn at(&self, is_key: bool) -> At<'_> {
        At { topic: &self.topic, headers: &NO_HEADERS, is_key }
    }

    fn failed(&self, what: &str, error: BoxError) -> Error {
        let message = format!("store {}: cannot {what}", self.name);
        Error::new(ErrorKind::BadRecord, message).with_source(error)
    }

    /// Appends the key's bytes.
    fn write_key(&self, key: &K, out: &mut Vec<u8>) -> Result<()> {
        match self.serdes.key.serialize(&self.at(true), key, out) {
            Ok(Presence::Value) => Ok(()),
            Ok(Presence::Null) => Err(self.failed("use a null key", "keys are never null".into())),
            Err(error) => Err(self.failed("write the key", error)),
        }
    }

    fn key_bytes(&self, key: &K) -> Result<ByteView> {
        let mut bytes = Vec::new();
        self.write_key(key, &mut bytes)?;
        Ok(bytes.into())
    }

    fn read_key(&self, bytes: &[u8]) -> Result<K> {
        let key = self.serdes.key.deserialize(&self.at(true), bytes);
        key.map_err(|error| self.failed("read a key", error))
    }

    fn read_value(&self, bytes: &[u8]) -> Result<V> {
        let value = self.serdes.value.deserialize(&self.at(false), bytes);
        value.map_err(|error| self.failed("read a value", error))
    }

    fn read_timestamped(&self, bytes: &[u8]) -> Result<(V, i64)> {
        let (timestamp, value) = timestamped_value::split(bytes).ok_or_else(|| {
            self.failed("read a value", "it is too short to have a timestamp".into())
        })?;
        Ok((self.read_value(value)?, timestamp))
    }

    fn change(&self, flushed: &Flushed) -> Result<TableChange<K, V>> {
        let read = |bytes: &Option<ByteView>| {
            bytes.as_ref().map(|bytes| self.read_timestamped(bytes)).transpose()
        };
        let new = read(&flushed.new)?;
        let timestamp = new.as_ref().map_or(flushed.record.timestamp, |(_, timestamp)| *timestamp);
        Ok(TableChange {
            key: self.read_key(&flushed.key)?,
            new: new.map(|(value, _)| value),
            old: read(&flushed.old)?.map(|(value, _)| value),
            timestamp,
        })
    }
}

impl<K: 'static, V: 'static> Typed<K, V> {
    fn open(name: &Arc<str>, serdes: &KeyValueSerdes<K, V>, ctx: &InitContext<'_>) -> Result<Self> {
        let topic = ctx.stores.serde_topic(name);
        Ok(Typed {
            codec: Rc::new(Codec { name: name.clone(), topic, serdes: serdes.clone() }),
            layers: ctx.stores.layers(name)?,
            task: ctx.task.clone(),
            scratch: RefCell::default(),
        })
    }

    fn get(&self, key: &K) -> Result<Option<ByteView>> {
        let (scratch, _) = &mut *self.scratch.borrow_mut();
        scratch.clear();
        self.codec.write_key(key, scratch)?;
        self.layers.borrow_mut().get(scratch)
    }

    /// Writes a value behind a timestamp as `prefix`, or deletes; `write` is the time and the headers of the write.
    fn put(
        &self,
        key: &K,
        value: Option<&V>,
        prefix: Option<i64>,
        write: (i64, &Headers),
    ) -> Result<()> {
        let (timestamp, headers) = write;
        let (key_bytes, bytes) = &mut *self.scratch.borrow_mut();
        let value = match value {
            Some(value) => {
                bytes.clear();
                if let Some(prefix) = prefix {
                    timestamped_value::put_timestamp(prefix, bytes);
                }
                let presence =
                    self.codec.serdes.value.serialize(&self.codec.at(false), value, bytes);
                let presence =
                    presence.map_err(|error| self.codec.failed("write the value", error))?;
                (presence == Presence::Value).then(|| ByteView::from(&bytes[..]))
            }
            None => None,
        };
        key_bytes.clear();
        self.codec.write_key(key, key_bytes)?;
        let task = &self.task;
        let mut layers = self.layers.borrow_mut();
        let record = || RecordContext { timestamp, ..task.record() };
        layers.put(key_bytes, value, record, timestamp, headers);
        Ok(())
    }

    fn range(&self, range: &KeyRange, direction: Direction) -> Result<EngineEntries> {
        self.layers.borrow_mut().range(range, direction)
    }

    fn bounds(&self, range: &impl RangeBounds<K>) -> Result<KeyRange> {
        let bound = |bound: Bound<&K>| {
            Ok::<_, Error>(match bound {
                Bound::Included(key) => Bound::Included(self.codec.key_bytes(key)?),
                Bound::Excluded(key) => Bound::Excluded(self.codec.key_bytes(key)?),
                Bound::Unbounded => Bound::Unbounded,
            })
        };
        Ok((bound(range.start_bound())?, bound(range.end_bound())?))
    }
}

const ALL: KeyRange = (Bound::Unbounded, Bound::Unbounded);

/// A key-value store of one task. Made by [`crate::processor::InitContext::store`]; it stays on the task's thread.
pub struct KeyValueStore<K, V>(Rc<Typed<K, V>>);

impl<K: 'static, V: 'static> KeyValueStore<K, V> {
    /// The value of a key.
    ///
    /// # Errors
    /// When the engine fails or the bytes are not a `V`.
    pub fn get(&self, key: &K) -> Result<Option<V>> {
        self.0.get(key)?.map(|bytes| self.0.codec.read_value(&bytes)).transpose()
    }

    /// Sets the value of a key; `None` deletes it. It is visible at once, also to iterators that are made from now on.
    ///
    /// # Errors
    /// When key or value cannot be serialized.
    pub fn put(&self, key: &K, value: Option<&V>) -> Result<()> {
        self.0.put(key, value, None, (self.0.task.timestamp(), &NO_HEADERS))
    }

    /// Sets the value if the key has none; gives the value that it has.
    ///
    /// # Errors
    /// As [`Self::get`] and [`Self::put`].
    pub fn put_if_absent(&self, key: &K, value: &V) -> Result<Option<V>> {
        let old = self.get(key)?;
        if old.is_none() {
            self.put(key, Some(value))?;
        }
        Ok(old)
    }

    /// Deletes a key; gives the value that it had.
    ///
    /// # Errors
    /// As [`Self::get`] and [`Self::put`].
    pub fn delete(&self, key: &K) -> Result<Option<V>> {
        let old = self.get(key)?;
        self.put(key, None)?;
        Ok(old)
    }

    /// The entries of a range of keys, in the order of the keys' bytes: a snapshot of this moment. The store can be changed
    /// while the iterator is open.
    ///
    /// # Errors
    /// When a bound cannot be serialized or the engine fails.
    pub fn range(&self, range: impl RangeBounds<K>) -> Result<Entries<K, V>> {
        self.entries(&self.0.bounds(&range)?, Direction::Forward)
    }

    /// The same from the last key to the first.
    ///
    /// # Errors
    /// As [`Self::range`].
    pub fn reverse_range(&self, range: impl RangeBounds<K>) -> Result<Entries<K, V>> {
        self.entries(&self.0.bounds(&range)?, Direction::Reverse)
    }

    /// All entries, in the order of the keys' bytes.
    ///
    /// # Errors
    /// When the engine fails.
    pub fn all(&self) -> Result<Entries<K, V>> {
        self.entries(&ALL, Direction::Forward)
    }

    /// All entries from the last key to the first.
    ///
    /// # Errors
    /// When the engine fails.
    pub fn reverse_all(&self) -> Result<Entries<K, V>> {
        self.entries(&ALL, Direction::Reverse)
    }

    /// The entries whose keys begin with these bytes.
    ///
    /// # Errors
    /// When the engine fails.
    pub fn prefix_scan(&self, prefix: impl AsRef<[u8]>) -> Result<Entries<K, V>> {
        self.entries(&prefix_range(prefix.as_ref()), Direction::Forward)
    }

    /// About how many entries the store has; what is not committed does not count.
    pub fn approximate_len(&self) -> u64 {
        self.0.layers.borrow().approximate_len()
    }

    fn entries(&self, range: &KeyRange, direction: Direction) -> Result<Entries<K, V>> {
        Ok(Entries { entries: self.0.range(range, direction)?, store: self.0.clone() })
    }
}

/// Entries of a store: an iterator that owns its snapshot.
pub struct Entries<K, V> {
    entries: EngineEntries,
    store: Rc<Typed<K, V>>,
}

impl<K: 'static, V: 'static> Iterator for Entries<K, V> {
    type Item = Result<(K, V)>;

    fn next(&mut self) -> Option<Self::Item> {
        let entry = self.entries.next()?;
        Some(entry.and_then(|(key, value)| {
            Ok((self.store.codec.read_key(&key)?, self.store.codec.read_value(&value)?))
        }))
    }
}

/// A key-value store that keeps each value's timestamp, as tables do.
pub struct TimestampedKeyValueStore<K, V>(Rc<Typed<K, V>>);

impl<K: 'static, V: 'static> TimestampedKeyValueStore<K, V> {
    /// The value of a key and its timestamp in milliseconds.
    ///
    /// # Errors
    /// When the engine fails or the bytes are not a `V`.
    pub fn get(&self, key: &K) -> Result<Option<(V, i64)>> {
        self.0.get(key)?.map(|bytes| self.read(&bytes)).transpose()
    }

    /// Sets the value of a key with its timestamp; `None` deletes it.
    ///
    /// # Errors
    /// When key or value cannot be serialized.
    pub fn put(&self, key: &K, value: Option<(&V, i64)>) -> Result<()> {
        let (value, timestamp) = value.unzip();
        self.0.put(key, value, timestamp, (self.0.task.timestamp(), &NO_HEADERS))
    }

    /// The write of an operator for a record of that time, which a deletion has as well; a cached change is forwarded with these
    /// headers.
    pub(crate) fn put_at(
        &self,
        key: &K,
        value: Option<&V>,
        timestamp: i64,
        headers: &Headers,
    ) -> Result<()> {
        self.0.put(key, value, Some(timestamp), (timestamp, headers))
    }

    /// The entries whose keys begin with these bytes: a snapshot.
    pub(crate) fn prefix_scan(
        &self,
        prefix: &[u8],
    ) -> Result<impl Iterator<Item = Result<(K, (V, i64))>> + use<K, V>> {
        let codec = self.0.codec.clone();
        let entries = self.0.range(&prefix_range(prefix), Direction::Forward)?;
        Ok(entries.map(move |entry| {
            let (key, value) = entry?;
            Ok((codec.read_key(&key)?, codec.read_timestamped(&value)?))
        }))
    }

    fn read(&self, bytes: &[u8]) -> Result<(V, i64)> {
        self.0.codec.read_timestamped(bytes)
    }

    /// Whether changes are kept back until the next commit; then `listener` gets them, else the caller forwards them itself.
    pub(crate) fn forward_changes(
        &self,
        listener: impl Fn(TableChange<K, V>, Headers) -> Result<(), Fault> + 'static,
        node: Arc<str>,
        sends_old_values: bool,
    ) -> bool {
        let mut layers = self.0.layers.borrow_mut();
        if !layers.is_cached() {
            return false;
        }
        let codec = self.0.codec.clone();
        let listener: FlushListener = Rc::new(move |flushed: Flushed| {
            let headers = flushed.headers.clone();
            let change = codec.change(&flushed).map_err(|error| Fault::at(&node, error))?;
            listener(change, headers)
        });
        layers.listener = Some(listener);
        layers.sends_old_values = sends_old_values;
        true
    }
}

/// A change of a table that leaves the record cache.
pub(crate) struct TableChange<K, V> {
    pub(crate) key: K,
    pub(crate) new: Option<V>,
    pub(crate) old: Option<V>,
    pub(crate) timestamp: i64,
}

macro_rules! store_type {
    ($store:ident) => {
        impl<K: 'static, V: 'static> StoreType for $store<K, V> {}

        impl<K: 'static, V: 'static> Open for $store<K, V> {
            type Serdes = KeyValueSerdes<K, V>;

            fn open(token: &StoreToken<Self>, ctx: &InitContext<'_>) -> Result<Self> {
                Ok($store(Rc::new(Typed::open(&token.spec.name, token.serdes, ctx)?)))
            }
        }

        impl<K, V> fmt::Debug for $store<K, V> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_tuple(stringify!($store)).field(&self.0.codec.name).finish()
            }
        }
    };
}

store_type!(KeyValueStore);
store_type!(TimestampedKeyValueStore);

impl<K, V> fmt::Debug for Entries<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Entries").field(&self.store.codec.name).finish()
    }
}

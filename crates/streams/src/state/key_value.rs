//! Typed key-value stores: the outermost layer, where keys and values get and lose their types.

pub(super) use super::codec::ReadValue;
use super::codec::{Codec, KeyValueSerdes, NO_HEADERS, TableChange};
use super::engine::{Direction, EngineEntries, KeyRange, prefix_range};
use super::layers::{FlushListener, Flushed, KeyValueLayers};
use super::spec::sealed::Open;
use super::spec::{StoreToken, StoreType};
use crate::error::Result;
use crate::processor::{InitContext, RecordContext, TaskContext};
use crate::record::Headers;
use crate::topology::erased::Fault;
use byteview::ByteView;
use std::cell::RefCell;
use std::fmt;
use std::ops::{Bound, RangeBounds};
use std::rc::Rc;
use std::sync::Arc;

/// What both kinds of store share: bytes below, serdes above.
struct Typed<K, V> {
    codec: Arc<Codec<K, V>>,
    layers: Rc<RefCell<KeyValueLayers>>,
    task: Rc<TaskContext>,
    /// For the bytes of a key and of a value.
    scratch: RefCell<(Vec<u8>, Vec<u8>)>,
}

/// A flushed change of a table with timestamped values.
fn change<K: 'static, V: 'static>(
    codec: &Codec<K, V>,
    flushed: &Flushed,
) -> Result<TableChange<K, V>> {
    let read = |bytes: &Option<ByteView>| {
        bytes.as_ref().map(|bytes| codec.read_timestamped(bytes)).transpose()
    };
    let new = read(&flushed.new)?;
    let timestamp = new.as_ref().map_or(flushed.record.timestamp, |(_, timestamp)| *timestamp);
    Ok(TableChange {
        key: codec.read_key(&flushed.key)?,
        new: new.map(|(value, _)| value),
        old: read(&flushed.old)?.map(|(value, _)| value),
        timestamp,
    })
}

impl<K: 'static, V: 'static> Typed<K, V> {
    fn open(name: &Arc<str>, serdes: &KeyValueSerdes<K, V>, ctx: &InitContext<'_>) -> Result<Self> {
        let topic = ctx.stores.serde_topic(name);
        Ok(Typed {
            codec: Arc::new(Codec::new(name.clone(), topic, serdes.clone())),
            layers: ctx.stores.key_value(name)?,
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
        let value = self.codec.value_bytes(value, prefix, bytes)?;
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
        self.codec.key_bounds(range)
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
        let (entries, codec) = (self.0.range(range, direction)?, self.0.codec.clone());
        Ok(Entries::new(entries, codec, Codec::read_value))
    }
}

/// Entries of a store: an iterator that owns its snapshot.
pub struct Entries<K, V, T = V> {
    entries: EngineEntries,
    codec: Arc<Codec<K, V>>,
    read: ReadValue<K, V, T>,
}

impl<K, V, T> Entries<K, V, T> {
    pub(super) fn new(
        entries: EngineEntries,
        codec: Arc<Codec<K, V>>,
        read: ReadValue<K, V, T>,
    ) -> Self {
        Entries { entries, codec, read }
    }
}

impl<K: 'static, V: 'static, T> Iterator for Entries<K, V, T> {
    type Item = Result<(K, T)>;

    fn next(&mut self) -> Option<Self::Item> {
        let entry = self.entries.next()?;
        Some(entry.and_then(|(key, value)| {
            Ok((self.codec.read_key(&key)?, (self.read)(&self.codec, &value)?))
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
            let change = change(&codec, &flushed).map_err(|error| Fault::at(&node, error))?;
            listener(change, headers)
        });
        layers.listener = Some(listener);
        layers.sends_old_values = sends_old_values;
        true
    }
}

macro_rules! store_type {
    ($store:ident) => {
        impl<K: 'static, V: 'static> StoreType for $store<K, V> {}

        impl<K: 'static, V: 'static> $store<K, V> {
            /// Another handle of the same store.
            pub(super) fn again(&self) -> Self {
                $store(self.0.clone())
            }

            pub(super) fn codec(&self) -> Arc<Codec<K, V>> {
                self.0.codec.clone()
            }

            /// Entries in bytes.
            pub(super) fn raw(
                &self,
                range: &KeyRange,
                direction: Direction,
            ) -> Result<EngineEntries> {
                self.0.range(range, direction)
            }
        }

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

impl<K, V, T> fmt::Debug for Entries<K, V, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Entries").field(&self.codec.name).finish()
    }
}

//! Typed versioned stores: the values of a key over time.

use super::codec::{Codec, KeyValueSerdes};
use super::layers::{PutResult, StoreLayers, VersionBytes, VersionedLayers};
use super::spec::sealed::Open;
use super::spec::{StoreToken, StoreType};
use super::store_set::TOO_LATE;
use crate::error::{Error, Result};
use crate::processor::{InitContext, TaskContext};
use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

/// A value and the span of time in which it is the key's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VersionedRecord<V> {
    /// The value.
    pub value: V,
    /// From this time on, in milliseconds since the epoch.
    pub timestamp: i64,
    /// Up to this time, exclusive; `None`: it is the latest value.
    pub valid_to: Option<i64>,
}

/// A versioned store of one task: what the value of a key was at a time. Made by [`crate::processor::InitContext::store`]; it stays
/// on the task's thread.
///
/// Times are in milliseconds since the epoch. The store keeps its history behind the newest time put: what was replaced before that
/// is gone, and a put before it is not taken, which counts as a dropped record.
///
/// ```
/// use kstreams::prelude::*;
/// use std::time::Duration;
///
/// let prices = Stores::versioned_key_value::<String, f64>("prices", Duration::from_secs(86_400));
/// # struct Keep(VersionedKeyValueStore<String, f64>);
/// impl Processor for Keep {
///     type In = (String, f64);
///     type Out = (String, f64);
///
///     fn process(&mut self, record: Record<String, f64>, ctx: &mut Context<'_, Self>) -> ProcessResult {
///         // What comes late takes its place in the history.
///         match self.0.put(&record.key, Some(&record.value), record.timestamp)? {
///             PutResult::Latest => ctx.forward(record),
///             PutResult::ValidTo(_) | PutResult::NotPut => Ok(()),
///         }
///     }
/// }
///
/// let builder = StreamsBuilder::new();
/// let supplier = move |ctx: &mut InitContext<'_>| Ok(Keep(ctx.store(&prices)?));
/// builder
///     .stream("offers", Consumed::<String, f64>::new())
///     .process(supplier, Processed::new().store(&prices))
///     .to("latest", Produced::<String, f64>::new());
///
/// let mut driver = TopologyTestDriver::new(builder.build()?)?;
/// let mut offers = driver.input::<String, f64>("offers");
/// offers.pipe_key_value_at(&mut driver, 20, "tea", 2.5)?;
/// offers.pipe_key_value_at(&mut driver, 10, "tea", 2.0)?;
/// let at_15 = driver.store(&prices)?.get_as_of(&"tea".to_string(), 15)?;
/// assert_eq!(at_15, Some(VersionedRecord { value: 2.0, timestamp: 10, valid_to: Some(20) }));
/// # Ok::<(), kstreams::Error>(())
/// ```
pub struct VersionedKeyValueStore<K, V>(Rc<Typed<K, V>>);

struct Typed<K, V> {
    codec: Codec<K, V>,
    layers: Rc<RefCell<VersionedLayers>>,
    task: Rc<TaskContext>,
    /// For the bytes of a key and of a value.
    scratch: RefCell<(Vec<u8>, Vec<u8>)>,
}

impl<K: 'static, V: 'static> VersionedKeyValueStore<K, V> {
    /// Sets the value of a key from a time on, up to the next one that the store has; `None` says that the key has no value then.
    ///
    /// # Errors
    /// When key or value cannot be serialized, the time is negative, or the engine fails.
    pub fn put(&self, key: &K, value: Option<&V>, timestamp: i64) -> Result<PutResult> {
        let Typed { codec, layers, task, scratch } = &*self.0;
        if timestamp < 0 {
            let message = format!("store {}: no value is from {timestamp} on", codec.name);
            return Err(Error::state(message));
        }
        let (key_bytes, bytes) = &mut *scratch.borrow_mut();
        let value = codec.value_bytes(value, None, bytes)?;
        key_bytes.clear();
        codec.write_key(key, key_bytes)?;
        let mut layers = layers.borrow_mut();
        let result = layers.put(key_bytes, value, timestamp)?;
        for _ in 0..layers.take_expired() {
            task.drop_record(&codec.name, TOO_LATE);
        }
        Ok(result)
    }

    /// Says that a key has no value from a time on; gives the value that it had at that time.
    ///
    /// # Errors
    /// As [`Self::put`].
    pub fn delete(&self, key: &K, timestamp: i64) -> Result<Option<VersionedRecord<V>>> {
        let old = self.get_as_of(key, timestamp)?;
        match self.put(key, None, timestamp)? {
            PutResult::NotPut => Ok(None),
            PutResult::Latest | PutResult::ValidTo(_) => Ok(old),
        }
    }

    /// The latest value of a key.
    ///
    /// # Errors
    /// When the engine fails or the bytes are not a `V`.
    pub fn get(&self, key: &K) -> Result<Option<VersionedRecord<V>>> {
        self.read(key, VersionedLayers::get)
    }

    /// The value of a key at a time. Before the history there is none, unless the latest value is as old.
    ///
    /// # Errors
    /// When the engine fails or the bytes are not a `V`.
    pub fn get_as_of(&self, key: &K, timestamp: i64) -> Result<Option<VersionedRecord<V>>> {
        self.read(key, |layers, key| layers.get_as_of(key, timestamp))
    }

    fn read(
        &self,
        key: &K,
        read: impl FnOnce(&mut VersionedLayers, &[u8]) -> Result<Option<VersionBytes>>,
    ) -> Result<Option<VersionedRecord<V>>> {
        let (key_bytes, _) = &mut *self.0.scratch.borrow_mut();
        key_bytes.clear();
        self.0.codec.write_key(key, key_bytes)?;
        let found = read(&mut self.0.layers.borrow_mut(), key_bytes)?;
        let version = |found: VersionBytes| {
            let value = self.0.codec.read_value(&found.value)?;
            Ok(VersionedRecord { value, timestamp: found.from, valid_to: found.to })
        };
        found.map(version).transpose()
    }
}

impl<K: 'static, V: 'static> StoreToken<VersionedKeyValueStore<K, V>> {
    /// Cuts the history into segments of this length, in place of a part of the history. Old values are given up a segment at a
    /// time, and looking for an old value takes a look into each newer segment.
    #[must_use]
    pub fn segment_interval(self, interval: Duration) -> Self {
        self.with_segments(interval)
    }
}

impl<K: 'static, V: 'static> StoreType for VersionedKeyValueStore<K, V> {}

impl<K: 'static, V: 'static> Open for VersionedKeyValueStore<K, V> {
    type Serdes = KeyValueSerdes<K, V>;

    fn open(token: &StoreToken<Self>, ctx: &InitContext<'_>) -> Result<Self> {
        let name = &token.spec.name;
        let topic = ctx.stores.serde_topic(name);
        Ok(VersionedKeyValueStore(Rc::new(Typed {
            codec: Codec::new(name.clone(), topic, token.serdes.clone()),
            layers: ctx.stores.versioned(name)?,
            task: ctx.task.clone(),
            scratch: RefCell::default(),
        })))
    }
}

impl<K, V> fmt::Debug for VersionedKeyValueStore<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("VersionedKeyValueStore").field(&self.0.codec.name).finish()
    }
}

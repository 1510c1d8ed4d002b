//! Where keys and values of stores get and lose their types: the serdes of a store with what they want to know.

use super::layout::timestamped_value;
use crate::error::{BoxError, Error, ErrorKind, Result};
use crate::record::Headers;
use crate::serde::{At, Presence, SerdeRef};
use byteview::ByteView;
use std::fmt;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The serdes of a store.
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

pub(super) static NO_HEADERS: Headers = Headers::new();

/// It is apart from the handles, so that the listener which the layers hold does not hold the layers.
pub(super) struct Codec<K, V> {
    pub(super) name: Arc<str>,
    /// Stores show serdes their changelog's name, as Java does.
    pub(super) topic: Arc<str>,
    pub(super) serdes: KeyValueSerdes<K, V>,
    /// Whether a key was written twice and gave the same bytes. One that does not is never found again.
    is_proven: AtomicBool,
}

impl<K: 'static, V: 'static> Codec<K, V> {
    pub(super) fn new(name: Arc<str>, topic: Arc<str>, serdes: KeyValueSerdes<K, V>) -> Self {
        Codec { name, topic, serdes, is_proven: AtomicBool::new(false) }
    }

    fn at(&self, is_key: bool) -> At<'_> {
        At { topic: &self.topic, headers: &NO_HEADERS, is_key }
    }

    pub(super) fn failed(&self, what: &str, error: BoxError) -> Error {
        let message = format!("store {}: cannot {what}", self.name);
        Error::new(ErrorKind::BadRecord, message).with_source(error)
    }

    /// Appends the key's bytes. The first key is written twice: a serde that gives other bytes each time, such as one that encrypts
    /// with a random nonce, is refused before it does harm. Debug builds try every key.
    pub(super) fn write_key(&self, key: &K, out: &mut Vec<u8>) -> Result<()> {
        let begin = out.len();
        self.append_key(key, out)?;
        if self.is_proven.load(Ordering::Relaxed) && !cfg!(debug_assertions) {
            return Ok(());
        }
        let mut again = Vec::new();
        self.append_key(key, &mut again)?;
        if again != out[begin..] {
            let why = "its serde gives other bytes each time, so that no key would be found again and nothing could be deleted: use \
                       a serde that always gives the same bytes for a key (encryption: with a nonce that is made from the key, or of \
                       the value only)";
            return Err(self.failed("use this key", why.into()));
        }
        self.is_proven.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn append_key(&self, key: &K, out: &mut Vec<u8>) -> Result<()> {
        match self.serdes.key.serialize(&self.at(true), key, out) {
            Ok(Presence::Value) => Ok(()),
            Ok(Presence::Null) => Err(self.failed("use a null key", "keys are never null".into())),
            Err(error) => Err(self.failed("write the key", error)),
        }
    }

    pub(super) fn key_bytes(&self, key: &K) -> Result<ByteView> {
        let mut bytes = Vec::new();
        self.write_key(key, &mut bytes)?;
        Ok(bytes.into())
    }

    /// The bytes of a range of keys.
    pub(super) fn key_bounds(
        &self,
        range: &impl RangeBounds<K>,
    ) -> Result<(Bound<ByteView>, Bound<ByteView>)> {
        let bound = |bound: Bound<&K>| {
            Ok::<_, Error>(match bound {
                Bound::Included(key) => Bound::Included(self.key_bytes(key)?),
                Bound::Excluded(key) => Bound::Excluded(self.key_bytes(key)?),
                Bound::Unbounded => Bound::Unbounded,
            })
        };
        Ok((bound(range.start_bound())?, bound(range.end_bound())?))
    }

    /// The bytes of a value, behind its timestamp if it has one; `None` when it is absent or null. `scratch` is overwritten.
    pub(super) fn value_bytes(
        &self,
        value: Option<&V>,
        timestamp: Option<i64>,
        scratch: &mut Vec<u8>,
    ) -> Result<Option<ByteView>> {
        let Some(value) = value else { return Ok(None) };
        scratch.clear();
        if let Some(timestamp) = timestamp {
            timestamped_value::put_timestamp(timestamp, scratch);
        }
        let presence = self.serdes.value.serialize(&self.at(false), value, scratch);
        let presence = presence.map_err(|error| self.failed("write the value", error))?;
        Ok((presence == Presence::Value).then(|| ByteView::from(&scratch[..])))
    }

    pub(super) fn read_key(&self, bytes: &[u8]) -> Result<K> {
        let key = self.serdes.key.deserialize(&self.at(true), bytes);
        key.map_err(|error| self.failed("read a key", error))
    }

    pub(super) fn read_value(&self, bytes: &[u8]) -> Result<V> {
        let value = self.serdes.value.deserialize(&self.at(false), bytes);
        value.map_err(|error| self.failed("read a value", error))
    }

    pub(super) fn read_timestamped(&self, bytes: &[u8]) -> Result<(V, i64)> {
        let (timestamp, value) = timestamped_value::split(bytes).ok_or_else(|| {
            self.failed("read a value", "it is too short to have a timestamp".into())
        })?;
        Ok((self.read_value(value)?, timestamp))
    }

    /// The value of a store that keeps timestamps, for who does not ask for them.
    pub(super) fn read_without_timestamp(&self, bytes: &[u8]) -> Result<V> {
        self.read_timestamped(bytes).map(|(value, _)| value)
    }

    pub(super) fn damaged_key(&self) -> Error {
        self.failed("read a key", "it is too short".into())
    }
}

/// How a value is read, with or without its timestamp.
pub(super) type ReadValue<K, V, T> = fn(&Codec<K, V>, &[u8]) -> Result<T>;

/// A change of a table that leaves the record cache.
pub(crate) struct TableChange<K, V> {
    pub(crate) key: K,
    pub(crate) new: Option<V>,
    pub(crate) old: Option<V>,
    pub(crate) timestamp: i64,
}

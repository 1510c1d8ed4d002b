//! Versioned stores, read from any thread.

use super::sealed::{Query, Source};
use super::{Handle, Queryable, key_bytes, scopes};
use crate::error::Result;
use crate::state::codec::Codec;
use crate::state::layers::{VersionBytes, VersionedLayers};
use crate::state::spec::StoreToken;
use crate::state::versioned::{VersionedKeyValueStore, VersionedRecord};
use byteview::ByteView;
use std::fmt;
use std::ops::RangeBounds;
use std::sync::Arc;

/// A versioned store of a running application, to be read from any thread: what its local partitions have committed. Made by
/// [`crate::runtime::KafkaStreams::store`]. Times are in milliseconds since the epoch.
///
/// # Errors of all reads
/// As those of [`super::ReadOnlyKeyValueStore`].
pub struct ReadOnlyVersionedKeyValueStore<K, V> {
    handle: Handle<K, V>,
}

impl<K: 'static, V: 'static> ReadOnlyVersionedKeyValueStore<K, V> {
    scopes!();

    /// The latest value of a key.
    ///
    /// # Errors
    /// See [`Self`].
    pub fn get(&self, key: &K) -> Result<Option<VersionedRecord<V>>> {
        let found = self.find(key, VersionedLayers::get)?;
        found.map(|found| self.record(found)).transpose()
    }

    /// The value of a key at a time. Before the history there is none, unless the latest value is as old.
    ///
    /// # Errors
    /// See [`Self`].
    pub fn get_as_of(&self, key: &K, timestamp: i64) -> Result<Option<VersionedRecord<V>>> {
        let found = self.find(key, |layers, key| layers.get_as_of(key, timestamp))?;
        found.map(|found| self.record(found)).transpose()
    }

    /// The values of a key that were valid at some time of this span, newest first.
    ///
    /// # Errors
    /// See [`Self`].
    pub fn history(
        &self,
        key: &K,
        times: impl RangeBounds<i64>,
    ) -> Result<Vec<VersionedRecord<V>>> {
        let Some(span) = crate::state::window::span(&times) else { return Ok(Vec::new()) };
        let found = self.find(key, |layers, key| {
            let found = layers.get_between(key, span.from, span.to)?;
            Ok(Some(found).filter(|found| !found.is_empty()))
        })?;
        found.unwrap_or_default().into_iter().map(|found| self.record(found)).collect()
    }

    fn find<T>(
        &self,
        key: &K,
        look: impl Fn(&mut VersionedLayers, &[u8]) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        self.handle.find(key, |reader, key| match reader.versions()? {
            Some(mut layers) => look(&mut layers, key),
            None => Ok(None),
        })
    }

    fn record(&self, found: VersionBytes) -> Result<VersionedRecord<V>> {
        let value = self.handle.codec.read_value(&found.value)?;
        Ok(VersionedRecord { value, timestamp: found.from, valid_to: found.to })
    }
}

impl<K, V> Clone for ReadOnlyVersionedKeyValueStore<K, V> {
    fn clone(&self) -> Self {
        ReadOnlyVersionedKeyValueStore { handle: self.handle.clone() }
    }
}

impl<K: 'static, V: 'static> Queryable for VersionedKeyValueStore<K, V> {}

impl<K: 'static, V: 'static> Query for VersionedKeyValueStore<K, V> {
    type ReadOnly = ReadOnlyVersionedKeyValueStore<K, V>;
    type Key = K;

    fn read_only(token: &StoreToken<Self>, Source(source): Source) -> Result<Self::ReadOnly> {
        source.spec().check_types(token.spec)?;
        Ok(ReadOnlyVersionedKeyValueStore { handle: Handle::new(source, token.serdes.clone()) })
    }

    key_bytes!();
}

impl<K, V> fmt::Debug for ReadOnlyVersionedKeyValueStore<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ReadOnlyVersionedKeyValueStore").field(&self.handle.codec.name).finish()
    }
}

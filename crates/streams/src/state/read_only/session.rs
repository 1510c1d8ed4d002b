//! Session stores, read from any thread.

use super::sealed::{Query, Source};
use super::window::{keyed, rows};
use super::{Handle, Queryable, key_bytes, scopes};
use crate::error::Result;
use crate::state::codec::Codec;
use crate::state::engine::Direction;
use crate::state::layers::Order;
use crate::state::layout::windowed_key::RowKey;
use crate::state::session::{SessionEntries, SessionStore, SessionValues, found};
use crate::state::spec::StoreToken;
use crate::windowed::Window;
use byteview::ByteView;
use std::fmt;
use std::ops::RangeBounds;
use std::sync::Arc;

/// A session store of a running application, to be read from any thread: what its local partitions have committed. Made by
/// [`crate::runtime::KafkaStreams::store`]. Times are in milliseconds since the epoch; both ends belong to a session.
///
/// # Errors of all reads
/// As those of [`super::ReadOnlyKeyValueStore`].
pub struct ReadOnlySessionStore<K, V> {
    handle: Handle<K, V>,
}

impl<K: 'static, V: 'static> ReadOnlySessionStore<K, V> {
    scopes!();

    /// The value of exactly this session.
    ///
    /// # Errors
    /// See [`Self`].
    pub fn fetch_session(&self, key: &K, window: Window) -> Result<Option<V>> {
        let value = self.handle.find(key, |reader, key| {
            let row = RowKey { key, time: window.end, minor: window.start };
            reader.windows()?.map_or(Ok(None), |mut layers| layers.get(&row))
        })?;
        value.map(|bytes| self.handle.codec.read_value(&bytes)).transpose()
    }

    /// The sessions of a key that end at or after `earliest_end` and start at or before `latest_start`, by their ends.
    ///
    /// # Errors
    /// See [`Self`].
    pub fn find_sessions(
        &self,
        key: &K,
        earliest_end: i64,
        latest_start: i64,
    ) -> Result<SessionValues<K, V>> {
        self.values(key, earliest_end, latest_start, false)
    }

    /// The same, from the last to the first.
    ///
    /// # Errors
    /// See [`Self`].
    pub fn backward_find_sessions(
        &self,
        key: &K,
        earliest_end: i64,
        latest_start: i64,
    ) -> Result<SessionValues<K, V>> {
        self.values(key, earliest_end, latest_start, true)
    }

    /// All sessions of a key, by their ends.
    ///
    /// # Errors
    /// See [`Self`].
    pub fn fetch(&self, key: &K) -> Result<SessionValues<K, V>> {
        self.find_sessions(key, 0, i64::MAX)
    }

    /// The same, from the last to the first.
    ///
    /// # Errors
    /// See [`Self`].
    pub fn backward_fetch(&self, key: &K) -> Result<SessionValues<K, V>> {
        self.backward_find_sessions(key, 0, i64::MAX)
    }

    /// All sessions of several keys, partition by partition; in each in the order of [`SessionStore::fetch_keys`].
    ///
    /// # Errors
    /// See [`Self`].
    pub fn fetch_keys(&self, keys: impl RangeBounds<K>) -> Result<SessionEntries<K, V>> {
        self.entries(&keys, Direction::Forward)
    }

    /// The same, each partition from the last to the first.
    ///
    /// # Errors
    /// See [`Self`].
    pub fn backward_fetch_keys(&self, keys: impl RangeBounds<K>) -> Result<SessionEntries<K, V>> {
        self.entries(&keys, Direction::Reverse)
    }

    fn values(
        &self,
        key: &K,
        earliest_end: i64,
        latest_start: i64,
        backward: bool,
    ) -> Result<SessionValues<K, V>> {
        let span = found(earliest_end, latest_start);
        let hits = self.handle.find(key, |reader, key| rows(reader, key, span))?;
        Ok(SessionValues::new(hits.unwrap_or_default(), backward, self.handle.codec.clone()))
    }

    fn entries(
        &self,
        keys: &impl RangeBounds<K>,
        direction: Direction,
    ) -> Result<SessionEntries<K, V>> {
        let keys = self.handle.codec.key_bounds(keys)?;
        let hits = keyed(&self.handle, &keys, found(0, i64::MAX), Order::Store(direction))?;
        Ok(SessionEntries::new(hits, self.handle.codec.clone()))
    }
}

impl<K, V> Clone for ReadOnlySessionStore<K, V> {
    fn clone(&self) -> Self {
        ReadOnlySessionStore { handle: self.handle.clone() }
    }
}

impl<K: 'static, V: 'static> Queryable for SessionStore<K, V> {}

impl<K: 'static, V: 'static> Query for SessionStore<K, V> {
    type ReadOnly = ReadOnlySessionStore<K, V>;
    type Key = K;

    fn read_only(token: &StoreToken<Self>, Source(source): Source) -> Result<Self::ReadOnly> {
        source.spec().check_types(token.spec)?;
        Ok(ReadOnlySessionStore { handle: Handle::new(source, token.serdes.clone()) })
    }

    key_bytes!();
}

impl<K, V> fmt::Debug for ReadOnlySessionStore<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ReadOnlySessionStore").field(&self.handle.codec.name).finish()
    }
}

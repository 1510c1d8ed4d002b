//! Window stores, read from any thread.

use super::key_value::{check_timestamps, value_alone};
use super::sealed::{Query, Source};
use super::{Handle, PartitionReader, Queryable, key_bytes, scopes};
use crate::error::Result;
use crate::state::codec::Codec;
use crate::state::engine::{Direction, KeyRange};
use crate::state::key_value::ReadValue;
use crate::state::layers::{Hit, KeyedHits, Order, TimeSpan, WindowLayers};
use crate::state::layout::windowed_key::RowKey;
use crate::state::spec::StoreToken;
use crate::state::window::{
    TimestampedWindowStore, WindowEntries, WindowStore, WindowValues, span,
};
use byteview::ByteView;
use std::fmt;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

/// A window store of a running application, to be read from any thread: what its local partitions have committed. Made by
/// [`crate::runtime::KafkaStreams::store`]. Times are in milliseconds since the epoch, values of a timestamped store come with
/// their timestamps.
///
/// # Errors of all reads
/// As those of [`super::ReadOnlyKeyValueStore`].
pub struct ReadOnlyWindowStore<K, V, T = V> {
    handle: Handle<K, V>,
    size: i64,
    read: ReadValue<K, V, T>,
}

/// The value that was put last at that time.
fn last_at(layers: &mut WindowLayers, key: &[u8], start: i64) -> Result<Option<ByteView>> {
    if layers.has_duplicates() {
        let span = TimeSpan { from: start, to: start, minor_to: i64::MAX };
        return Ok(layers.of_key(key, span)?.pop().map(|hit| hit.value));
    }
    layers.get(&RowKey { key, time: start, minor: 0 })
}

/// The rows of a key, if there are any.
pub(super) fn rows(
    reader: &PartitionReader,
    key: &[u8],
    span: TimeSpan,
) -> Result<Option<Vec<Hit>>> {
    let Some(mut layers) = reader.windows()? else { return Ok(None) };
    Ok(Some(layers.of_key(key, span)?).filter(|hits| !hits.is_empty()))
}

/// The rows of keys in all partitions, one after the other.
pub(super) fn keyed<K: 'static, V: 'static>(
    handle: &Handle<K, V>,
    keys: &KeyRange,
    span: TimeSpan,
    order: Order,
) -> Result<KeyedHits> {
    let mut hits = Vec::new();
    for reader in handle.source.all(handle.scope)? {
        if let Some(mut layers) = reader.windows()? {
            hits.push(layers.of_keys(keys, span, order, false)?);
        }
    }
    Ok(Box::new(hits.into_iter().flatten()))
}

impl<K: 'static, V: 'static, T> ReadOnlyWindowStore<K, V, T> {
    scopes!();

    /// The value of a key in the window that starts at `window_start`; of duplicates the one that was put last.
    ///
    /// # Errors
    /// See [`Self`].
    pub fn fetch(&self, key: &K, window_start: i64) -> Result<Option<T>> {
        let value = self.handle.find(key, |reader, key| match reader.windows()? {
            Some(mut layers) => last_at(&mut layers, key, window_start),
            None => Ok(None),
        })?;
        value.map(|bytes| (self.read)(&self.handle.codec, &bytes)).transpose()
    }

    /// The values of a key in the windows that start at these times, oldest first.
    ///
    /// # Errors
    /// See [`Self`].
    pub fn fetch_range(
        &self,
        key: &K,
        times: impl RangeBounds<i64>,
    ) -> Result<WindowValues<K, V, T>> {
        self.values(key, &times, false)
    }

    /// The same, newest first.
    ///
    /// # Errors
    /// See [`Self`].
    pub fn backward_fetch_range(
        &self,
        key: &K,
        times: impl RangeBounds<i64>,
    ) -> Result<WindowValues<K, V, T>> {
        self.values(key, &times, true)
    }

    /// The values of these keys in the windows that start at these times, partition by partition; in each in the order of
    /// [`WindowStore::fetch_keys`].
    ///
    /// # Errors
    /// See [`Self`].
    pub fn fetch_keys(
        &self,
        keys: impl RangeBounds<K>,
        times: impl RangeBounds<i64>,
    ) -> Result<WindowEntries<K, V, T>> {
        let keys = self.handle.codec.key_bounds(&keys)?;
        self.entries(&keys, &times, Direction::Forward)
    }

    /// The same, each partition from the last to the first.
    ///
    /// # Errors
    /// See [`Self`].
    pub fn backward_fetch_keys(
        &self,
        keys: impl RangeBounds<K>,
        times: impl RangeBounds<i64>,
    ) -> Result<WindowEntries<K, V, T>> {
        let keys = self.handle.codec.key_bounds(&keys)?;
        self.entries(&keys, &times, Direction::Reverse)
    }

    /// The values of all keys in the windows that start at these times, in the order of [`Self::fetch_keys`].
    ///
    /// # Errors
    /// See [`Self`].
    pub fn fetch_all(&self, times: impl RangeBounds<i64>) -> Result<WindowEntries<K, V, T>> {
        self.entries(&(Bound::Unbounded, Bound::Unbounded), &times, Direction::Forward)
    }

    /// The same, each partition from the last to the first.
    ///
    /// # Errors
    /// See [`Self`].
    pub fn backward_fetch_all(
        &self,
        times: impl RangeBounds<i64>,
    ) -> Result<WindowEntries<K, V, T>> {
        self.entries(&(Bound::Unbounded, Bound::Unbounded), &times, Direction::Reverse)
    }

    /// Everything that the store shows, in the order of [`Self::fetch_keys`].
    ///
    /// # Errors
    /// See [`Self`].
    pub fn all(&self) -> Result<WindowEntries<K, V, T>> {
        self.fetch_all(..)
    }

    /// The same, each partition from the last to the first.
    ///
    /// # Errors
    /// See [`Self`].
    pub fn backward_all(&self) -> Result<WindowEntries<K, V, T>> {
        self.backward_fetch_all(..)
    }

    fn values(
        &self,
        key: &K,
        times: &impl RangeBounds<i64>,
        backward: bool,
    ) -> Result<WindowValues<K, V, T>> {
        let hits = match span(times) {
            Some(span) => self.handle.find(key, |reader, key| rows(reader, key, span))?,
            None => None,
        };
        let (hits, codec) = (hits.unwrap_or_default(), self.handle.codec.clone());
        Ok(WindowValues::new(hits, backward, codec, self.read))
    }

    fn entries(
        &self,
        keys: &KeyRange,
        times: &impl RangeBounds<i64>,
        direction: Direction,
    ) -> Result<WindowEntries<K, V, T>> {
        let hits = match span(times) {
            Some(span) => keyed(&self.handle, keys, span, Order::Store(direction))?,
            None => Box::new(std::iter::empty()),
        };
        Ok(WindowEntries::new(hits, self.handle.codec.clone(), self.size, self.read))
    }
}

impl<K, V, T> Clone for ReadOnlyWindowStore<K, V, T> {
    fn clone(&self) -> Self {
        ReadOnlyWindowStore { handle: self.handle.clone(), size: self.size, read: self.read }
    }
}

impl<K: 'static, V: 'static> Queryable for WindowStore<K, V> {}

impl<K: 'static, V: 'static> Query for WindowStore<K, V> {
    type ReadOnly = ReadOnlyWindowStore<K, V>;
    type Key = K;

    /// The store may keep timestamps: they are left out.
    fn read_only(token: &StoreToken<Self>, Source(source): Source) -> Result<Self::ReadOnly> {
        source.spec().check_types(token.spec)?;
        let read = value_alone(source.spec());
        let size = source.spec().kind.window_size();
        Ok(ReadOnlyWindowStore { handle: Handle::new(source, token.serdes.clone()), size, read })
    }

    key_bytes!();
}

impl<K: 'static, V: 'static> Queryable for TimestampedWindowStore<K, V> {}

impl<K: 'static, V: 'static> Query for TimestampedWindowStore<K, V> {
    type ReadOnly = ReadOnlyWindowStore<K, V, (V, i64)>;
    type Key = K;

    fn read_only(token: &StoreToken<Self>, Source(source): Source) -> Result<Self::ReadOnly> {
        source.spec().check_types(token.spec)?;
        check_timestamps(&*source)?;
        let size = source.spec().kind.window_size();
        let handle = Handle::new(source, token.serdes.clone());
        Ok(ReadOnlyWindowStore { handle, size, read: Codec::read_timestamped })
    }

    key_bytes!();
}

impl<K, V, T> fmt::Debug for ReadOnlyWindowStore<K, V, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ReadOnlyWindowStore").field(&self.handle.codec.name).finish()
    }
}

//! Key-value stores, read from any thread.

use super::sealed::{Query, Source};
use super::{Handle, Queryable, StoreSource, key_bytes, scopes};
use crate::error::{Error, ErrorKind, Result};
use crate::state::codec::Codec;
use crate::state::engine::{Direction, KeyRange, prefix_range};
use crate::state::key_value::{Entries, KeyValueStore, ReadValue, TimestampedKeyValueStore};
use crate::state::spec::{StoreFormat, StoreSpec, StoreToken};
use byteview::ByteView;
use std::fmt;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

/// A key-value store of a running application, to be read from any thread: what its local partitions have committed. Made by
/// [`crate::runtime::KafkaStreams::store`].
///
/// It can be kept: it goes on working when tasks move, come back, or their thread is replaced. Each call reads what the last commit
/// left; an iterator keeps the moment at which it was made. Values of a timestamped store come with their timestamps (`T` is
/// `(V, i64)`).
///
/// # Errors of all reads
/// [`ErrorKind::Starting`], [`ErrorKind::Rebalancing`], [`ErrorKind::Moved`] or [`ErrorKind::Stopped`] when the partitions that were
/// asked for are not here; [`ErrorKind::BadRecord`] when bytes cannot be read; [`ErrorKind::State`] when the engine fails.
pub struct ReadOnlyKeyValueStore<K, V, T = V> {
    handle: Handle<K, V>,
    read: ReadValue<K, V, T>,
}

const ALL: KeyRange = (Bound::Unbounded, Bound::Unbounded);

impl<K: 'static, V: 'static, T> ReadOnlyKeyValueStore<K, V, T> {
    scopes!();

    /// The value of a key. A key that no local partition has is absent only if its partition is local too; where that is another
    /// instance's by Java's default partitioning, the error is [`ErrorKind::Moved`]. Stores whose keys are spread by a rule of their
    /// own are asked with [`Self::partition`].
    ///
    /// # Errors
    /// See [`Self`].
    pub fn get(&self, key: &K) -> Result<Option<T>> {
        let value = self.handle.find(key, |reader, key| reader.snapshot()?.get(key))?;
        value.map(|bytes| (self.read)(&self.handle.codec, &bytes)).transpose()
    }

    /// The entries of a range of keys, partition by partition, in each in the order of the keys' bytes.
    ///
    /// # Errors
    /// See [`Self`].
    pub fn range(&self, range: impl RangeBounds<K>) -> Result<Entries<K, V, T>> {
        self.entries(&self.handle.codec.key_bounds(&range)?, Direction::Forward)
    }

    /// The same with the keys of each partition from the last to the first.
    ///
    /// # Errors
    /// See [`Self`].
    pub fn reverse_range(&self, range: impl RangeBounds<K>) -> Result<Entries<K, V, T>> {
        self.entries(&self.handle.codec.key_bounds(&range)?, Direction::Reverse)
    }

    /// All entries, in the order of [`Self::range`].
    ///
    /// # Errors
    /// See [`Self`].
    pub fn all(&self) -> Result<Entries<K, V, T>> {
        self.entries(&ALL, Direction::Forward)
    }

    /// All entries, in the order of [`Self::reverse_range`].
    ///
    /// # Errors
    /// See [`Self`].
    pub fn reverse_all(&self) -> Result<Entries<K, V, T>> {
        self.entries(&ALL, Direction::Reverse)
    }

    /// The entries whose keys begin with these bytes.
    ///
    /// # Errors
    /// See [`Self`].
    pub fn prefix_scan(&self, prefix: impl AsRef<[u8]>) -> Result<Entries<K, V, T>> {
        self.entries(&prefix_range(prefix.as_ref()), Direction::Forward)
    }

    /// About how many entries the local partitions have.
    ///
    /// # Errors
    /// See [`Self`].
    pub fn approximate_len(&self) -> Result<u64> {
        let readers = self.handle.source.all(self.handle.scope)?;
        readers.iter().map(|reader| Ok(reader.snapshot()?.approximate_len())).sum()
    }

    fn entries(&self, range: &KeyRange, direction: Direction) -> Result<Entries<K, V, T>> {
        let entries = self.handle.scan(|reader| reader.snapshot()?.range(range, direction))?;
        Ok(Entries::new(entries, self.handle.codec.clone(), self.read))
    }
}

impl<K, V, T> Clone for ReadOnlyKeyValueStore<K, V, T> {
    fn clone(&self) -> Self {
        ReadOnlyKeyValueStore { handle: self.handle.clone(), read: self.read }
    }
}

impl<K: 'static, V: 'static> Queryable for KeyValueStore<K, V> {}

impl<K: 'static, V: 'static> Query for KeyValueStore<K, V> {
    type ReadOnly = ReadOnlyKeyValueStore<K, V>;
    type Key = K;

    /// The store may keep timestamps: they are left out.
    fn read_only(token: &StoreToken<Self>, Source(source): Source) -> Result<Self::ReadOnly> {
        source.spec().check_types(token.spec)?;
        let read = value_alone(source.spec());
        Ok(ReadOnlyKeyValueStore { handle: Handle::new(source, token.serdes.clone()), read })
    }

    key_bytes!();
}

impl<K: 'static, V: 'static> Queryable for TimestampedKeyValueStore<K, V> {}

impl<K: 'static, V: 'static> Query for TimestampedKeyValueStore<K, V> {
    type ReadOnly = ReadOnlyKeyValueStore<K, V, (V, i64)>;
    type Key = K;

    fn read_only(token: &StoreToken<Self>, Source(source): Source) -> Result<Self::ReadOnly> {
        source.spec().check_types(token.spec)?;
        check_timestamps(&*source)?;
        let handle = Handle::new(source, token.serdes.clone());
        Ok(ReadOnlyKeyValueStore { handle, read: Codec::read_timestamped })
    }

    key_bytes!();
}

/// Reads values without the timestamps that the store may keep.
pub(super) fn value_alone<K: 'static, V: 'static>(spec: &StoreSpec) -> ReadValue<K, V, V> {
    match spec.format {
        StoreFormat::Plain => Codec::read_value,
        StoreFormat::Timestamped => Codec::read_without_timestamp,
    }
}

/// Refuses timestamps of a store that has none.
pub(super) fn check_timestamps(source: &dyn StoreSource) -> Result<()> {
    if source.spec().format == StoreFormat::Timestamped {
        return Ok(());
    }
    let name = &source.spec().name;
    let message = format!("store {name} keeps no timestamps: ask for it with a token without them");
    Err(Error::new(ErrorKind::InvalidTopology, message))
}

impl<K, V, T> fmt::Debug for ReadOnlyKeyValueStore<K, V, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ReadOnlyKeyValueStore").field(&self.handle.codec.name).finish()
    }
}

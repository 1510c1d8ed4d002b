//! Walks over a store that go on where they stopped: by key, not by an iterator that is kept.

use super::engine::{Direction, KeyRange};
use super::key_value::{KeyValueStore, TimestampedKeyValueStore};
use crate::error::Result;
use byteview::ByteView;
use std::ops::Bound;

/// An entry of a walk: where it lies, and its key and value, if they can be read.
pub(crate) type Walked<K, V> = (ByteView, Result<(K, V)>);

/// A store that can be walked piece by piece: [`KeyValueStore`], and [`TimestampedKeyValueStore`], whose values come with their
/// timestamps.
pub trait Walkable: sealed::Walk {}

impl<K: 'static, V: 'static> Walkable for KeyValueStore<K, V> {}
impl<K: 'static, V: 'static> Walkable for TimestampedKeyValueStore<K, V> {}

/// Everything behind a key; without one, everything.
pub(super) fn behind(position: Option<&ByteView>) -> KeyRange {
    (position.map_or(Bound::Unbounded, |key| Bound::Excluded(key.clone())), Bound::Unbounded)
}

pub(crate) mod sealed {
    use super::*;

    pub trait Walk: 'static {
        type Key: 'static;
        type Value: 'static;

        /// Another handle of the same store.
        fn share(&self) -> Self;

        /// The entries behind a position, as they are now.
        fn walk(
            &self,
            position: Option<&ByteView>,
        ) -> Result<impl Iterator<Item = Result<Walked<Self::Key, Self::Value>>>>;
    }

    impl<K: 'static, V: 'static> Walk for KeyValueStore<K, V> {
        type Key = K;
        type Value = V;

        fn share(&self) -> Self {
            self.again()
        }

        fn walk(
            &self,
            position: Option<&ByteView>,
        ) -> Result<impl Iterator<Item = Result<Walked<K, V>>>> {
            let codec = self.codec();
            let read = move |key: &ByteView, value: &ByteView| {
                Ok((codec.read_key(key)?, codec.read_value(value)?))
            };
            Ok(self.raw(&behind(position), Direction::Forward)?.map(move |entry| {
                let (key, value) = entry?;
                let entry = read(&key, &value);
                Ok((key, entry))
            }))
        }
    }

    impl<K: 'static, V: 'static> Walk for TimestampedKeyValueStore<K, V> {
        type Key = K;
        type Value = (V, i64);

        fn share(&self) -> Self {
            self.again()
        }

        fn walk(
            &self,
            position: Option<&ByteView>,
        ) -> Result<impl Iterator<Item = Result<Walked<K, (V, i64)>>>> {
            let codec = self.codec();
            let read = move |key: &ByteView, value: &ByteView| {
                Ok((codec.read_key(key)?, codec.read_timestamped(value)?))
            };
            Ok(self.raw(&behind(position), Direction::Forward)?.map(move |entry| {
                let (key, value) = entry?;
                let entry = read(&key, &value);
                Ok((key, entry))
            }))
        }
    }
}

//! Stores that a `StoreWriter` can write to.

use super::codec::KeyValueSerdes;
use super::key_value::{KeyValueStore, TimestampedKeyValueStore};
use super::spec::StoreType;

/// A store that can be written to from outside: [`KeyValueStore`] and [`TimestampedKeyValueStore`].
pub trait Writable: StoreType + sealed::Write {}

impl<K: Clone + 'static, V: Clone + 'static> Writable for KeyValueStore<K, V> {}
impl<K: Clone + 'static, V: Clone + 'static> Writable for TimestampedKeyValueStore<K, V> {}

pub(crate) mod sealed {
    use super::*;
    use crate::error::Result;
    use crate::state::spec::StoreToken;

    pub trait Write: StoreType + 'static {
        type Key: Clone + 'static;
        type Value: Clone + 'static;

        fn serdes(token: &StoreToken<Self>) -> &KeyValueSerdes<Self::Key, Self::Value>;

        /// Sets a value as that of a record of that time, or deletes it.
        fn write(&self, key: &Self::Key, value: Option<&Self::Value>, timestamp: i64)
        -> Result<()>;
    }

    impl<K: Clone + 'static, V: Clone + 'static> Write for KeyValueStore<K, V> {
        type Key = K;
        type Value = V;

        fn serdes(token: &StoreToken<Self>) -> &KeyValueSerdes<K, V> {
            token.serdes
        }

        fn write(&self, key: &K, value: Option<&V>, _: i64) -> Result<()> {
            self.put(key, value)
        }
    }

    impl<K: Clone + 'static, V: Clone + 'static> Write for TimestampedKeyValueStore<K, V> {
        type Key = K;
        type Value = V;

        fn serdes(token: &StoreToken<Self>) -> &KeyValueSerdes<K, V> {
            token.serdes
        }

        fn write(&self, key: &K, value: Option<&V>, timestamp: i64) -> Result<()> {
            self.put(key, value.map(|value| (value, timestamp)))
        }
    }
}

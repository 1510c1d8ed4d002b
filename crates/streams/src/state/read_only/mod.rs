//! Stores as other threads see them: read-only handles over what the tasks of this process have committed.
//!
//! A handle asks its [`StoreSource`] for the local partitions each time it is used, and takes a snapshot of each: so it outlives
//! tasks that move, threads that are replaced, and the commits that come while an iterator is open. Nothing here waits for a
//! stream thread, nor does one wait for what is here.

mod key_value;
mod session;
mod source;
mod versioned;
mod window;

pub use self::key_value::ReadOnlyKeyValueStore;
pub use self::session::ReadOnlySessionStore;
pub(crate) use self::source::{PartitionReader, Scope, StoreSource};
pub use self::versioned::ReadOnlyVersionedKeyValueStore;
pub use self::window::ReadOnlyWindowStore;

use super::codec::Codec;
use super::engine::EngineEntries;
use super::global::GlobalTable;
use super::spec::{StoreToken, StoreType};
use crate::error::Result;
use byteview::ByteView;
use std::fmt;
use std::sync::Arc;

/// How every kind of store writes its keys.
macro_rules! key_bytes {
    () => {
        fn key_bytes(token: &StoreToken<Self>, topic: Arc<str>, key: &K) -> Result<ByteView> {
            Codec::new(token.spec.name.clone(), topic, token.serdes.clone()).key_bytes(key)
        }
    };
}
use key_bytes;

/// Narrows or widens what a handle takes into account.
macro_rules! scopes {
    () => {
        /// The same for one partition only.
        #[must_use]
        pub fn partition(mut self, partition: i32) -> Self {
            self.handle.scope.partition = Some(partition);
            self
        }

        /// Takes what is here, also while tasks move: some partitions may be missing then, or their values old.
        #[must_use]
        pub fn allow_stale(mut self) -> Self {
            self.handle.scope.allow_stale = true;
            self
        }
    };
}
use scopes;

/// A kind of store that can be read from any thread.
pub trait Queryable: StoreType + sealed::Query {}

pub(crate) mod sealed {
    use super::*;

    /// The partitions of a store, wherever they are.
    #[derive(Clone)]
    pub struct Source(pub(crate) Arc<dyn StoreSource>);

    impl fmt::Debug for Source {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.debug_tuple("Source").field(&self.0.spec().name).finish()
        }
    }

    pub trait Query: StoreType {
        /// The handle that reads it.
        type ReadOnly: Clone + Send + Sync + 'static;
        /// The keys of its entries.
        type Key: 'static;

        /// A handle over the partitions of a source.
        fn read_only(token: &StoreToken<Self>, source: Source) -> Result<Self::ReadOnly>;

        /// The bytes of a key, which decide about its partition.
        fn key_bytes(
            token: &StoreToken<Self>,
            topic: Arc<str>,
            key: &Self::Key,
        ) -> Result<ByteView>;
    }
}

/// What all handles have in common.
pub(super) struct Handle<K, V> {
    source: Arc<dyn StoreSource>,
    codec: Arc<Codec<K, V>>,
    scope: Scope,
}

impl<K, V> Clone for Handle<K, V> {
    fn clone(&self) -> Self {
        let (source, codec) = (self.source.clone(), self.codec.clone());
        Handle { source, codec, scope: self.scope }
    }
}

impl<K: 'static, V: 'static> Handle<K, V> {
    fn new(source: Arc<dyn StoreSource>, serdes: super::codec::KeyValueSerdes<K, V>) -> Self {
        let (name, topic) = (source.spec().name.clone(), source.serde_topic());
        Handle { codec: Arc::new(Codec::new(name, topic, serdes)), source, scope: Scope::default() }
    }

    /// What the first partition has that has something.
    fn find<T>(
        &self,
        key: &K,
        mut look: impl FnMut(&PartitionReader, &[u8]) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        let key = self.codec.key_bytes(key)?;
        for reader in self.source.present(self.scope)? {
            if let Some(found) = look(&reader, &key)? {
                return Ok(Some(found));
            }
        }
        self.source.check_absent(self.scope, &key)?;
        Ok(None)
    }

    /// The entries of all partitions, one after the other.
    fn scan(
        &self,
        range: impl Fn(&PartitionReader) -> Result<EngineEntries>,
    ) -> Result<EngineEntries> {
        let entries = self.source.all(self.scope)?.iter().map(range).collect::<Result<Vec<_>>>()?;
        Ok(Box::new(entries.into_iter().flatten()))
    }
}

impl<K: 'static, V: 'static> Queryable for GlobalTable<K, V> {}

impl<K: 'static, V: 'static> sealed::Query for GlobalTable<K, V> {
    type ReadOnly = GlobalTable<K, V>;
    type Key = K;

    fn read_only(token: &StoreToken<Self>, sealed::Source(source): sealed::Source) -> Result<Self> {
        source.globals().open(token.name(), token.serdes)
    }

    key_bytes!();
}

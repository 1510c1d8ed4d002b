//! Where operators remember: typed stores over layers of bytes.
//!
//! A write goes from the typed handle (`key_value.rs`, `window.rs`, `session.rs`, `versioned.rs`) through `layers` (record cache,
//! changelog, write buffer) and reaches the `engine` when the task commits. So what an engine holds is always a committed state,
//! beside the changelog offset it belongs to.

mod change_buffer;
mod codec;
mod directory;
pub(crate) mod engine;
mod global;
mod join_buffer;
mod join_list;
mod key_order;
mod key_value;
mod kind;
mod layers;
mod layout;
mod read_only;
mod restore_batch;
mod session;
mod spec;
mod store_set;
mod versioned;
mod walk;
mod window;
mod writable;

#[cfg(test)]
mod tests;

pub(crate) use self::change_buffer::{ChangeBuffer, Waiting};
pub(crate) use self::codec::{KeyValueSerdes, TableChange};
pub(crate) use self::directory::{DirectoryLock, StateDirectory, clean_up};
pub(crate) use self::engine::delete_database;
pub(crate) use self::global::{GlobalRecord, GlobalSpec, GlobalStores, Unreadable};
pub use self::global::{GlobalTable, GlobalTableWriter};
pub(crate) use self::join_buffer::{JoinBuffer, WaitingRecord};
pub(crate) use self::join_list::{JoinList, JoinListStore, JoinSide};
pub use self::key_value::{Entries, KeyValueStore, TimestampedKeyValueStore};
pub(crate) use self::kind::StoreKind;
pub use self::layers::PutResult;
pub use self::layers::StoreUsage;
pub(crate) use self::layers::{Budget, LogMode, LogRecord, StoreBudget};
pub(crate) use self::read_only::sealed::Source;
pub(crate) use self::read_only::{PartitionReader, Scope, StoreSource};
pub use self::read_only::{
    Queryable, ReadOnlyKeyValueStore, ReadOnlySessionStore, ReadOnlyVersionedKeyValueStore,
    ReadOnlyWindowStore,
};
pub(crate) use self::restore_batch::{RestoreBatch, Restored};
pub use self::session::{SessionEntries, SessionStore, SessionValues};
pub(crate) use self::spec::{StoreFormat, StoreSpec};
pub use self::spec::{StoreToken, StoreType, Stores};
pub(crate) use self::store_set::{StoreSet, TaskBackends};
pub use self::versioned::{VersionedKeyValueStore, VersionedRecord};
pub use self::walk::Walkable;
pub use self::window::{TimestampedWindowStore, WindowEntries, WindowStore, WindowValues};
pub use self::writable::Writable;

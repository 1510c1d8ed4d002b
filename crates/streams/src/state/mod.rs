//! Where operators remember: typed stores over layers of bytes.
//!
//! A write goes from the typed handle (`key_value.rs`) through `layers` (record cache, changelog, write buffer) and reaches the
//! `engine` when the task commits. So what an engine holds is always a committed state, beside the changelog offset it belongs to.

mod directory;
pub(crate) mod engine;
mod global;
mod key_order;
mod key_value;
mod layers;
mod layout;
mod restore_batch;
mod spec;
mod store_set;

pub(crate) use self::directory::{DirectoryLock, StateDirectory, clean_up};
pub(crate) use self::global::{GlobalRecord, GlobalSpec, GlobalStores, GlobalTable, Unreadable};
pub use self::key_value::{Entries, KeyValueStore, TimestampedKeyValueStore};
pub(crate) use self::key_value::{KeyValueSerdes, TableChange};
pub(crate) use self::layers::{Budget, LogMode, StoreBudget};
pub(crate) use self::restore_batch::RestoreBatch;
pub(crate) use self::spec::{StoreFormat, StoreSpec};
pub use self::spec::{StoreToken, StoreType, Stores};
pub(crate) use self::store_set::{LogRecord, StoreSet, TaskBackends};

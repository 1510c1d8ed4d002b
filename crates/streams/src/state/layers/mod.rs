//! The layers between a typed store and its engine, each with one duty: forward once a commit (`record_cache`), log changes
//! (`changelog`), keep what is not committed and what was read lately (`write_buffer`). `key_value` puts them together.
//!
//! Windows and sessions are kept by time, so their rows have a buffer and read cache of their own (`recent`), which `windowed` puts
//! together with the others; `versioned` keeps the history of values in rows of a key-value store.

mod budget;
mod change_buffer;
mod changelog;
mod key_value;
mod lru;
mod recent;
mod record_cache;
mod usage;
mod versioned;
mod windowed;
mod write_buffer;

pub(crate) use self::budget::{Budget, StoreBudget};
pub(crate) use self::change_buffer::ChangeBufferLayers;
pub(crate) use self::changelog::{LogMode, LogRecord};
pub(crate) use self::key_value::KeyValueLayers;
pub(crate) use self::record_cache::Flushed;
pub use self::usage::StoreUsage;
pub use self::versioned::PutResult;
pub(crate) use self::versioned::{
    VersionBytes, VersionedLayers, VersionedRows, VersionedSettings, Versions, write_row_key,
};
pub(in crate::state) use self::windowed::Order;
pub(crate) use self::windowed::{
    Hit, KeyedHits, StoreClock, TimeSpan, WindowLayers, WindowSettings, WindowWrite,
};

use crate::error::Result;
use crate::state::engine::Write;
use crate::topology::erased::Fault;
use byteview::ByteView;
use std::rc::Rc;

/// Takes a change on its way out of the record cache to the children of the operator that owns the store.
pub(crate) type FlushListener = Rc<dyn Fn(Flushed) -> Result<(), Fault>>;

/// What a commit takes from a store for its engine.
#[derive(Debug, Default)]
pub(crate) struct StoreWrites {
    /// Sorted by key.
    pub(crate) writes: Vec<Write>,
    /// All rows with smaller keys are expired.
    pub(crate) expired: Option<ByteView>,
    /// How far the store has got, for stores that go by time.
    pub(crate) clock: Option<StoreClock>,
}

/// The part of a store in a commit, whatever its kind.
pub(crate) trait StoreLayers {
    /// Whether the cache has to be flushed for lack of room.
    fn is_cache_full(&mut self) -> bool {
        false
    }

    fn has_cached_changes(&self) -> bool {
        false
    }

    /// Writes what the cache holds and gives the changes to forward.
    fn flush_cache(&mut self) -> Result<Vec<Flushed>> {
        Ok(Vec::new())
    }

    /// Who forwards the changes, if an operator does.
    fn listener(&self) -> Option<FlushListener> {
        None
    }

    /// How many writes were too late for the store since it was asked last.
    fn take_expired(&mut self) -> u64 {
        0
    }

    /// Gives the records for the changelog topic.
    fn drain_changelog(&mut self, append: &mut dyn FnMut(LogRecord) -> Result<()>) -> Result<()>;

    /// How much it is used.
    fn usage(&self) -> StoreUsage;

    /// Bytes that only a commit frees.
    fn uncommitted_bytes(&self) -> usize;

    /// Takes the writes since the last commit.
    fn take_writes(&mut self) -> StoreWrites;
}

//! Where read-only handles find the partitions of a store.

use crate::config::Compatibility;
use crate::error::Result;
use crate::state::engine::{CommittedStore, StoreSnapshot};
use crate::state::global::GlobalStores;
use crate::state::layers::{
    StoreClock, VersionedLayers, VersionedSettings, WindowLayers, WindowSettings,
};
use crate::state::spec::StoreSpec;
use crate::state::store_set::clock_of;
use std::sync::Arc;

/// Which partitions a handle asks.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Scope {
    /// Only this one; else all that are local.
    pub(crate) partition: Option<i32>,
    /// Whether it takes what is there, although it may be old or not all of it.
    pub(crate) allow_stale: bool,
}

/// Knows the local partitions of one store.
pub(crate) trait StoreSource: Send + Sync {
    fn spec(&self) -> &StoreSpec;

    /// The topic that the store's serdes are shown.
    fn serde_topic(&self) -> Arc<str>;

    fn globals(&self) -> &GlobalStores;

    /// The partitions that are here right now, in their order, for who looks for a key.
    ///
    /// # Errors
    /// When none can be asked; the error says why.
    fn present(&self, scope: Scope) -> Result<Vec<PartitionReader>>;

    /// The same for who wants all that is local.
    ///
    /// # Errors
    /// When one is missing that should be here.
    fn all(&self, scope: Scope) -> Result<Vec<PartitionReader>>;

    /// A key was found in none of the partitions that are present.
    ///
    /// # Errors
    /// When it may be in one that is not present; the error says where that is.
    fn check_absent(&self, scope: Scope, key: &[u8]) -> Result<()>;
}

/// One partition of a store, as its task commits it.
#[derive(Clone)]
pub(crate) struct PartitionReader {
    pub(crate) spec: Arc<StoreSpec>,
    pub(crate) committed: Arc<dyn CommittedStore>,
    pub(crate) compatibility: Compatibility,
}

impl PartitionReader {
    pub(crate) fn snapshot(&self) -> Result<Box<dyn StoreSnapshot>> {
        self.committed.snapshot()
    }

    fn at_clock(&self) -> Result<(Box<dyn StoreSnapshot>, StoreClock)> {
        let snapshot = self.snapshot()?;
        let clock = clock_of(&self.spec.name, |mark| snapshot.offset(mark))?;
        Ok((snapshot, clock))
    }

    /// The rows of a window or session store; `None` for other kinds.
    pub(super) fn windows(&self) -> Result<Option<WindowLayers>> {
        let Some(settings) = WindowSettings::of(&self.spec, self.compatibility) else {
            return Ok(None);
        };
        let (snapshot, clock) = self.at_clock()?;
        Ok(Some(WindowLayers::committed(settings, snapshot, clock)))
    }

    /// The values of a versioned store; `None` for other kinds.
    pub(super) fn versions(&self) -> Result<Option<VersionedLayers>> {
        let Some(settings) = VersionedSettings::of(&self.spec, self.compatibility) else {
            return Ok(None);
        };
        let (snapshot, clock) = self.at_clock()?;
        Ok(Some(VersionedLayers::committed(settings, snapshot, clock)))
    }
}

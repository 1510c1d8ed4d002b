//! Stores in memory: sorted maps that readers share until somebody writes.

use super::{
    Backend, CommitBatch, Direction, Engine, EngineEntries, KeyRange, Write, is_empty_range,
};
use crate::error::Result;
use byteview::ByteView;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

type Map = BTreeMap<ByteView, ByteView>;

/// A map behind a lock that only one task takes, once a call: it is there so that the backend can move to the restoring
/// thread and back. The inner `Arc` makes a range a snapshot; a write copies the map only while such a snapshot is open.
type Shared = Arc<Mutex<Arc<Map>>>;

/// The in-memory stores of one task.
#[derive(Debug, Default)]
pub(crate) struct MemoryBackend {
    stores: BTreeMap<Arc<str>, Shared>,
    offsets: BTreeMap<Arc<str>, i64>,
}

impl Backend for MemoryBackend {
    fn engine(&mut self, store: &str) -> Result<Box<dyn Engine>> {
        Ok(Box::new(MemoryEngine(self.stores.entry(store.into()).or_default().clone())))
    }

    fn offsets(&self) -> Result<BTreeMap<Arc<str>, i64>> {
        Ok(self.offsets.clone())
    }

    fn commit(&mut self, batch: CommitBatch) -> Result<()> {
        for (store, writes) in batch.writes {
            self.load(&store, &mut writes.into_iter())?;
        }
        for (store, end) in batch.expired {
            let shared = self.stores.entry(store).or_default();
            let mut map = shared.lock().unwrap_or_else(PoisonError::into_inner);
            let map = Arc::make_mut(&mut map);
            *map = map.split_off(&end);
        }
        self.offsets.extend(batch.offsets);
        Ok(())
    }

    fn load(&mut self, store: &Arc<str>, writes: &mut dyn Iterator<Item = Write>) -> Result<()> {
        let shared = self.stores.entry(store.clone()).or_default();
        let mut map = shared.lock().unwrap_or_else(PoisonError::into_inner);
        let map = Arc::make_mut(&mut map);
        for (key, value) in writes {
            match value {
                Some(value) => map.insert(key, value),
                None => map.remove(&key),
            };
        }
        Ok(())
    }
}

struct MemoryEngine(Shared);

impl MemoryEngine {
    fn map(&self) -> Arc<Map> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Engine for MemoryEngine {
    fn get(&self, key: &[u8]) -> Result<Option<ByteView>> {
        let map = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(map.get(key).cloned())
    }

    fn range(&self, range: &KeyRange, direction: Direction) -> Result<EngineEntries> {
        if is_empty_range(range) {
            return Ok(Box::new(std::iter::empty()));
        }
        Ok(Box::new(MapEntries { map: self.map(), rest: range.clone(), direction }))
    }

    fn approximate_len(&self) -> u64 {
        self.map().len() as u64
    }

    fn is_empty(&self) -> Result<bool> {
        Ok(self.map().is_empty())
    }
}

/// Walks a shared map by looking up the next key each time, so that it owns its snapshot without borrowing.
struct MapEntries {
    map: Arc<Map>,
    rest: KeyRange,
    direction: Direction,
}

impl Iterator for MapEntries {
    type Item = Result<(ByteView, ByteView)>;

    fn next(&mut self) -> Option<Self::Item> {
        use std::ops::Bound::Excluded;
        if is_empty_range(&self.rest) {
            return None;
        }
        let mut range = self.map.range(self.rest.clone());
        let (key, value) = match self.direction {
            Direction::Forward => range.next(),
            Direction::Reverse => range.next_back(),
        }?;
        match self.direction {
            Direction::Forward => self.rest.0 = Excluded(key.clone()),
            Direction::Reverse => self.rest.1 = Excluded(key.clone()),
        }
        Some(Ok((key.clone(), value.clone())))
    }
}

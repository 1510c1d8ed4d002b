//! Stores in memory: sorted maps that readers share.

use super::sorted_map::{MapEntries, SortedMap};
use super::{
    Backend, CommitBatch, CommittedStore, Direction, Engine, EngineEntries, KeyRange,
    StoreSnapshot, Write, is_empty_range,
};
use crate::error::Result;
use byteview::ByteView;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The in-memory stores of one task.
#[derive(Debug, Default)]
pub(crate) struct MemoryBackend {
    /// Where each store is among the maps.
    places: BTreeMap<Arc<str>, usize>,
    shared: Arc<Shared>,
}

/// Behind a lock that nobody holds for longer than a look-up, or the exchange of pointers. The exception is a commit to stores
/// that no other thread ever asked: it holds the lock while it writes.
#[derive(Debug, Default)]
struct Shared(Mutex<Content>);

#[derive(Debug, Default, Clone)]
struct Content {
    maps: Vec<Arc<SortedMap>>,
    offsets: Arc<BTreeMap<Arc<str>, i64>>,
    /// Whether another thread has asked. From then on a commit is written aside and put in place as a whole.
    is_asked: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Content> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Content)) {
        let mut content = self.lock();
        if !content.is_asked {
            return change(&mut content);
        }
        let mut next = content.clone();
        drop(content);
        change(&mut next);
        // What it replaces may be large and nobody else's: it goes when the lock is free again.
        let before = std::mem::replace(&mut *self.lock(), next);
        drop(before);
    }
}

impl MemoryBackend {
    fn place(&mut self, store: &Arc<str>) -> usize {
        if let Some(place) = self.places.get(store) {
            return *place;
        }
        let mut content = self.shared.lock();
        content.maps.push(Arc::default());
        let place = content.maps.len() - 1;
        self.places.insert(store.clone(), place);
        place
    }
}

impl Backend for MemoryBackend {
    fn engine(&mut self, store: &str) -> Result<Box<dyn Engine>> {
        let place = self.place(&store.into());
        Ok(Box::new(MemoryEngine { place, shared: self.shared.clone() }))
    }

    fn committed_store(&mut self, store: &str) -> Result<Arc<dyn CommittedStore>> {
        let place = self.place(&store.into());
        Ok(Arc::new(MemoryEngine { place, shared: self.shared.clone() }))
    }

    fn offsets(&self) -> Result<BTreeMap<Arc<str>, i64>> {
        Ok((*self.shared.lock().offsets).clone())
    }

    fn commit(&mut self, batch: CommitBatch) -> Result<()> {
        let CommitBatch { writes, expired, offsets } = batch;
        let writes: Vec<_> =
            writes.into_iter().map(|(store, writes)| (self.place(&store), writes)).collect();
        let expired: Vec<_> =
            expired.into_iter().map(|(store, end)| (self.place(&store), end)).collect();
        self.shared.change(|content| {
            for (place, writes) in writes {
                let map = Arc::make_mut(&mut content.maps[place]);
                writes.into_iter().for_each(|write| map.write(write));
            }
            for (place, end) in expired {
                Arc::make_mut(&mut content.maps[place]).drop_before(&end);
            }
            if !offsets.is_empty() {
                Arc::make_mut(&mut content.offsets).extend(offsets);
            }
        });
        Ok(())
    }

    fn load(&mut self, store: &Arc<str>, writes: &mut dyn Iterator<Item = Write>) -> Result<()> {
        let place = self.place(store);
        self.shared.change(|content| {
            let map = Arc::make_mut(&mut content.maps[place]);
            writes.for_each(|write| map.write(write));
        });
        Ok(())
    }
}

/// One store, as its task sees it.
struct MemoryEngine {
    place: usize,
    shared: Arc<Shared>,
}

impl MemoryEngine {
    fn map(&self) -> Arc<SortedMap> {
        self.shared.lock().maps[self.place].clone()
    }
}

impl Engine for MemoryEngine {
    fn get(&self, key: &[u8]) -> Result<Option<ByteView>> {
        Ok(self.shared.lock().maps[self.place].get(key).cloned())
    }

    fn range(&self, range: &KeyRange, direction: Direction) -> Result<EngineEntries> {
        Ok(range_of(self.map(), range, direction))
    }

    fn approximate_len(&self) -> u64 {
        self.map().len() as u64
    }

    fn is_empty(&self) -> Result<bool> {
        Ok(self.map().len() == 0)
    }
}

impl CommittedStore for MemoryEngine {
    fn snapshot(&self) -> Result<Box<dyn StoreSnapshot>> {
        let mut content = self.shared.lock();
        content.is_asked = true;
        let (map, offsets) = (content.maps[self.place].clone(), content.offsets.clone());
        Ok(Box::new(MemorySnapshot { map, offsets }))
    }
}

/// One store as a commit left it.
struct MemorySnapshot {
    map: Arc<SortedMap>,
    offsets: Arc<BTreeMap<Arc<str>, i64>>,
}

impl Engine for MemorySnapshot {
    fn get(&self, key: &[u8]) -> Result<Option<ByteView>> {
        Ok(self.map.get(key).cloned())
    }

    fn range(&self, range: &KeyRange, direction: Direction) -> Result<EngineEntries> {
        Ok(range_of(self.map.clone(), range, direction))
    }

    fn approximate_len(&self) -> u64 {
        self.map.len() as u64
    }

    fn is_empty(&self) -> Result<bool> {
        Ok(self.map.len() == 0)
    }
}

impl StoreSnapshot for MemorySnapshot {
    fn offset(&self, name: &str) -> Result<Option<i64>> {
        Ok(self.offsets.get(name).copied())
    }
}

fn range_of(map: Arc<SortedMap>, range: &KeyRange, direction: Direction) -> EngineEntries {
    if is_empty_range(range) {
        return Box::new(std::iter::empty());
    }
    Box::new(MapEntries::new(map, range, direction).map(Ok))
}

//! The record cache: keeps the changes of a table back until the next commit, so that only the last one of a key goes on.
//!
//! It is a matter of *when a change is forwarded*; when it is written is up to the write buffer. Changes come out in the order of
//! their last writes, as in Java. When the cache is too large, the oldest entry has to go; if it is dirty, all changes go on, at the
//! next safe point between two records (Java does it inside the write).

use super::budget::Budget;
use super::lru::{Lru, Place};
use crate::processor::RecordContext;
use crate::record::Headers;
use crate::state::engine::Write;
use byteview::ByteView;

/// What an entry costs besides its key and value.
const ENTRY_OVERHEAD: usize = 96;

/// A change that leaves the cache.
#[derive(Debug)]
pub(crate) struct Flushed {
    pub(crate) key: ByteView,
    pub(crate) new: Option<ByteView>,
    pub(crate) old: Option<ByteView>,
    /// The record that caused the last change, and its headers.
    pub(crate) record: RecordContext,
    pub(crate) headers: Headers,
}

/// A change that waits.
pub(super) struct Change {
    pub(super) key: ByteView,
    pub(super) value: Option<ByteView>,
    /// The value below the cache, as far as it was told.
    pub(super) under: Option<ByteView>,
    pub(super) record: RecordContext,
    pub(super) headers: Headers,
}

#[derive(Default)]
struct Entry {
    value: Option<ByteView>,
    dirty: Option<Dirty>,
}

struct Dirty {
    /// The number of the last write; an older number in the order of writes is void.
    write: u64,
    under: Option<ByteView>,
    record: RecordContext,
    headers: Headers,
}

pub(super) struct RecordCache {
    entries: Lru<Entry>,
    /// Places in the order of their writes.
    writes: Vec<(u64, Place)>,
    last_write: u64,
    bytes: usize,
    budget: Budget,
}

impl RecordCache {
    pub(super) fn new(budget: Budget) -> Self {
        RecordCache { entries: Lru::default(), writes: Vec::new(), last_write: 0, bytes: 0, budget }
    }

    fn grow(&mut self, bytes: usize) {
        self.bytes += bytes;
        self.budget.take(bytes);
    }

    fn shrink(&mut self, bytes: usize) {
        self.bytes -= bytes;
        self.budget.give(bytes);
    }

    /// The cached value, if the key is here; `Some(None)` is a cached absence.
    pub(super) fn get(&mut self, key: &[u8]) -> Option<Option<ByteView>> {
        let place = self.entries.touch(key)?;
        Some(self.entries.get(place).value.clone())
    }

    /// `under` is the value below the cache, for a key that has no change here yet.
    pub(super) fn put(
        &mut self,
        key: &[u8],
        value: Option<ByteView>,
        under: Option<ByteView>,
        record: RecordContext,
        headers: Headers,
    ) {
        self.last_write += 1;
        let dirty = Dirty { write: self.last_write, under, record, headers };
        let entry = Entry { value, dirty: Some(dirty) };
        self.grow(size(key, &entry.value));
        let place = match self.entries.touch(key) {
            Some(place) => {
                let old = std::mem::replace(self.entries.get_mut(place), entry);
                self.shrink(size(key, &old.value));
                if let (Some(old), Some(new)) = (old.dirty, &mut self.entries.get_mut(place).dirty)
                {
                    new.under = old.under;
                }
                place
            }
            None => self.entries.insert(key.into(), entry),
        };
        self.writes.push((self.last_write, place));
        if self.writes.len() > 64 && self.writes.len() > 2 * self.entries.len() {
            self.forget_void_writes();
        }
    }

    /// Whether the entries that have to go for lack of room include a change.
    pub(super) fn is_full(&mut self) -> bool {
        while self.budget.is_exceeded() {
            let Some(place) = self.entries.oldest() else { return false };
            if self.entries.get(place).dirty.is_some() {
                return true;
            }
            if let Some((key, entry)) = self.entries.remove(place) {
                self.shrink(size(&key, &entry.value));
            }
        }
        false
    }

    pub(super) fn has_changes(&self) -> bool {
        !self.writes.is_empty()
    }

    /// Takes all changes, in the order of their last writes. The entries stay, clean.
    pub(super) fn take_changes(&mut self) -> Vec<Change> {
        self.forget_void_writes();
        let mut changes = Vec::with_capacity(self.writes.len());
        for (_, place) in std::mem::take(&mut self.writes) {
            let key = self.entries.key(place).clone();
            let entry = self.entries.get_mut(place);
            let Some(Dirty { under, record, headers, .. }) = entry.dirty.take() else { continue };
            changes.push(Change { key, value: entry.value.clone(), under, record, headers });
        }
        changes
    }

    /// Takes all changes as [`Self::take_changes`], and keeps nothing.
    pub(super) fn take_changes_and_entries(&mut self) -> Vec<Change> {
        let changes = self.take_changes();
        self.entries.clear();
        self.shrink(self.bytes);
        changes
    }

    /// The value below the change of a key, if there is such a change.
    pub(super) fn under(&mut self, key: &[u8]) -> Option<Option<ByteView>> {
        let place = self.entries.touch(key)?;
        Some(self.entries.get(place).dirty.as_ref()?.under.clone())
    }

    /// Gives up a key with its change; its number in the order of writes is void from now on.
    pub(super) fn forget(&mut self, key: &[u8]) {
        let Some(place) = self.entries.touch(key) else { return };
        if let Some((key, entry)) = self.entries.remove(place) {
            self.shrink(size(&key, &entry.value));
        }
    }

    fn forget_void_writes(&mut self) {
        let entries = &self.entries;
        self.writes.retain(|&(write, place)| {
            entries.get(place).dirty.as_ref().is_some_and(|dirty| dirty.write == write)
        });
    }

    /// The changes whose keys a range selects, sorted by key: an overlay for what lies below.
    pub(super) fn changes_in(&mut self, selects: impl Fn(&[u8]) -> bool) -> Vec<Write> {
        self.forget_void_writes();
        let mut found: Vec<_> = self
            .writes
            .iter()
            .filter(|&&(_, place)| selects(self.entries.key(place)))
            .map(|&(_, place)| {
                (self.entries.key(place).clone(), self.entries.get(place).value.clone())
            })
            .collect();
        found.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        found
    }
}

impl Drop for RecordCache {
    fn drop(&mut self) {
        self.budget.give(self.bytes);
    }
}

fn size(key: &[u8], value: &Option<ByteView>) -> usize {
    ENTRY_OVERHEAD + key.len() + value.as_ref().map_or(0, ByteView::len)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(cache: &mut RecordCache, key: &str, value: &str) {
        let record = RecordContext { topic: "t".into(), partition: 0, offset: 0, timestamp: 0 };
        let value = (value != "-").then(|| ByteView::from(value));
        cache.put(key.as_bytes(), value, None, record, Headers::new());
    }

    fn changes(cache: &mut RecordCache) -> String {
        let text = |change: Change| {
            let value = change.value.map_or("-".into(), |value| value.to_vec());
            String::from_utf8([change.key.to_vec(), value].concat()).expect("text")
        };
        cache.take_changes().into_iter().map(text).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_last_change_of_a_key_comes_out_in_the_order_of_last_writes() {
        let mut cache = RecordCache::new(Budget::new(1 << 20));
        for (key, value) in [("a", "1"), ("b", "1"), ("a", "2"), ("c", "-"), ("b", "2")] {
            put(&mut cache, key, value);
        }
        assert_eq!(cache.get(b"a"), Some(Some("2".into())));
        assert_eq!(cache.get(b"c"), Some(None));
        assert_eq!(cache.get(b"d"), None);
        assert_eq!(changes(&mut cache), "a2 c- b2");
        assert!(!cache.has_changes());
        put(&mut cache, "c", "3");
        assert_eq!(changes(&mut cache), "c3");
    }

    #[test]
    fn a_full_cache_gives_up_clean_entries_and_asks_for_a_flush_of_dirty_ones() {
        let mut cache = RecordCache::new(Budget::new(2 * (ENTRY_OVERHEAD + 2)));
        put(&mut cache, "a", "1");
        put(&mut cache, "b", "1");
        assert!(!cache.is_full());
        put(&mut cache, "c", "1");
        assert!(cache.is_full());
        assert_eq!(changes(&mut cache), "a1 b1 c1");
        assert!(!cache.is_full());
        assert_eq!(cache.get(b"a"), None);
        assert_eq!(cache.get(b"b"), Some(Some("1".into())));
    }

    #[test]
    fn a_key_written_again_and_again_takes_no_more_room() {
        let mut cache = RecordCache::new(Budget::new(1 << 20));
        for _ in 0..10_000 {
            put(&mut cache, "a", "1");
        }
        assert!(cache.writes.len() <= 65);
        assert_eq!(changes(&mut cache), "a1");
    }
}

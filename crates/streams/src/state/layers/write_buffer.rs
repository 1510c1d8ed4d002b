//! The write buffer: what was written since the last commit, in memory, in front of the engine. Reads see it first.
//!
//! At a commit its writes go to the engine as one sorted batch. Afterwards the entries stay as a clean read cache, least recently
//! used within the budget: that cache is most of the speed. An entry may also remember that the engine has no such key.

use super::budget::Budget;
use super::lru::{Lru, Place};
use crate::error::Result;
use crate::state::engine::{Engine, KeyRange, Write, is_empty_range};
use crate::state::key_order::sort_by_key;
use byteview::ByteView;
use std::collections::BTreeMap;
use std::ops::Bound;

/// What an entry costs besides its key and value.
const ENTRY_OVERHEAD: usize = 80;

/// Short keys and values lie in here: with its key an entry is 64 bytes, the least that a look at it brings from memory.
#[derive(Default)]
struct Entry {
    value: ByteView,
    /// Whether there is a value; else the key is absent.
    exists: bool,
    uncommitted: bool,
    /// The engine has no such key, for certain.
    lacking: bool,
    /// The time of the record that wrote it, while it is not committed.
    timestamp: i64,
}

impl Entry {
    fn new(value: Option<ByteView>) -> Self {
        let exists = value.is_some();
        let value = value.unwrap_or_default();
        Entry { value, exists, uncommitted: false, lacking: !exists, timestamp: 0 }
    }

    /// Whether it was written and deleted again since the last commit: nobody below ever heard of it.
    fn is_void(&self) -> bool {
        self.lacking && !self.exists
    }

    fn value(&self) -> Option<&ByteView> {
        self.exists.then_some(&self.value)
    }
}

/// A write since the last commit: the key, the value, and the time of the record that wrote it.
pub(super) struct Uncommitted<'a> {
    pub(super) key: &'a ByteView,
    pub(super) value: Option<&'a ByteView>,
    pub(super) timestamp: i64,
    /// It was written and deleted again since the last commit.
    pub(super) is_void: bool,
}

pub(super) struct WriteBuffer {
    entries: Lru<Entry>,
    uncommitted: Vec<Place>,
    /// So many of them are in the order of their keys.
    sorted: usize,
    /// The same by key, for stores that were asked for ranges since the last commit: each range is a look-up then, not a sort.
    order: Option<BTreeMap<ByteView, Place>>,
    bytes: usize,
    uncommitted_bytes: usize,
    budget: Budget,
    /// Every entry of the engine is here as well: it need not be asked for what is not here.
    holds_all: bool,
}

impl WriteBuffer {
    /// `holds_all`: the engine is empty.
    pub(super) fn new(budget: Budget, holds_all: bool) -> Self {
        WriteBuffer {
            entries: Lru::default(),
            uncommitted: Vec::new(),
            sorted: 0,
            order: None,
            bytes: 0,
            uncommitted_bytes: 0,
            budget,
            holds_all,
        }
    }

    pub(super) fn get(&mut self, engine: &dyn Engine, key: &[u8]) -> Result<Option<ByteView>> {
        if let Some(place) = self.entries.touch(key) {
            return Ok(self.entries.get(place).value().cloned());
        }
        let value = if self.holds_all { None } else { engine.get(key)? };
        let entry = Entry::new(value.clone());
        self.grow(size(key, &entry));
        self.entries.insert(key.into(), entry);
        self.evict();
        Ok(value)
    }

    pub(super) fn put(&mut self, key: &[u8], value: Option<ByteView>, timestamp: i64) {
        let lacking = self.holds_all;
        let mut entry = Entry { uncommitted: true, lacking, timestamp, ..Entry::new(value) };
        let new_size = size(key, &entry);
        self.grow(new_size);
        self.uncommitted_bytes += new_size;
        let place = match self.entries.touch(key) {
            Some(place) => {
                let known = self.entries.get_mut(place);
                entry.lacking = known.lacking;
                let old = std::mem::replace(known, entry);
                let old_size = size(key, &old);
                self.shrink(old_size);
                if old.uncommitted {
                    self.uncommitted_bytes -= old_size;
                    return;
                }
                place
            }
            None => self.entries.insert(key.into(), entry),
        };
        // It cannot go before the next commit.
        self.entries.pin(place);
        self.uncommitted.push(place);
        if let Some(order) = &mut self.order {
            order.insert(self.entries.key(place).clone(), place);
        }
        self.evict();
    }

    fn grow(&mut self, bytes: usize) {
        self.bytes += bytes;
        self.budget.take(bytes);
    }

    fn shrink(&mut self, bytes: usize) {
        self.bytes -= bytes;
        self.budget.give(bytes);
    }

    /// Bytes that only the next commit frees.
    pub(super) fn uncommitted_bytes(&self) -> usize {
        self.uncommitted_bytes
    }

    /// The writes since the last commit, sorted by key.
    pub(super) fn uncommitted(&mut self) -> impl ExactSizeIterator<Item = Uncommitted<'_>> {
        self.sort();
        let entries = &self.entries;
        self.uncommitted.iter().map(|&place| {
            let entry = entries.get(place);
            let (key, timestamp) = (entries.key(place), entry.timestamp);
            Uncommitted { key, value: entry.value(), timestamp, is_void: entry.is_void() }
        })
    }

    fn order(&mut self) -> &BTreeMap<ByteView, Place> {
        let (entries, uncommitted) = (&self.entries, &self.uncommitted);
        let keyed =
            || uncommitted.iter().map(|&place| (entries.key(place).clone(), place)).collect();
        self.order.get_or_insert_with(keyed)
    }

    /// The writes since the last commit in a range of keys, sorted by key.
    pub(super) fn uncommitted_in(&mut self, range: &KeyRange) -> Vec<Write> {
        if self.uncommitted.is_empty() || is_empty_range(range) {
            return Vec::new();
        }
        let found: Vec<(ByteView, Place)> = self
            .order()
            .range::<ByteView, _>((range.0.as_ref(), range.1.as_ref()))
            .map(|(key, &place)| (key.clone(), place))
            .collect();
        let value = |place| self.entries.get(place).value().cloned();
        found.into_iter().map(|(key, place)| (key, value(place))).collect()
    }

    /// The first write since the last commit whose key comes after this one.
    pub(super) fn uncommitted_after(&mut self, key: Option<&ByteView>) -> Option<Write> {
        if self.uncommitted.is_empty() {
            return None;
        }
        let from = key.map_or(Bound::Unbounded, Bound::Excluded);
        let (key, &place) = self.order().range::<ByteView, _>((from, Bound::Unbounded)).next()?;
        Some((key.clone(), self.entries.get(place).value().cloned()))
    }

    fn sort(&mut self) {
        if self.sorted < self.uncommitted.len() {
            let entries = &self.entries;
            sort_by_key(&mut self.uncommitted, |place| entries.key(place));
            self.sorted = self.uncommitted.len();
        }
    }

    /// Takes the writes for the engine, sorted by key; from now on they count as committed.
    pub(super) fn take_writes(&mut self) -> Vec<Write> {
        self.sort();
        let mut writes = Vec::with_capacity(self.uncommitted.len());
        for &place in &self.uncommitted {
            let key = self.entries.key(place).clone();
            let entry = self.entries.get_mut(place);
            entry.uncommitted = false;
            if !entry.is_void() {
                writes.push((key, entry.value().cloned()));
            }
            entry.lacking = !entry.exists;
            self.entries.unpin(place);
        }
        self.uncommitted.clear();
        self.sorted = 0;
        self.order = None;
        self.uncommitted_bytes = 0;
        self.evict();
        writes
    }

    /// Drops clean entries, the oldest first, until the rest fits.
    fn evict(&mut self) {
        while self.budget.is_exceeded() {
            let oldest = self.entries.oldest().and_then(|place| self.entries.remove(place));
            let Some((key, entry)) = oldest else { return };
            self.shrink(size(&key, &entry));
            self.holds_all &= !entry.exists;
        }
    }
}

impl Drop for WriteBuffer {
    fn drop(&mut self) {
        self.budget.give(self.bytes);
    }
}

fn size(key: &[u8], entry: &Entry) -> usize {
    ENTRY_OVERHEAD + key.len() + entry.value.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::engine::{Backend, CommitBatch, MemoryBackend};

    fn text(writes: &[Write]) -> String {
        let text = |(key, value): &Write| {
            let show = |bytes: &ByteView| String::from_utf8_lossy(bytes).into_owned();
            format!("{}={}", show(key), value.as_ref().map_or("None".to_owned(), show))
        };
        writes.iter().map(text).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn writes_are_read_at_once_and_leave_sorted() {
        let mut backend = MemoryBackend::default();
        let engine = backend.engine("s").expect("engine");
        let mut buffer = WriteBuffer::new(Budget::new(1 << 20), false);
        buffer.put(b"y", Some("1".into()), 5);
        buffer.put(b"x", Some("2".into()), 6);
        buffer.put(b"y", None, 7);
        assert_eq!(buffer.get(&*engine, b"y").expect("get"), None);
        assert_eq!(buffer.get(&*engine, b"x").expect("get"), Some("2".into()));
        let timestamps: Vec<i64> = buffer.uncommitted().map(|write| write.timestamp).collect();
        assert_eq!(timestamps, [6, 7]);
        assert!(buffer.uncommitted_bytes() > 0);
        let writes = buffer.take_writes();
        assert_eq!(text(&writes), "x=2 y=None");
        assert_eq!(buffer.uncommitted_bytes(), 0);
        assert!(buffer.take_writes().is_empty());
        let batch = CommitBatch { writes: vec![("s".into(), writes)], ..CommitBatch::default() };
        backend.commit(batch).expect("commits");
        assert_eq!(
            WriteBuffer::new(Budget::new(0), false).get(&*engine, b"x").expect("get"),
            Some("2".into())
        );
    }

    #[test]
    fn only_clean_entries_are_evicted() {
        let mut backend = MemoryBackend::default();
        let engine = backend.engine("s").expect("engine");
        let mut buffer = WriteBuffer::new(Budget::new(0), true);
        buffer.get(&*engine, b"a").expect("get");
        assert_eq!(buffer.entries.len(), 0);
        buffer.put(b"a", Some("1".into()), 0);
        for number in 0..100 {
            buffer.get(&*engine, format!("{number}").as_bytes()).expect("get");
        }
        assert_eq!(buffer.entries.len(), 1);
        assert_eq!(buffer.get(&*engine, b"a").expect("get"), Some("1".into()));
        buffer.take_writes();
        assert_eq!(buffer.entries.len(), 0);
        assert_eq!(buffer.bytes, 0);
    }

    /// As long as nothing is evicted the engine is not asked; from then on it is.
    #[test]
    fn what_was_evicted_is_found_in_the_engine() {
        let mut backend = MemoryBackend::default();
        let engine = backend.engine("s").expect("engine");
        let mut buffer = WriteBuffer::new(Budget::new(100), true);
        let writes = [("a".into(), Some("1".into())), ("x".into(), Some("2".into()))];
        let batch =
            CommitBatch { writes: vec![("s".into(), writes.into())], ..CommitBatch::default() };
        backend.commit(batch).expect("commits");
        buffer.put(b"a", Some("1".into()), 0);
        buffer.take_writes();
        assert_eq!(buffer.get(&*engine, b"x").expect("get"), None);
        assert_eq!(buffer.get(&*engine, b"y").expect("get"), None);
        assert_eq!(buffer.get(&*engine, b"a").expect("get"), Some("1".into()));
        assert_eq!(buffer.get(&*engine, b"x").expect("get"), Some("2".into()));
    }

    /// Of a key that comes and goes between two commits nobody hears, unless the engine may have it.
    #[test]
    fn what_came_and_went_is_not_told() {
        let mut backend = MemoryBackend::default();
        let engine = backend.engine("s").expect("engine");
        let mut buffer = WriteBuffer::new(Budget::new(1 << 20), false);
        assert_eq!(buffer.get(&*engine, b"a").expect("get"), None);
        for (key, value) in [("a", Some("1")), ("a", None), ("b", Some("1")), ("b", None)] {
            buffer.put(key.as_bytes(), value.map(Into::into), 0);
        }
        let told: Vec<bool> = buffer.uncommitted().map(|write| !write.is_void).collect();
        assert_eq!(told, [false, true]);
        assert_eq!(text(&buffer.take_writes()), "b=None");
        buffer.put(b"a", Some("2".into()), 0);
        assert_eq!(text(&buffer.take_writes()), "a=2");
        buffer.put(b"a", None, 0);
        buffer.put(b"b", None, 0);
        assert_eq!(text(&buffer.take_writes()), "a=None");
    }

    /// The order by key, once made, keeps up with what is written.
    #[test]
    fn ranges_see_what_is_written_after_the_first() {
        let mut buffer = WriteBuffer::new(Budget::new(1 << 20), true);
        let range = (Bound::Included("b".into()), Bound::Excluded("d".into()));
        for key in ["c", "a"] {
            buffer.put(key.as_bytes(), Some("1".into()), 0);
        }
        assert_eq!(text(&buffer.uncommitted_in(&range)), "c=1");
        for key in ["b", "c", "d"] {
            buffer.put(key.as_bytes(), (key != "c").then(|| "2".into()), 0);
        }
        assert_eq!(text(&buffer.uncommitted_in(&range)), "b=2 c=None");
        let first = buffer.uncommitted_after(None);
        assert_eq!(text(first.as_slice()), "a=1");
        let next = buffer.uncommitted_after(first.as_ref().map(|(key, _)| key));
        assert_eq!(text(next.as_slice()), "b=2");
        buffer.take_writes();
        assert!(buffer.uncommitted_in(&range).is_empty());
        assert!(buffer.uncommitted_after(None).is_none());
        buffer.put(b"b", Some("3".into()), 0);
        assert_eq!(text(&buffer.uncommitted_in(&range)), "b=3");
    }

    #[test]
    fn a_write_after_a_look_at_the_order_finds_its_place() {
        let mut buffer = WriteBuffer::new(Budget::new(1 << 20), false);
        for key in ["b", "d"] {
            buffer.put(key.as_bytes(), None, 0);
        }
        assert_eq!(buffer.uncommitted().len(), 2);
        for key in ["a", "b", "c"] {
            buffer.put(key.as_bytes(), Some("1".into()), 0);
        }
        assert_eq!(text(&buffer.take_writes()), "a=1 b=1 c=1 d=None");
    }
}

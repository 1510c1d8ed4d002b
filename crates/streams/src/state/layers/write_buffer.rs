//! The write buffer: what was written since the last commit, in memory, in front of the engine. Reads see it first.
//!
//! At a commit its writes go to the engine as one sorted batch. Afterwards the entries stay as a clean read cache, least recently
//! used within the budget: that cache is most of the speed. An entry may also remember that the engine has no such key.

use super::budget::Budget;
use super::lru::{Lru, Place};
use crate::error::Result;
use crate::state::engine::{Engine, Write};
use bytes::Bytes;

/// What an entry costs besides its key and value.
const ENTRY_OVERHEAD: usize = 80;

struct Entry {
    value: Option<Bytes>,
    /// The time of the record that wrote it, while it is not committed.
    uncommitted: Option<i64>,
}

/// A write since the last commit: the key, the value, and the time of the record that wrote it.
pub(super) struct Uncommitted<'a> {
    pub(super) key: &'a Bytes,
    pub(super) value: Option<&'a Bytes>,
    pub(super) timestamp: i64,
}

pub(super) struct WriteBuffer {
    entries: Lru<Entry>,
    uncommitted: Vec<Place>,
    bytes: usize,
    uncommitted_bytes: usize,
    budget: Budget,
}

impl WriteBuffer {
    pub(super) fn new(budget: Budget) -> Self {
        let (entries, uncommitted) = (Lru::default(), Vec::new());
        WriteBuffer { entries, uncommitted, bytes: 0, uncommitted_bytes: 0, budget }
    }

    pub(super) fn get(&mut self, engine: &dyn Engine, key: &[u8]) -> Result<Option<Bytes>> {
        if let Some(entry) = self.entries.touch(key).and_then(|place| self.entries.get(place)) {
            return Ok(entry.value.clone());
        }
        let value = engine.get(key)?;
        self.grow(size(key, &value));
        let entry = Entry { value: value.clone(), uncommitted: None };
        self.entries.insert(Bytes::copy_from_slice(key), entry);
        self.evict();
        Ok(value)
    }

    pub(super) fn put(&mut self, key: &[u8], value: Option<Bytes>, timestamp: i64) {
        let new_size = size(key, &value);
        self.grow(new_size);
        self.uncommitted_bytes += new_size;
        let entry = Entry { value, uncommitted: Some(timestamp) };
        let place = match self.entries.touch(key) {
            Some(place) => {
                if let Some(old) = self.entries.get_mut(place) {
                    let old = std::mem::replace(old, entry);
                    let old_size = size(key, &old.value);
                    self.shrink(old_size);
                    if old.uncommitted.is_some() {
                        self.uncommitted_bytes -= old_size;
                        return;
                    }
                }
                place
            }
            None => self.entries.insert(Bytes::copy_from_slice(key), entry),
        };
        // It cannot go before the next commit.
        self.entries.pin(place);
        self.uncommitted.push(place);
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
    pub(super) fn uncommitted(&mut self) -> impl Iterator<Item = Uncommitted<'_>> {
        let entries = &self.entries;
        self.uncommitted.sort_unstable_by(|&a, &b| entries.key(a).cmp(entries.key(b)));
        self.uncommitted.iter().filter_map(|&place| {
            let entry = entries.get(place)?;
            let timestamp = entry.uncommitted?;
            Some(Uncommitted { key: entries.key(place), value: entry.value.as_ref(), timestamp })
        })
    }

    /// Takes the writes for the engine, sorted by key; from now on they count as committed.
    pub(super) fn take_writes(&mut self) -> Vec<Write> {
        let writes = self.uncommitted().map(|write| (write.key.clone(), write.value.cloned()));
        let writes = writes.collect();
        for place in std::mem::take(&mut self.uncommitted) {
            if let Some(entry) = self.entries.get_mut(place) {
                entry.uncommitted = None;
            }
            self.entries.unpin(place);
        }
        self.uncommitted_bytes = 0;
        self.evict();
        writes
    }

    /// Drops clean entries, the oldest first, until the rest fits.
    fn evict(&mut self) {
        while self.budget.is_exceeded() {
            let oldest = self.entries.oldest().and_then(|place| self.entries.remove(place));
            let Some((key, entry)) = oldest else { return };
            self.shrink(size(&key, &entry.value));
        }
    }
}

impl Drop for WriteBuffer {
    fn drop(&mut self) {
        self.budget.give(self.bytes);
    }
}

fn size(key: &[u8], value: &Option<Bytes>) -> usize {
    ENTRY_OVERHEAD + key.len() + value.as_ref().map_or(0, Bytes::len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::engine::{Backend, CommitBatch, MemoryBackend};

    fn text(writes: &[Write]) -> String {
        let text = |(key, value): &Write| format!("{key:?}={value:?}").replace(['b', '"'], "");
        writes.iter().map(text).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn writes_are_read_at_once_and_leave_sorted() {
        let mut backend = MemoryBackend::default();
        let engine = backend.engine("s").expect("engine");
        let mut buffer = WriteBuffer::new(Budget::new(1 << 20));
        buffer.put(b"y", Some("1".into()), 5);
        buffer.put(b"x", Some("2".into()), 6);
        buffer.put(b"y", None, 7);
        assert_eq!(buffer.get(&*engine, b"y").expect("get"), None);
        assert_eq!(buffer.get(&*engine, b"x").expect("get"), Some("2".into()));
        let timestamps: Vec<i64> = buffer.uncommitted().map(|write| write.timestamp).collect();
        assert_eq!(timestamps, [6, 7]);
        assert!(buffer.uncommitted_bytes() > 0);
        let writes = buffer.take_writes();
        assert_eq!(text(&writes), "x=Some(2) y=None");
        assert_eq!(buffer.uncommitted_bytes(), 0);
        assert!(buffer.take_writes().is_empty());
        let batch = CommitBatch { writes: vec![("s".into(), writes)], ..CommitBatch::default() };
        backend.commit(batch).expect("commits");
        assert_eq!(
            WriteBuffer::new(Budget::new(0)).get(&*engine, b"x").expect("get"),
            Some("2".into())
        );
    }

    #[test]
    fn only_clean_entries_are_evicted() {
        let mut backend = MemoryBackend::default();
        let engine = backend.engine("s").expect("engine");
        let mut buffer = WriteBuffer::new(Budget::new(0));
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
}

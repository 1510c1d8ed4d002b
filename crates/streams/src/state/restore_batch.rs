//! Changelog records on their way into an engine while a store is restored: the last one of each key, until there are enough.

use super::engine::Write;
use super::key_order::sort_by_key;
use super::layers::Budget;
use byteview::ByteView;
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use std::hash::BuildHasher;

/// What a write costs besides its key and value.
const OVERHEAD: usize = 80;
/// A batch of this size is written out: large enough that a key is seldom in two, small enough to write between two turns.
const BYTES_MAX: usize = 16 << 20;
/// When memory is short, a batch of this size is.
const BYTES_MIN: usize = 1 << 20;

pub(crate) struct RestoreBatch {
    places: HashTable<u32>,
    writes: Vec<Write>,
    bytes: usize,
    budget: Budget,
    hasher: FixedState,
}

impl RestoreBatch {
    /// What it holds counts as part of `budget`.
    pub(crate) fn new(budget: Budget) -> Self {
        let (places, hasher) = (HashTable::new(), FixedState::default());
        RestoreBatch { places, writes: Vec::new(), bytes: 0, budget, hasher }
    }

    /// Takes a record; an earlier one of the same key is forgotten.
    pub(crate) fn put(&mut self, key: &[u8], value: Option<ByteView>) {
        let hash = self.hasher.hash_one(key);
        let new = value.as_ref().map_or(0, ByteView::len);
        let found = self.places.find(hash, |&place| *self.writes[place as usize].0 == *key);
        if let Some(&place) = found {
            let old = std::mem::replace(&mut self.writes[place as usize].1, value);
            let old = old.as_ref().map_or(0, ByteView::len);
            self.budget.take(new);
            self.budget.give(old);
            self.bytes = self.bytes + new - old;
            return;
        }
        let size = OVERHEAD + key.len() + new;
        self.budget.take(size);
        self.bytes += size;
        let place = self.writes.len() as u32;
        self.writes.push((key.into(), value));
        let (writes, hasher) = (&self.writes, &self.hasher);
        let rehash = |&place: &u32| hasher.hash_one(&writes[place as usize].0[..]);
        self.places.insert_unique(hash, place, rehash);
    }

    /// Whether it shall be written now.
    pub(crate) fn is_full(&self) -> bool {
        self.bytes > BYTES_MAX || (self.bytes > BYTES_MIN && self.budget.is_exceeded())
    }

    pub(super) fn len(&self) -> usize {
        self.writes.len()
    }

    /// Takes all writes, sorted by key.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Write> + use<> {
        self.places.clear();
        self.budget.give(std::mem::take(&mut self.bytes));
        let mut writes = std::mem::take(&mut self.writes);
        let mut order: Vec<u32> = (0..writes.len() as u32).collect();
        sort_by_key(&mut order, |place| &writes[place as usize].0);
        order.into_iter().map(move |place| std::mem::take(&mut writes[place as usize]))
    }
}

impl Drop for RestoreBatch {
    fn drop(&mut self) {
        self.budget.give(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_record_of_a_key_is_written_in_the_order_of_keys() {
        let budget = Budget::new(0);
        let mut batch = RestoreBatch::new(budget.clone());
        for (key, value) in [("b", Some("1")), ("a", Some("long")), ("c", None), ("b", None)] {
            batch.put(key.as_bytes(), value.map(ByteView::from));
        }
        batch.put(b"a", Some("2".into()));
        assert_eq!(batch.len(), 3);
        assert!(budget.is_exceeded() && !batch.is_full());
        let write = |key: &str, value: Option<&str>| (key.into(), value.map(ByteView::from));
        let expected = vec![write("a", Some("2")), write("b", None), write("c", None)];
        assert_eq!(batch.drain().collect::<Vec<Write>>(), expected);
        assert!(!budget.is_exceeded());
        assert_eq!(batch.drain().count(), 0);
    }

    #[test]
    fn a_batch_is_full_earlier_when_memory_is_short() {
        let fill = |budget: Budget| {
            let mut batch = RestoreBatch::new(budget);
            let key = |number: u32| number.to_be_bytes();
            (0..).find(|&n| {
                batch.put(&key(n), None);
                batch.is_full()
            })
        };
        let (short, enough) = (fill(Budget::new(1000)), fill(Budget::new(1 << 30)));
        assert_eq!(short, Some((BYTES_MIN / (OVERHEAD + 4)) as u32));
        assert_eq!(enough, Some((BYTES_MAX / (OVERHEAD + 4)) as u32));
    }
}

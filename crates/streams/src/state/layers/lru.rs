//! A hash table of byte keys that knows which of its entries were used lately. Both the record cache and the write buffer are one.
//!
//! The order is that of a *second chance*: a use sets a mark, and a hand goes round the places, takes marks away, and gives up the
//! first entry without one. That is nearly the least recently used entry, for one bit instead of a linked list, whose neighbours
//! are somewhere else in memory at each use.

use byteview::ByteView;
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use std::hash::BuildHasher;

/// No place.
const NONE: u32 = u32::MAX;

/// Places that the hand passes at most for one entry, so that a table full of pinned entries costs no long walks.
const STEPS_MAX: usize = 256;

/// The entry was used since the hand came by.
const USED: u8 = 1;
/// The hand passes over it.
const PINNED: u8 = 2;
/// There is no entry.
const FREE: u8 = 4;

/// Entries by key. A pinned entry is never given up until it is unpinned.
pub(super) struct Lru<T> {
    table: HashTable<u32>,
    slots: Vec<Slot<T>>,
    /// The marks of each slot, apart: the hand reads nothing else.
    marks: Vec<u8>,
    free: Vec<u32>,
    hand: usize,
    /// The place that was found last: a write mostly follows a read of the same key.
    last: u32,
    hasher: FixedState,
}

struct Slot<T> {
    key: ByteView,
    value: T,
}

/// The place of an entry; valid until the entry is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place(u32);

impl<T> Default for Lru<T> {
    fn default() -> Self {
        Lru {
            table: HashTable::new(),
            slots: Vec::new(),
            marks: Vec::new(),
            free: Vec::new(),
            hand: 0,
            last: NONE,
            // The order of entries never depends on the hash; a fixed seed keeps runs alike.
            hasher: FixedState::default(),
        }
    }
}

impl<T: Default> Lru<T> {
    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    /// Gives up all entries.
    pub(super) fn clear(&mut self) {
        self.table.clear();
        self.slots.clear();
        self.marks.clear();
        self.free.clear();
        self.hand = 0;
        self.last = NONE;
    }

    /// Finds an entry and marks it as used.
    pub(super) fn touch(&mut self, key: &[u8]) -> Option<Place> {
        let place = match self.slots.get(self.last as usize) {
            Some(slot) if *slot.key == *key => self.last,
            _ => self.find(key)?,
        };
        self.last = place;
        self.marks[place as usize] |= USED;
        Some(Place(place))
    }

    fn find(&self, key: &[u8]) -> Option<u32> {
        let (hash, slots) = (self.hasher.hash_one(key), &self.slots);
        self.table.find(hash, |&place| *slots[place as usize].key == *key).copied()
    }

    /// Adds an entry that is not there yet.
    pub(super) fn insert(&mut self, key: ByteView, value: T) -> Place {
        let hash = self.hasher.hash_one(&key[..]);
        let slot = Slot { key, value };
        let place = match self.free.pop() {
            Some(place) => {
                self.slots[place as usize] = slot;
                self.marks[place as usize] = 0;
                place
            }
            None => {
                self.slots.push(slot);
                self.marks.push(0);
                (self.slots.len() - 1) as u32
            }
        };
        let (slots, hasher) = (&self.slots, &self.hasher);
        self.table.insert_unique(hash, place, |&p| hasher.hash_one(&slots[p as usize].key[..]));
        self.last = place;
        Place(place)
    }

    pub(super) fn key(&self, place: Place) -> &ByteView {
        &self.slots[place.0 as usize].key
    }

    /// The value at a valid place.
    pub(super) fn get(&self, place: Place) -> &T {
        &self.slots[place.0 as usize].value
    }

    pub(super) fn get_mut(&mut self, place: Place) -> &mut T {
        &mut self.slots[place.0 as usize].value
    }

    pub(super) fn pin(&mut self, place: Place) {
        self.marks[place.0 as usize] |= PINNED;
    }

    /// Lets the entry be given up again; it counts as used just now.
    pub(super) fn unpin(&mut self, place: Place) {
        let marks = &mut self.marks[place.0 as usize];
        *marks = (*marks & !PINNED) | USED;
    }

    /// The entry to give up next, if one that is not pinned is near.
    pub(super) fn oldest(&mut self) -> Option<Place> {
        // Twice round finds what there is: the first time may only take marks away.
        for _ in 0..STEPS_MAX.min(2 * self.marks.len()) {
            if self.hand >= self.marks.len() {
                self.hand = 0;
            }
            let marks = &mut self.marks[self.hand];
            if *marks == 0 {
                return Some(Place(self.hand as u32));
            }
            *marks &= !USED;
            self.hand += 1;
        }
        None
    }

    pub(super) fn remove(&mut self, place: Place) -> Option<(ByteView, T)> {
        let Place(index) = place;
        let hash = self.hasher.hash_one(&self.slots[index as usize].key[..]);
        self.table.find_entry(hash, |&other| other == index).ok()?.remove();
        if self.last == index {
            self.last = NONE;
        }
        self.free.push(index);
        self.marks[index as usize] = FREE;
        if self.hand == index as usize {
            // The next entry takes this place, and shall not be the first to go.
            self.hand += 1;
        }
        let slot = &mut self.slots[index as usize];
        Some((std::mem::take(&mut slot.key), std::mem::take(&mut slot.value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives up entries until there are none, as far as that is possible.
    fn order(lru: &mut Lru<i32>) -> String {
        let mut text = String::new();
        while let Some(place) = lru.oldest() {
            let (key, value) = lru.remove(place).expect("there");
            text += std::str::from_utf8(&key).expect("text");
            text += &value.to_string();
        }
        text
    }

    fn three() -> (Lru<i32>, [Place; 3]) {
        let mut lru = Lru::default();
        let places = [("a", 0), ("b", 1), ("c", 2)].map(|(key, n)| lru.insert(key.into(), n));
        (lru, places)
    }

    #[test]
    fn what_was_used_stays_longer() {
        let (mut lru, _) = three();
        let a = lru.touch(b"a").expect("there");
        *lru.get_mut(a) = 7;
        let oldest = lru.oldest().expect("there");
        assert_eq!(lru.remove(oldest), Some(("b".into(), 1)));
        assert!(lru.touch(b"b").is_none());
        lru.insert("d".into(), 3);
        assert_eq!(lru.len(), 3);
        assert_eq!(order(&mut lru), "c2a7d3");
        assert_eq!(lru.len(), 0);
    }

    #[test]
    fn a_pinned_entry_stays() {
        let (mut lru, places) = three();
        lru.pin(places[0]);
        lru.pin(places[0]);
        assert_eq!(order(&mut lru), "b1c2");
        assert_eq!(lru.touch(b"a"), Some(places[0]));
        lru.unpin(places[0]);
        lru.insert("d".into(), 3);
        assert_eq!(order(&mut lru), "d3a0");
    }

    /// The shortcut to the last place must not find what has gone, nor a new key in its place.
    #[test]
    fn the_last_place_is_forgotten_with_its_entry() {
        let (mut lru, places) = three();
        assert_eq!(lru.touch(b"c"), Some(places[2]));
        lru.remove(places[2]);
        assert_eq!(lru.touch(b"c"), None);
        assert_eq!(lru.touch(b""), None);
        assert_eq!(lru.insert("d".into(), 3), places[2]);
        assert_eq!((lru.touch(b"c"), lru.touch(b"d")), (None, Some(places[2])));
        assert_eq!(lru.touch(b"a"), Some(places[0]));
    }

    #[test]
    fn many_pinned_entries_cost_no_long_walk() {
        let mut lru = Lru::default();
        for number in 0..10_000u32 {
            let place = lru.insert(number.to_be_bytes().into(), 0);
            lru.pin(place);
        }
        lru.insert("x".into(), 1);
        let tries = (0..1000).find(|_| lru.oldest().is_some());
        assert!(tries.is_some_and(|tries| tries >= 30), "{tries:?}");
    }
}

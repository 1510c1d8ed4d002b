//! A hash table of byte keys that knows in which order its entries were used. Both the record cache and the write buffer are one.

use bytes::Bytes;
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use std::hash::BuildHasher;

/// No neighbour.
const NONE: u32 = u32::MAX;

/// Entries by key, linked from the most to the least recently used. A pinned entry is in no order until it is unpinned.
pub(super) struct Lru<T> {
    table: HashTable<u32>,
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
    newest: u32,
    oldest: u32,
    hasher: FixedState,
}

struct Slot<T> {
    key: Bytes,
    value: Option<T>,
    newer: u32,
    older: u32,
    pinned: bool,
}

/// The place of an entry; valid until the entry is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place(u32);

impl<T> Default for Lru<T> {
    fn default() -> Self {
        Lru {
            table: HashTable::new(),
            slots: Vec::new(),
            free: Vec::new(),
            newest: NONE,
            oldest: NONE,
            // The order of entries never depends on the hash; a fixed seed keeps runs alike.
            hasher: FixedState::default(),
        }
    }
}

impl<T> Lru<T> {
    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    /// Finds an entry and makes it the most recently used one.
    pub(super) fn touch(&mut self, key: &[u8]) -> Option<Place> {
        let hash = self.hasher.hash_one(key);
        let slots = &self.slots;
        let place = *self.table.find(hash, |&place| slots[place as usize].key == key)?;
        if self.newest != place && !self.slots[place as usize].pinned {
            self.unlink(place);
            self.link_newest(place);
        }
        Some(Place(place))
    }

    /// Adds an entry that is not there yet, as the most recently used one.
    pub(super) fn insert(&mut self, key: Bytes, value: T) -> Place {
        let hash = self.hasher.hash_one(&key[..]);
        let slot = Slot { key, value: Some(value), newer: NONE, older: NONE, pinned: false };
        let place = match self.free.pop() {
            Some(place) => {
                self.slots[place as usize] = slot;
                place
            }
            None => {
                self.slots.push(slot);
                (self.slots.len() - 1) as u32
            }
        };
        let (slots, hasher) = (&self.slots, &self.hasher);
        self.table.insert_unique(hash, place, |&p| hasher.hash_one(&slots[p as usize].key[..]));
        self.link_newest(place);
        Place(place)
    }

    pub(super) fn key(&self, place: Place) -> &Bytes {
        &self.slots[place.0 as usize].key
    }

    /// The value at a valid place.
    pub(super) fn get(&self, place: Place) -> Option<&T> {
        self.slots[place.0 as usize].value.as_ref()
    }

    pub(super) fn get_mut(&mut self, place: Place) -> Option<&mut T> {
        self.slots[place.0 as usize].value.as_mut()
    }

    /// Takes an entry out of the order of use.
    pub(super) fn pin(&mut self, place: Place) {
        if !std::mem::replace(&mut self.slots[place.0 as usize].pinned, true) {
            self.unlink(place.0);
        }
    }

    /// Puts a pinned entry back, as the most recently used one.
    pub(super) fn unpin(&mut self, place: Place) {
        if std::mem::replace(&mut self.slots[place.0 as usize].pinned, false) {
            self.link_newest(place.0);
        }
    }

    /// The least recently used entry that is not pinned.
    pub(super) fn oldest(&self) -> Option<Place> {
        (self.oldest != NONE).then_some(Place(self.oldest))
    }

    pub(super) fn remove(&mut self, place: Place) -> Option<(Bytes, T)> {
        let Place(index) = place;
        let hash = self.hasher.hash_one(&self.slots[index as usize].key[..]);
        self.table.find_entry(hash, |&other| other == index).ok()?.remove();
        if !self.slots[index as usize].pinned {
            self.unlink(index);
        }
        self.free.push(index);
        let slot = &mut self.slots[index as usize];
        slot.pinned = false;
        Some((std::mem::take(&mut slot.key), slot.value.take()?))
    }

    fn unlink(&mut self, place: u32) {
        let Slot { newer, older, .. } = self.slots[place as usize];
        match newer {
            NONE => self.newest = older,
            newer => self.slots[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.slots[older as usize].newer = newer,
        }
    }

    fn link_newest(&mut self, place: u32) {
        let slot = &mut self.slots[place as usize];
        (slot.newer, slot.older) = (NONE, self.newest);
        match self.newest {
            NONE => self.oldest = place,
            newest => self.slots[newest as usize].newer = place,
        }
        self.newest = place;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(lru: &Lru<i32>) -> String {
        let mut text = String::new();
        let mut next = lru.oldest;
        while next != NONE {
            let place = Place(next);
            text += std::str::from_utf8(lru.key(place)).expect("text");
            text += &lru.get(place).expect("value").to_string();
            next = lru.slots[next as usize].newer;
        }
        text
    }

    #[test]
    fn use_moves_entries_to_the_young_end() {
        let mut lru = Lru::default();
        for (number, key) in ["a", "b", "c"].into_iter().enumerate() {
            lru.insert(key.into(), number as i32);
        }
        let a = lru.touch(b"a").expect("there");
        *lru.get_mut(a).expect("value") = 7;
        assert_eq!(order(&lru), "b1c2a7");
        let oldest = lru.oldest().expect("there");
        assert_eq!(lru.remove(oldest), Some(("b".into(), 1)));
        assert!(lru.touch(b"b").is_none());
        lru.insert("d".into(), 3);
        assert_eq!(order(&lru), "c2a7d3");
        assert_eq!(lru.len(), 3);
    }

    #[test]
    fn a_pinned_entry_is_in_no_order() {
        let mut lru = Lru::default();
        let places: Vec<Place> = ["a", "b", "c"].map(|key| lru.insert(key.into(), 1)).into();
        lru.pin(places[0]);
        lru.pin(places[0]);
        lru.touch(b"a").expect("there");
        assert_eq!(order(&lru), "b1c1");
        lru.unpin(places[0]);
        assert_eq!(order(&lru), "b1c1a1");
        lru.pin(places[1]);
        assert_eq!(lru.remove(places[1]), Some(("b".into(), 1)));
        assert_eq!(order(&lru), "c1a1");
    }
}

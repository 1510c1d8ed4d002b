//! A sorted map that is copied in next to no time and written to apart from its copies: what a commit changes is copied, the rest
//! is shared.
//!
//! The entries lie in leaves. A copy shares all of them; a write to a map that has copies first takes the list of leaves and the
//! leaf that it changes for itself. A map without copies is changed in place.

use super::{Direction, KeyRange, Write};
use byteview::ByteView;
use std::ops::Bound;
use std::sync::Arc;

/// A leaf with more entries is cut in two.
const LEAF_MAX: usize = 64;

type Entry = (ByteView, ByteView);

#[derive(Debug, Clone)]
struct Leaf {
    /// No entry of the leaf is before it, and all entries of the leaves before are.
    first: ByteView,
    entries: Arc<Vec<Entry>>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct SortedMap {
    leaves: Vec<Leaf>,
    len: usize,
}

/// A place between two entries: the leaf, and the entry in it.
type Position = (usize, usize);

impl SortedMap {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The leaf that a key belongs to, in a map that has leaves.
    fn leaf_of(&self, key: &[u8]) -> usize {
        self.leaves.partition_point(|leaf| *leaf.first <= *key).saturating_sub(1)
    }

    pub(super) fn get(&self, key: &[u8]) -> Option<&ByteView> {
        let entries = &self.leaves.get(self.leaf_of(key))?.entries;
        let found = entries.binary_search_by(|(known, _)| (**known).cmp(key)).ok()?;
        entries.get(found).map(|(_, value)| value)
    }

    pub(super) fn write(&mut self, (key, value): Write) {
        if self.leaves.is_empty() {
            if let Some(value) = value {
                let entries = Arc::new(vec![(key.clone(), value)]);
                self.leaves.push(Leaf { first: key, entries });
                self.len = 1;
            }
            return;
        }
        let place = self.leaf_of(&key);
        let Some(leaf) = self.leaves.get_mut(place) else { return };
        let found = leaf.entries.binary_search_by(|(known, _)| known.cmp(&key));
        match (found, value) {
            (Err(_), None) => {}
            (Ok(index), Some(value)) => Arc::make_mut(&mut leaf.entries)[index].1 = value,
            (Ok(index), None) => {
                self.len -= 1;
                if leaf.entries.len() == 1 {
                    self.leaves.remove(place);
                } else {
                    Arc::make_mut(&mut leaf.entries).remove(index);
                }
            }
            (Err(index), Some(value)) => {
                self.len += 1;
                if index == 0 && key < leaf.first {
                    leaf.first = key.clone();
                }
                let entries = Arc::make_mut(&mut leaf.entries);
                entries.insert(index, (key, value));
                if entries.len() > LEAF_MAX {
                    // What comes in order is packed; else both halves have room.
                    let is_appended = index + 1 == entries.len();
                    let cut = if is_appended { entries.len() - 1 } else { entries.len() / 2 };
                    let behind = entries.split_off(cut);
                    if let Some((first, _)) = behind.first() {
                        let leaf = Leaf { first: first.clone(), entries: Arc::new(behind) };
                        self.leaves.insert(place + 1, leaf);
                    }
                }
            }
        }
    }

    /// Removes all entries before a key.
    pub(super) fn drop_before(&mut self, end: &[u8]) {
        let (leaf, index) = self.position(&Bound::Included(end.into()));
        let gone: usize = self.leaves.drain(..leaf).map(|leaf| leaf.entries.len()).sum();
        self.len -= gone + index;
        if let Some(leaf) = self.leaves.first_mut().filter(|_| index > 0) {
            Arc::make_mut(&mut leaf.entries).drain(..index);
        }
    }

    /// Before the first entry of a range that begins like this.
    fn position(&self, from: &Bound<ByteView>) -> Position {
        let (key, with) = match from {
            Bound::Unbounded => return (0, 0),
            Bound::Included(key) => (key, true),
            Bound::Excluded(key) => (key, false),
        };
        let leaf = self.leaf_of(key);
        let Some(entries) = self.leaves.get(leaf).map(|leaf| &leaf.entries) else { return (0, 0) };
        let index = entries.partition_point(|(known, _)| known < key || (!with && known == key));
        if index == entries.len() { (leaf + 1, 0) } else { (leaf, index) }
    }

    fn entry(&self, (leaf, index): Position) -> Option<&Entry> {
        self.leaves.get(leaf)?.entries.get(index)
    }

    fn after(&self, (leaf, index): Position) -> Position {
        let is_last = self.leaves.get(leaf).is_none_or(|leaf| index + 1 >= leaf.entries.len());
        if is_last { (leaf + 1, 0) } else { (leaf, index + 1) }
    }

    fn before(&self, (leaf, index): Position) -> Position {
        if index > 0 {
            return (leaf, index - 1);
        }
        let leaf = leaf.saturating_sub(1);
        (leaf, self.leaves.get(leaf).map_or(0, |leaf| leaf.entries.len().saturating_sub(1)))
    }
}

/// The entries of a range, which has to be one that can hold keys.
pub(super) struct MapEntries {
    map: Arc<SortedMap>,
    from: Position,
    to: Position,
    direction: Direction,
}

impl MapEntries {
    pub(super) fn new(map: Arc<SortedMap>, range: &KeyRange, direction: Direction) -> Self {
        let from = map.position(&range.0);
        let to = match &range.1 {
            Bound::Unbounded => (map.leaves.len(), 0),
            Bound::Included(key) => map.position(&Bound::Excluded(key.clone())),
            Bound::Excluded(key) => map.position(&Bound::Included(key.clone())),
        };
        MapEntries { map, from, to, direction }
    }
}

impl Iterator for MapEntries {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        if self.from >= self.to {
            return None;
        }
        let place = match self.direction {
            Direction::Forward => {
                let next = self.map.after(self.from);
                std::mem::replace(&mut self.from, next)
            }
            Direction::Reverse => {
                self.to = self.map.before(self.to);
                self.to
            }
        };
        self.map.entry(place).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn keys(map: &SortedMap, range: KeyRange, direction: Direction) -> Vec<ByteView> {
        MapEntries::new(Arc::new(map.clone()), &range, direction).map(|(key, _)| key).collect()
    }

    /// Whatever is written: the map is as the standard one, and copies stay as they were.
    #[test]
    fn it_is_as_a_map_and_its_copies_stay() {
        let (mut map, mut model) = (SortedMap::default(), BTreeMap::new());
        let mut copies = Vec::new();
        let mut random = 7u64;
        let mut next = || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            random >> 40
        };
        for round in 0..20_000u64 {
            let key = ByteView::from(&(next() % 900).to_be_bytes()[..]);
            let value = (next() % 3 > 0).then(|| ByteView::from(&round.to_be_bytes()[..]));
            match value.clone() {
                Some(value) => drop(model.insert(key.clone(), value)),
                None => drop(model.remove(&key)),
            }
            map.write((key.clone(), value.clone()));
            assert_eq!(map.get(&key), value.as_ref());
            if round % 1_000 == 0 {
                copies.push((map.clone(), model.clone()));
                let end = ByteView::from(&(next() % 300).to_be_bytes()[..]);
                map.drop_before(&end);
                model = model.split_off(&end);
            }
        }
        copies.push((map, model));
        for (map, model) in copies {
            assert_eq!(map.len(), model.len());
            for (from, to) in [(0u64, 900u64), (17, 17), (100, 333), (890, 2_000)] {
                let [from, to] = [from, to].map(|key| ByteView::from(&key.to_be_bytes()[..]));
                for range in [
                    (Bound::Included(from.clone()), Bound::Included(to.clone())),
                    (Bound::Included(from.clone()), Bound::Excluded(to.clone())),
                    (Bound::Unbounded, Bound::Excluded(to.clone())),
                    (Bound::Excluded(from.clone()), Bound::Unbounded),
                ] {
                    let mut expected: Vec<ByteView> = match super::super::is_empty_range(&range) {
                        true => Vec::new(),
                        false => model.range(range.clone()).map(|(key, _)| key.clone()).collect(),
                    };
                    assert_eq!(keys(&map, range.clone(), Direction::Forward), expected);
                    expected.reverse();
                    assert_eq!(keys(&map, range, Direction::Reverse), expected);
                }
            }
        }
    }
}

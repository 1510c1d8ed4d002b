//! The rows of a window or session store that are in memory: what is not committed, and what was written or read lately.
//!
//! They lie in chunks of time, and in a chunk by key: a look-up is one hash a chunk, whatever else the store holds, and what is
//! too old goes a chunk at a time. From a certain time on (`complete_from`) every row of the store is here, so that the engine need
//! not be asked: the newest rows, which nearly all look-ups are about.

use crate::state::layout::windowed_key::RowKey;
use byteview::ByteView;
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use std::collections::BTreeMap;
use std::hash::BuildHasher;

/// There is a value; else the row is deleted.
const EXISTS: u8 = 1;
/// The engine does not know it yet.
const UNCOMMITTED: u8 = 2;
/// The engine has a row of this key, perhaps an older one.
const STORED: u8 = 4;
/// It is a change that the record cache keeps back: nothing below knows it.
const CACHED: u8 = 8;

/// It went through the record cache, and what was there is shown however old it is.
const STAYS: u8 = 16;

/// What a row and a key cost besides their bytes.
const ROW_OVERHEAD: usize = size_of::<Row>() + 16;
const KEY_OVERHEAD: usize = size_of::<KeyRows>() + 16;

/// A new chunk has room for as many keys as the one before it, up to this number.
const KEYS_EXPECTED_MAX: usize = 1 << 16;

/// A row in memory.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) time: i64,
    pub(super) minor: i64,
    value: ByteView,
    marks: u8,
}

impl Row {
    /// `None`: the row is deleted.
    pub(super) fn value(&self) -> Option<&ByteView> {
        (self.marks & EXISTS != 0).then_some(&self.value)
    }

    pub(super) fn is_cached(&self) -> bool {
        self.marks & (CACHED | STAYS) != 0
    }

    /// Whether a row of this key was there before the cached one.
    pub(super) fn is_known_below(&self) -> bool {
        self.marks & (UNCOMMITTED | STORED) != 0
    }

    fn is_clean(&self) -> bool {
        self.marks & (UNCOMMITTED | CACHED) == 0
    }
}

/// How a row gets its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Put {
    /// A write that the next commit hands to the engine.
    Write,
    /// A change that the record cache keeps back. `stays`: it is shown as long as it is in memory, however old it is.
    Cache { stays: bool },
    /// What the engine has.
    Read,
}

pub(super) struct Recent {
    /// The length of a chunk in milliseconds.
    interval: i64,
    chunks: BTreeMap<i64, Chunk>,
    bytes: usize,
    uncommitted_bytes: usize,
    hasher: FixedState,
}

#[derive(Default)]
struct Chunk {
    table: HashTable<u32>,
    keys: Vec<KeyRows>,
    /// Places of keys with rows that are not committed.
    uncommitted: Vec<u32>,
    bytes: usize,
    uncommitted_bytes: usize,
}

struct KeyRows {
    key: ByteView,
    rows: Rows,
    /// It is in the list of the uncommitted.
    listed: bool,
}

/// Rows in the order of time and minor. Most keys have one in a chunk.
enum Rows {
    One(Row),
    Many(Vec<Row>),
}

impl Rows {
    fn as_slice(&self) -> &[Row] {
        match self {
            Rows::One(row) => std::slice::from_ref(row),
            Rows::Many(rows) => rows,
        }
    }

    fn as_mut_slice(&mut self) -> &mut [Row] {
        match self {
            Rows::One(row) => std::slice::from_mut(row),
            Rows::Many(rows) => rows,
        }
    }

    /// The place of a row, or where it would be. Most are looked for at the end.
    fn search(&self, time: i64, minor: i64) -> Result<usize, usize> {
        let rows = self.as_slice();
        match rows.last() {
            Some(last) if (last.time, last.minor) < (time, minor) => Err(rows.len()),
            _ => rows.binary_search_by(|row| (row.time, row.minor).cmp(&(time, minor))),
        }
    }

    fn insert(&mut self, place: usize, row: Row) {
        match self {
            Rows::Many(rows) => rows.insert(place, row),
            Rows::One(_) => {
                let Rows::One(one) = std::mem::replace(self, Rows::Many(Vec::with_capacity(4)))
                else {
                    return;
                };
                if let Rows::Many(rows) = self {
                    rows.push(one);
                    rows.insert(place, row);
                }
            }
        }
    }

    fn retain(&mut self, mut keep: impl FnMut(&Row) -> bool) {
        match self {
            Rows::One(row) if keep(row) => {}
            Rows::One(_) => *self = Rows::Many(Vec::new()),
            Rows::Many(rows) => rows.retain(keep),
        }
    }
}

impl Chunk {
    /// A chunk for about as many keys.
    fn expecting(keys: usize) -> Self {
        let keys = keys.min(KEYS_EXPECTED_MAX);
        Chunk {
            table: HashTable::with_capacity(keys),
            keys: Vec::with_capacity(keys),
            ..Chunk::default()
        }
    }

    fn find(&self, hash: u64, key: &[u8]) -> Option<u32> {
        self.table.find(hash, |&place| *self.keys[place as usize].key == *key).copied()
    }
}

impl Recent {
    pub(super) fn new(interval: i64) -> Self {
        Recent {
            interval: interval.max(1),
            chunks: BTreeMap::new(),
            bytes: 0,
            uncommitted_bytes: 0,
            hasher: FixedState::default(),
        }
    }

    fn chunk_of(&self, time: i64) -> i64 {
        time.div_euclid(self.interval)
    }

    /// What is held, all in all.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// What only a commit frees.
    pub(super) fn uncommitted_bytes(&self) -> usize {
        self.uncommitted_bytes
    }

    pub(super) fn get(&self, row: &RowKey) -> Option<&Row> {
        let chunk = self.chunks.get(&self.chunk_of(row.time))?;
        let place = chunk.find(self.hasher.hash_one(row.key), row.key)?;
        let rows = &chunk.keys[place as usize].rows;
        rows.as_slice().get(rows.search(row.time, row.minor).ok()?)
    }

    pub(super) fn put(&mut self, row: &RowKey, value: Option<ByteView>, how: Put) {
        let hash = self.hasher.hash_one(row.key);
        let number = self.chunk_of(row.time);
        let before = self.chunks.last_key_value().filter(|(last, _)| **last < number);
        let expected = before.map_or(0, |(_, last)| last.keys.len());
        let chunk = self.chunks.entry(number).or_insert_with(|| Chunk::expecting(expected));
        let exists = if value.is_some() { EXISTS } else { 0 };
        let marks = exists
            | match how {
                Put::Write => UNCOMMITTED,
                Put::Cache { stays } => CACHED | if stays { STAYS } else { 0 },
                Put::Read => STORED,
            };
        let value = value.unwrap_or_default();
        let mut grown = ROW_OVERHEAD + value.len();
        let new = Row { time: row.time, minor: row.minor, value, marks };
        let place = match chunk.find(hash, row.key) {
            Some(place) => {
                let rows = &mut chunk.keys[place as usize].rows;
                match rows.search(row.time, row.minor) {
                    Ok(at) => {
                        let old = &mut rows.as_mut_slice()[at];
                        let kept = match how {
                            Put::Cache { .. } => STORED | STAYS | UNCOMMITTED,
                            _ => STORED | STAYS,
                        };
                        let marks = new.marks | (old.marks & kept);
                        grown = new.value.len();
                        let gone = old.value.len();
                        *old = Row { marks, ..new };
                        self.bytes -= gone;
                        chunk.bytes -= gone;
                    }
                    Err(at) => rows.insert(at, new),
                }
                place
            }
            None => {
                grown += KEY_OVERHEAD + row.key.len();
                let place = chunk.keys.len() as u32;
                let (key, rows) = (ByteView::from(row.key), Rows::One(new));
                chunk.keys.push(KeyRows { key, rows, listed: false });
                let (keys, hasher) = (&chunk.keys, &self.hasher);
                let rehash = |&place: &u32| hasher.hash_one(&keys[place as usize].key[..]);
                chunk.table.insert_unique(hash, place, rehash);
                place
            }
        };
        self.bytes += grown;
        chunk.bytes += grown;
        if how == Put::Write {
            self.uncommitted_bytes += grown;
            chunk.uncommitted_bytes += grown;
            let key = &mut chunk.keys[place as usize];
            if !std::mem::replace(&mut key.listed, true) {
                chunk.uncommitted.push(place);
            }
        }
    }

    /// Forgets a row that neither the engine nor the record cache knows.
    pub(super) fn forget(&mut self, row: &RowKey) {
        let hash = self.hasher.hash_one(row.key);
        let Some(chunk) = self.chunks.get_mut(&row.time.div_euclid(self.interval)) else { return };
        let Some(place) = chunk.find(hash, row.key) else { return };
        let rows = &mut chunk.keys[place as usize].rows;
        let mut freed = 0;
        rows.retain(|other| {
            let keep = (other.time, other.minor) != (row.time, row.minor);
            freed += if keep { 0 } else { ROW_OVERHEAD + other.value.len() };
            keep
        });
        self.bytes -= freed;
        chunk.bytes -= freed;
    }

    /// The rows of a key in a span of time, both ends inclusive, in the order of time and minor; deleted ones too.
    pub(super) fn of_key(&self, key: &[u8], from: i64, to: i64, mut take: impl FnMut(&Row)) {
        if from > to {
            return;
        }
        let hash = self.hasher.hash_one(key);
        for chunk in self.chunks.range(self.chunk_of(from)..=self.chunk_of(to)).map(|(_, c)| c) {
            let Some(place) = chunk.find(hash, key) else { continue };
            let rows = &chunk.keys[place as usize].rows;
            let begin = rows.search(from, i64::MIN).unwrap_or_else(|place| place);
            let rows = rows.as_slice()[begin..].iter();
            rows.take_while(|row| row.time <= to).for_each(&mut take);
        }
    }

    /// All rows in a span of time, in no order; deleted ones too.
    pub(super) fn in_span(&self, from: i64, to: i64, mut take: impl FnMut(&ByteView, &Row)) {
        if from > to {
            return;
        }
        for chunk in self.chunks.range(self.chunk_of(from)..=self.chunk_of(to)).map(|(_, c)| c) {
            for KeyRows { key, rows, .. } in &chunk.keys {
                let begin = rows.search(from, i64::MIN).unwrap_or_else(|place| place);
                let rows = rows.as_slice()[begin..].iter();
                rows.take_while(|row| row.time <= to).for_each(|row| take(key, row));
            }
        }
    }

    /// Gives what is not committed, in no order: key, row, and whether the engine has the row already. From now on it counts as
    /// committed.
    pub(super) fn take_uncommitted(&mut self, mut take: impl FnMut(&[u8], &Row, bool)) {
        for chunk in self.chunks.values_mut() {
            let mut freed = 0;
            chunk.uncommitted_bytes = 0;
            for place in std::mem::take(&mut chunk.uncommitted) {
                let KeyRows { key, rows, listed } = &mut chunk.keys[place as usize];
                *listed = false;
                let mut deleted = false;
                for row in rows.as_mut_slice().iter_mut().filter(|r| r.marks & UNCOMMITTED != 0) {
                    take(key, row, row.marks & STORED != 0);
                    let stored = if row.marks & EXISTS != 0 { STORED } else { 0 };
                    row.marks = (row.marks & !(UNCOMMITTED | STORED)) | stored;
                    deleted |= row.marks & (EXISTS | CACHED) == 0;
                }
                if deleted {
                    rows.retain(|row| {
                        let keep = row.marks != 0;
                        freed += if keep { 0 } else { ROW_OVERHEAD };
                        keep
                    });
                }
            }
            chunk.bytes -= freed;
            self.bytes -= freed;
        }
        self.uncommitted_bytes = 0;
    }

    /// Drops the chunks that end before `time`, with what is uncommitted or cached in them; gives where the first one begins that can be left.
    pub(super) fn drop_before(&mut self, time: i64) -> i64 {
        let first = self.chunk_of(time);
        while let Some(entry) = self.chunks.first_entry()
            && *entry.key() < first
        {
            let chunk = entry.remove();
            self.bytes -= chunk.bytes;
            self.uncommitted_bytes -= chunk.uncommitted_bytes;
        }
        first.saturating_mul(self.interval)
    }

    /// Drops the committed rows of the oldest chunk that has any, all of it at once. Gives the end of that chunk: the rows before
    /// it are no longer complete here. Nothing may be uncommitted; what the record cache keeps back stays.
    pub(super) fn evict(&mut self) -> Option<i64> {
        let mut evicted = None;
        for (&number, chunk) in &mut self.chunks {
            let mut freed = 0;
            let mut cached = false;
            for KeyRows { rows, .. } in &mut chunk.keys {
                rows.retain(|row| {
                    let keep = !row.is_clean();
                    freed += if keep { 0 } else { ROW_OVERHEAD + row.value.len() };
                    cached |= keep;
                    keep
                });
            }
            self.bytes -= freed;
            chunk.bytes -= freed;
            if freed > 0 {
                let end = number.saturating_add(1).saturating_mul(self.interval);
                evicted = Some((number, end, cached));
                break;
            }
        }
        let (number, end, cached) = evicted?;
        if !cached && let Some(chunk) = self.chunks.remove(&number) {
            self.bytes -= chunk.bytes;
        }
        Some(end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(key: &str, time: i64, minor: i64) -> RowKey<'_> {
        RowKey { key: key.as_bytes(), time, minor }
    }

    fn put(recent: &mut Recent, key: &str, time: i64, value: &str, how: Put) {
        let value = (value != "-").then(|| ByteView::from(value));
        recent.put(&row(key, time, 0), value, how);
    }

    fn of_key(recent: &Recent, key: &str, from: i64, to: i64) -> String {
        let mut text = Vec::new();
        recent.of_key(key.as_bytes(), from, to, |row| {
            let value = row.value().map_or("-".into(), |value| String::from_utf8_lossy(value));
            text.push(format!("{}={value}", row.time));
        });
        text.join(" ")
    }

    fn committed(recent: &mut Recent) -> String {
        let mut text = Vec::new();
        recent.take_uncommitted(|key, row, stored| {
            let value = row.value().map_or("-".into(), |value| String::from_utf8_lossy(value));
            text.push(format!("{}{}={value} {stored}", String::from_utf8_lossy(key), row.time));
        });
        text.sort();
        text.join(", ")
    }

    #[test]
    fn rows_are_found_by_key_and_time_across_chunks() {
        let mut recent = Recent::new(10);
        for time in [35, 5, 12, 19, 20] {
            put(&mut recent, "a", time, "1", Put::Write);
            put(&mut recent, "b", time + 1, "2", Put::Write);
        }
        put(&mut recent, "a", 19, "3", Put::Write);
        assert_eq!(of_key(&recent, "a", 12, 20), "12=1 19=3 20=1");
        assert_eq!(of_key(&recent, "a", i64::MIN, i64::MAX), "5=1 12=1 19=3 20=1 35=1");
        assert_eq!(of_key(&recent, "a", 21, 34), "");
        assert_eq!(of_key(&recent, "c", 0, 100), "");
        assert_eq!(recent.get(&row("b", 21, 0)).and_then(Row::value), Some(&ByteView::from("2")));
        assert!(recent.get(&row("b", 21, 1)).is_none());
        let mut found = 0;
        recent.in_span(20, 36, |_, _| found += 1);
        assert_eq!(found, 5);
    }

    #[test]
    fn a_commit_takes_each_row_once_and_forgets_deleted_ones() {
        let mut recent = Recent::new(10);
        put(&mut recent, "a", 1, "1", Put::Write);
        put(&mut recent, "a", 1, "2", Put::Write);
        put(&mut recent, "b", 2, "1", Put::Write);
        put(&mut recent, "b", 2, "-", Put::Write);
        assert_eq!(committed(&mut recent), "a1=2 false, b2=- false");
        assert_eq!(committed(&mut recent), "");
        assert!(recent.get(&row("b", 2, 0)).is_none());
        put(&mut recent, "a", 1, "-", Put::Write);
        assert_eq!(committed(&mut recent), "a1=- true");
        assert_eq!(recent.uncommitted_bytes(), 0);
        recent.drop_before(10);
        assert_eq!(recent.bytes(), 0);
    }

    #[test]
    fn what_the_cache_keeps_back_is_neither_committed_nor_evicted() {
        let mut recent = Recent::new(10);
        put(&mut recent, "a", 1, "1", Put::Write);
        put(&mut recent, "a", 2, "2", Put::Cache { stays: false });
        assert!(recent.uncommitted_bytes() > 0);
        assert_eq!(committed(&mut recent), "a1=1 false");
        assert_eq!(recent.evict(), Some(10));
        assert_eq!(of_key(&recent, "a", 0, 9), "2=2");
        assert_eq!(recent.evict(), None);
        recent.forget(&row("a", 2, 0));
        put(&mut recent, "a", 3, "3", Put::Write);
        recent.drop_before(10);
        assert_eq!((recent.bytes(), recent.uncommitted_bytes()), (0, 0));
    }
}

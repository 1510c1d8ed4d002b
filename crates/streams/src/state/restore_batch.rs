//! Changelog records on their way into an engine while a store is restored: the last one of each key, until there are enough.

use super::engine::{Engine, Write};
use super::key_order::sort_by_key;
use super::kind::StoreKind;
use super::layers::{
    Budget, StoreClock, VersionedRows, VersionedSettings, Versions, WindowSettings, write_row_key,
};
use super::layout::buffer_value::{BufferValue, VERSION, VERSION_HEADER};
use super::layout::timestamped_value;
use super::spec::{StoreFormat, StoreSpec};
use super::store_set::TaskBackends;
use crate::config::Compatibility;
use crate::error::{Error, Result};
use crate::processor::RecordContext;
use crate::record::Headers;
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

    /// The value that an earlier record gave a key; `Some(None)`: it was deleted.
    fn get(&self, key: &[u8]) -> Option<Option<ByteView>> {
        let hash = self.hasher.hash_one(key);
        let place = self.places.find(hash, |&place| *self.writes[place as usize].0 == *key)?;
        Some(self.writes[*place as usize].1.clone())
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

/// What a changelog record becomes in the engine, by the kind of the store.
pub(crate) struct Restored {
    rows: RowsOf,
    format: StoreFormat,
    /// How far the store has got, if it goes by time.
    clock: Option<StoreClock>,
    /// For the bytes of a value or of a key.
    scratch: Vec<u8>,
}

enum RowsOf {
    KeyValue,
    Windows(WindowSettings),
    Versions(VersionedSettings, Box<dyn Engine>),
    Changes(Box<dyn Engine>),
}

impl Restored {
    /// Goes on where the engine is.
    pub(crate) fn begin(spec: &StoreSpec, backends: &mut TaskBackends) -> Result<Self> {
        let rows = if let Some(settings) = WindowSettings::of(spec, Compatibility::Correct) {
            RowsOf::Windows(settings)
        } else if let Some(settings) = VersionedSettings::of(spec, Compatibility::Correct) {
            RowsOf::Versions(settings, backends.engine(spec)?)
        } else if spec.kind == StoreKind::ChangeBuffer {
            RowsOf::Changes(backends.engine(spec)?)
        } else {
            RowsOf::KeyValue
        };
        let clock = match rows {
            RowsOf::KeyValue | RowsOf::Changes(_) => None,
            RowsOf::Windows(_) | RowsOf::Versions(..) => Some(backends.clock(spec)?),
        };
        Ok(Restored { rows, format: spec.format, clock, scratch: Vec::new() })
    }

    pub(crate) fn clock(&self) -> Option<StoreClock> {
        self.clock
    }

    /// Takes a changelog record into the batch.
    pub(crate) fn take(
        &mut self,
        batch: &mut RestoreBatch,
        key: &[u8],
        value: Option<&[u8]>,
        timestamp: i64,
        origin: impl FnOnce() -> (RecordContext, Headers),
    ) -> Result<()> {
        let Restored { rows, format, clock, scratch } = self;
        match rows {
            RowsOf::KeyValue => batch.put(key, stored(*format, value, timestamp, scratch)),
            RowsOf::Changes(engine) => {
                let row = match value {
                    Some(value) => Some(waiting_change(batch, &**engine, key, value, origin())?),
                    None => None,
                };
                batch.put(key, row);
            }
            RowsOf::Windows(settings) => {
                let clock = clock.get_or_insert(StoreClock::NEW);
                if let Some(key) = settings.restored(key, clock) {
                    batch.put(&key, stored(*format, value, timestamp, scratch));
                }
            }
            RowsOf::Versions(settings, engine) => {
                let clock = clock.get_or_insert(StoreClock::NEW);
                // What was too late when it was put was logged all the same.
                if timestamp < 0 || settings.is_too_late(timestamp, clock.observed) {
                    return Ok(());
                }
                clock.observed = clock.observed.max(timestamp);
                let rows = &mut RestoringRows { batch, engine: &**engine, scratch };
                let mut versions = Versions { rows, settings: *settings, observed: clock.observed };
                versions.put(key, value.map(ByteView::from), timestamp)?;
            }
        }
        Ok(())
    }
}

/// The row of a change that waits in a suppression buffer. Records of old versions of the format become new ones.
fn waiting_change(
    batch: &RestoreBatch,
    engine: &dyn Engine,
    key: &[u8],
    value: &[u8],
    (record, headers): (RecordContext, Headers),
) -> Result<ByteView> {
    let version = headers.last(VERSION_HEADER).map(|version| version.first().copied());
    if version == Some(Some(VERSION)) {
        return Ok(value.into());
    }
    let before = match batch.get(key) {
        Some(row) => row,
        None => engine.get(key)?,
    };
    let prior = before.and_then(|row| BufferValue::read(&row)?.0.prior);
    let version = version.flatten();
    let change = BufferValue::read_version(version, value, record, &headers, prior);
    let (change, time) = change.ok_or_else(|| {
        Error::state(format!("a change of a suppression buffer has the unknown form {version:?}"))
    })?;
    let mut row = Vec::new();
    change.write(time, &mut row);
    Ok(row.into())
}

/// A changelog's value with its timestamp in front, if the store has it there.
fn stored(
    format: StoreFormat,
    value: Option<&[u8]>,
    timestamp: i64,
    scratch: &mut Vec<u8>,
) -> Option<ByteView> {
    let value = value?;
    match format {
        StoreFormat::Plain => Some(ByteView::from(value)),
        StoreFormat::Timestamped => {
            scratch.clear();
            timestamped_value::put_timestamp(timestamp, scratch);
            scratch.extend_from_slice(value);
            Some(ByteView::from(&scratch[..]))
        }
    }
}

/// The rows of a versioned store that is being restored: those of the batch over those of the engine.
struct RestoringRows<'a> {
    batch: &'a mut RestoreBatch,
    engine: &'a dyn Engine,
    scratch: &'a mut Vec<u8>,
}

impl VersionedRows for RestoringRows<'_> {
    fn row(&mut self, segment: i64, key: &[u8]) -> Result<Option<ByteView>> {
        self.scratch.clear();
        write_row_key(segment, key, self.scratch);
        match self.batch.get(self.scratch) {
            Some(row) => Ok(row),
            None => self.engine.get(self.scratch),
        }
    }

    fn put_row(&mut self, segment: i64, key: &[u8], row: Option<ByteView>) {
        self.scratch.clear();
        write_row_key(segment, key, self.scratch);
        self.batch.put(self.scratch, row);
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

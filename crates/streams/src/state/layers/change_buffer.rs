//! The layers of a suppression buffer: changes of a table that wait, one a key, by time.
//!
//! All of it is in memory, beside the engine that keeps what was committed. At a commit each key that has changed is logged once, in
//! the order of Java's hash set.

use super::changelog::LogRecord;
use super::{StoreLayers, StoreUsage, StoreWrites};
use crate::error::{Error, Result};
use crate::record::Headers;
use crate::state::engine::{Direction, Engine, Write};
use crate::state::layout::buffer_value::{BufferValue, VERSION, VERSION_HEADER};
use crate::state::spec::StoreSpec;
use byteview::ByteView;
use foldhash::fast::FixedState;
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;

/// What a record costs besides its key and value, as Java counts.
const TIME: usize = 8;

/// The timestamp of a record that gets the time when it is sent.
const NO_TIMESTAMP: i64 = -1;

/// The buffer of one task.
pub(crate) struct ChangeBufferLayers {
    times: HashMap<ByteView, i64, FixedState>,
    changes: BTreeMap<(i64, ByteView), BufferValue>,
    bytes: usize,
    is_logged: bool,
    /// Keys that have changed since the last commit, in that order.
    dirty: Vec<ByteView>,
    is_dirty: HashMap<ByteView, (), FixedState>,
    dirty_bytes: usize,
    /// As many buckets as Java's hash set of changed keys has by now.
    buckets: usize,
    headers: Headers,
}

impl ChangeBufferLayers {
    /// Opens a buffer with what the engine has.
    pub(in crate::state) fn new(spec: &StoreSpec, engine: &dyn Engine) -> Result<Self> {
        let mut headers = Headers::new();
        headers.add(VERSION_HEADER, [VERSION]);
        let mut buffer = ChangeBufferLayers {
            times: HashMap::default(),
            changes: BTreeMap::new(),
            bytes: 0,
            is_logged: spec.logging.is_some(),
            dirty: Vec::new(),
            is_dirty: HashMap::default(),
            dirty_bytes: 0,
            buckets: 16,
            headers,
        };
        let all = (Bound::Unbounded, Bound::Unbounded);
        for entry in engine.range(&all, Direction::Forward)? {
            let (key, value) = entry?;
            let (change, time) = BufferValue::read(&value).ok_or_else(|| {
                Error::state(format!("store {}: a change in the buffer is damaged", spec.name))
            })?;
            buffer.insert(time, key, change);
        }
        Ok(buffer)
    }

    /// How many changes wait.
    pub(in crate::state) fn len(&self) -> usize {
        self.changes.len()
    }

    /// Their size, as Java estimates it.
    pub(in crate::state) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The time of the first one.
    pub(in crate::state) fn first_time(&self) -> Option<i64> {
        self.changes.first_key_value().map(|((time, _), _)| *time)
    }

    /// The change of a key that waits.
    pub(in crate::state) fn get(&self, key: &[u8]) -> Option<&BufferValue> {
        let (key, time) = self.times.get_key_value(key)?;
        self.changes.get(&(*time, key.clone()))
    }

    /// Adds a change. If one of its key waits already, it takes that one's place.
    pub(in crate::state) fn put(&mut self, time: i64, key: ByteView, change: BufferValue) {
        self.dirty_bytes += key.len() + change.size();
        self.touch(&key);
        self.insert(time, key, change);
    }

    fn insert(&mut self, time: i64, key: ByteView, change: BufferValue) {
        let size = TIME + key.len();
        self.bytes += size + change.size();
        let time = *self.times.entry(key.clone()).or_insert(time);
        if let Some(before) = self.changes.insert((time, key), change) {
            self.bytes -= size + before.size();
        }
    }

    /// The first change and its key.
    pub(in crate::state) fn first(&self) -> Option<(&ByteView, &BufferValue)> {
        self.changes.first_key_value().map(|((_, key), change)| (key, change))
    }

    /// Takes the first change out.
    pub(in crate::state) fn remove_first(&mut self) {
        let Some(((_, key), change)) = self.changes.pop_first() else { return };
        self.times.remove(&key);
        self.bytes -= TIME + key.len() + change.size();
        self.dirty_bytes += key.len();
        self.touch(&key);
    }

    fn touch(&mut self, key: &ByteView) {
        if self.is_dirty.insert(key.clone(), ()).is_none() {
            self.dirty.push(key.clone());
        }
        while self.dirty.len() * 4 > self.buckets * 3 {
            self.buckets *= 2;
        }
    }

    /// The keys that have changed, as Java's hash set lists them.
    fn in_hash_order(&self) -> Vec<&ByteView> {
        let mut keys: Vec<&ByteView> = self.dirty.iter().collect();
        keys.sort_by_key(|key| {
            let hash = java_hash(key);
            (hash ^ (hash >> 16)) as usize & (self.buckets - 1)
        });
        keys
    }

    /// The row of a key in the engine and the changelog.
    fn row(&self, key: &ByteView) -> Option<ByteView> {
        let time = *self.times.get(key)?;
        let change = self.changes.get(&(time, key.clone()))?;
        let mut bytes = Vec::new();
        change.write(time, &mut bytes);
        Some(bytes.into())
    }
}

impl StoreLayers for ChangeBufferLayers {
    fn drain_changelog(&mut self, append: &mut dyn FnMut(LogRecord) -> Result<()>) -> Result<()> {
        if !self.is_logged {
            return Ok(());
        }
        let none = Headers::new();
        for key in self.in_hash_order() {
            let value = self.row(key);
            let headers = if value.is_some() { &self.headers } else { &none };
            append(LogRecord { key, value: value.as_deref(), timestamp: NO_TIMESTAMP, headers })?;
        }
        Ok(())
    }

    /// Its reads and writes are those of its operator, not of a user: they are not counted.
    fn usage(&self) -> StoreUsage {
        StoreUsage { entries: self.changes.len() as u64, ..StoreUsage::default() }
    }

    fn uncommitted_bytes(&self) -> usize {
        self.dirty_bytes
    }

    fn take_writes(&mut self) -> StoreWrites {
        let mut keys = std::mem::take(&mut self.dirty);
        self.is_dirty.clear();
        self.dirty_bytes = 0;
        keys.sort_unstable();
        let row = |key: ByteView| {
            let row = self.row(&key);
            (key, row)
        };
        let writes: Vec<Write> = keys.into_iter().map(row).collect();
        StoreWrites { writes, ..StoreWrites::default() }
    }
}

/// `java.util.Arrays.hashCode(byte[])`.
fn java_hash(bytes: &[u8]) -> u32 {
    let step = |hash: u32, &byte: &u8| hash.wrapping_mul(31).wrapping_add(byte as i8 as u32);
    bytes.iter().fold(1, step)
}

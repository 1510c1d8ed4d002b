//! The changelog layer: which writes become records of the store's changelog topic.

use crate::error::Result;
use crate::record::Headers;
use crate::state::layout::timestamped_value;
use crate::state::spec::StoreFormat;

/// How often a key is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogMode {
    /// Every write, as Java does.
    EveryWrite,
    /// The last write of a key at each commit: the topic is compacted, nobody needs the others.
    LastPerCommit,
}

/// A write on its way to a changelog topic.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LogRecord<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) value: Option<&'a [u8]>,
    pub(crate) timestamp: i64,
    pub(crate) headers: &'a Headers,
}

/// Writes that are not logged yet, in mode [`LogMode::EveryWrite`]: their bytes one after the other, so that a write costs no
/// allocation of its own.
pub(super) struct Changelog {
    pub(super) mode: LogMode,
    format: StoreFormat,
    bytes: Vec<u8>,
    pending: Vec<Pending>,
}

struct Pending {
    key: u32,
    /// `None`: a deletion.
    value: Option<u32>,
    timestamp: i64,
    headers: Headers,
}

static NO_HEADERS: Headers = Headers::new();

/// Buffers above this size are given back after a commit that needed little of them.
const KEPT_BYTES: usize = 1 << 20;

impl Changelog {
    pub(super) fn new(mode: LogMode, format: StoreFormat) -> Self {
        Changelog { mode, format, bytes: Vec::new(), pending: Vec::new() }
    }

    pub(super) fn note(&mut self, key: &[u8], value: Option<&[u8]>, timestamp: i64) {
        self.note_with_headers(key, value, timestamp, &NO_HEADERS);
    }

    pub(super) fn note_with_headers(
        &mut self,
        key: &[u8],
        value: Option<&[u8]>,
        timestamp: i64,
        headers: &Headers,
    ) {
        if self.mode == LogMode::EveryWrite {
            self.log(|bytes| bytes.extend_from_slice(key), value, timestamp, headers.clone());
        }
    }

    /// Logs a write at the next commit, whatever the mode is.
    pub(super) fn log(
        &mut self,
        key: impl FnOnce(&mut Vec<u8>),
        value: Option<&[u8]>,
        timestamp: i64,
        headers: Headers,
    ) {
        let (value, timestamp) = record(self.format, value, timestamp);
        let start = self.bytes.len();
        key(&mut self.bytes);
        let key = (self.bytes.len() - start) as u32;
        self.bytes.extend_from_slice(value.unwrap_or_default());
        let value = value.map(|value| value.len() as u32);
        self.pending.push(Pending { key, value, timestamp, headers });
    }

    /// Gives what was logged, in that order.
    pub(super) fn drain(&mut self, append: &mut dyn FnMut(LogRecord) -> Result<()>) -> Result<()> {
        let mut rest = &self.bytes[..];
        for Pending { key, value, timestamp, headers } in &self.pending {
            let (key, tail) = rest.split_at(*key as usize);
            let (bytes, tail) = tail.split_at(value.unwrap_or_default() as usize);
            rest = tail;
            let value = value.map(|_| bytes);
            append(LogRecord { key, value, timestamp: *timestamp, headers })?;
        }
        // Room for as much again is kept, not for a peak of the past.
        let room = self.bytes.capacity();
        if room > KEPT_BYTES && room / 4 > self.bytes.len() {
            (self.bytes, self.pending) = (Vec::new(), Vec::new());
        }
        self.pending.clear();
        self.bytes.clear();
        Ok(())
    }

    pub(super) fn pending_bytes(&self) -> usize {
        self.bytes.len() + self.pending.len() * size_of::<Pending>()
    }

    /// The record of a write.
    pub(super) fn record<'a>(
        &self,
        value: Option<&'a [u8]>,
        timestamp: i64,
    ) -> (Option<&'a [u8]>, i64) {
        record(self.format, value, timestamp)
    }
}

/// A value without its timestamp prefix, at the value's own time. A deletion has the time of the record that caused it.
fn record(format: StoreFormat, value: Option<&[u8]>, timestamp: i64) -> (Option<&[u8]>, i64) {
    match (format, value) {
        (StoreFormat::Timestamped, Some(value)) => match timestamped_value::split(value) {
            Some((timestamp, value)) => (Some(value), timestamp),
            None => (Some(value), timestamp),
        },
        _ => (value, timestamp),
    }
}

//! The changelog layer: which writes become records of the store's changelog topic.

use crate::state::layout::timestamped_value;
use crate::state::spec::StoreFormat;
use byteview::ByteView;

/// How often a key is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogMode {
    /// Every write, as Java does.
    EveryWrite,
    /// The last write of a key at each commit: the topic is compacted, nobody needs the others.
    LastPerCommit,
}

/// Writes that are not logged yet, in mode [`LogMode::EveryWrite`].
pub(super) struct Changelog {
    pub(super) mode: LogMode,
    format: StoreFormat,
    pending: Vec<(ByteView, Option<ByteView>, i64)>,
    pending_bytes: usize,
}

impl Changelog {
    pub(super) fn new(mode: LogMode, format: StoreFormat) -> Self {
        Changelog { mode, format, pending: Vec::new(), pending_bytes: 0 }
    }

    pub(super) fn note(&mut self, key: &[u8], value: Option<&ByteView>, timestamp: i64) {
        if self.mode == LogMode::EveryWrite {
            self.pending_bytes += key.len() + value.map_or(0, ByteView::len);
            self.pending.push((key.into(), value.cloned(), timestamp));
        }
    }

    pub(super) fn take_pending(&mut self) -> Vec<(ByteView, Option<ByteView>, i64)> {
        self.pending_bytes = 0;
        std::mem::take(&mut self.pending)
    }

    pub(super) fn pending_bytes(&self) -> usize {
        self.pending_bytes
    }

    /// The record of a write: a value without its timestamp prefix, at the value's own time. A deletion has the time of the
    /// record that caused it.
    pub(super) fn record<'a>(
        &self,
        value: Option<&'a ByteView>,
        timestamp: i64,
    ) -> (Option<&'a [u8]>, i64) {
        match (self.format, value) {
            (_, None) => (None, timestamp),
            (StoreFormat::Plain, Some(value)) => (Some(value), timestamp),
            (StoreFormat::Timestamped, Some(value)) => match timestamped_value::split(value) {
                Some((timestamp, value)) => (Some(value), timestamp),
                None => (Some(value), timestamp),
            },
        }
    }
}

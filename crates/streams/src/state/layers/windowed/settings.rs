//! What follows from the description of a window or session store: how long it keeps what, and where the engine has it.

use crate::config::Compatibility;
use crate::state::kind::{StoreKind, segment_interval};
use crate::state::layout::windowed_key::{KeyLayout, RowKey};
use crate::state::spec::StoreSpec;
use byteview::ByteView;

/// No more chunks of time in memory than this within the retention.
const CHUNKS_MAX: i64 = 16;

/// How far a store that goes by time has got. It survives a restart, written with the rows it belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StoreClock {
    /// The highest time put, in milliseconds; -1 before the first.
    pub(crate) observed: i64,
    /// The number of the last duplicate.
    pub(crate) sequence: u32,
}

impl StoreClock {
    pub(crate) const NEW: StoreClock = StoreClock { observed: -1, sequence: 0 };
}

/// What follows from the description of a window or session store.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WindowSettings {
    pub(in crate::state) layout: KeyLayout,
    retention: i64,
    /// The length of a chunk in memory.
    pub(super) chunk: i64,
    pub(super) duplicates: bool,
    pub(super) persistent: bool,
    pub(super) compatibility: Compatibility,
}

impl WindowSettings {
    /// `None` for other kinds.
    pub(crate) fn of(spec: &StoreSpec, compatibility: Compatibility) -> Option<Self> {
        let (layout, retention, size, duplicates) = match spec.kind {
            StoreKind::Window { retention, size, duplicates } => {
                (KeyLayout::Window, retention, size, duplicates)
            }
            StoreKind::Session { retention } => (KeyLayout::Session, retention, 0, false),
            _ => return None,
        };
        let chunk = size.max(retention / CHUNKS_MAX).max(1);
        let persistent = spec.persistent;
        Some(WindowSettings { layout, retention, chunk, duplicates, persistent, compatibility })
    }

    pub(super) fn segment(&self, time: i64) -> i64 {
        time / segment_interval(self.retention)
    }

    pub(super) fn engine_key(&self, row: &RowKey) -> ByteView {
        let mut bytes = Vec::with_capacity(24 + row.key.len());
        self.layout.write_engine_key(self.segment(row.time), row, &mut bytes);
        bytes.into()
    }

    /// The first time that is shown.
    pub(super) fn live_from(&self, observed: i64) -> i64 {
        let dead = observed.saturating_sub(self.retention);
        match self.compatibility {
            Compatibility::Correct => dead,
            Compatibility::Java44 => dead.saturating_add(1),
        }
    }

    /// The first time that is still kept.
    pub(crate) fn kept_from(&self, observed: i64) -> i64 {
        let dead = observed.saturating_sub(self.retention);
        match self.persistent {
            true => self.segment(dead) * segment_interval(self.retention),
            false => self.live_from(observed),
        }
    }

    /// The first time whose rows can be asked for: old sessions can still be found by their ends.
    pub(super) fn needed_from(&self, observed: i64) -> i64 {
        match self.layout {
            KeyLayout::Window => self.live_from(observed),
            KeyLayout::Session => self.kept_from(observed),
        }
    }

    /// The engine's row of a changelog record's key, and its time; `None` when the key is damaged.
    pub(crate) fn restored(&self, key: &[u8], clock: &mut StoreClock) -> Option<ByteView> {
        let row = self.layout.split(key).filter(|row| row.time >= 0)?;
        clock.observed = clock.observed.max(row.time);
        if self.duplicates {
            clock.sequence = clock.sequence.max(row.minor as u32);
        }
        (row.time >= self.needed_from(clock.observed)).then(|| self.engine_key(&row))
    }
}

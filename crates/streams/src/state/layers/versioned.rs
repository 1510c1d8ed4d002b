//! A versioned store, in bytes: the latest value of each key in a row, the history before it in rows by time segment.
//!
//! A value lies in the segment in which its validity ended. So what is older than the history goes away with its segment, and what
//! is still valid never does. The steps are those of Java's `RocksDBVersionedStore`, whose results they have to give.

use super::changelog::{Changelog, LogMode, LogRecord};
use super::windowed::StoreClock;
use super::write_buffer::WriteBuffer;
use super::{Budget, StoreLayers, StoreUsage, StoreWrites};
use crate::config::Compatibility;
use crate::error::{Error, Result};
use crate::record::Headers;
use crate::state::engine::Engine;
use crate::state::kind::StoreKind;
pub(crate) use crate::state::layout::versioned_row::VersionBytes;
use crate::state::layout::versioned_row::{Found, SegmentRow, bounds, split_latest, write_latest};
use crate::state::spec::StoreSpec;
use byteview::ByteView;

/// The segment of the latest values: it sorts after all others.
const LATEST: i64 = -1;

/// What follows from the description of a versioned store.
#[derive(Debug, Clone, Copy)]
pub(crate) struct VersionedSettings {
    history: i64,
    interval: i64,
    compatibility: Compatibility,
}

impl VersionedSettings {
    /// `None` for other kinds.
    pub(crate) fn of(spec: &StoreSpec, compatibility: Compatibility) -> Option<Self> {
        match spec.kind {
            StoreKind::Versioned { history, segment } => {
                let interval = segment.max(1);
                Some(VersionedSettings { history, interval, compatibility })
            }
            _ => None,
        }
    }

    fn segment(&self, time: i64) -> i64 {
        time / self.interval
    }

    /// The first segment that is kept.
    pub(crate) fn first_live(&self, observed: i64) -> i64 {
        self.segment(observed.saturating_sub(self.history)).max(0)
    }

    /// Whether a put at that time comes too late.
    pub(crate) fn is_too_late(&self, timestamp: i64, observed: i64) -> bool {
        timestamp < observed.saturating_sub(self.history)
    }
}

/// The engine's key: the segment, then the key.
pub(crate) fn write_row_key(segment: i64, key: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&segment.to_be_bytes());
    out.extend_from_slice(key);
}

/// Where the rows are: in a running store, or in one that is being restored.
pub(crate) trait VersionedRows {
    fn row(&mut self, segment: i64, key: &[u8]) -> Result<Option<ByteView>>;

    fn put_row(&mut self, segment: i64, key: &[u8], row: Option<ByteView>);
}

/// The steps of reading and writing.
pub(crate) struct Versions<'a, R> {
    pub(crate) rows: &'a mut R,
    pub(crate) settings: VersionedSettings,
    pub(crate) observed: i64,
}

/// How far a put has got: done, or still to be placed before a version that begins at a known time, or before none.
enum Step {
    /// With the time to which the put value is valid, if another version ends it.
    Done(Option<i64>),
    Before(Option<i64>),
}

impl<R: VersionedRows> Versions<'_, R> {
    /// The latest value.
    pub(crate) fn latest(&mut self, key: &[u8]) -> Result<Option<VersionBytes>> {
        let Some(row) = self.rows.row(LATEST, key)? else { return Ok(None) };
        let (from, value) = split_latest(&row).ok_or_else(damaged)?;
        Ok(Some(VersionBytes { value: ByteView::from(value), from, to: None }))
    }

    /// The value at a time. Before the history there is none, unless the latest value is as old.
    pub(crate) fn as_of(&mut self, key: &[u8], time: i64) -> Result<Option<VersionBytes>> {
        let latest = self.latest(key)?.filter(|latest| latest.from <= time);
        if latest.is_some() || self.settings.is_too_late(time, self.observed) {
            return Ok(latest);
        }
        for segment in self.segments_from(time) {
            let Some(row) = self.rows.row(segment, key)? else { continue };
            let (next, first) = bounds(&row).ok_or_else(damaged)?;
            if next <= time {
                return Ok(None);
            }
            if first > time {
                continue;
            }
            let Found { from, to, value, .. } =
                SegmentRow::read(&row).and_then(|row| row.find(time)).ok_or_else(damaged)?;
            return Ok(value.map(|value| VersionBytes { value, from, to: Some(to) }));
        }
        Ok(None)
    }

    /// All values that were valid at some time from `from` to `to`, both inclusive, newest first.
    pub(crate) fn between(&mut self, key: &[u8], from: i64, to: i64) -> Result<Vec<VersionBytes>> {
        let latest = self.latest(key)?.filter(|latest| latest.from <= to);
        let mut found: Vec<VersionBytes> = latest.into_iter().collect();
        for segment in self.segments_from(from) {
            let Some(row) = self.segment_row(segment, key)? else { continue };
            found.extend(row.values().filter(|version| {
                version.from <= to && version.to.is_none_or(|ended| ended > from)
            }));
        }
        Ok(found)
    }

    /// The segments that may hold what was valid at a time, newest first.
    fn segments_from(&self, time: i64) -> impl Iterator<Item = i64> + use<R> {
        let first = self.settings.segment(time).max(self.settings.first_live(self.observed));
        (first..=self.settings.segment(self.observed)).rev()
    }

    fn is_live(&self, segment: i64) -> bool {
        segment >= self.settings.first_live(self.observed)
    }

    fn segment_row(&mut self, segment: i64, key: &[u8]) -> Result<Option<SegmentRow>> {
        let row = self.rows.row(segment, key)?;
        row.map(|row| SegmentRow::read(&row).ok_or_else(damaged)).transpose()
    }

    fn put_segment_row(&mut self, segment: i64, key: &[u8], row: &SegmentRow) {
        let mut bytes = Vec::new();
        row.write(&mut bytes);
        self.rows.put_row(segment, key, Some(bytes.into()));
    }

    /// Adds a version that ended at `to` to the segment of that time, if it is live.
    fn add_ended(&mut self, key: &[u8], from: i64, to: i64, value: Option<ByteView>) -> Result<()> {
        let segment = self.settings.segment(to);
        if !self.is_live(segment) {
            return Ok(());
        }
        let row = match self.segment_row(segment, key)? {
            None => SegmentRow::with_record(value, from, to),
            Some(mut row) => {
                row.insert_as_latest(from, to, value);
                row
            }
        };
        self.put_segment_row(segment, key, &row);
        Ok(())
    }

    /// Puts a value, or a tombstone, that is valid from a time on. Gives the time to which it is valid, if another version
    /// ends it. The caller has seen to it that the time is not too old.
    pub(crate) fn put(
        &mut self,
        key: &[u8],
        value: Option<ByteView>,
        at: i64,
    ) -> Result<Option<i64>> {
        let next = match self.put_to_latest(key, value.as_ref(), at)? {
            Step::Done(to) => return Ok(to),
            Step::Before(next) => next,
        };
        match self.put_to_segments(key, value.as_ref(), at, next)? {
            Step::Done(to) => Ok(to),
            Step::Before(None) => self.put_first(key, value, at),
            Step::Before(Some(next)) => self.put_before(key, value, at, next),
        }
    }

    fn put_to_latest(&mut self, key: &[u8], value: Option<&ByteView>, at: i64) -> Result<Step> {
        let Some(latest) = self.latest(key)? else { return Ok(Step::Before(None)) };
        if at < latest.from {
            return Ok(Step::Before(Some(latest.from)));
        }
        if at > latest.from {
            self.add_ended(key, latest.from, at, Some(latest.value))?;
        }
        self.put_latest(key, value, at);
        let is_correct = self.settings.compatibility == Compatibility::Correct;
        if value.is_none() && at == latest.from && is_correct {
            // Java 4.4 forgets this tombstone: an older value that comes later is the latest there.
            self.put_first(key, None, at)?;
        }
        Ok(Step::Done(None))
    }

    fn put_latest(&mut self, key: &[u8], value: Option<&ByteView>, at: i64) {
        let row = value.map(|value| {
            let mut row = Vec::with_capacity(8 + value.len());
            write_latest(at, value, &mut row);
            row.into()
        });
        self.rows.put_row(LATEST, key, row);
    }

    fn put_to_segments(
        &mut self,
        key: &[u8],
        value: Option<&ByteView>,
        at: i64,
        mut found: Option<i64>,
    ) -> Result<Step> {
        for segment in self.segments_from(at) {
            let Some(row) = self.rows.row(segment, key)? else { continue };
            let (next, first) = bounds(&row).ok_or_else(damaged)?;
            if next <= at {
                break;
            }
            if first <= at {
                let row = SegmentRow::read(&row).ok_or_else(damaged)?;
                return self.put_to_segment(segment, row, key, value.cloned(), at);
            }
            if self.settings.is_too_late(first, self.observed) {
                return Ok(Step::Done(None));
            }
            found = Some(first);
        }
        Ok(Step::Before(found))
    }

    /// Puts into a row that holds a version of that time.
    fn put_to_segment(
        &mut self,
        segment: i64,
        mut row: SegmentRow,
        key: &[u8],
        value: Option<ByteView>,
        at: i64,
    ) -> Result<Step> {
        let found = row.find(at).ok_or_else(damaged)?;
        if found.from == at {
            row.update(at, value, found.index);
        } else if self.settings.segment(at) == segment {
            row.insert(at, value, found.index);
        } else {
            // The older version now ends in an older segment.
            self.add_ended(key, found.from, at, found.value)?;
            row.update(at, value, found.index);
        }
        self.put_segment_row(segment, key, &row);
        Ok(Step::Done(Some(found.to)))
    }

    /// Puts the newest version of a key that has no latest value.
    fn put_first(&mut self, key: &[u8], value: Option<ByteView>, at: i64) -> Result<Option<i64>> {
        if value.is_some() {
            self.put_latest(key, value.as_ref(), at);
            return Ok(None);
        }
        let segment = self.settings.segment(at);
        if !self.is_live(segment) {
            return Ok(None);
        }
        let row = match self.rows.row(segment, key)? {
            None => SegmentRow::with_record(None, at, at),
            Some(row) => {
                let (next, _) = bounds(&row).ok_or_else(damaged)?;
                if next == at {
                    return Ok(None);
                }
                let mut row = SegmentRow::read(&row).ok_or_else(damaged)?;
                row.insert_as_latest(next, at, None);
                row
            }
        };
        self.put_segment_row(segment, key, &row);
        Ok(None)
    }

    /// Puts a version that ends where the one at `next` begins, with none before it in that segment's time.
    fn put_before(
        &mut self,
        key: &[u8],
        value: Option<ByteView>,
        at: i64,
        next: i64,
    ) -> Result<Option<i64>> {
        let segment = self.settings.segment(next);
        if !self.is_live(segment) {
            return Ok(None);
        }
        let row = match self.rows.row(segment, key)? {
            None => SegmentRow::with_record(value, at, next),
            Some(row) => {
                let (end, _) = bounds(&row).ok_or_else(damaged)?;
                let mut row = SegmentRow::read(&row).ok_or_else(damaged)?;
                match end <= at {
                    true => row.insert_as_latest(at, next, value),
                    false => row.insert_as_earliest(at, value),
                }
                row
            }
        };
        self.put_segment_row(segment, key, &row);
        Ok(Some(next))
    }
}

fn damaged() -> Error {
    Error::state("a versioned store has a damaged row: delete its directory")
}

/// What became of a put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PutResult {
    /// The value is the latest of its key.
    Latest,
    /// The value ends where the next one begins, at this time in milliseconds.
    ValidTo(i64),
    /// It was older than the history and was not put.
    NotPut,
}

/// One versioned store of one task, in bytes.
pub(crate) struct VersionedLayers {
    settings: VersionedSettings,
    clock: StoreClock,
    changelog: Option<Changelog>,
    rows: BufferedRows,
    dropped_before: i64,
    expired: u64,
    usage: StoreUsage,
}

/// The rows of a running store.
struct BufferedRows {
    buffer: WriteBuffer,
    engine: Box<dyn Engine>,
    scratch: Vec<u8>,
}

impl VersionedRows for BufferedRows {
    fn row(&mut self, segment: i64, key: &[u8]) -> Result<Option<ByteView>> {
        self.scratch.clear();
        write_row_key(segment, key, &mut self.scratch);
        self.buffer.get(&*self.engine, &self.scratch)
    }

    fn put_row(&mut self, segment: i64, key: &[u8], row: Option<ByteView>) {
        self.scratch.clear();
        write_row_key(segment, key, &mut self.scratch);
        self.buffer.put(&self.scratch, row, 0);
    }
}

impl VersionedLayers {
    pub(crate) fn new(
        spec: &StoreSpec,
        settings: VersionedSettings,
        engine: Box<dyn Engine>,
        clock: StoreClock,
        read_cache: Budget,
    ) -> Result<Self> {
        // Every version is logged: the history has to be restored too.
        let changelog = || Changelog::new(LogMode::EveryWrite, spec.format);
        let buffer = WriteBuffer::new(read_cache, engine.is_empty()?);
        Ok(VersionedLayers {
            settings,
            clock,
            changelog: spec.logging.is_some().then(changelog),
            rows: BufferedRows { buffer, engine, scratch: Vec::new() },
            dropped_before: 0,
            expired: 0,
            usage: StoreUsage::default(),
        })
    }

    /// What a commit left, for reads only.
    pub(crate) fn committed(
        settings: VersionedSettings,
        engine: Box<dyn Engine>,
        clock: StoreClock,
    ) -> Self {
        let buffer = WriteBuffer::new(Budget::new(0), false);
        VersionedLayers {
            settings,
            clock,
            changelog: None,
            rows: BufferedRows { buffer, engine, scratch: Vec::new() },
            dropped_before: 0,
            expired: 0,
            usage: StoreUsage::default(),
        }
    }

    /// The values of a key that were valid at some time of a span, newest first.
    pub(crate) fn get_between(
        &mut self,
        key: &[u8],
        from: i64,
        to: i64,
    ) -> Result<Vec<VersionBytes>> {
        self.read().between(key, from, to)
    }

    /// For a read.
    fn read(&mut self) -> Versions<'_, BufferedRows> {
        self.usage.reads += 1;
        self.versions()
    }

    fn versions(&mut self) -> Versions<'_, BufferedRows> {
        let VersionedLayers { rows, settings, clock, .. } = self;
        Versions { rows, settings: *settings, observed: clock.observed }
    }

    pub(crate) fn get(&mut self, key: &[u8]) -> Result<Option<VersionBytes>> {
        self.read().latest(key)
    }

    pub(crate) fn get_as_of(&mut self, key: &[u8], time: i64) -> Result<Option<VersionBytes>> {
        self.read().as_of(key, time)
    }

    /// Puts a value or a tombstone. It is logged even when it is too late, as in Java.
    pub(crate) fn put(
        &mut self,
        key: &[u8],
        value: Option<ByteView>,
        at: i64,
    ) -> Result<PutResult> {
        self.usage.writes += 1;
        if let Some(changelog) = &mut self.changelog {
            let write = |out: &mut Vec<u8>| out.extend_from_slice(key);
            changelog.log(write, value.as_deref(), at, Headers::new());
        }
        if self.settings.is_too_late(at, self.clock.observed) {
            self.expired += 1;
            return Ok(PutResult::NotPut);
        }
        self.clock.observed = self.clock.observed.max(at);
        Ok(match self.versions().put(key, value, at)? {
            Some(to) => PutResult::ValidTo(to),
            None => PutResult::Latest,
        })
    }
}

impl StoreLayers for VersionedLayers {
    fn take_expired(&mut self) -> u64 {
        std::mem::take(&mut self.expired)
    }

    fn drain_changelog(&mut self, append: &mut dyn FnMut(LogRecord) -> Result<()>) -> Result<()> {
        self.changelog.as_mut().map_or(Ok(()), |changelog| changelog.drain(append))
    }

    fn usage(&self) -> StoreUsage {
        StoreUsage { entries: self.rows.engine.approximate_len(), ..self.usage }
    }

    fn uncommitted_bytes(&self) -> usize {
        let pending = self.changelog.as_ref().map_or(0, Changelog::pending_bytes);
        self.rows.buffer.uncommitted_bytes() + pending
    }

    fn take_writes(&mut self) -> StoreWrites {
        let first = self.settings.first_live(self.clock.observed);
        let expired = (first > self.dropped_before).then(|| {
            self.dropped_before = first;
            ByteView::from(&first.to_be_bytes()[..])
        });
        StoreWrites { writes: self.rows.buffer.take_writes(), expired, clock: Some(self.clock) }
    }
}

//! The layers of a window or session store, put together: rows go by time, too late ones are dropped, expired ones go away.
//!
//! What a store still shows and what it still takes is Java's rule. With `dead = highest time put - retention`: a read shows times
//! after `dead`; a write is taken after `dead` in memory, and on disk from the beginning of the segment that `dead` is in.

use super::budget::StoreBudget;
use super::changelog::{Changelog, LogMode, LogRecord};
use super::key_value::Overlaid;
use super::recent::{Put, Recent, Row};
use super::record_cache::{Flushed, RecordCache};
use super::{FlushListener, StoreLayers, StoreWrites};
use crate::error::{Error, Result};
use crate::processor::{RecordContext, TaskContext};
use crate::record::Headers;
use crate::state::engine::{Direction, Engine, EngineEntries, KeyRange, Write};
use crate::state::key_order::sort_by_key;
use crate::state::kind::{StoreKind, segment_interval};
use crate::state::layout::windowed_key::{KeyLayout, RowKey};
use crate::state::spec::StoreSpec;
use byteview::ByteView;
use std::ops::{Bound, RangeBounds};

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
    chunk: i64,
    duplicates: bool,
    persistent: bool,
}

impl WindowSettings {
    /// `None` for other kinds.
    pub(crate) fn of(spec: &StoreSpec) -> Option<Self> {
        let (layout, retention, size, duplicates) = match spec.kind {
            StoreKind::Window { retention, size, duplicates } => {
                (KeyLayout::Window, retention, size, duplicates)
            }
            StoreKind::Session { retention } => (KeyLayout::Session, retention, 0, false),
            _ => return None,
        };
        let chunk = size.max(retention / CHUNKS_MAX).max(1);
        Some(WindowSettings { layout, retention, chunk, duplicates, persistent: spec.persistent })
    }

    fn segment(&self, time: i64) -> i64 {
        time / segment_interval(self.retention)
    }

    fn engine_key(&self, row: &RowKey) -> ByteView {
        let mut bytes = Vec::with_capacity(24 + row.key.len());
        self.layout.write_engine_key(self.segment(row.time), row, &mut bytes);
        bytes.into()
    }

    /// The first time that is shown.
    fn live_from(&self, observed: i64) -> i64 {
        observed.saturating_sub(self.retention).saturating_add(1)
    }

    /// The first time that is still kept.
    pub(crate) fn kept_from(&self, observed: i64) -> i64 {
        let live = self.live_from(observed);
        match self.persistent {
            true => self.segment(live.saturating_sub(1)) * segment_interval(self.retention),
            false => live,
        }
    }

    /// The engine's row of a changelog record's key, and its time; `None` when the key is damaged.
    pub(crate) fn restored(&self, key: &[u8], clock: &mut StoreClock) -> Option<ByteView> {
        let row = self.layout.split(key).filter(|row| row.time >= 0)?;
        clock.observed = clock.observed.max(row.time);
        if self.duplicates {
            clock.sequence = clock.sequence.max(row.minor as u32);
        }
        (row.time >= self.kept_from(clock.observed)).then(|| self.engine_key(&row))
    }
}

/// What a write is made for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WindowWrite<'a> {
    /// The time of the record in hand, of which the changelog tells.
    pub(crate) timestamp: i64,
    /// Its headers, for the change that a record cache keeps back.
    pub(crate) headers: &'a Headers,
    /// The changelog record has them too.
    pub(crate) logs_headers: bool,
}

impl<'a> WindowWrite<'a> {
    pub(crate) fn at(timestamp: i64, headers: &'a Headers) -> Self {
        WindowWrite { timestamp, headers, logs_headers: false }
    }

    fn record(&self, task: &TaskContext) -> RecordContext {
        RecordContext { timestamp: self.timestamp, ..task.record() }
    }

    fn logged_headers(&self) -> Headers {
        if self.logs_headers { self.headers.clone() } else { Headers::new() }
    }
}

/// A row that was found.
#[derive(Debug, Clone)]
pub(crate) struct Hit {
    /// The start of a window, the end of a session.
    pub(crate) time: i64,
    /// The number of a duplicate, the start of a session.
    pub(crate) minor: i64,
    pub(crate) value: ByteView,
}

/// Which rows are looked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TimeSpan {
    /// Times, both inclusive.
    pub(crate) from: i64,
    pub(crate) to: i64,
    /// The latest start of a session.
    pub(crate) minor_to: i64,
}

/// Rows of several keys.
pub(crate) type KeyedHits = Box<dyn Iterator<Item = Result<(ByteView, Hit)>>>;

/// In which order rows of several keys come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::state) enum Order {
    /// As Java's store of that kind gives them: on disk by segment and key, in memory by time and key.
    Store(Direction),
    /// By time, then by key, whatever the store is; a session by end and start, then by key.
    Time,
}

/// One window or session store of one task, in bytes.
pub(crate) struct WindowLayers {
    settings: WindowSettings,
    clock: StoreClock,
    cache: Option<RecordCache>,
    changelog: Option<Changelog>,
    recent: Recent,
    /// From this time on every row is in `recent`.
    complete_from: i64,
    engine: Box<dyn Engine>,
    budget: StoreBudget,
    /// What `recent` has taken of the budget.
    taken: usize,
    /// The segments before this one were dropped.
    dropped_before: i64,
    expired: u64,
    scratch: Vec<u8>,
    /// Set by the operator that forwards the store's changes.
    pub(crate) listener: Option<FlushListener>,
    /// Whether a change carries the value before it.
    pub(crate) sends_old_values: bool,
}

impl WindowLayers {
    pub(crate) fn new(
        spec: &StoreSpec,
        settings: WindowSettings,
        engine: Box<dyn Engine>,
        clock: StoreClock,
        budget: &StoreBudget,
    ) -> Result<Self> {
        let cached = spec.caching && spec.kind.may_cache() && !budget.record_cache.is_nothing();
        let changelog = || Changelog::new(LogMode::EveryWrite, spec.format);
        let mut layers = WindowLayers {
            settings,
            clock,
            cache: cached.then(|| RecordCache::new(budget.record_cache.clone())),
            changelog: spec.logging.is_some().then(changelog),
            recent: Recent::new(settings.chunk),
            complete_from: i64::MIN,
            engine,
            budget: budget.clone(),
            taken: 0,
            dropped_before: 0,
            expired: 0,
            scratch: Vec::new(),
            listener: None,
            sends_old_values: false,
        };
        if !settings.persistent {
            layers.read_all()?;
        } else if !layers.engine.is_empty()? {
            layers.complete_from = clock.observed.saturating_add(1);
        }
        Ok(layers)
    }

    /// A store in memory is in `recent` as a whole: its engine only remembers what was committed.
    fn read_all(&mut self) -> Result<()> {
        for entry in self.engine.range(&(Bound::Unbounded, Bound::Unbounded), Direction::Forward)? {
            let (key, value) = entry?;
            let row = self.settings.layout.split_engine_key(&key).ok_or_else(damaged)?;
            self.recent.put(&row, Some(value), Put::Read);
        }
        self.account();
        Ok(())
    }

    /// Whether changes wait for the next flush; else the operator forwards them itself.
    #[allow(dead_code, reason = "for the operators of tables and windows")]
    pub(crate) fn is_cached(&self) -> bool {
        self.cache.is_some()
    }

    pub(crate) fn has_duplicates(&self) -> bool {
        self.settings.duplicates
    }

    #[allow(dead_code, reason = "for the operators of tables and windows")]
    pub(in crate::state) fn layout(&self) -> KeyLayout {
        self.settings.layout
    }

    fn live_from(&self) -> i64 {
        self.settings.live_from(self.clock.observed)
    }

    /// The value of a row.
    pub(crate) fn get(&mut self, row: &RowKey) -> Result<Option<ByteView>> {
        let live = row.time >= self.live_from();
        if let Some(found) = self.recent.get(row) {
            return Ok(found.value().filter(|_| live || found.is_cached()).cloned());
        }
        if !live {
            return Ok(None);
        }
        self.below_recent(row)
    }

    /// The value in the engine of a row that is not in memory; it stays there from now on.
    fn below_recent(&mut self, row: &RowKey) -> Result<Option<ByteView>> {
        if row.time >= self.complete_from {
            return Ok(None);
        }
        let value = self.engine.get(&self.settings.engine_key(row))?;
        if value.is_some() && !self.budget.read_cache.is_exceeded() {
            self.recent.put(row, value.clone(), Put::Read);
        }
        Ok(value)
    }

    /// Writes or deletes.
    pub(crate) fn put(
        &mut self,
        row: &RowKey,
        value: Option<ByteView>,
        task: &TaskContext,
        write: WindowWrite,
    ) -> Result<()> {
        if self.cache.is_some() {
            return self.keep_back(row, value, task, write);
        }
        self.write(row, value, write.timestamp, write.logged_headers());
        Ok(())
    }

    /// Leaves a change to the record cache.
    fn keep_back(
        &mut self,
        row: &RowKey,
        value: Option<ByteView>,
        task: &TaskContext,
        write: WindowWrite,
    ) -> Result<()> {
        let mut key = std::mem::take(&mut self.scratch);
        key.clear();
        self.settings.layout.write(row, &mut key);
        let pending = self.cache.as_mut().and_then(|cache| cache.under(&key));
        let (is_new, under) = match pending {
            Some(under) => (false, under),
            None => (true, self.get(row)?),
        };
        let Some(cache) = &mut self.cache else { return Ok(()) };
        if value.is_none() && under.is_none() && self.listener.is_some() {
            // Absent below and absent again: no change, now or at the flush.
            cache.forget(&key);
            self.forget(row);
        } else {
            let under = under.filter(|_| is_new);
            let (record, headers) = (write.record(task), write.headers.clone());
            cache.put(&key, value.clone(), under, record, headers);
            self.recent.put(row, value, Put::Cache);
        }
        self.scratch = key;
        Ok(())
    }

    /// Takes a row out of memory that does not exist any more.
    fn forget(&mut self, row: &RowKey) {
        match self.recent.get(row) {
            Some(found) if found.is_known_below() => self.recent.put(row, None, Put::Write),
            Some(_) => self.recent.forget(row),
            None => {}
        }
    }

    /// The write below the cache. It is logged even when it is too late for the store, as in Java.
    fn write(&mut self, row: &RowKey, value: Option<ByteView>, timestamp: i64, headers: Headers) {
        let WindowSettings { layout, duplicates, persistent, .. } = self.settings;
        let mut row = *row;
        if duplicates {
            self.clock.sequence = (self.clock.sequence + 1) & 0x7fff_ffff;
            row.minor = i64::from(self.clock.sequence);
        }
        if let Some(changelog) = &mut self.changelog {
            let key = |out: &mut Vec<u8>| layout.write(&row, out);
            changelog.log(key, value.as_deref(), timestamp, headers);
        }
        if duplicates && value.is_none() {
            // Nothing can be deleted among duplicates.
            if !persistent {
                self.clock.observed = self.clock.observed.max(row.time);
            }
            return;
        }
        self.clock.observed = self.clock.observed.max(row.time);
        if row.time >= self.settings.kept_from(self.clock.observed) {
            self.recent.put(&row, value, Put::Write);
        } else {
            self.expired += 1;
            self.recent.forget(&row);
        }
        self.account();
    }

    /// Deletes the row of a session. Other than a write of nothing it is never too late.
    pub(crate) fn remove(
        &mut self,
        row: &RowKey,
        task: &TaskContext,
        write: WindowWrite,
    ) -> Result<()> {
        if self.cache.is_some() {
            return self.keep_back(row, None, task, write);
        }
        let layout = self.settings.layout;
        if let Some(changelog) = &mut self.changelog {
            changelog.log(|out| layout.write(row, out), None, write.timestamp, Headers::new());
        }
        if self.settings.persistent {
            self.clock.observed = self.clock.observed.max(row.time);
        }
        if row.time >= self.settings.kept_from(self.clock.observed) {
            self.recent.put(row, None, Put::Write);
            self.account();
        }
        Ok(())
    }

    /// The rows of one key in the order of time and minor: a snapshot.
    pub(crate) fn of_key(&mut self, key: &[u8], span: TimeSpan) -> Result<Vec<Hit>> {
        let live = self.live_from();
        let mut hits = Vec::new();
        let from = span.from.max(live);
        if from.max(0) < self.complete_from && from <= span.to {
            self.below(key, TimeSpan { from, ..span }, &mut hits)?;
        }
        let (committed, complete_from) = (hits.len(), self.complete_from);
        let mut deleted = false;
        self.recent.of_key(key, span.from, span.to, |row| {
            if row.minor > span.minor_to || (row.time < live && !row.is_cached()) {
                return;
            }
            deleted |= row.time < complete_from;
            if let Some(value) = row.value() {
                hits.push(Hit { time: row.time, minor: row.minor, value: value.clone() });
            }
        });
        if committed > 0 && deleted {
            self.override_committed(key, &mut hits, committed);
        }
        if self.settings.layout == KeyLayout::Session && !self.settings.persistent {
            // In memory, Java gives sessions with one end from the latest start to the first.
            hits.sort_by_key(|hit| (hit.time, std::cmp::Reverse(hit.minor)));
        }
        Ok(hits)
    }

    /// `hits` begins with `committed` rows of the engine: those that are in memory as well, perhaps deleted, count from there.
    fn override_committed(&self, key: &[u8], hits: &mut Vec<Hit>, committed: usize) {
        let recent = hits.split_off(committed);
        hits.retain(|hit| {
            self.recent.get(&RowKey { key, time: hit.time, minor: hit.minor }).is_none()
        });
        hits.extend(recent);
        hits.sort_by_key(|hit| (hit.time, hit.minor));
    }

    /// The committed rows of a key that need not be in memory.
    fn below(&self, key: &[u8], span: TimeSpan, hits: &mut Vec<Hit>) -> Result<()> {
        let settings = &self.settings;
        let to = span.to.min(self.complete_from.saturating_sub(1));
        let from = span.from.max(0);
        for segment in settings.segment(from)..=settings.segment(to) {
            let bound = |time: i64, minor: i64| {
                let mut bytes = Vec::with_capacity(24 + key.len());
                let row = RowKey { key, time, minor };
                settings.layout.write_engine_key(segment, &row, &mut bytes);
                Bound::Included(ByteView::from(bytes))
            };
            let range = (bound(from, 0), bound(to, i64::MAX));
            for entry in self.engine.range(&range, Direction::Forward)? {
                let (bytes, value) = entry?;
                let row = settings.layout.split_engine_key(&bytes).ok_or_else(damaged)?;
                if row.key == key && row.minor <= span.minor_to {
                    hits.push(Hit { time: row.time, minor: row.minor, value });
                }
            }
        }
        Ok(())
    }

    /// The rows of a range of keys: a snapshot. `all_kept`: also what is not shown any more but still kept.
    pub(in crate::state) fn of_keys(
        &mut self,
        keys: &KeyRange,
        span: TimeSpan,
        order: Order,
        all_kept: bool,
    ) -> Result<KeyedHits> {
        let settings = self.settings;
        let live = match all_kept {
            true => settings.kept_from(self.clock.observed),
            false => self.live_from(),
        };
        let mut above: Vec<(ByteView, i64, i64, Option<ByteView>)> = Vec::new();
        let complete_from = self.complete_from;
        self.recent.in_span(span.from, span.to, |key, row: &Row| {
            let shown = (row.time >= live || row.is_cached()) && row.minor <= span.minor_to;
            let tells = row.value().is_some() || row.time < complete_from;
            if shown && tells && contains(keys, key) {
                above.push((key.clone(), row.time, row.minor, row.value().cloned()));
            }
        });
        let from = span.from.max(live).max(0);
        let to = span.to.min(self.complete_from.saturating_sub(1));
        let store_order = matches!(order, Order::Store(_)) && settings.persistent;
        if from > to && !store_order {
            let hits = above.into_iter().filter_map(|(key, time, minor, value)| {
                Some((key, Hit { time, minor, value: value? }))
            });
            return Ok(in_order(settings.layout, order, hits.collect()));
        }
        let mut overlay: Vec<Write> = above
            .into_iter()
            .map(|(key, time, minor, value)| {
                (settings.engine_key(&RowKey { key: &key, time, minor }), value)
            })
            .collect();
        overlay.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        let direction = match order {
            Order::Store(direction) => direction,
            Order::Time => Direction::Forward,
        };
        if direction == Direction::Reverse {
            overlay.reverse();
        }
        let below = self.below_in(keys, TimeSpan { from, to, ..span }, direction)?;
        let entries = Overlaid::new(below, overlay, direction).map(move |entry| {
            let (bytes, value) = entry?;
            let row = settings.layout.split_engine_key(&bytes).ok_or_else(damaged)?;
            Ok((ByteView::from(row.key), Hit { time: row.time, minor: row.minor, value }))
        });
        if store_order {
            return Ok(Box::new(entries));
        }
        Ok(in_order(settings.layout, order, entries.collect::<Result<_>>()?))
    }

    /// The committed rows of a range of keys that need not be in memory, by segment and key.
    fn below_in(
        &self,
        keys: &KeyRange,
        span: TimeSpan,
        direction: Direction,
    ) -> Result<EngineEntries> {
        if span.from > span.to {
            return Ok(Box::new(std::iter::empty()));
        }
        let (settings, keys) = (self.settings, keys.clone());
        let segment = |segment: i64| ByteView::from(&segment.to_be_bytes()[..]);
        let first = Bound::Included(segment(settings.segment(span.from)));
        let end = Bound::Excluded(segment(settings.segment(span.to).saturating_add(1)));
        let entries = self.engine.range(&(first, end), direction)?;
        Ok(Box::new(entries.filter(move |entry| {
            let Ok((bytes, _)) = entry else { return true };
            settings.layout.split_engine_key(bytes).is_none_or(|row| {
                (span.from..=span.to).contains(&row.time)
                    && row.minor <= span.minor_to
                    && contains(&keys, row.key)
            })
        })))
    }

    /// Tells the budget what is held now. A store in memory cannot give anything back, so it is not asked to.
    fn account(&mut self) {
        if !self.settings.persistent {
            return;
        }
        let bytes = self.recent.bytes();
        if bytes >= self.taken {
            self.budget.read_cache.take(bytes - self.taken);
        } else {
            self.budget.read_cache.give(self.taken - bytes);
        }
        self.taken = bytes;
    }

    /// Makes room after a commit: the oldest rows go first.
    fn evict(&mut self) {
        while self.settings.persistent && self.budget.read_cache.is_exceeded() {
            let Some(end) = self.recent.evict() else { return };
            self.complete_from = self.complete_from.max(end);
            self.account();
        }
    }
}

impl StoreLayers for WindowLayers {
    fn is_cache_full(&mut self) -> bool {
        self.cache.as_mut().is_some_and(RecordCache::is_full)
    }

    fn has_cached_changes(&self) -> bool {
        self.cache.as_ref().is_some_and(RecordCache::has_changes)
    }

    fn flush_cache(&mut self) -> Result<Vec<Flushed>> {
        let Some(cache) = &mut self.cache else { return Ok(Vec::new()) };
        let changes = cache.take_changes_and_entries();
        let mut flushed = Vec::with_capacity(changes.len());
        for change in changes {
            let row = self.settings.layout.split(&change.key).ok_or_else(damaged)?;
            let live = row.time >= self.live_from();
            let old = change.under.filter(|_| live);
            if self.listener.is_some() && change.value.is_none() && old.is_none() {
                self.forget(&row);
                continue;
            }
            let timestamp = change.record.timestamp;
            self.write(&row, change.value.clone(), timestamp, Headers::new());
            flushed.push(Flushed {
                new: change.value,
                old: old.filter(|_| self.sends_old_values),
                record: change.record,
                headers: change.headers,
                key: change.key,
            });
        }
        self.account();
        Ok(flushed)
    }

    fn listener(&self) -> Option<FlushListener> {
        self.listener.clone()
    }

    fn take_expired(&mut self) -> u64 {
        std::mem::take(&mut self.expired)
    }

    fn drain_changelog(&mut self, append: &mut dyn FnMut(LogRecord) -> Result<()>) -> Result<()> {
        self.changelog.as_mut().map_or(Ok(()), |changelog| changelog.drain(append))
    }

    fn uncommitted_bytes(&self) -> usize {
        let pending = self.changelog.as_ref().map_or(0, Changelog::pending_bytes);
        self.recent.uncommitted_bytes() + pending
    }

    fn take_writes(&mut self) -> StoreWrites {
        let settings = self.settings;
        let kept_from = settings.kept_from(self.clock.observed);
        self.recent.drop_before(kept_from);
        let (mut writes, complete_from) = (Vec::new(), self.complete_from);
        self.recent.take_uncommitted(|key, row, stored| {
            let (time, minor) = (row.time, row.minor);
            // What was written and deleted again since the last commit need not be told.
            if row.value().is_some() || stored || time < complete_from {
                let key = settings.engine_key(&RowKey { key, time, minor });
                writes.push((key, row.value().cloned()));
            }
        });
        let mut order: Vec<u32> = (0..writes.len() as u32).collect();
        sort_by_key(&mut order, |place| &writes[place as usize].0);
        let writes = order.into_iter().map(|place| std::mem::take(&mut writes[place as usize]));
        let writes = writes.collect();
        let segment = settings.segment(kept_from.max(0));
        let expired = (segment > self.dropped_before).then(|| {
            self.dropped_before = segment;
            ByteView::from(&segment.to_be_bytes()[..])
        });
        self.account();
        self.evict();
        StoreWrites { writes, expired, clock: Some(self.clock) }
    }
}

impl Drop for WindowLayers {
    fn drop(&mut self) {
        self.budget.read_cache.give(self.taken);
    }
}

fn damaged() -> Error {
    Error::state("a window store has a key that is too short: delete its directory")
}

fn contains(keys: &KeyRange, key: &[u8]) -> bool {
    let (from, to) = (keys.0.as_ref().map(|b| &b[..]), keys.1.as_ref().map(|b| &b[..]));
    RangeBounds::<[u8]>::contains(&(from, to), key)
}

/// Rows that are all in memory, in the order of time.
fn in_order(layout: KeyLayout, order: Order, mut hits: Vec<(ByteView, Hit)>) -> KeyedHits {
    use std::cmp::Reverse;
    match (layout, order) {
        (KeyLayout::Window, _) => {
            hits.sort_unstable_by(|(a, x), (b, y)| (x.time, a, x.minor).cmp(&(y.time, b, y.minor)));
        }
        (KeyLayout::Session, Order::Time) => {
            hits.sort_unstable_by(|(a, x), (b, y)| (x.time, x.minor, a).cmp(&(y.time, y.minor, b)));
        }
        // In memory, Java gives sessions with one end from the latest start to the first.
        (KeyLayout::Session, Order::Store(_)) => {
            hits.sort_unstable_by(|(a, x), (b, y)| {
                (x.time, a, Reverse(x.minor)).cmp(&(y.time, b, Reverse(y.minor)))
            });
        }
    }
    if order == Order::Store(Direction::Reverse) {
        hits.reverse();
    }
    Box::new(hits.into_iter().map(Ok))
}

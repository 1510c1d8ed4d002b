//! The layers of a window or session store, put together: rows go by time, too late ones are dropped, expired ones go away.
//!
//! With `dead = highest time put - retention`: a read shows times from `dead` on; a write is taken from `dead` on in memory, and on disk
//! from the beginning of the segment that `dead` is in. So a row is there as long as a record that is not late can reach it. In
//! Java 4.4 `dead` itself is not shown any more (P05, P28), but what is in the record cache is, however old.

mod reads;
mod settings;

pub(in crate::state) use self::reads::Order;
pub(crate) use self::reads::{Hit, KeyedHits, TimeSpan};
pub(crate) use self::settings::{StoreClock, WindowSettings};

use super::budget::{Budget, StoreBudget};
use super::changelog::{Changelog, LogMode, LogRecord};
use super::recent::{Put, Recent};
use super::record_cache::{Flushed, RecordCache};
use super::{FlushListener, StoreLayers, StoreUsage, StoreWrites};
use crate::config::Compatibility;
use crate::error::{Error, Result};
use crate::processor::{RecordContext, TaskContext};
use crate::record::Headers;
use crate::state::engine::{Direction, Engine};
use crate::state::key_order::sort_by_key;
use crate::state::layout::windowed_key::{KeyLayout, RowKey};
use crate::state::spec::StoreSpec;
use byteview::ByteView;
use std::ops::Bound;

/// A store with more rows than this is not read when it is opened.
const WARM_UP_ROWS: usize = 50_000;

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
    /// The next time up to which rows are forgotten before a commit.
    forgotten_to: i64,
    expired: u64,
    usage: StoreUsage,
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
            forgotten_to: 0,
            expired: 0,
            usage: StoreUsage::default(),
            scratch: Vec::new(),
            listener: None,
            sends_old_values: false,
        };
        if !settings.persistent {
            layers.read_all()?;
        } else if !layers.engine.is_empty()? {
            layers.complete_from = clock.observed.saturating_add(1);
            layers.warm_up()?;
        }
        Ok(layers)
    }

    /// What a commit left, for reads only: nothing is in memory.
    pub(crate) fn committed(
        settings: WindowSettings,
        engine: Box<dyn Engine>,
        clock: StoreClock,
    ) -> Self {
        let nothing = || Budget::new(0);
        WindowLayers {
            settings,
            clock,
            cache: None,
            changelog: None,
            recent: Recent::new(settings.chunk),
            // No committed row is later.
            complete_from: clock.observed.saturating_add(1),
            engine,
            budget: StoreBudget { record_cache: nothing(), read_cache: nothing() },
            taken: 0,
            dropped_before: 0,
            forgotten_to: 0,
            expired: 0,
            usage: StoreUsage::default(),
            scratch: Vec::new(),
            listener: None,
            sends_old_values: false,
        }
    }

    /// Reads what the store still shows, if it is little: the first look-ups are about that.
    fn warm_up(&mut self) -> Result<()> {
        let (settings, live_from) = (self.settings, self.live_from().max(0));
        let first = settings.segment(live_from).to_be_bytes();
        let range = (Bound::Included(ByteView::from(&first[..])), Bound::Unbounded);
        for (count, entry) in self.engine.range(&range, Direction::Forward)?.enumerate() {
            let (key, value) = entry?;
            let row = settings.layout.split_engine_key(&key).ok_or_else(damaged)?;
            if row.time >= live_from {
                self.recent.put(&row, Some(value), Put::Read);
            }
            self.account();
            if count >= WARM_UP_ROWS || self.budget.read_cache.is_exceeded() {
                self.recent = Recent::new(settings.chunk);
                self.account();
                return Ok(());
            }
        }
        self.complete_from = live_from;
        Ok(())
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
    pub(crate) fn is_cached(&self) -> bool {
        self.cache.is_some()
    }

    pub(crate) fn has_duplicates(&self) -> bool {
        self.settings.duplicates
    }

    pub(in crate::state) fn layout(&self) -> KeyLayout {
        self.settings.layout
    }

    fn live_from(&self) -> i64 {
        self.settings.live_from(self.clock.observed)
    }

    /// Writes or deletes.
    pub(crate) fn put(
        &mut self,
        row: &RowKey,
        value: Option<ByteView>,
        task: &TaskContext,
        write: WindowWrite,
    ) -> Result<()> {
        self.usage.writes += 1;
        if self.cache.is_some() {
            return self.keep_back(row, value, task, write);
        }
        self.write(row, value, write.timestamp, write.logged_headers());
        Ok(())
    }

    /// Leaves a change to the record cache. What can be seen must not depend on when the cache is flushed, so the time goes on here
    /// already; in Java 4.4 it goes on with the flush.
    fn keep_back(
        &mut self,
        row: &RowKey,
        value: Option<ByteView>,
        task: &TaskContext,
        write: WindowWrite,
    ) -> Result<()> {
        if self.is_counted_before() {
            self.clock.observed = self.clock.observed.max(row.time);
            self.expired += u64::from(row.time < self.settings.kept_from(self.clock.observed));
        }
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
            let stays = self.shows_cached();
            self.recent.put(row, value, Put::Cache { stays });
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
        if row.time > self.clock.observed {
            self.clock.observed = row.time;
            self.forget_old();
        }
        if row.time >= self.needed_from() {
            self.recent.put(&row, value, Put::Write);
        } else {
            let is_late = row.time < self.settings.kept_from(self.clock.observed);
            self.expired += u64::from(is_late && !self.is_counted_before());
            self.recent.forget(&row);
        }
        self.account();
    }

    /// Whether a change was looked at when the cache took it: by the flush it may be late although it was not.
    fn is_counted_before(&self) -> bool {
        self.cache.is_some() && self.settings.compatibility == Compatibility::Correct
    }

    /// The first time whose rows can be asked for. In Java 4.4 that is what lies in a record cache too, however old.
    fn needed_from(&self) -> i64 {
        match self.shows_cached() {
            true => self.settings.kept_from(self.clock.observed),
            false => self.settings.needed_from(self.clock.observed),
        }
    }

    fn shows_cached(&self) -> bool {
        self.cache.is_some() && self.settings.compatibility == Compatibility::Java44
    }

    /// What nobody can ask for any more need not wait for the commit. Changes that a record cache keeps back do.
    fn forget_old(&mut self) {
        let needed_from = self.needed_from();
        if self.cache.is_none() && needed_from >= self.forgotten_to {
            self.recent.drop_before(needed_from);
            self.forgotten_to = needed_from.saturating_add(self.settings.chunk);
        }
    }

    /// Deletes the row of a session. Other than a write of nothing it is never too late.
    pub(crate) fn remove(
        &mut self,
        row: &RowKey,
        task: &TaskContext,
        write: WindowWrite,
    ) -> Result<()> {
        self.usage.writes += 1;
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
        if row.time >= self.needed_from() {
            self.recent.put(row, None, Put::Write);
            self.account();
        }
        Ok(())
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
            let live = self.is_counted_before() || row.time >= self.live_from();
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

    fn usage(&self) -> StoreUsage {
        StoreUsage { entries: self.engine.approximate_len(), ..self.usage }
    }

    fn uncommitted_bytes(&self) -> usize {
        let pending = self.changelog.as_ref().map_or(0, Changelog::pending_bytes);
        self.recent.uncommitted_bytes() + pending
    }

    fn take_writes(&mut self) -> StoreWrites {
        let settings = self.settings;
        let observed = self.clock.observed;
        let needed_from = self.needed_from();
        self.recent.drop_before(needed_from);
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
        if settings.persistent {
            // What is not shown any more is not looked for: its rows need not be in memory.
            let shown_from = if self.shows_cached() { needed_from } else { self.live_from() };
            let first = self.recent.drop_before(shown_from);
            self.complete_from = self.complete_from.max(first);
        }
        let segment = settings.segment(settings.kept_from(observed).max(0));
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

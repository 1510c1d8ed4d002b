//! The reads of a window or session store: what is in memory over what only the engine has.

use super::{WindowLayers, damaged};
use crate::error::Result;
use crate::state::engine::{Direction, EngineEntries, KeyRange, Write};
use crate::state::layers::key_value::Overlaid;
use crate::state::layers::recent::{Put, Row};
use crate::state::layout::windowed_key::{KeyLayout, RowKey};
use byteview::ByteView;
use std::cmp::Reverse;
use std::ops::{Bound, RangeBounds};

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
pub(crate) type KeyedHits = Box<dyn Iterator<Item = Result<(ByteView, Hit)>> + Send>;

/// In which order rows of several keys come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::state) enum Order {
    /// As Java's store of that kind gives them: on disk by segment and key, in memory by time and key.
    Store(Direction),
    /// By time, then by key, whatever the store is; a session by end and start, then by key.
    Time,
}

impl WindowLayers {
    /// The value of a row.
    pub(crate) fn get(&mut self, row: &RowKey) -> Result<Option<ByteView>> {
        self.usage.reads += 1;
        let (live, shows_cached) = (row.time >= self.live_from(), self.shows_cached());
        if let Some(found) = self.recent.get(row) {
            return Ok(found
                .value()
                .filter(|_| live || (shows_cached && found.is_cached()))
                .cloned());
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

    /// The rows of one key in the order of time and minor: a snapshot.
    pub(crate) fn of_key(&mut self, key: &[u8], span: TimeSpan) -> Result<Vec<Hit>> {
        self.usage.reads += 1;
        let (live, shows_cached) = (self.live_from(), self.shows_cached());
        let mut hits = Vec::new();
        let from = span.from.max(live);
        if from.max(0) < self.complete_from && from <= span.to {
            self.below(key, TimeSpan { from, ..span }, &mut hits)?;
        }
        let (committed, complete_from) = (hits.len(), self.complete_from);
        let mut overlaps = false;
        self.recent.of_key(key, span.from, span.to, |row| {
            if row.minor > span.minor_to || (row.time < live && !(shows_cached && row.is_cached()))
            {
                return;
            }
            overlaps |= row.time < complete_from;
            if let Some(value) = row.value() {
                hits.push(Hit { time: row.time, minor: row.minor, value: value.clone() });
            }
        });
        if committed > 0 && overlaps {
            self.override_committed(key, &mut hits, committed);
        }
        if self.settings.layout == KeyLayout::Session && !self.settings.persistent {
            // In memory, Java gives sessions with one end from the latest start to the first.
            hits.sort_by_key(|hit| (hit.time, Reverse(hit.minor)));
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
        self.usage.reads += 1;
        let settings = self.settings;
        let live = match all_kept {
            true => settings.kept_from(self.clock.observed),
            false => self.live_from(),
        };
        let mut above: Vec<(ByteView, i64, i64, Option<ByteView>)> = Vec::new();
        let (complete_from, shows_cached) = (self.complete_from, self.shows_cached());
        self.recent.in_span(span.from, span.to, |key, row: &Row| {
            let is_live = row.time >= live || (shows_cached && row.is_cached());
            let shown = is_live && row.minor <= span.minor_to;
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
}

fn contains(keys: &KeyRange, key: &[u8]) -> bool {
    let (from, to) = (keys.0.as_ref().map(|b| &b[..]), keys.1.as_ref().map(|b| &b[..]));
    RangeBounds::<[u8]>::contains(&(from, to), key)
}

/// Rows that are all in memory, in the order of time.
fn in_order(layout: KeyLayout, order: Order, mut hits: Vec<(ByteView, Hit)>) -> KeyedHits {
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

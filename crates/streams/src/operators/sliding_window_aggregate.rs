//! Aggregates a stream by key and sliding window.
//!
//! A window is a span of `difference` milliseconds, both ends included, that begins `difference` before a record (the record's left
//! window) or just after one (its right window), and is kept only where its content differs from its neighbours'. So a record
//! updates all windows it falls into, and may create up to three: its own left one, the right one of the record before it, and its
//! own right one, which holds what follows it. Before the first `difference` milliseconds are over, one window from 0 takes the place of
//! all left ones.
//!
//! Null keys and null values are dropped, and so is a record whose right window has closed.

use super::emit_on_close::CloseEmitter;
use super::window_aggregate::Forwarding;
use super::{Aggregation, Change, Grouping};
use crate::processor::TaskContext;
use crate::record::{Headers, Record};
use crate::serde::SerdeRef;
use crate::state::{StoreToken, TimestampedWindowStore};
use crate::topology::erased::{Fault, NodeFactory, Port, Receive, node_factory};
use crate::windowed::{TimeWindowed, Window};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

/// The windows' size and grace in milliseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SlidingRule {
    pub(crate) difference: i64,
    pub(crate) grace: i64,
    /// Whether only final results are emitted.
    pub(crate) on_close: bool,
}

struct SlidingWindowAggregate<K, V, A, F> {
    name: Arc<str>,
    grouping: Grouping<K, V>,
    rule: SlidingRule,
    aggregation: Arc<F>,
    result: SerdeRef<A>,
    store: TimestampedWindowStore<K, A>,
    task: Rc<TaskContext>,
    stream_time: Rc<Cell<i64>>,
    emitter: Option<CloseEmitter>,
    forwarding: Forwarding<K, A>,
}

/// A stored aggregate with the time of the latest record in it.
type Stored<A> = (A, i64);

/// What is known of the windows around a record.
struct Around<A> {
    /// The starts of the windows that were met.
    starts: Vec<i64>,
    /// The aggregate of the latest window that ends before the record.
    before: Option<Stored<A>>,
    /// The aggregate that holds what follows the record.
    after: Option<Stored<A>>,
    has_left: bool,
    has_right: bool,
    /// The time of the record before this one.
    previous: Option<i64>,
}

impl<A> Around<A> {
    fn nothing() -> Self {
        Around {
            starts: Vec::new(),
            before: None,
            after: None,
            has_left: false,
            has_right: false,
            previous: None,
        }
    }
}

impl<K, V, A, F> Receive<K, V> for SlidingWindowAggregate<K, V, A, F>
where
    K: Clone + 'static,
    V: Clone + 'static,
    A: Clone + 'static,
    F: Aggregation<K, V, A>,
{
    fn receive(&self, record: Record<K, V>) -> Result<(), Fault> {
        if self.grouping.key.is_null(&record.key) || self.grouping.value.is_null(&record.value) {
            self.task.drop_record(&self.name, "its key or value is null");
            return Ok(());
        }
        let Some(end) = record.timestamp.checked_add(self.rule.difference + 1) else {
            self.task.drop_record(&self.name, "its window would end after the end of time");
            return Ok(());
        };
        self.stream_time.set(self.stream_time.get().max(record.timestamp));
        let close_time = self.stream_time.get().saturating_sub(self.rule.grace);
        if let Some(emitter) = self.emitter.as_ref().filter(|emitter| emitter.comes_first()) {
            self.emit_closed(emitter, close_time, &record.headers)?;
        }
        if end - 1 < close_time {
            self.drop_late(&record, Window::new(record.timestamp, end - 1));
            return Ok(());
        }
        if record.timestamp < self.rule.difference {
            return self.process_early(&record, close_time);
        }
        self.process(&record, close_time)?;
        match self.emitter.as_ref().filter(|emitter| !emitter.comes_first()) {
            Some(emitter) => self.emit_closed(emitter, close_time, &record.headers),
            None => Ok(()),
        }
    }
}

impl<K, V, A, F> SlidingWindowAggregate<K, V, A, F>
where
    K: Clone + 'static,
    V: Clone + 'static,
    A: Clone + 'static,
    F: Aggregation<K, V, A>,
{
    /// The usual way: looks at the windows around the record from the latest to the earliest.
    fn process(&self, record: &Record<K, V>, close_time: i64) -> Result<(), Fault> {
        let (time, difference) = (record.timestamp, self.rule.difference);
        let mut around = Around::nothing();
        let from = time.saturating_sub(difference.saturating_mul(2)).max(0);
        let windows = self.store.backward_fetch_range(&record.key, from..=time + 1);
        for window in windows.map_err(|error| Fault::at(&self.name, error))? {
            let (start, stored) = window.map_err(|error| Fault::at(&self.name, error))?;
            let (end, latest) = (start + difference, stored.1);
            around.starts.push(start);
            if start == time + 1 {
                around.has_right = true;
            } else if end > time {
                around.after.get_or_insert_with(|| stored.clone());
                self.update(record, Window::new(start, end), Some(stored), close_time)?;
            } else if end == time {
                around.has_left = true;
                self.update(record, Window::new(start, end), Some(stored), close_time)?;
                if latest >= time {
                    // A record of the same time has made all windows already.
                    return Ok(());
                }
                around.previous = Some(latest);
            } else {
                around.before = Some(stored);
                around.previous = Some(latest);
                break;
            }
        }
        self.create(record, around, close_time)
    }

    /// Makes the windows that are missing.
    fn create(
        &self,
        record: &Record<K, V>,
        around: Around<A>,
        close_time: i64,
    ) -> Result<(), Fault> {
        let (time, difference) = (record.timestamp, self.rule.difference);
        if let Some(previous) = around.previous
            && !around.starts.contains(&(previous + 1))
            && previous + 1 + difference >= time
        {
            let window = Window::new(previous + 1, previous + 1 + difference);
            self.update(record, window, None, close_time)?;
        }
        if !around.has_left {
            let reaches_back =
                around.previous.is_some_and(|previous| time - difference <= previous);
            let base = around.before.filter(|_| reaches_back).map(|(value, _)| (value, time));
            self.update(record, Window::new(time - difference, time), base, close_time)?;
        }
        match around.after {
            Some(after) if !around.has_right => self.create_right(record, after),
            _ => Ok(()),
        }
    }

    /// The way of the first `difference` milliseconds, where one window from 0 holds everything.
    fn process_early(&self, record: &Record<K, V>, close_time: i64) -> Result<(), Fault> {
        let (time, difference) = (record.timestamp, self.rule.difference);
        let mut around = Around::nothing();
        let mut combined = None;
        let windows = self.store.fetch_range(&record.key, 0..=time + 1);
        for window in windows.map_err(|error| Fault::at(&self.name, error))? {
            let (start, stored) = window.map_err(|error| Fault::at(&self.name, error))?;
            around.starts.push(start);
            if start == 0 {
                around.previous = Some(stored.1).filter(|latest| *latest < time);
                combined = Some(stored);
            } else if start <= time {
                around.after = Some(stored.clone());
                let window = Window::new(start, start + difference);
                self.update(record, window, Some(stored), close_time)?;
            } else {
                around.has_right = true;
            }
        }
        // What the window from 0 holds then all follows the record: an earlier one would have a right window.
        let after = around.after.or_else(|| combined.clone());
        if let Some(after) = after.filter(|_| !around.has_right) {
            self.create_right(record, after)?;
        }
        if let Some(previous) = around.previous
            && !around.starts.contains(&(previous + 1))
        {
            let window = Window::new(previous + 1, previous + 1 + difference);
            self.update(record, window, None, close_time)?;
        }
        self.update(record, Window::new(0, difference), combined, close_time)
    }

    /// The window that begins just after the record, if something follows the record.
    fn create_right(&self, record: &Record<K, V>, after: Stored<A>) -> Result<(), Fault> {
        let (value, latest) = after;
        if latest <= record.timestamp {
            return Ok(());
        }
        let start = record.timestamp + 1;
        let window = Window::new(start, start + self.rule.difference);
        self.write(record, window, Some(value), None, latest)
    }

    /// Adds the record to the aggregate of a window.
    fn update(
        &self,
        record: &Record<K, V>,
        window: Window,
        stored: Option<Stored<A>>,
        close_time: i64,
    ) -> Result<(), Fault> {
        if window.end < close_time {
            self.drop_late(record, window);
            return Ok(());
        }
        let (stored, stored_time) = stored.unzip();
        let old = stored.clone().filter(|_| self.forwarding.sends_old_values);
        let step = self.aggregation.step(&record.key, record.value.clone(), stored);
        let new = step.map_err(|error| Fault::at(&self.name, error))?.into_value(&self.result);
        let timestamp = stored_time.map_or(record.timestamp, |time| time.max(record.timestamp));
        self.write(record, window, new, old, timestamp)
    }

    fn write(
        &self,
        record: &Record<K, V>,
        window: Window,
        new: Option<A>,
        old: Option<A>,
        timestamp: i64,
    ) -> Result<(), Fault> {
        let Record { key, headers, .. } = record;
        let put = self.store.put_at(key, new.as_ref(), window.start, timestamp, headers);
        put.map_err(|error| Fault::at(&self.name, error))?;
        if self.forwarding.is_done_elsewhere || self.emitter.is_some() {
            return Ok(());
        }
        let key = TimeWindowed { key: record.key.clone(), window };
        let (value, headers) = (Change::latest(new, old), record.headers.clone());
        self.forwarding.out.send(Record { key, value, timestamp, headers })
    }

    fn drop_late(&self, record: &Record<K, V>, Window { start, end }: Window) {
        let (time, stream_time, grace) =
            (record.timestamp, self.stream_time.get(), self.rule.grace);
        let reason = format_args!(
            "its time {time} is late for window [{start},{end}]: stream time {stream_time}, grace {grace}"
        );
        self.task.drop_record(&self.name, reason);
    }

    /// Forwards the windows that closed since the last time, the earliest first.
    fn emit_closed(
        &self,
        emitter: &CloseEmitter,
        close_time: i64,
        headers: &Headers,
    ) -> Result<(), Fault> {
        let Some(last) = emitter.due(close_time) else { return Ok(()) };
        let difference = self.rule.difference;
        let to = close_time.saturating_sub(difference).saturating_sub(1);
        if to < 0 {
            return Ok(());
        }
        let from = if last < 0 { 0 } else { last.saturating_sub(difference).max(0) };
        let failed = |error| Fault::at(&self.name, error);
        for closed in self.store.fetch_all_by_time(from..=to).map_err(failed)? {
            let (key, (value, timestamp)) = closed.map_err(failed)?;
            let value = Change::latest(Some(value), None);
            self.forwarding.out.send(Record { key, value, timestamp, headers: headers.clone() })?;
        }
        emitter.emitted(close_time);
        Ok(())
    }
}

/// A sliding-window aggregation into the store of `token`.
pub(crate) fn sliding_window_aggregate<K, V, A, F>(
    grouping: Grouping<K, V>,
    rule: SlidingRule,
    aggregation: F,
    token: StoreToken<TimestampedWindowStore<K, A>>,
) -> NodeFactory
where
    K: Clone + 'static,
    V: Clone + 'static,
    A: Clone + 'static,
    F: Aggregation<K, V, A>,
{
    let aggregation = Arc::new(aggregation);
    node_factory(move |wiring| {
        let (name, task) = (wiring.name().clone(), wiring.task().clone());
        let store = wiring.init_context().store(&token)?;
        let forwarding = Forwarding::new(
            wiring.output()?,
            &store,
            &name,
            wiring.sends_old_values(),
            rule.on_close,
        );
        Ok(Rc::new(SlidingWindowAggregate {
            stream_time: task.observed_time(token.name(), &name),
            emitter: rule.on_close.then(|| CloseEmitter::new(&task, token.name())),
            name,
            grouping: grouping.clone(),
            rule,
            aggregation: aggregation.clone(),
            result: token.serdes.value.clone(),
            store,
            task,
            forwarding,
        }) as Port<K, V>)
    })
}

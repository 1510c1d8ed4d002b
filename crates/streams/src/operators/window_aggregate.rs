//! Aggregates a stream by key and window: tumbling, hopping, unlimited windows and a user's own.
//!
//! Null keys are dropped; null values are not. A record is late for a window whose end plus grace stream time has reached; it is
//! dropped for that window only. Stream time is the highest time that this operator has seen, over all keys.

use super::emit_on_close::CloseEmitter;
use super::{Aggregation, Change, Grouping};
use crate::processor::TaskContext;
use crate::record::{Headers, Record};
use crate::serde::SerdeRef;
use crate::state::{StoreToken, TableChange, TimestampedWindowStore};
use crate::topology::erased::{Fault, NodeFactory, Output, Port, Receive, node_factory};
use crate::windowed::{TimeWindowed, Window};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

/// Appends the windows that a record of that time is in.
pub(crate) type WindowsFor = Arc<dyn Fn(i64, &mut Vec<Window>) + Send + Sync>;

/// Which windows there are.
#[derive(Clone)]
pub(crate) struct WindowRule {
    pub(crate) windows_for: WindowsFor,
    /// In milliseconds, as the grace.
    pub(crate) size: i64,
    pub(crate) grace: i64,
    /// Whether only final results are emitted.
    pub(crate) on_close: bool,
}

struct WindowAggregate<K, V, A, F> {
    name: Arc<str>,
    grouping: Grouping<K, V>,
    rule: WindowRule,
    aggregation: Arc<F>,
    result: SerdeRef<A>,
    store: TimestampedWindowStore<K, A>,
    task: Rc<TaskContext>,
    stream_time: Rc<Cell<i64>>,
    emitter: Option<CloseEmitter>,
    forwarding: Forwarding<K, A>,
    /// The windows of the record in hand, and those of another time.
    scratch: RefCell<(Vec<Window>, Vec<Window>)>,
}

impl<K, V, A, F> Receive<K, V> for WindowAggregate<K, V, A, F>
where
    K: Clone + 'static,
    V: Clone + 'static,
    A: Clone + 'static,
    F: Aggregation<K, V, A>,
{
    fn receive(&self, record: Record<K, V>) -> Result<(), Fault> {
        if self.grouping.key.is_null(&record.key) {
            self.task.drop_record(&self.name, "its key is null");
            return Ok(());
        }
        let Record { timestamp, .. } = record;
        self.stream_time.set(self.stream_time.get().max(timestamp));
        let close_time = self.stream_time.get().saturating_sub(self.rule.grace);
        let emitter = self.emitter.as_ref();
        let first = emitter.filter(|emitter| emitter.comes_first());
        if let Some(emitter) = first {
            self.emit_closed(emitter, close_time, &record.headers)?;
        }
        let last = emitter.filter(|emitter| !emitter.comes_first());
        let headers = last.map(|_| record.headers.clone());
        self.aggregate(record, close_time)?;
        match (last, headers) {
            (Some(emitter), Some(headers)) => self.emit_closed(emitter, close_time, &headers),
            _ => Ok(()),
        }
    }
}

impl<K, V, A, F> WindowAggregate<K, V, A, F>
where
    K: Clone + 'static,
    V: Clone + 'static,
    A: Clone + 'static,
    F: Aggregation<K, V, A>,
{
    fn aggregate(&self, record: Record<K, V>, close_time: i64) -> Result<(), Fault> {
        let timestamp = record.timestamp;
        let windows = &mut self.scratch.borrow_mut().0;
        windows.clear();
        (self.rule.windows_for)(timestamp, windows);
        if windows.is_empty() && timestamp.checked_add(self.rule.size).is_none() {
            self.task.drop_record(&self.name, "its window would end after the end of time");
        }
        windows.retain(|window| {
            let is_open = window.end > close_time;
            if !is_open {
                self.drop_late(timestamp, *window);
            }
            is_open
        });
        let Some((last, others)) = windows.split_last() else { return Ok(()) };
        for window in others {
            self.update(record.clone(), *window)?;
        }
        self.update(record, *last)
    }

    fn drop_late(&self, timestamp: i64, Window { start, end }: Window) {
        let (stream_time, grace) = (self.stream_time.get(), self.rule.grace);
        let reason = format_args!(
            "its time {timestamp} is late for window [{start},{end}): stream time {stream_time}, grace {grace}"
        );
        self.task.drop_record(&self.name, reason);
    }

    fn update(&self, record: Record<K, V>, window: Window) -> Result<(), Fault> {
        let Record { key, value, timestamp, headers } = record;
        let failed = |error| Fault::at(&self.name, error);
        let stored = self.store.fetch(&key, window.start);
        let (stored, stored_time) = stored.map_err(|error| Fault::at(&self.name, error))?.unzip();
        let old = stored.clone().filter(|_| self.forwarding.sends_old_values);
        let step = self.aggregation.step(&key, value, stored).map_err(failed)?;
        let timestamp = stored_time.map_or(timestamp, |time| time.max(timestamp));
        let new = step.into_value(&self.result);
        let put = self.store.put_at(&key, new.as_ref(), window.start, timestamp, &headers);
        put.map_err(|error| Fault::at(&self.name, error))?;
        if self.forwarding.is_done_elsewhere || self.emitter.is_some() {
            return Ok(());
        }
        let (key, value) = (TimeWindowed { key, window }, Change::latest(new, old));
        self.forwarding.out.send(Record { key, value, timestamp, headers })
    }

    /// Forwards the windows that closed since the last time, the earliest first.
    fn emit_closed(
        &self,
        emitter: &CloseEmitter,
        close_time: i64,
        headers: &Headers,
    ) -> Result<(), Fault> {
        let Some(last) = emitter.due(close_time) else { return Ok(()) };
        let to = close_time.saturating_sub(self.rule.size);
        if to < 0 {
            return Ok(());
        }
        let from = if last < 0 { 0 } else { last.saturating_sub(self.rule.size).max(0) + 1 };
        if last >= 0 && !self.has_closed_between(from - 1, to) {
            return Ok(());
        }
        let failed = |error| Fault::at(&self.name, error);
        for closed in self.store.fetch_all_by_time(from..=to).map_err(failed)? {
            let (key, (value, timestamp)) = closed.map_err(failed)?;
            let (value, headers) = (Change::latest(Some(value), None), headers.clone());
            self.forwarding.out.send(Record { key, value, timestamp, headers })?;
        }
        emitter.emitted(close_time);
        Ok(())
    }

    /// Whether the windows that end with the one are others than those that end with the other time.
    fn has_closed_between(&self, from: i64, to: i64) -> bool {
        let (before, after) = &mut *self.scratch.borrow_mut();
        before.clear();
        after.clear();
        (self.rule.windows_for)(from, before);
        (self.rule.windows_for)(to, after);
        before != after
    }
}

/// How the changes of a windowed table reach the nodes below.
pub(super) struct Forwarding<K, A> {
    pub(super) out: Rc<Output<TimeWindowed<K>, Change<A>>>,
    /// The record cache forwards.
    pub(super) is_done_elsewhere: bool,
    pub(super) sends_old_values: bool,
}

impl<K: Clone + 'static, A: Clone + 'static> Forwarding<K, A> {
    /// Ties a store to the output. With `on_close` the operator itself forwards what is final.
    pub(super) fn new(
        out: Output<TimeWindowed<K>, Change<A>>,
        store: &TimestampedWindowStore<K, A>,
        node: &Arc<str>,
        sends_old_values: bool,
        on_close: bool,
    ) -> Self {
        let out = Rc::new(out);
        let children = out.clone();
        let forward = move |change: TableChange<TimeWindowed<K>, A>, headers| {
            let TableChange { key, new, old, timestamp } = change;
            let value = Change::latest(new, old);
            children.send(Record { key, value, timestamp, headers })
        };
        let is_done_elsewhere =
            !on_close && store.forward_changes(forward, node.clone(), sends_old_values);
        Forwarding { out, is_done_elsewhere, sends_old_values }
    }
}

/// A windowed aggregation into the store of `token`.
pub(crate) fn window_aggregate<K, V, A, F>(
    grouping: Grouping<K, V>,
    rule: WindowRule,
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
        Ok(Rc::new(WindowAggregate {
            stream_time: task.observed_time(token.name(), &name),
            emitter: rule.on_close.then(|| CloseEmitter::new(&task, token.name())),
            name,
            grouping: grouping.clone(),
            rule: rule.clone(),
            aggregation: aggregation.clone(),
            result: token.serdes.value.clone(),
            store,
            task,
            forwarding,
            scratch: RefCell::default(),
        }) as Port<K, V>)
    })
}

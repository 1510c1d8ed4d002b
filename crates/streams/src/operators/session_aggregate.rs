//! Aggregates a stream by key and session.
//!
//! A record joins all sessions of its key that are no more than the gap away, in both directions, and makes them one. Each session
//! that goes gets a deletion at its own end, then the new one its result: a session's bounds are part of its key. Results have the
//! time of the session's end. Null keys are dropped; null values are not. A record whose session would have closed is dropped: its
//! end plus gap and grace is before stream time.

use super::emit_on_close::CloseEmitter;
use super::{Aggregation, Change, Grouping, Outcome};
use crate::processor::TaskContext;
use crate::record::{Headers, Record};
use crate::serde::SerdeRef;
use crate::state::{SessionStore, StoreToken, TableChange};
use crate::topology::erased::{Fault, NodeFactory, Output, Port, Receive, node_factory};
use crate::windowed::{SessionWindowed, Window};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

/// When sessions end, in milliseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SessionRule {
    pub(crate) gap: i64,
    pub(crate) grace: i64,
    /// Whether only final results are emitted.
    pub(crate) on_close: bool,
}

/// How the aggregates of two sessions become one: key, the earlier one (`None`: nothing yet), the later one.
pub(crate) type Merger<K, A> = Arc<dyn Fn(&K, Option<A>, A) -> Outcome<A> + Send + Sync>;

struct SessionAggregate<K, V, A, F> {
    name: Arc<str>,
    grouping: Grouping<K, V>,
    rule: SessionRule,
    aggregation: Arc<F>,
    result: SerdeRef<A>,
    merger: Merger<K, A>,
    store: SessionStore<K, A>,
    task: Rc<TaskContext>,
    stream_time: Rc<Cell<i64>>,
    emitter: Option<CloseEmitter>,
    out: Rc<Output<SessionWindowed<K>, Change<A>>>,
    /// The record cache forwards.
    is_forwarded: bool,
    sends_old_values: bool,
}

impl<K, V, A, F> Receive<K, V> for SessionAggregate<K, V, A, F>
where
    K: Clone + 'static,
    V: 'static,
    A: Clone + 'static,
    F: Aggregation<K, V, A>,
{
    fn receive(&self, record: Record<K, V>) -> Result<(), Fault> {
        if self.grouping.key.is_null(&record.key) {
            self.task.drop_record(&self.name, "its key is null");
            return Ok(());
        }
        self.stream_time.set(self.stream_time.get().max(record.timestamp));
        let close_time =
            self.stream_time.get().saturating_sub(self.rule.grace).saturating_sub(self.rule.gap);
        if let Some(emitter) = self.emitter.as_ref().filter(|emitter| emitter.comes_first()) {
            self.emit_closed(emitter, close_time, &record.headers)?;
        }
        let last = self.emitter.as_ref().filter(|emitter| !emitter.comes_first());
        let headers = last.map(|_| record.headers.clone());
        self.aggregate(record, close_time)?;
        match (last, headers) {
            (Some(emitter), Some(headers)) => self.emit_closed(emitter, close_time, &headers),
            _ => Ok(()),
        }
    }
}

impl<K, V, A, F> SessionAggregate<K, V, A, F>
where
    K: Clone + 'static,
    V: 'static,
    A: Clone + 'static,
    F: Aggregation<K, V, A>,
{
    fn aggregate(&self, record: Record<K, V>, close_time: i64) -> Result<(), Fault> {
        let Record { key, value, timestamp, headers } = record;
        let failed = |error| Fault::at(&self.name, error);
        let (from, to) =
            (timestamp.saturating_sub(self.rule.gap), timestamp.saturating_add(self.rule.gap));
        let own = Window::new(timestamp, timestamp);
        let (mut session, mut merged, mut stored) = (own, Vec::new(), None);
        let found = self.store.find_sessions(&key, from, to);
        for found in found.map_err(|error| Fault::at(&self.name, error))? {
            let (window, value) = found.map_err(|error| Fault::at(&self.name, error))?;
            stored = Some((self.merger)(&key, stored, value.clone()).map_err(failed)?);
            session = Window::new(session.start.min(window.start), session.end.max(window.end));
            merged.push((window, value));
        }
        if session.end < close_time {
            self.drop_late(timestamp, session);
            return Ok(());
        }
        if session != own {
            for (window, old) in merged {
                let removed = self.store.remove_at(&key, window, timestamp, &headers);
                removed.map_err(|error| Fault::at(&self.name, error))?;
                self.forward(&key, window, None, Some(old))?;
            }
        }
        let step = self.aggregation.step(&key, value, stored).map_err(failed)?;
        let new = step.into_value(&self.result);
        let put = self.store.put_at(&key, session, new.as_ref(), timestamp, &headers);
        put.map_err(|error| Fault::at(&self.name, error))?;
        self.forward(&key, session, new, None)
    }

    fn forward(
        &self,
        key: &K,
        window: Window,
        new: Option<A>,
        old: Option<A>,
    ) -> Result<(), Fault> {
        if self.is_forwarded || self.emitter.is_some() {
            return Ok(());
        }
        let value = Change::latest(new, old.filter(|_| self.sends_old_values));
        let (key, timestamp) = (SessionWindowed { key: key.clone(), window }, window.end);
        self.out.send(Record { key, value, timestamp, headers: Headers::new() })
    }

    fn drop_late(&self, timestamp: i64, Window { start, end }: Window) {
        let SessionRule { gap, grace, .. } = self.rule;
        let stream_time = self.stream_time.get();
        let reason = format_args!(
            "its time {timestamp} is late for session [{start},{end}]: stream time {stream_time}, gap {gap}, grace {grace}"
        );
        self.task.drop_record(&self.name, reason);
    }

    /// Forwards the sessions that closed since the last time, the earliest first.
    fn emit_closed(
        &self,
        emitter: &CloseEmitter,
        close_time: i64,
        headers: &Headers,
    ) -> Result<(), Fault> {
        let Some(last) = emitter.due(close_time) else { return Ok(()) };
        let (from, to) = (last.max(0), close_time.saturating_sub(1));
        if to < from {
            return Ok(());
        }
        let failed = |error| Fault::at(&self.name, error);
        for closed in self.store.find_sessions_by_end(from..=to).map_err(failed)? {
            let (key, value) = closed.map_err(failed)?;
            let timestamp = key.window.end;
            let (value, headers) = (Change::latest(Some(value), None), headers.clone());
            self.out.send(Record { key, value, timestamp, headers })?;
        }
        emitter.emitted(close_time);
        Ok(())
    }
}

/// A session aggregation into the store of `token`.
pub(crate) fn session_aggregate<K, V, A, F>(
    grouping: Grouping<K, V>,
    rule: SessionRule,
    aggregation: F,
    merger: Merger<K, A>,
    token: StoreToken<SessionStore<K, A>>,
) -> NodeFactory
where
    K: Clone + 'static,
    V: 'static,
    A: Clone + 'static,
    F: Aggregation<K, V, A>,
{
    let aggregation = Arc::new(aggregation);
    node_factory(move |wiring| {
        let (name, task) = (wiring.name().clone(), wiring.task().clone());
        let store = wiring.init_context().store(&token)?;
        let (out, sends_old_values) = (Rc::new(wiring.output()?), wiring.sends_old_values());
        let children = out.clone();
        let forward = move |change: TableChange<SessionWindowed<K>, A>, headers| {
            let TableChange { key, new, old, .. } = change;
            let timestamp = key.window.end;
            children.send(Record { key, value: Change::latest(new, old), timestamp, headers })
        };
        let is_forwarded =
            !rule.on_close && store.forward_changes(forward, name.clone(), sends_old_values);
        Ok(Rc::new(SessionAggregate {
            stream_time: task.observed_time(token.name(), &name),
            emitter: rule.on_close.then(|| CloseEmitter::new(&task, token.name())),
            name,
            grouping: grouping.clone(),
            rule,
            aggregation: aggregation.clone(),
            result: token.serdes.value.clone(),
            merger: merger.clone(),
            store,
            task,
            out,
            is_forwarded,
            sends_old_values,
        }) as Port<K, V>)
    })
}

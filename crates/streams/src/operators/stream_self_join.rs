//! Joins a stream with itself: one store for both sides, and each record is stored once.
//!
//! A record joins the stored ones as left and as right record, and itself. Its pair with itself comes in its place in time among the
//! results in which it is the right record.

use super::stream_stream_join::{JoinRule, StreamJoiner, Tracker};
use crate::record::Record;
use crate::serde::SerdeRef;
use crate::state::{StoreToken, WindowStore};
use crate::topology::erased::{Fault, NodeFactory, Output, Port, Receive, node_factory};
use std::rc::Rc;
use std::sync::Arc;

struct SelfJoin<K, V, O> {
    name: Arc<str>,
    key: SerdeRef<K>,
    value: SerdeRef<V>,
    tracker: Tracker,
    store: WindowStore<K, V>,
    joiner: StreamJoiner<K, V, V, O>,
    out: Output<K, O>,
}

impl<K, V, O> Receive<K, V> for SelfJoin<K, V, O>
where
    K: Clone + 'static,
    V: Clone + 'static,
    O: Clone + 'static,
{
    fn receive(&self, record: Record<K, V>) -> Result<(), Fault> {
        if self.key.is_null(&record.key) || self.value.is_null(&record.value) {
            self.tracker.task.drop_record(&self.name, "its key or value is null");
            return Ok(());
        }
        self.tracker.advance(record.timestamp);
        let is_open = |is_left| {
            !self.tracker.is_correct() || !self.tracker.is_over(is_left, record.timestamp)
        };
        if is_open(true) {
            self.join(&record, true, false)?;
        }
        if is_open(false) {
            self.join(&record, false, self.joins_itself(record.timestamp))?;
        }
        Ok(())
    }
}

impl<K, V, O> SelfJoin<K, V, O>
where
    K: Clone + 'static,
    V: Clone + 'static,
    O: Clone + 'static,
{
    fn joins_itself(&self, timestamp: i64) -> bool {
        let JoinRule { before, after, grace, .. } = self.tracker.rule;
        if self.tracker.is_correct() {
            return before >= 0 && after >= 0;
        }
        let retention = before.saturating_add(after).saturating_add(grace);
        timestamp > self.tracker.stream_time.get().saturating_sub(retention).saturating_add(1)
    }

    /// Joins the record as a left or as a right one with the stored ones, the earliest first.
    fn join(&self, record: &Record<K, V>, is_left: bool, mut itself: bool) -> Result<(), Fault> {
        let failed = |error| Fault::at(&self.name, error);
        let (behind, ahead) = self.tracker.rule.reach(is_left);
        let time = record.timestamp;
        let (from, to) = (time.saturating_sub(behind).max(0), time.saturating_add(ahead).max(0));
        for partner in self.store.fetch_range(&record.key, from..=to).map_err(failed)? {
            let (partner_time, partner) = partner.map_err(failed)?;
            if itself && partner_time > time {
                itself = false;
                self.forward(record, &record.value, &record.value, time)?;
            }
            let (left, right) =
                if is_left { (&record.value, &partner) } else { (&partner, &record.value) };
            self.forward(record, left, right, time.max(partner_time))?;
        }
        if itself { self.forward(record, &record.value, &record.value, time) } else { Ok(()) }
    }

    fn forward(
        &self,
        record: &Record<K, V>,
        left: &V,
        right: &V,
        timestamp: i64,
    ) -> Result<(), Fault> {
        let value = (self.joiner)(&record.key, Some(left), Some(right));
        let value = value.map_err(|error| Fault::at(&self.name, error))?;
        let (key, headers) = (record.key.clone(), record.headers.clone());
        self.out.send(Record { key, value, timestamp, headers })
    }
}

/// The one join node of a stream with itself; `join` is the name that it shares with the window node.
pub(crate) fn stream_self_join<K, V, O>(
    join: String,
    rule: JoinRule,
    (key, value): (SerdeRef<K>, SerdeRef<V>),
    token: StoreToken<WindowStore<K, V>>,
    joiner: StreamJoiner<K, V, V, O>,
) -> NodeFactory
where
    K: Clone + 'static,
    V: Clone + 'static,
    O: Clone + 'static,
{
    node_factory(move |wiring| {
        Ok(Rc::new(SelfJoin {
            name: wiring.name().clone(),
            key: key.clone(),
            value: value.clone(),
            tracker: Tracker::new(wiring.task(), &join, rule),
            store: wiring.init_context().store(&token)?,
            joiner: joiner.clone(),
            out: wiring.output()?,
        }) as Port<K, V>)
    })
}

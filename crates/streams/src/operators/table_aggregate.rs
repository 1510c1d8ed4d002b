//! Aggregates a grouped table: the old value of each change is taken away, the new one added.
//!
//! The result has the later of the change's and the stored time.

use super::table_store::TableWriter;
use super::{Change, Outcome, TableToken};
use crate::record::Record;
use crate::topology::erased::{Fault, NodeFactory, Port, Receive, node_factory};
use std::rc::Rc;
use std::sync::Arc;

/// The functions of an aggregation; an aggregate of `None` is not in the table.
pub(crate) trait TableAggregation<K, V, A>: Send + Sync + 'static {
    fn subtract(&self, key: &K, aggregate: A, old: V) -> Outcome<Option<A>>;
    fn add(&self, key: &K, aggregate: Option<A>, new: V) -> Outcome<Option<A>>;
}

/// An aggregation of two closures.
pub(crate) struct AddAndSubtract<F, G> {
    pub(crate) adder: F,
    pub(crate) subtractor: G,
}

impl<K, V, A, F, G> TableAggregation<K, V, A> for AddAndSubtract<F, G>
where
    F: Fn(&K, Option<A>, V) -> Outcome<Option<A>> + Send + Sync + 'static,
    G: Fn(&K, A, V) -> Outcome<Option<A>> + Send + Sync + 'static,
{
    fn subtract(&self, key: &K, aggregate: A, old: V) -> Outcome<Option<A>> {
        (self.subtractor)(key, aggregate, old)
    }

    fn add(&self, key: &K, aggregate: Option<A>, new: V) -> Outcome<Option<A>> {
        (self.adder)(key, aggregate, new)
    }
}

struct TableAggregate<K, A, F> {
    name: Arc<str>,
    aggregation: Arc<F>,
    writer: TableWriter<K, A>,
}

impl<K, V, A, F> Receive<K, Change<V>> for TableAggregate<K, A, F>
where
    K: Clone + 'static,
    A: Clone + 'static,
    F: TableAggregation<K, V, A>,
{
    fn receive(&self, record: Record<K, Change<V>>) -> Result<(), Fault> {
        let Record { key, value: Change { new, old, .. }, timestamp, headers } = record;
        let (stored, stored_time) = self.writer.get(&key)?.unzip();
        let before = match self.writer.needs_old_value() {
            true => stored.clone(),
            false => None,
        };
        let failed = |error| Fault::at(&self.name, error);
        let rest = match (stored, old) {
            (Some(stored), Some(old)) => {
                self.aggregation.subtract(&key, stored, old).map_err(failed)?
            }
            (stored, _) => stored,
        };
        let aggregate = match new {
            Some(new) => self.aggregation.add(&key, rest, new).map_err(failed)?,
            None => rest,
        };
        let timestamp = stored_time.map_or(timestamp, |time| time.max(timestamp));
        self.writer.write(Record { key, value: aggregate, timestamp, headers }, before)
    }
}

/// An aggregation into the store of `token`.
pub(crate) fn table_aggregate<K, V, A, F>(aggregation: F, token: TableToken<K, A>) -> NodeFactory
where
    K: Clone + 'static,
    V: 'static,
    A: Clone + 'static,
    F: TableAggregation<K, V, A>,
{
    let aggregation = Arc::new(aggregation);
    node_factory(move |wiring| {
        Ok(Rc::new(TableAggregate {
            name: wiring.name().clone(),
            aggregation: aggregation.clone(),
            writer: TableWriter::open(wiring, &token)?,
        }) as Port<K, Change<V>>)
    })
}

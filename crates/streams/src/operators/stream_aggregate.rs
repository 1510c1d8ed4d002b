//! Aggregates a stream by key into a table: `count`, `reduce` and `aggregate`.
//!
//! Null keys and null values are dropped. The result has the later of the record's and the stored time. With a record cache the
//! store forwards the last change of a key at commit; without one this operator forwards every change at once.

use super::table_store::TableWriter;
use super::{Outcome, TableToken};
use crate::processor::TaskContext;
use crate::record::Record;
use crate::serde::SerdeRef;
use crate::topology::erased::{Fault, NodeFactory, Port, Receive, node_factory};
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;

/// What one step of an aggregation makes of the stored value and a record.
pub(crate) enum Step<A> {
    /// The new value.
    Put(A),
    /// The key goes.
    Delete,
}

impl<A: 'static> Step<A> {
    /// The new value, if there is one: a table has no value that its serde writes as null.
    pub(crate) fn into_value(self, serde: &SerdeRef<A>) -> Option<A> {
        match self {
            Step::Put(new) => Some(new).filter(|new| !serde.is_null(new)),
            Step::Delete => None,
        }
    }
}

/// The function of an aggregation: key, value, stored aggregate.
pub(crate) trait Aggregation<K, V, A>: Send + Sync + 'static {
    fn step(&self, key: &K, value: V, stored: Option<A>) -> Outcome<Step<A>>;
}

impl<K, V, A, F> Aggregation<K, V, A> for F
where
    F: Fn(&K, V, Option<A>) -> Outcome<Step<A>> + Send + Sync + 'static,
{
    fn step(&self, key: &K, value: V, stored: Option<A>) -> Outcome<Step<A>> {
        self(key, value, stored)
    }
}

/// What counts as null in the stream that is aggregated.
pub(crate) struct Grouping<K, V> {
    pub(crate) key: SerdeRef<K>,
    pub(crate) value: SerdeRef<V>,
}

impl<K, V> Clone for Grouping<K, V> {
    fn clone(&self) -> Self {
        Grouping { key: self.key.clone(), value: self.value.clone() }
    }
}

struct StreamAggregate<K, V, A, F> {
    name: Arc<str>,
    grouping: Grouping<K, V>,
    aggregation: Arc<F>,
    task: Rc<TaskContext>,
    writer: TableWriter<K, A>,
    input: PhantomData<fn(V)>,
}

impl<K, V, A, F> Receive<K, V> for StreamAggregate<K, V, A, F>
where
    K: Clone + 'static,
    V: 'static,
    A: Clone + 'static,
    F: Aggregation<K, V, A>,
{
    fn receive(&self, record: Record<K, V>) -> Result<(), Fault> {
        let Record { key, value, timestamp, headers } = record;
        if self.grouping.key.is_null(&key) || self.grouping.value.is_null(&value) {
            self.task.drop_record(&self.name, "its key or value is null");
            return Ok(());
        }
        let failed = |error| Fault::at(&self.name, error);
        let (stored, stored_time) = self.writer.get(&key)?.unzip();
        let old = match self.writer.needs_old_value() {
            true => stored.clone(),
            false => None,
        };
        let step = self.aggregation.step(&key, value, stored).map_err(failed)?;
        let (new, timestamp) = match step {
            Step::Put(new) => {
                (Some(new), stored_time.map_or(timestamp, |time| time.max(timestamp)))
            }
            Step::Delete => (None, timestamp),
        };
        self.writer.write(Record { key, value: new, timestamp, headers }, old)
    }
}

/// An aggregation into the store of `token`.
pub(crate) fn stream_aggregate<K, V, A, F>(
    grouping: Grouping<K, V>,
    aggregation: F,
    token: TableToken<K, A>,
) -> NodeFactory
where
    K: Clone + 'static,
    V: 'static,
    A: Clone + 'static,
    F: Aggregation<K, V, A>,
{
    let aggregation = Arc::new(aggregation);
    node_factory(move |wiring| {
        Ok(Rc::new(StreamAggregate {
            name: wiring.name().clone(),
            grouping: grouping.clone(),
            aggregation: aggregation.clone(),
            task: wiring.task().clone(),
            writer: TableWriter::open(wiring, &token)?,
            input: PhantomData,
        }) as Port<K, V>)
    })
}

//! A stream joined with a table: each record looks up the table's value of its key. Changes of the table make no results.

use super::table_view::{View, ViewRef};
use super::{Grouping, Outcome};
use crate::processor::TaskContext;
use crate::record::Record;
use crate::topology::erased::{Fault, NodeFactory, Output, Port, Receive, node_factory};
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;

/// What a stream's value and what is found in the table make together.
pub(crate) trait LookupJoiner<K, V, T, R>: Send + Sync + 'static {
    fn join(&self, key: &K, value: &V, found: Option<&T>) -> Outcome<R>;
}

impl<K, V, T, R, F> LookupJoiner<K, V, T, R> for F
where
    F: Fn(&K, &V, Option<&T>) -> Outcome<R> + Send + Sync + 'static,
{
    fn join(&self, key: &K, value: &V, found: Option<&T>) -> Outcome<R> {
        self(key, value, found)
    }
}

/// Whether a record that finds nothing has a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lookup {
    /// No.
    Inner,
    /// Yes, with nothing; so has a record without a key.
    Left,
}

struct StreamTableJoin<K, V, T, R, F> {
    name: Arc<str>,
    task: Rc<TaskContext>,
    lookup: Lookup,
    nulls: Grouping<K, V>,
    table: ViewRef<K, T>,
    joiner: Arc<F>,
    out: Output<K, R>,
    result: PhantomData<fn(V)>,
}

impl<K, V, T, R, F> Receive<K, V> for StreamTableJoin<K, V, T, R, F>
where
    K: Clone + 'static,
    V: 'static,
    R: Clone,
    F: LookupJoiner<K, V, T, R>,
{
    fn receive(&self, record: Record<K, V>) -> Result<(), Fault> {
        let has_key = !self.nulls.key.is_null(&record.key);
        if (!has_key && self.lookup == Lookup::Inner) || self.nulls.value.is_null(&record.value) {
            self.task.drop_record(&self.name, "its key or value is null");
            return Ok(());
        }
        let found = match has_key {
            true => self.table.get_for(&record.key, record.timestamp),
            false => Ok(None),
        };
        let found = found.map_err(|error| Fault::at(&self.name, error))?.map(|(found, _)| found);
        if found.is_none() && self.lookup == Lookup::Inner {
            return Ok(());
        }
        let joined = self.joiner.join(&record.key, &record.value, found.as_ref());
        let joined = joined.map_err(|error| Fault::at(&self.name, error))?;
        self.out.send(record.with_value(joined))
    }
}

/// The join of a stream with a table.
pub(crate) fn stream_table_join<K, V, T, R, F>(
    lookup: Lookup,
    nulls: Grouping<K, V>,
    table: View<K, T>,
    joiner: F,
) -> NodeFactory
where
    K: Clone + 'static,
    V: 'static,
    T: 'static,
    R: Clone + 'static,
    F: LookupJoiner<K, V, T, R>,
{
    let joiner = Arc::new(joiner);
    node_factory(move |wiring| {
        Ok(Rc::new(StreamTableJoin {
            name: wiring.name().clone(),
            task: wiring.task().clone(),
            lookup,
            nulls: nulls.clone(),
            table: (table.open)(&wiring.init_context())?,
            joiner: joiner.clone(),
            out: wiring.output()?,
            result: PhantomData,
        }) as Port<K, V>)
    })
}

//! A stream joined with a global table: each record looks up a key that is made of it. The table is not synchronized with the
//! stream by time.

use super::stream_table_join::Lookup;
use super::{Grouping, Outcome};
use crate::processor::TaskContext;
use crate::record::Record;
use crate::serde::SerdeRef;
use crate::state::{GlobalTable, KeyValueSerdes};
use crate::topology::erased::{Fault, NodeFactory, Output, Port, Receive, node_factory};
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;

/// How a record is joined: the key to look up, and what record and found value make together.
pub(crate) trait GlobalJoiner<K, V, GK, T, R>: Send + Sync + 'static {
    fn select(&self, key: &K, value: &V) -> Outcome<Option<GK>>;
    fn join(&self, keys: (&K, Option<&GK>), value: &V, found: Option<&T>) -> Outcome<R>;
}

/// A join of two closures.
pub(crate) struct SelectAndJoin<S, F> {
    pub(crate) selector: S,
    pub(crate) joiner: F,
}

impl<K, V, GK, T, R, S, F> GlobalJoiner<K, V, GK, T, R> for SelectAndJoin<S, F>
where
    S: Fn(&K, &V) -> Outcome<Option<GK>> + Send + Sync + 'static,
    F: Fn((&K, Option<&GK>), &V, Option<&T>) -> Outcome<R> + Send + Sync + 'static,
{
    fn select(&self, key: &K, value: &V) -> Outcome<Option<GK>> {
        (self.selector)(key, value)
    }

    fn join(&self, keys: (&K, Option<&GK>), value: &V, found: Option<&T>) -> Outcome<R> {
        (self.joiner)(keys, value, found)
    }
}

struct StreamGlobalJoin<K, V, GK, T, R, F> {
    name: Arc<str>,
    task: Rc<TaskContext>,
    lookup: Lookup,
    nulls: Grouping<K, V>,
    table: GlobalTable<GK, T>,
    key: SerdeRef<GK>,
    joiner: Arc<F>,
    out: Output<K, R>,
    result: PhantomData<fn(V)>,
}

impl<K, V, GK, T, R, F> Receive<K, V> for StreamGlobalJoin<K, V, GK, T, R, F>
where
    K: Clone + 'static,
    V: 'static,
    GK: 'static,
    T: 'static,
    R: Clone,
    F: GlobalJoiner<K, V, GK, T, R>,
{
    fn receive(&self, record: Record<K, V>) -> Result<(), Fault> {
        let failed = |error| Fault::at(&self.name, error);
        let selected = self.joiner.select(&record.key, &record.value).map_err(failed)?;
        let selected = selected.filter(|key| !self.key.is_null(key));
        let has_value = !self.nulls.value.is_null(&record.value);
        if !has_value || (selected.is_none() && self.lookup == Lookup::Inner) {
            self.task.drop_record(&self.name, "its value or the key to look up is null");
            return Ok(());
        }
        let found = selected.as_ref().map(|key| self.table.get(key)).transpose();
        let found = found.map_err(|error| Fault::at(&self.name, error))?.flatten();
        if found.is_none() && self.lookup == Lookup::Inner {
            return Ok(());
        }
        let found = found.as_ref().map(|(found, _)| found);
        let joined = self.joiner.join((&record.key, selected.as_ref()), &record.value, found);
        self.out.send(record.with_value(joined.map_err(failed)?))
    }
}

/// The join of a stream with the global table of that name.
pub(crate) fn stream_global_join<K, V, GK, T, R, F>(
    lookup: Lookup,
    nulls: Grouping<K, V>,
    (table, serdes): (Arc<str>, KeyValueSerdes<GK, T>),
    joiner: F,
) -> NodeFactory
where
    K: Clone + 'static,
    V: 'static,
    GK: 'static,
    T: 'static,
    R: Clone + 'static,
    F: GlobalJoiner<K, V, GK, T, R>,
{
    let joiner = Arc::new(joiner);
    node_factory(move |wiring| {
        Ok(Rc::new(StreamGlobalJoin {
            name: wiring.name().clone(),
            task: wiring.task().clone(),
            lookup,
            nulls: nulls.clone(),
            table: wiring.task().globals().open(&table, &serdes)?,
            key: serdes.key.clone(),
            joiner: joiner.clone(),
            out: wiring.output()?,
            result: PhantomData,
        }) as Port<K, V>)
    })
}

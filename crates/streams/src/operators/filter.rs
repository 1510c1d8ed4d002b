//! Lets records through that a predicate likes.

use super::{Outcome, flat_map};
use crate::record::Record;
use crate::serde::SerdeRef;
use crate::topology::erased::{Fault, NodeFactory, Output, Port, Receive, node_factory};
use std::rc::Rc;
use std::sync::Arc;

struct Filter<K, V, F> {
    name: Arc<str>,
    predicate: Arc<F>,
    out: Output<K, V>,
}

impl<K, V, F> Receive<K, V> for Filter<K, V, F>
where
    K: Clone,
    V: Clone,
    F: Fn(&K, &V) -> Outcome<bool>,
{
    fn receive(&self, record: Record<K, V>) -> Result<(), Fault> {
        match (self.predicate)(&record.key, &record.value) {
            Ok(true) => self.out.send(record),
            Ok(false) => Ok(()),
            Err(error) => Err(Fault::at(&self.name, error)),
        }
    }
}

/// `filter`, and `filter_not` with the predicate turned around.
pub(crate) fn filter<K, V, F>(predicate: F) -> NodeFactory
where
    K: Clone + 'static,
    V: Clone + 'static,
    F: Fn(&K, &V) -> Outcome<bool> + Send + Sync + 'static,
{
    let predicate = Arc::new(predicate);
    node_factory(move |wiring| {
        let (name, predicate) = (wiring.name().clone(), predicate.clone());
        Ok(Rc::new(Filter { name, predicate, out: wiring.output()? }) as Port<K, V>)
    })
}

/// The filter in front of a repartition topic: a record without a key has no partition.
pub(crate) fn not_null_key<K, V>(key: SerdeRef<K>) -> NodeFactory
where
    K: Clone + 'static,
    V: Clone + 'static,
{
    filter(move |k: &K, _: &V| Ok(!key.is_null(k)))
}

/// The same filter, which also turns the values into what the topic holds.
pub(crate) fn map_where_key<K, V, V2, F>(key: SerdeRef<K>, mapper: F) -> NodeFactory
where
    K: Clone + 'static,
    V: 'static,
    V2: Clone + 'static,
    F: Fn(V) -> V2 + Send + Sync + 'static,
{
    flat_map(move |k: K, v: V| Ok((!key.is_null(&k)).then(|| (k, mapper(v)))))
}

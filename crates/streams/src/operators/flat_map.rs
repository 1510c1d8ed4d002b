//! One record in, any number out.

use super::Outcome;
use crate::record::Record;
use crate::topology::erased::{Fault, NodeFactory, Output, Port, Receive, node_factory};
use std::rc::Rc;
use std::sync::Arc;

struct FlatMap<K2, V2, F> {
    name: Arc<str>,
    mapper: Arc<F>,
    out: Output<K2, V2>,
}

impl<K, V, K2, V2, I, F> Receive<K, V> for FlatMap<K2, V2, F>
where
    K2: Clone,
    V2: Clone,
    I: IntoIterator<Item = (K2, V2)>,
    F: Fn(K, V) -> Outcome<I>,
{
    fn receive(&self, record: Record<K, V>) -> Result<(), Fault> {
        let Record { key, value, timestamp, headers } = record;
        let mapped = (self.mapper)(key, value).map_err(|error| Fault::at(&self.name, error))?;
        for (key, value) in mapped {
            self.out.send(Record { key, value, timestamp, headers: headers.clone() })?;
        }
        Ok(())
    }
}

/// New keys and values.
pub(crate) fn flat_map<K, V, K2, V2, I, F>(mapper: F) -> NodeFactory
where
    K: 'static,
    V: 'static,
    K2: Clone + 'static,
    V2: Clone + 'static,
    I: IntoIterator<Item = (K2, V2)> + 'static,
    F: Fn(K, V) -> Outcome<I> + Send + Sync + 'static,
{
    let mapper = Arc::new(mapper);
    node_factory(move |wiring| {
        let (name, mapper) = (wiring.name().clone(), mapper.clone());
        Ok(Rc::new(FlatMap { name, mapper, out: wiring.output()? }) as Port<K, V>)
    })
}

/// New values under the same key.
pub(crate) fn flat_map_values<K, V, V2, I, F>(mapper: F) -> NodeFactory
where
    K: Clone + 'static,
    V: 'static,
    V2: Clone + 'static,
    I: IntoIterator<Item = V2> + 'static,
    F: Fn(&K, V) -> Outcome<I> + Send + Sync + 'static,
{
    flat_map(move |key: K, value: V| {
        let values = mapper(&key, value)?.into_iter();
        Ok(values.map(move |value| (key.clone(), value)))
    })
}

//! One record in, one record out.

use super::Outcome;
use crate::record::Record;
use crate::topology::erased::{Fault, NodeFactory, Output, Port, Receive, node_factory};
use std::rc::Rc;
use std::sync::Arc;

struct Map<K2, V2, F> {
    name: Arc<str>,
    mapper: Arc<F>,
    out: Output<K2, V2>,
}

impl<K, V, K2, V2, F> Receive<K, V> for Map<K2, V2, F>
where
    K2: Clone,
    V2: Clone,
    F: Fn(K, V) -> Outcome<(K2, V2)>,
{
    fn receive(&self, record: Record<K, V>) -> Result<(), Fault> {
        let Record { key, value, timestamp, headers } = record;
        let mapped = (self.mapper)(key, value);
        let (key, value) = mapped.map_err(|error| Fault::at(&self.name, error))?;
        self.out.send(Record { key, value, timestamp, headers })
    }
}

/// A new key and a new value.
pub(crate) fn map<K, V, K2, V2, F>(mapper: F) -> NodeFactory
where
    K: 'static,
    V: 'static,
    K2: Clone + 'static,
    V2: Clone + 'static,
    F: Fn(K, V) -> Outcome<(K2, V2)> + Send + Sync + 'static,
{
    let mapper = Arc::new(mapper);
    node_factory(move |wiring| {
        let (name, mapper) = (wiring.name().clone(), mapper.clone());
        Ok(Rc::new(Map { name, mapper, out: wiring.output()? }) as Port<K, V>)
    })
}

/// A new value.
pub(crate) fn map_values<K, V, V2, F>(mapper: F) -> NodeFactory
where
    K: Clone + 'static,
    V: 'static,
    V2: Clone + 'static,
    F: Fn(&K, V) -> Outcome<V2> + Send + Sync + 'static,
{
    map(move |key: K, value: V| {
        let value = mapper(&key, value)?;
        Ok((key, value))
    })
}

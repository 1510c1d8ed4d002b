//! The end of a stream in user code.

use super::Outcome;
use crate::record::Record;
use crate::topology::erased::{Fault, NodeFactory, Port, Receive, node_factory};
use std::rc::Rc;
use std::sync::Arc;

struct ForEach<F> {
    name: Arc<str>,
    action: Arc<F>,
}

impl<K, V, F: Fn(K, V) -> Outcome<()>> Receive<K, V> for ForEach<F> {
    fn receive(&self, record: Record<K, V>) -> Result<(), Fault> {
        let done = (self.action)(record.key, record.value);
        done.map_err(|error| Fault::at(&self.name, error))
    }
}

/// `for_each`.
pub(crate) fn for_each<K, V, F>(action: F) -> NodeFactory
where
    K: 'static,
    V: 'static,
    F: Fn(K, V) -> Outcome<()> + Send + Sync + 'static,
{
    let action = Arc::new(action);
    node_factory(move |wiring| {
        let (name, action) = (wiring.name().clone(), action.clone());
        Ok(Rc::new(ForEach { name, action }) as Port<K, V>)
    })
}

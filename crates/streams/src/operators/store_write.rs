//! Writes what comes in into a store: the end of the way of a store writer's updates.

use crate::processor::TaskContext;
use crate::record::Record;
use crate::state::{StoreToken, Writable};
use crate::topology::erased::{Fault, NodeFactory, Port, Receive, node_factory};
use std::rc::Rc;
use std::sync::Arc;

struct StoreWrite<S> {
    name: Arc<str>,
    store: S,
    task: Rc<TaskContext>,
}

impl<S: Writable> Receive<S::Key, Option<S::Value>> for StoreWrite<S> {
    fn receive(&self, record: Record<S::Key, Option<S::Value>>) -> Result<(), Fault> {
        let written = self.store.write(&record.key, record.value.as_ref(), self.task.timestamp());
        written.map_err(|error| Fault::at(&self.name, error))
    }
}

/// Puts each record into a store; null deletes.
pub(crate) fn store_write<S: Writable + 'static>(token: StoreToken<S>) -> NodeFactory {
    node_factory(move |wiring| {
        Ok(Rc::new(StoreWrite {
            name: wiring.name().clone(),
            store: wiring.init_context().store(&token)?,
            task: wiring.task().clone(),
        }) as Port<S::Key, Option<S::Value>>)
    })
}

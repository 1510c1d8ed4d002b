//! The beginning of a table: each record of a stream is the new value of its key, or its deletion.
//!
//! Null keys are dropped. A record that is older than the stored one is applied all the same: the table follows the order of its
//! topic, not of the timestamps.

use super::Change;
use super::table_store::{TableOutput, TableOwnStore};
use crate::processor::TaskContext;
use crate::record::Record;
use crate::topology::erased::{Fault, NodeFactory, Port, Receive, node_factory};
use std::rc::Rc;
use std::sync::Arc;

struct TableSource<K, V, F> {
    name: Arc<str>,
    task: Rc<TaskContext>,
    split: Arc<F>,
    out: TableOutput<K, V>,
}

impl<K0, V0, K, V, F> Receive<K0, V0> for TableSource<K, V, F>
where
    K: Clone + 'static,
    V: Clone + 'static,
    F: Fn(K0, V0) -> Option<(K, Option<V>)>,
{
    fn receive(&self, record: Record<K0, V0>) -> Result<(), Fault> {
        let Record { key, value, timestamp, headers } = record;
        let Some((key, new)) = (self.split)(key, value) else {
            self.task.drop_record(&self.name, "its key is null");
            return Ok(());
        };
        let old = match &self.out {
            TableOutput::Store(writer) if writer.needs_old_value() => writer.get(&key)?,
            _ => None,
        };
        let value = Change::latest(new, old.map(|(old, _)| old));
        self.out.send(Record { key, value, timestamp, headers })
    }
}

/// A table of what `split` makes of each record: a key and its value, or nothing if the key is null.
pub(crate) fn table_source<K0, V0, K, V, F>(split: F, own: TableOwnStore<K, V>) -> NodeFactory
where
    K0: 'static,
    V0: 'static,
    K: Clone + 'static,
    V: Clone + 'static,
    F: Fn(K0, V0) -> Option<(K, Option<V>)> + Send + Sync + 'static,
{
    let split = Arc::new(split);
    node_factory(move |wiring| {
        Ok(Rc::new(TableSource {
            name: wiring.name().clone(),
            task: wiring.task().clone(),
            split: split.clone(),
            out: TableOutput::open(wiring, &own)?,
        }) as Port<K0, V0>)
    })
}

//! The changes of a table as a stream: the new value, or nothing for a deletion.

use super::Change;
use crate::record::Record;
use crate::topology::erased::{Fault, NodeFactory, Output, Port, Receive, node_factory};
use std::rc::Rc;

struct TableToStream<K, V>(Output<K, Option<V>>);

impl<K: Clone, V: Clone> Receive<K, Change<V>> for TableToStream<K, V> {
    fn receive(&self, record: Record<K, Change<V>>) -> Result<(), Fault> {
        let Record { key, value, timestamp, headers } = record;
        self.0.send(Record { key, value: value.new, timestamp, headers })
    }
}

/// `to_stream`.
pub(crate) fn table_to_stream<K: Clone + 'static, V: Clone + 'static>() -> NodeFactory {
    node_factory(|wiring| Ok(Rc::new(TableToStream(wiring.output()?)) as Port<K, Change<V>>))
}

//! The end of a stream on a screen or in a file.

use crate::record::Record;
use crate::topology::erased::{Fault, NodeFactory, Port, Receive, node_factory};
use std::io::Write;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

/// Where lines go: all tasks share it.
pub(crate) type SharedWriter = Arc<Mutex<dyn Write + Send>>;

struct Print<F> {
    name: Arc<str>,
    label: Arc<str>,
    text: Arc<F>,
    writer: SharedWriter,
}

impl<K, V, F: Fn(&K, &V) -> String> Receive<K, V> for Print<F> {
    fn receive(&self, record: Record<K, V>) -> Result<(), Fault> {
        let line = format!("[{}]: {}\n", self.label, (self.text)(&record.key, &record.value));
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let written = writer.write_all(line.as_bytes()).and_then(|()| writer.flush());
        written.map_err(|error| Fault::at(&self.name, error))
    }
}

/// `print`: `[label]: text` on a line of its own.
pub(crate) fn print<K, V, F>(label: String, text: F, writer: SharedWriter) -> NodeFactory
where
    K: 'static,
    V: 'static,
    F: Fn(&K, &V) -> String + Send + Sync + 'static,
{
    let (label, text): (Arc<str>, _) = (label.into(), Arc::new(text));
    node_factory(move |wiring| {
        let (name, label) = (wiring.name().clone(), label.clone());
        let (text, writer) = (text.clone(), writer.clone());
        Ok(Rc::new(Print { name, label, text, writer }) as Port<K, V>)
    })
}

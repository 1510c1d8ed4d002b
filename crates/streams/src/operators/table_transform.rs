//! A table made by user code that keeps state of its own: `transform_values`.
//!
//! Unlike `map_values` it sees deletions. Where old values are asked for and the result has no store, it is called twice for each
//! change.

use super::table_store::{TableOutput, TableOwnStore};
use super::table_view::{TableView, View, ViewRef};
use super::{Change, Outcome};
use crate::error::{Error, ErrorKind, Result};
use crate::processor::{InitContext, TaskContext, ValueContext, ValueTransformer};
use crate::record::Record;
use crate::topology::erased::{Close, Fault, NodeFactory, Port, Receive, node_factory};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// Makes a transformer for each task.
pub(crate) type TransformSupplier<T> = Arc<dyn Fn(&mut InitContext) -> Result<T> + Send + Sync>;

/// A transformer with what it is shown.
struct Transformer<T> {
    transformer: RefCell<T>,
    task: Rc<TaskContext>,
}

impl<T: ValueTransformer> Transformer<T> {
    fn transform(&self, key: &T::Key, value: Option<T::In>) -> Outcome<Option<T::Out>> {
        let mut ctx = ValueContext::new(&self.task);
        self.transformer.borrow_mut().transform(key, value, &mut ctx)
    }
}

struct Transform<T: ValueTransformer> {
    name: Arc<str>,
    transformer: Transformer<T>,
    out: TableOutput<T::Key, T::Out>,
}

impl<T: ValueTransformer> Transform<T> {
    fn transform(&self, key: &T::Key, value: Option<T::In>) -> Result<Option<T::Out>, Fault> {
        let transformed = self.transformer.transform(key, value);
        transformed.map_err(|error| Fault::at(&self.name, error))
    }
}

impl<T: ValueTransformer> Receive<T::Key, Change<T::In>> for Transform<T> {
    fn receive(&self, record: Record<T::Key, Change<T::In>>) -> Result<(), Fault> {
        let Record { key, value: change, timestamp, headers } = record;
        let new = self.transform(&key, change.new)?;
        let old = match &self.out {
            TableOutput::Forward { sends_old_values: true, .. } => {
                self.transform(&key, change.old)?
            }
            TableOutput::Store(writer) if writer.needs_old_value() => {
                writer.get(&key)?.map(|(old, _)| old)
            }
            _ => None,
        };
        let value = Change { new, old, is_latest: change.is_latest };
        self.out.send(Record { key, value, timestamp, headers })
    }
}

impl<T: ValueTransformer> Close for Transform<T> {
    fn close(&self) {
        self.transformer.transformer.borrow_mut().close();
    }
}

/// `transform_values`.
pub(crate) fn table_transform<T: ValueTransformer>(
    supplier: TransformSupplier<T>,
    own: TableOwnStore<T::Key, T::Out>,
) -> NodeFactory {
    node_factory(move |wiring| {
        let transformer = RefCell::new(supplier(&mut wiring.init_context())?);
        let node = Rc::new(Transform {
            name: wiring.name().clone(),
            transformer: Transformer { transformer, task: wiring.task().clone() },
            out: TableOutput::open(wiring, &own)?,
        });
        wiring.on_close(node.clone());
        Ok(node as Port<T::Key, Change<T::In>>)
    })
}

struct TransformView<T: ValueTransformer> {
    parent: ViewRef<T::Key, T::In>,
    transformer: Transformer<T>,
}

impl<T: ValueTransformer> TransformView<T> {
    fn transformed(
        &self,
        key: &T::Key,
        found: Option<(T::In, i64)>,
    ) -> Result<Option<(T::Out, i64)>> {
        let (value, timestamp) = found.unzip();
        let transformed = self.transformer.transform(key, value).map_err(|error| {
            Error::new(ErrorKind::Processing, "the table's transformer failed").with_source(error)
        })?;
        Ok(transformed.map(|value| (value, timestamp.unwrap_or(-1))))
    }
}

impl<T: ValueTransformer> TableView<T::Key, T::Out> for TransformView<T> {
    fn get(&self, key: &T::Key) -> Result<Option<(T::Out, i64)>> {
        self.transformed(key, self.parent.get(key)?)
    }

    fn get_for(&self, key: &T::Key, timestamp: i64) -> Result<Option<(T::Out, i64)>> {
        self.transformed(key, self.parent.get_for(key, timestamp)?)
    }
}

/// The view of a transformed table without a store; it has a transformer of its own.
pub(crate) fn transform_view<T: ValueTransformer>(
    parent: View<T::Key, T::In>,
    stores: impl IntoIterator<Item = Arc<str>>,
    supplier: TransformSupplier<T>,
) -> View<T::Key, T::Out> {
    let open = parent.open;
    let mut all = parent.stores;
    all.extend(stores);
    View {
        stores: all,
        open: Arc::new(move |ctx| {
            let parent = open(ctx)?;
            let mut own = InitContext { ..*ctx };
            let transformer = RefCell::new(supplier(&mut own)?);
            let transformer = Transformer { transformer, task: ctx.task.clone() };
            Ok(Rc::new(TransformView { parent, transformer }))
        }),
    }
}

//! All type erasure: typed edges between nodes, and the wiring that connects them once, when a task is built.
//!
//! A node is known to the task only as an erased port. Its edges stay typed: a record moves through
//! [`Output::send`] as `Record<K, V>`, without boxing. `Any` is used here, while wiring, and nowhere else.

use crate::error::{BoxError, Error, ErrorKind, Result};
use crate::processor::{InitContext, KeyOf, Punctuate, TaskContext, ValueOf};
use crate::record::Record;
use crate::state::StoreSet;
use crate::task::{RecordCollector, SourceNode};
use std::any::{Any, TypeId, type_name};
use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

/// The receiving end of an edge.
pub(crate) trait Receive<K, V> {
    fn receive(&self, record: Record<K, V>) -> Result<(), Fault>;
}

/// A receiver that its parents share.
pub(crate) type Port<K, V> = Rc<dyn Receive<K, V>>;

/// A receiver of the records of a pair.
pub(crate) type PortOf<P> = Port<KeyOf<P>, ValueOf<P>>;

/// The children of a node, in the order in which they were added.
pub(crate) struct Output<K, V> {
    children: Vec<(Arc<str>, Port<K, V>)>,
}

impl<K, V> Output<K, V> {
    pub(crate) fn child(&self, name: &str) -> Option<&Port<K, V>> {
        self.children.iter().find(|(child, _)| **child == *name).map(|(_, port)| port)
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.children.iter().map(|(name, _)| &**name)
    }
}

impl<K: Clone, V: Clone> Output<K, V> {
    /// Passes a record to all children; only a fan-out clones. One child is the rule: the record then goes on from where it
    /// was made, without another copy.
    #[inline]
    pub(crate) fn send(&self, record: Record<K, V>) -> Result<(), Fault> {
        match &self.children[..] {
            [(_, only)] => only.receive(record),
            children => fan_out(children, record),
        }
    }
}

#[inline(never)]
fn fan_out<K: Clone, V: Clone>(
    children: &[(Arc<str>, Port<K, V>)],
    record: Record<K, V>,
) -> Result<(), Fault> {
    let Some(((_, last), others)) = children.split_last() else { return Ok(()) };
    for (_, child) in others {
        child.receive(record.clone())?;
    }
    last.receive(record)
}

/// An error on a record's way, with the node where it happened. Boxed: the way without errors stays narrow.
pub(crate) struct Fault(Box<(Arc<str>, BoxError)>);

impl Fault {
    /// Names the node, unless the error comes from a node further down, which it already names.
    pub(crate) fn at(node: &Arc<str>, error: impl Into<BoxError>) -> Self {
        match error.into().downcast::<Fault>() {
            Ok(fault) => *fault,
            Err(error) => Fault(Box::new((node.clone(), error))),
        }
    }

    pub(crate) fn into_error(self) -> Error {
        let (node, error) = *self.0;
        match error.downcast::<Error>() {
            Ok(error) => error.context(format!("operator {node}")),
            Err(error) => Error::new(ErrorKind::Processing, format!("operator {node} failed"))
                .with_source(error),
        }
    }
}

impl fmt::Debug for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "operator {}: {}", self.0.0, self.0.1)
    }
}

impl std::error::Error for Fault {}

/// Something of a task that wants to know when it ends.
pub(crate) trait Close {
    fn close(&self);
}

/// The key and value types of an edge, to compare and to name in messages.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EdgeType {
    id: TypeId,
    name: fn() -> &'static str,
}

impl EdgeType {
    pub(crate) fn of<K: 'static, V: 'static>() -> Self {
        EdgeType { id: TypeId::of::<(K, V)>(), name: type_name::<(K, V)> }
    }

    pub(crate) fn name(&self) -> &'static str {
        (self.name)()
    }
}

impl PartialEq for EdgeType {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

/// A `Port<K, V>` whose types only the two ends know.
pub(crate) struct ErasedPort(Box<dyn Any>);

impl ErasedPort {
    pub(crate) fn new<K: 'static, V: 'static>(port: Port<K, V>) -> Self {
        ErasedPort(Box::new(port))
    }

    fn typed<K: 'static, V: 'static>(&self) -> Option<&Port<K, V>> {
        self.0.downcast_ref()
    }
}

/// A value as one of another type, which has to be the same: for code that knows so and cannot say it in types.
pub(crate) fn same<A: 'static, B: 'static>(value: A) -> Option<B> {
    let mut value = Some(value);
    (&mut value as &mut dyn Any).downcast_mut::<Option<B>>()?.take()
}

/// Builds the node that receives records, on the thread that owns the task.
pub(crate) type NodeFactory = Arc<dyn Fn(&mut Wiring) -> Result<ErasedPort> + Send + Sync>;

/// Builds a source, likewise.
pub(crate) type SourceFactory =
    Arc<dyn Fn(&mut Wiring) -> Result<Box<dyn SourceNode>> + Send + Sync>;

/// Turns a typed constructor into a node factory.
pub(crate) fn node_factory<K, V, F>(build: F) -> NodeFactory
where
    K: 'static,
    V: 'static,
    F: Fn(&mut Wiring) -> Result<Port<K, V>> + Send + Sync + 'static,
{
    Arc::new(move |wiring| build(wiring).map(ErasedPort::new))
}

/// What a node is given when it is built: its children, its stores, and what all nodes of the task share.
pub(crate) struct Wiring<'a> {
    pub(super) name: Arc<str>,
    pub(super) connected: Vec<Arc<str>>,
    pub(super) sends_old_values: bool,
    pub(super) children: Vec<(Arc<str>, &'a ErasedPort)>,
    pub(super) task: &'a Rc<TaskContext>,
    pub(super) stores: &'a StoreSet,
    pub(super) collector: &'a Rc<RefCell<dyn RecordCollector>>,
    pub(super) closers: &'a mut Vec<Rc<dyn Close>>,
    pub(super) punctuated: &'a mut Vec<Rc<dyn Punctuate>>,
}

impl Wiring<'_> {
    pub(crate) fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Whether changes of the node's table tell the value before.
    pub(crate) fn sends_old_values(&self) -> bool {
        self.sends_old_values
    }

    /// Whether the node was given that store.
    pub(crate) fn has_store(&self, name: &str) -> bool {
        self.connected.iter().any(|store| **store == *name)
    }

    pub(crate) fn task(&self) -> &Rc<TaskContext> {
        self.task
    }

    pub(crate) fn collector(&self) -> &Rc<RefCell<dyn RecordCollector>> {
        self.collector
    }

    pub(crate) fn init_context(&self) -> InitContext<'_> {
        InitContext {
            task: self.task,
            stores: self.stores,
            node: &self.name,
            connected: &self.connected,
        }
    }

    /// The typed edges to the children. `build()` has compared the types already.
    pub(crate) fn output<K: 'static, V: 'static>(&self) -> Result<Output<K, V>> {
        let children = self.children.iter().map(|(name, port)| {
            let port = port.typed::<K, V>().ok_or_else(|| {
                Error::topology(format!("node {name} does not take what {} gives", self.name))
            })?;
            Ok((name.clone(), port.clone()))
        });
        Ok(Output { children: children.collect::<Result<_>>()? })
    }

    pub(crate) fn add_punctuated(&mut self, node: Rc<dyn Punctuate>) {
        self.punctuated.push(node);
    }

    pub(crate) fn on_close(&mut self, closer: Rc<dyn Close>) {
        self.closers.push(closer);
    }
}

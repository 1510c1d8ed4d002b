//! All type erasure: typed edges between nodes, and the wiring that connects them once, when a task is built.
//!
//! A node is known to the task only as an erased port. Its edges stay typed: a record moves through
//! [`Output::send`] as `Record<K, V>`, without boxing. `Any` is used here, while wiring, and nowhere else.

mod alone;
mod wrapper;

pub(crate) use self::alone::{Alone, AloneOf, Child};
pub use self::wrapper::{ProcessorWrapper, WrappedRecord, Wrapper, Wrapping};

use crate::error::{BoxError, Error, ErrorKind, Result};
use crate::processor::{InitContext, KeyOf, Punctuate, TaskContext, ValueOf};
use crate::record::Record;
use crate::state::StoreSet;
use crate::task::{RecordCollector, SourceNode};
use std::any::{Any, TypeId, type_name};
use std::cell::RefCell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;

/// The receiving end of an edge.
pub(crate) trait Receive<K, V> {
    fn receive(&self, record: Record<K, V>) -> Result<(), Fault>;

    /// It panicked instead of returning an error.
    #[cold]
    fn panicked(&self, name: &Arc<str>, panic: Error) -> Result<(), Fault> {
        Err(Fault::at(name, panic))
    }
}

/// A receiver that its parents share.
pub(crate) type Port<K, V> = Rc<dyn Receive<K, V>>;

/// A receiver of the records of a pair.
pub(crate) type PortOf<P> = Port<KeyOf<P>, ValueOf<P>>;

/// What a call gave back, or why it panicked.
type Caught<T> = Result<T, Box<dyn Any + Send>>;

/// The way to a child. What goes wrong in the child ends here, where the child's handler is asked (see
/// [`crate::processor::Failures`]): an error that it gives back, and a panic as well.
pub(crate) struct Edge<K, V> {
    child: Arc<str>,
    port: Port<K, V>,
    task: Rc<TaskContext>,
}

impl<K, V> Clone for Edge<K, V> {
    fn clone(&self) -> Self {
        Edge { child: self.child.clone(), port: self.port.clone(), task: self.task.clone() }
    }
}

impl<K, V> Edge<K, V> {
    #[inline]
    pub(crate) fn send(&self, record: Record<K, V>) -> Result<(), Fault> {
        match catch_unwind(AssertUnwindSafe(|| self.port.receive(record))) {
            Ok(Ok(())) => Ok(()),
            failed => self.settle(failed),
        }
    }

    #[cold]
    #[inline(never)]
    fn settle(&self, failed: Caught<Result<(), Fault>>) -> Result<(), Fault> {
        let failed =
            failed.unwrap_or_else(|panic| self.port.panicked(&self.child, panicked(&*panic)));
        failed.or_else(|fault| self.task.settle(fault))
    }
}

/// The children of a node, in the order in which they were added.
pub(crate) struct Output<K, V> {
    children: Vec<Edge<K, V>>,
}

impl<K, V> Output<K, V> {
    pub(crate) fn child(&self, name: &str) -> Option<&Edge<K, V>> {
        self.children.iter().find(|edge| *edge.child == *name)
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.children.iter().map(|edge| &*edge.child)
    }
}

impl<K: Clone, V: Clone> Output<K, V> {
    /// Passes a record to all children; only a fan-out clones. One child is the rule: the record then goes on from where it
    /// was made, without another copy.
    #[inline]
    pub(crate) fn send(&self, record: Record<K, V>) -> Result<(), Fault> {
        match &self.children[..] {
            [only] => only.send(record),
            children => fan_out(children, record),
        }
    }
}

#[inline(never)]
fn fan_out<K: Clone, V: Clone>(children: &[Edge<K, V>], record: Record<K, V>) -> Result<(), Fault> {
    let Some((last, others)) = children.split_last() else { return Ok(()) };
    for child in others {
        child.send(record.clone())?;
    }
    last.send(record)
}

/// An error on a record's way. Boxed: the way without errors stays narrow.
pub(crate) struct Fault(Box<Open>);

enum Open {
    /// With the node where it happened; nobody was asked about it yet.
    Fresh(Arc<str>, BoxError),
    /// The task keeps it; these are its words.
    Settled(String),
}

impl Fault {
    /// Names the node, unless the error comes from a node further down, which it already names.
    pub(crate) fn at(node: &Arc<str>, error: impl Into<BoxError>) -> Self {
        match error.into().downcast::<Fault>() {
            Ok(fault) => *fault,
            Err(error) => Fault(Box::new(Open::Fresh(node.clone(), error))),
        }
    }

    /// The sign that the task keeps an error.
    pub(crate) fn settled(error: &(impl fmt::Display + ?Sized)) -> Self {
        Fault(Box::new(Open::Settled(error.to_string())))
    }

    /// The node and the error, if it is not settled.
    pub(crate) fn open(self) -> Result<(Arc<str>, BoxError), Fault> {
        match *self.0 {
            Open::Fresh(node, error) => Ok((node, error)),
            settled @ Open::Settled(_) => Err(Fault(Box::new(settled))),
        }
    }

    pub(crate) fn into_error(self) -> Error {
        match *self.0 {
            Open::Settled(text) => Error::new(ErrorKind::Processing, text),
            Open::Fresh(node, error) => match error.downcast::<Error>() {
                Ok(error) => error.context(format!("operator {node}")),
                Err(error) => Error::new(ErrorKind::Processing, format!("operator {node} failed"))
                    .with_source(error),
            },
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
        match &*self.0 {
            Open::Fresh(node, error) => write!(f, "operator {node}: {error}"),
            Open::Settled(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for Fault {}

/// Calls what may be user code; a panic becomes an error.
pub(crate) fn catch_panic<T>(call: impl FnOnce() -> T) -> Result<T> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|panic| panicked(&*panic))
}

/// What user code said when it panicked.
#[cold]
fn panicked(panic: &(dyn Any + Send)) -> Error {
    let message = panic
        .downcast_ref::<&str>()
        .map(ToString::to_string)
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".into());
    Error::new(ErrorKind::Processing, format!("user code panicked: {message}"))
}

/// Something of a task that wants to know when it ends.
pub(crate) trait Close {
    fn close(&self);
}

/// A node that wants to know when its task ends.
pub(crate) type Named = (Arc<str>, Rc<dyn Close>);

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
    Arc::new(move |wiring| {
        let port = build(wiring)?;
        wiring.wrapped(port).map(ErasedPort::new)
    })
}

/// What a node is given when it is built: its children, its stores, and what all nodes of the task share.
pub(crate) struct Wiring<'a> {
    pub(super) name: Arc<str>,
    pub(super) connected: Vec<Arc<str>>,
    pub(super) sends_old_values: bool,
    pub(super) wrapping: Option<Wrapping>,
    pub(super) children: Vec<(Arc<str>, &'a ErasedPort)>,
    pub(super) task: &'a Rc<TaskContext>,
    pub(super) stores: &'a StoreSet,
    pub(super) collector: &'a Rc<RefCell<dyn RecordCollector>>,
    pub(super) closers: &'a mut Vec<Named>,
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
            Ok(Edge { child: name.clone(), port: port.clone(), task: self.task.clone() })
        });
        Ok(Output { children: children.collect::<Result<_>>()? })
    }

    pub(crate) fn add_punctuated(&mut self, node: Rc<dyn Punctuate>) {
        self.punctuated.push(node);
    }

    pub(crate) fn on_close(&mut self, closer: Rc<dyn Close>) {
        self.closers.push((self.name.clone(), closer));
    }
}

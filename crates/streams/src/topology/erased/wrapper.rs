//! Code of the user's around the processors of a topology, of whatever types they are: to trace, to count, to leave out.
//!
//! The wrapper stands in front of the port that the processor's parents send to, so that a topology without one has nothing of it.

use super::{BoxError, Close, Fault, Port, Receive, Wiring};
use crate::error::{Error, Result};
use crate::processor::{InitContext, ProcessResult, TaskContext, ValueContext};
use crate::record::{Headers, Record};
use crate::state::{StoreSpec, StoreToken, StoreType};
use std::any::Any;
use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

/// Puts code around the processors of a topology: those of the user and those that the DSL makes. Sources and sinks are left as they are.
///
/// ```
/// use kstreams::prelude::*;
/// use kstreams::topology::{ProcessorWrapper, WrappedRecord, Wrapper, Wrapping};
/// use std::sync::{Arc, Mutex};
///
/// /// Notes which values come to which processor.
/// struct Trace(Arc<Mutex<Vec<String>>>);
///
/// struct TraceOne(String, Arc<Mutex<Vec<String>>>);
///
/// impl ProcessorWrapper for Trace {
///     fn wrap(&self, processor: &str) -> Option<Wrapping> {
///         let (name, seen) = (processor.to_string(), self.0.clone());
///         Some(Wrapping::new(move |_| Ok(TraceOne(name.clone(), seen.clone()))))
///     }
/// }
///
/// impl Wrapper for TraceOne {
///     fn process(&mut self, record: WrappedRecord<'_>, _: &ValueContext<'_>) -> ProcessResult {
///         if let Some(text) = record.value::<String>() {
///             self.1.lock().unwrap().push(format!("{}: {text}", self.0));
///         }
///         record.process()
///     }
/// }
///
/// let seen = Arc::new(Mutex::new(Vec::new()));
/// let builder = StreamsBuilder::new();
/// builder.wrap_processors(Trace(seen.clone()));
/// builder
///     .stream("in", Consumed::<String, String>::new())
///     .filter(|_, word| word.len() > 1)
///     .named("long")
///     .map_values(|word| word.to_uppercase())
///     .named("loud")
///     .to("out", Produced::new());
/// let mut driver = TopologyTestDriver::new(builder.build()?)?;
/// let mut input = driver.input::<String, String>("in");
/// for word in ["a", "bc"] {
///     input.pipe_key_value_at(&mut driver, 0, "k", word)?;
/// }
/// assert_eq!(*seen.lock().unwrap(), ["long: a", "long: bc", "loud: bc"]);
/// # Ok::<(), kstreams::Error>(())
/// ```
pub trait ProcessorWrapper: 'static {
    /// What is put around the processor of that name; `None` leaves it alone. Called once for each processor of a topology, when it is
    /// built.
    fn wrap(&self, processor: &str) -> Option<Wrapping>;
}

/// What stands around one processor of a task.
pub trait Wrapper: 'static {
    /// Takes a record on its way to the processor. Without [`WrappedRecord::process`] it does not get there. Code after it runs when
    /// everything that the processor has forwarded is done.
    ///
    /// # Errors
    /// What is given back counts as an error of the processor. Leaving out the processor's own error leaves out the record; errors
    /// of nodes further down are settled already.
    fn process(&mut self, record: WrappedRecord<'_>, ctx: &ValueContext<'_>) -> ProcessResult;

    /// Called once, when the task is closed cleanly.
    fn close(&mut self) {}
}

type WrapperSupplier = dyn Fn(&mut InitContext) -> Result<Box<dyn Wrapper>> + Send + Sync;

/// A supplier of wrappers, with the stores that they use.
#[derive(Clone)]
pub struct Wrapping {
    supplier: Arc<WrapperSupplier>,
    pub(in crate::topology) stores: Vec<&'static StoreSpec>,
}

impl Wrapping {
    /// Of a closure that makes a wrapper for each task.
    pub fn new<W, F>(supplier: F) -> Self
    where
        W: Wrapper,
        F: Fn(&mut InitContext) -> Result<W> + Send + Sync + 'static,
    {
        let supplier = move |ctx: &mut InitContext| {
            supplier(ctx).map(|wrapper| Box::new(wrapper) as Box<dyn Wrapper>)
        };
        Wrapping { supplier: Arc::new(supplier), stores: Vec::new() }
    }

    /// Gives the wrapper access to a store, which is made if it is new. The sub-topologies of all processors that have the same store
    /// become one.
    #[must_use]
    pub fn store<S: StoreType>(mut self, token: &StoreToken<S>) -> Self {
        self.stores.push(token.spec);
        self
    }
}

impl fmt::Debug for Wrapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stores: Vec<&str> = self.stores.iter().map(|spec| &*spec.name).collect();
        f.debug_struct("Wrapping").field("stores", &stores).finish()
    }
}

/// A record in front of the processor that it goes to.
pub struct WrappedRecord<'a>(&'a mut dyn Pass);

impl WrappedRecord<'_> {
    /// The key, if that is its type.
    pub fn key<K: 'static>(&self) -> Option<&K> {
        self.0.key().downcast_ref()
    }

    /// The value, if that is its type. Tables give changes, whose type is not for users.
    pub fn value<V: 'static>(&self) -> Option<&V> {
        self.0.value().downcast_ref()
    }

    /// Milliseconds since the epoch.
    pub fn timestamp(&self) -> i64 {
        self.0.timestamp()
    }

    /// The headers.
    pub fn headers(&self) -> &Headers {
        self.0.headers()
    }

    /// Hands the record to the processor.
    ///
    /// # Errors
    /// What the processor gives back.
    pub fn process(self) -> ProcessResult {
        self.0.pass().map_err(BoxError::from)
    }
}

impl fmt::Debug for WrappedRecord<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WrappedRecord")
            .field("timestamp", &self.timestamp())
            .finish_non_exhaustive()
    }
}

/// A record with the way to its processor.
trait Pass {
    fn key(&self) -> &dyn Any;
    fn value(&self) -> &dyn Any;
    fn timestamp(&self) -> i64;
    fn headers(&self) -> &Headers;
    fn pass(&mut self) -> Result<(), Fault>;
}

struct Passing<'a, K, V> {
    /// There until it is passed on, which happens once.
    record: Option<Record<K, V>>,
    port: &'a Port<K, V>,
}

static NO_HEADERS: Headers = Headers::new();

impl<K: 'static, V: 'static> Pass for Passing<'_, K, V> {
    fn key(&self) -> &dyn Any {
        self.record.as_ref().map_or(&() as &dyn Any, |record| &record.key)
    }

    fn value(&self) -> &dyn Any {
        self.record.as_ref().map_or(&() as &dyn Any, |record| &record.value)
    }

    fn timestamp(&self) -> i64 {
        self.record.as_ref().map_or(-1, |record| record.timestamp)
    }

    fn headers(&self) -> &Headers {
        self.record.as_ref().map_or(&NO_HEADERS, |record| &record.headers)
    }

    fn pass(&mut self) -> Result<(), Fault> {
        self.record.take().map_or(Ok(()), |record| self.port.receive(record))
    }
}

/// The port of a wrapped processor.
struct WrappedPort<K, V> {
    name: Arc<str>,
    task: Rc<TaskContext>,
    wrapper: Rc<RefCell<Box<dyn Wrapper>>>,
    port: Port<K, V>,
}

impl<K: 'static, V: 'static> Receive<K, V> for WrappedPort<K, V> {
    fn receive(&self, record: Record<K, V>) -> Result<(), Fault> {
        let mut passing = Passing { record: Some(record), port: &self.port };
        let (record, ctx) = (WrappedRecord(&mut passing), ValueContext::new(&self.task));
        let processed = self.wrapper.borrow_mut().process(record, &ctx);
        processed.map_err(|error| Fault::at(&self.name, error))
    }

    fn panicked(&self, name: &Arc<str>, panic: Error) -> Result<(), Fault> {
        self.port.panicked(name, panic)
    }
}

struct Closing(Rc<RefCell<Box<dyn Wrapper>>>);

impl Close for Closing {
    fn close(&self) {
        self.0.borrow_mut().close();
    }
}

impl Wiring<'_> {
    /// Puts what the topology's wrapper has for this node in front of its port.
    pub(super) fn wrapped<K: 'static, V: 'static>(
        &mut self,
        port: Port<K, V>,
    ) -> Result<Port<K, V>> {
        let Some(wrapping) = &self.wrapping else { return Ok(port) };
        let wrapper = Rc::new(RefCell::new((wrapping.supplier)(&mut self.init_context())?));
        self.on_close(Rc::new(Closing(wrapper.clone())));
        let (name, task) = (self.name.clone(), self.task.clone());
        Ok(Rc::new(WrappedPort { name, task, wrapper, port }))
    }
}

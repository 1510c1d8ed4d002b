//! A node without a graph around it, for tests of user code.

use super::{ErasedPort, Named, Port, PortOf, Wiring};
use crate::error::Result;
use crate::processor::{
    KeyOf, KeyValue, Processor, ProcessorSupplier, Punctuate, TaskContext, ValueOf, build_processor,
};
use crate::state::StoreSet;
use crate::task::{Nowhere, RecordCollector};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// A node, and what its task would know of it.
pub(crate) struct Alone<K, V> {
    pub(crate) port: Port<K, V>,
    pub(crate) closers: Vec<Named>,
    pub(crate) punctuated: Vec<Rc<dyn Punctuate>>,
}

/// A node that takes the records of a pair.
pub(crate) type AloneOf<P> = Alone<KeyOf<P>, ValueOf<P>>;

/// A child with its name, which takes the records of a pair.
pub(crate) type Child<P> = (Arc<str>, PortOf<P>);

impl<K: 'static, V: 'static> Alone<K, V> {
    pub(crate) fn processor<P>(
        supplier: &ProcessorSupplier<P>,
        name: &Arc<str>,
        connected: &[Arc<str>],
        task: &Rc<TaskContext>,
        stores: &StoreSet,
        children: Vec<Child<P::Out>>,
    ) -> Result<Self>
    where
        P: Processor,
        P::In: KeyValue<Key = K, Value = V>,
    {
        let children = children.into_iter().map(|(name, port)| (name, ErasedPort::new(port)));
        let children: Vec<_> = children.collect();
        let collector: Rc<RefCell<dyn RecordCollector>> = Rc::new(RefCell::new(Nowhere));
        let (mut closers, mut punctuated) = (Vec::new(), Vec::new());
        let mut wiring = Wiring {
            name: name.clone(),
            connected: connected.to_vec(),
            sends_old_values: false,
            wrapping: None,
            children: children.iter().map(|(name, port)| (name.clone(), port)).collect(),
            task,
            stores,
            collector: &collector,
            closers: &mut closers,
            punctuated: &mut punctuated,
        };
        let port = build_processor(supplier, &mut wiring)?;
        Ok(Alone { port, closers, punctuated })
    }
}

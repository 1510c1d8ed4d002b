//! Suppliers: closures that make a new processor for each task, and the node that runs it.

use super::punctuation::{Punctuate, Punctuated, PunctuationType, Schedules};
use super::{Context, InitContext, KeyOf, Processor, RecordOf, TaskContext, ValueOf};
use crate::error::Result;
use crate::topology::erased::{Close, Fault, Output, PortOf, Receive, Wiring};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// Makes a processor for each task.
pub(crate) type ProcessorSupplier<P> = Arc<dyn Fn(&mut InitContext) -> Result<P> + Send + Sync>;

/// The node of a processor in a task.
struct ProcessorNode<P: Processor> {
    name: Arc<str>,
    processor: RefCell<P>,
    task: Rc<TaskContext>,
    out: Output<KeyOf<P::Out>, ValueOf<P::Out>>,
    schedules: Schedules<P>,
}

impl<P: Processor> Receive<KeyOf<P::In>, ValueOf<P::In>> for ProcessorNode<P> {
    fn receive(&self, record: RecordOf<P::In>) -> Result<(), Fault> {
        let mut ctx = Context::new(&self.task, &self.out, &self.schedules);
        self.processor
            .borrow_mut()
            .process(record, &mut ctx)
            .map_err(|error| Fault::at(&self.name, error))
    }
}

impl<P: Processor> Punctuate for ProcessorNode<P> {
    fn punctuate(&self, kind: PunctuationType, now: i64) -> Result<(), Fault> {
        self.punctuated().punctuate(kind, now)
    }

    fn next(&self, kind: PunctuationType) -> Option<i64> {
        self.punctuated().next(kind)
    }

    fn walk(&self) -> Result<bool, Fault> {
        self.punctuated().walk()
    }
}

impl<P: Processor> ProcessorNode<P> {
    fn punctuated(&self) -> Punctuated<'_, P> {
        let ProcessorNode { name, processor, task, out, schedules } = self;
        Punctuated { name, processor, task, out, schedules }
    }
}

impl<P: Processor> Close for ProcessorNode<P> {
    fn close(&self) {
        self.processor.borrow_mut().close();
    }
}

/// Builds the node of a processor on the thread that owns the task.
pub(crate) fn build<P: Processor>(
    supplier: &ProcessorSupplier<P>,
    wiring: &mut Wiring,
) -> Result<PortOf<P::In>> {
    let out = wiring.output()?;
    let task = wiring.task().clone();
    let mut processor = supplier(&mut wiring.init_context())?;
    let schedules = Schedules::new();
    let mut ctx: Context<'_, P> = Context::new(&task, &out, &schedules);
    processor.init(&mut ctx).map_err(|error| Fault::at(wiring.name(), error).into_error())?;
    let node = Rc::new(ProcessorNode {
        name: wiring.name().clone(),
        processor: RefCell::new(processor),
        task,
        out,
        schedules,
    });
    wiring.on_close(node.clone());
    wiring.add_punctuated(node.clone());
    Ok(node)
}

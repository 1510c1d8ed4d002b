//! A task with nothing in it but stores: what single processors are tested in.

use crate::config::StreamsConfig;
use crate::dsl::Processed;
use crate::error::Result;
use crate::processor::{
    Elapsed, InitContext, Processor, ProcessorSupplier, RecordContext, TaskContext, TaskId,
};
use crate::state::{StoreSet, TaskBackends};
use crate::task::TaskPlan;
use crate::topology::TopologyBuilder;
use crate::topology::erased::{Alone, AloneOf, Child, Fault, catch_panic};
use std::rc::Rc;
use std::sync::Arc;

pub(super) struct TestTask {
    pub(super) context: Rc<TaskContext>,
    stores: StoreSet,
    name: Arc<str>,
    connected: Vec<Arc<str>>,
    /// Where the next record was read.
    place: RecordContext,
}

impl TestTask {
    pub(super) fn new(
        processed: &Processed,
        config: &StreamsConfig,
        id: TaskId,
        wall_clock: i64,
    ) -> Result<Self> {
        let settings = config.resolve()?;
        let mut builder = TopologyBuilder::new();
        processed.stores.iter().for_each(|spec| builder.add_store(spec));
        let topology = builder.build()?;
        let specs = topology.graph().stores.iter().map(|spec| (spec.clone(), None));
        let specs: Vec<_> = specs.collect();
        let plan = TaskPlan::new(topology, &settings, Arc::default(), Elapsed::none());
        let (backends, budget) = (TaskBackends::new(None), settings.store_budget());
        let (app, rules) = (&settings.application.id, settings.rules.compatibility);
        let connected = specs.iter().map(|(spec, _)| spec.name.clone()).collect();
        let stores = StoreSet::open(app, specs, backends, rules, &budget)?;
        let context = Rc::new(plan.context(id));
        context.set_wall_clock(wall_clock);
        let name = processed.name.as_deref().unwrap_or("processor").into();
        let partition = id.partition;
        let place = RecordContext { topic: "test".into(), partition, offset: 0, timestamp: -1 };
        Ok(TestTask { context, stores, name, connected, place })
    }

    /// Where the next record was read.
    pub(super) fn set_place(&mut self, topic: &str, partition: i32, offset: i64) {
        self.place = RecordContext { topic: topic.into(), partition, offset, timestamp: -1 };
    }

    /// A record is in hand; the next one has the next offset.
    pub(super) fn enter_record(&mut self, timestamp: i64) {
        self.place.timestamp = timestamp;
        self.context.restore(&self.place);
        self.context.reach(timestamp);
        self.place.offset += 1;
    }

    pub(super) fn init_context(&self) -> InitContext<'_> {
        let TestTask { context, stores, name, connected, .. } = self;
        InitContext { task: context, stores, node: name, connected }
    }

    /// The processor as the only node of the task.
    pub(super) fn build_processor<P: Processor>(
        &self,
        supplier: ProcessorSupplier<P>,
        children: Vec<Child<P::Out>>,
    ) -> Result<AloneOf<P::In>> {
        let TestTask { context, stores, name, connected, .. } = self;
        let node = || Alone::processor(&supplier, name, connected, context, stores, children);
        catch_panic(node)?
    }

    /// Calls user code; what goes wrong is an error.
    pub(super) fn caught<T>(&self, call: impl FnOnce() -> Result<T, Fault>) -> Result<T> {
        catch_panic(call)?.map_err(Fault::into_error)
    }
}

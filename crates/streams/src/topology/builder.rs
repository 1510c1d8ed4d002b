//! Builds a topology node by node: the Processor API's way, and the end of the DSL's.

use super::consumed::Consumed;
use super::copartition::{self, Copartition};
use super::erased::{EdgeType, NodeFactory, ProcessorWrapper, node_factory};
use super::internal_topics::RepartitionTopic;
use super::names::check_name;
use super::node::{NodeFacts, NodeKind, NodeSpec, Role, SinkTopic, SourceSpec};
use super::produced::{Produced, TopicTarget};
use super::subtopology::group;
use super::{Graph, Topology};
use crate::error::{Error, Result};
use crate::processor::{
    InitContext, KeyOf, KeyValue, Processor, ProcessorSupplier, ValueOf, build_processor,
};
use crate::state::{GlobalSpec, StoreSpec, StoreToken, StoreType};
use crate::task::{SinkSpec, sink, source};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::marker::PhantomData;
use std::panic::Location;
use std::rc::Rc;
use std::sync::Arc;

/// A node whose children take `Record<K, V>`.
pub struct NodeHandle<K, V> {
    index: usize,
    types: PhantomData<fn() -> (K, V)>,
}

/// A node whose children take the records of a pair.
pub type HandleOf<P> = NodeHandle<KeyOf<P>, ValueOf<P>>;

impl<K, V> Clone for NodeHandle<K, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K, V> Copy for NodeHandle<K, V> {}

impl<K, V> fmt::Debug for NodeHandle<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("NodeHandle").field(&self.index).finish()
    }
}

/// Builds a topology by hand. Handles carry the types, so that an edge between nodes that do not fit does not compile.
///
/// ```
/// use kstreams::prelude::*;
///
/// struct Shout;
///
/// impl Processor for Shout {
///     type In = (String, String);
///     type Out = (String, String);
///
///     fn process(&mut self, record: Record<String, String>, ctx: &mut Context<Self>) -> ProcessResult {
///         let value = record.value.to_uppercase();
///         ctx.forward(record.with_value(value))
///     }
/// }
///
/// let mut topology = TopologyBuilder::new();
/// let lines = topology.add_source("lines", "in", Consumed::<String, String>::new());
/// let shout = topology.add_processor("shout", |_| Ok(Shout), &[&lines]);
/// topology.add_sink("loud", "out", Produced::new(), &[&shout]);
/// let topology = topology.build()?;
/// assert!(topology.describe().contains("Processor: shout (stores: [])"));
/// # Ok::<(), kstreams::Error>(())
/// ```
#[derive(Default)]
pub struct TopologyBuilder {
    nodes: Vec<NodeSpec>,
    by_name: BTreeMap<Arc<str>, usize>,
    stores: Vec<StoreSpec>,
    globals: Vec<GlobalSpec>,
    copartition: Vec<Copartition>,
    source_topics: BTreeMap<Arc<str>, usize>,
    repartition_topics: BTreeMap<Arc<str>, RepartitionTopic>,
    writers: BTreeMap<Arc<str>, Arc<str>>,
    wrapper: Option<Rc<dyn ProcessorWrapper>>,
    /// The first mistake; `build` reports it.
    mistake: Option<Error>,
    /// Whether the mistake says in which line of the user's program it was made.
    located: bool,
}

impl TopologyBuilder {
    /// An empty topology.
    pub fn new() -> Self {
        TopologyBuilder::default()
    }

    /// Adds a node that reads a topic.
    pub fn add_source<K, V>(
        &mut self,
        name: &str,
        topic: &str,
        consumed: Consumed<K, V>,
    ) -> NodeHandle<K, V>
    where
        K: Clone + 'static,
        V: Clone + 'static,
    {
        self.typed(name, source_kind(vec![topic.into()], consumed), Vec::new())
    }

    /// Adds a processor. The supplier is called once for each task.
    pub fn add_processor<P, F>(
        &mut self,
        name: &str,
        supplier: F,
        parents: &[&HandleOf<P::In>],
    ) -> HandleOf<P::Out>
    where
        P: Processor,
        F: Fn(&mut InitContext) -> Result<P> + Send + Sync + 'static,
    {
        let kind = processor_kind(Arc::new(supplier));
        let handle = self.typed(name, kind, parents.iter().map(|parent| parent.index).collect());
        self.set_facts(handle.index, NodeFacts { role: Role::Processor, ..NodeFacts::default() });
        handle
    }

    /// Adds a node that writes to a topic, fixed or computed.
    pub fn add_sink<K, V>(
        &mut self,
        name: &str,
        target: impl Into<TopicTarget<K, V>>,
        produced: Produced<K, V>,
        parents: &[&NodeHandle<K, V>],
    ) where
        K: 'static,
        V: 'static,
    {
        let (key, value) = (produced.key.resolve(None), produced.value.resolve(None));
        let (Some(key), Some(value)) = (key, value) else {
            self.fail(Error::topology(format!(
                "sink {name} has no serdes: Produced::carried() is for streams of the DSL, give them by Produced::with"
            )));
            return;
        };
        let partitioner = produced.partitioner;
        let spec = SinkSpec { target: target.into(), internal: false, key, value, partitioner };
        let parents = parents.iter().map(|parent| parent.index).collect();
        self.add(name, sink_kind(spec), parents);
    }

    /// Gives a processor access to a store, which is made if it is new.
    pub fn connect_store<S: StoreType, K, V>(
        &mut self,
        token: &StoreToken<S>,
        processor: &NodeHandle<K, V>,
    ) {
        self.add_store(token.spec);
        self.connect(processor.index, &token.spec.name);
    }

    /// Checks the whole.
    ///
    /// # Errors
    /// The first mistake that was made: a duplicate name, a topic that two sources read, a store under one name with two types, a
    /// bad name.
    pub fn build(mut self) -> Result<Topology> {
        self.wrap();
        if let Some(mistake) = self.mistake {
            return Err(mistake);
        }
        for (index, node) in self.nodes.iter().enumerate() {
            self.check_edges(index, node)?;
        }
        let subtopologies = group(&self.nodes);
        let copartition = copartition::united(self.copartition);
        copartition::check(&copartition, &self.repartition_topics)?;
        Ok(Topology(Arc::new(Graph {
            nodes: self.nodes,
            stores: self.stores,
            globals: self.globals,
            repartition_topics: self.repartition_topics,
            writers: self.writers,
            subtopologies,
            copartition,
        })))
    }

    /// Puts code around every processor of the topology; see [`ProcessorWrapper`]. There is one wrapper: the last.
    pub fn wrap_processors(&mut self, wrapper: impl ProcessorWrapper) {
        self.set_wrapper(Rc::new(wrapper));
    }

    pub(crate) fn set_wrapper(&mut self, wrapper: Rc<dyn ProcessorWrapper>) {
        self.wrapper = Some(wrapper);
    }

    /// Asks the wrapper about each processor.
    fn wrap(&mut self) {
        let Some(wrapper) = self.wrapper.take() else { return };
        for index in 0..self.nodes.len() {
            let node = &mut self.nodes[index];
            if !matches!(node.kind, NodeKind::Processor { .. }) {
                continue;
            }
            let Some(wrapping) = wrapper.wrap(&node.name) else { continue };
            let stores = wrapping.stores.clone();
            node.wrapping = Some(wrapping);
            if node.is_global && !stores.is_empty() {
                let message =
                    format!("the wrapper of {} cannot have stores: it is global", node.name);
                self.fail(Error::topology(message));
            }
            for store in stores {
                self.add_store(store);
                self.connect(index, &store.name);
            }
        }
    }

    fn check_edges(&self, index: usize, node: &NodeSpec) -> Result<()> {
        if node.parents.is_empty() && node.input().is_some() {
            return Err(Error::topology(format!("node {} has no parent", node.name)));
        }
        for &parent in &node.parents {
            let Some(parent) = self.nodes.get(parent).filter(|_| parent < index) else {
                return Err(Error::topology(format!(
                    "a parent of node {} is of another topology",
                    node.name
                )));
            };
            if let (Some(output), Some(input)) = (parent.output(), node.input())
                && output != input
            {
                return Err(Error::topology(format!(
                    "node {} gives {}, its child {} takes {}",
                    parent.name,
                    output.name(),
                    node.name,
                    input.name()
                )));
            }
        }
        Ok(())
    }

    fn typed<K, V>(&mut self, name: &str, kind: NodeKind, parents: Vec<usize>) -> NodeHandle<K, V> {
        NodeHandle { index: self.add(name, kind, parents), types: PhantomData }
    }

    /// Adds a node and gives its index.
    pub(crate) fn add(&mut self, name: &str, kind: NodeKind, parents: Vec<usize>) -> usize {
        let index = self.nodes.len();
        let name: Arc<str> = name.into();
        if let Err(error) = check_name("node", &name) {
            self.fail(error);
        }
        if self.by_name.insert(name.clone(), index).is_some() {
            self.fail(Error::topology(format!("there are two nodes with the name {name}")));
        }
        match &kind {
            NodeKind::Source(source) => self.claim_topics(&name, source, index),
            NodeKind::Sink { topic: SinkTopic::Fixed(topic), .. } => self.check_topic(topic),
            NodeKind::Processor { .. } | NodeKind::Sink { .. } => {}
        }
        self.nodes.push(NodeSpec {
            name,
            kind,
            parents,
            stores: Vec::new(),
            sends_old_values: false,
            is_global: false,
            wrapping: None,
            facts: NodeFacts::default(),
        });
        index
    }

    fn check_topic(&mut self, topic: &Arc<str>) {
        if let Err(error) = check_name("topic", topic) {
            self.fail(error);
        }
    }

    fn claim_topics(&mut self, name: &Arc<str>, source: &SourceSpec, index: usize) {
        for topic in &source.topics {
            self.check_topic(topic);
            if let Some(&other) = self.source_topics.get(topic) {
                let other = self.nodes.get(other).map_or(name, |node| &node.name).clone();
                self.fail(Error::topology(format!(
                    "topic {topic} is read by two sources, {other} and {name}: read it once and use the stream twice"
                )));
            }
            self.source_topics.insert(topic.clone(), index);
        }
    }

    pub(crate) fn add_store(&mut self, spec: &StoreSpec) {
        if let Err(error) = check_name("store", &spec.name) {
            self.fail(error);
        }
        if let Some(mistake) = spec.kind.mistake() {
            self.fail(Error::topology(format!("store {}: {mistake}", spec.name)));
        }
        let same = |other: &StoreSpec| {
            (other.types, other.format, other.kind) == (spec.types, spec.format, spec.kind)
        };
        match self.stores.iter().find(|store| store.name == spec.name) {
            None => self.stores.push(spec.clone()),
            Some(other) if same(other) => {}
            Some(other) => {
                let (name, one, two) = (&spec.name, other.types, spec.types);
                let mistake = format!("store {name} is used as a store of {one} and of {two}");
                self.fail(Error::topology(mistake));
            }
        }
    }

    /// Adds the store of an operator, which no other operator may have; processors of users may use it as well, and what it is like,
    /// the operator says.
    pub(crate) fn add_own_store(&mut self, node: usize, spec: &StoreSpec) {
        let has_store = |other: &&NodeSpec| other.stores.contains(&spec.name);
        let mut operators = self.nodes.iter().filter(|other| other.facts.role != Role::Processor);
        if let Some(other) = operators.find(has_store) {
            let name = self.nodes.get(node).map_or(&spec.name, |node| &node.name);
            let mistake =
                format!("store {} is used by two nodes, {} and {name}", spec.name, other.name);
            self.fail(Error::topology(mistake));
        }
        self.add_store(spec);
        if let Some(known) = self.stores.iter_mut().find(|store| store.name == spec.name) {
            *known = spec.clone();
        }
        self.connect(node, &spec.name);
    }

    pub(crate) fn connect(&mut self, node: usize, store: &Arc<str>) {
        if let Some(node) = self.nodes.get_mut(node)
            && !node.stores.contains(store)
        {
            node.stores.push(store.clone());
        }
    }

    /// Tells topics that must have equally many partitions.
    pub(crate) fn add_copartition(&mut self, topics: BTreeSet<Arc<str>>, what: &'static str) {
        self.copartition.push(Copartition { topics, what });
    }

    /// Makes a source and the node below it a global table.
    pub(crate) fn add_global(&mut self, nodes: [usize; 2], spec: &GlobalSpec) {
        if let Err(error) = check_name("store", &spec.name) {
            self.fail(error);
        }
        let is_taken = self.globals.iter().any(|global| global.name == spec.name)
            || self.stores.iter().any(|store| store.name == spec.name);
        if is_taken {
            self.fail(Error::topology(format!("there are two stores with the name {}", spec.name)));
        }
        for node in nodes {
            if let Some(node) = self.nodes.get_mut(node) {
                node.is_global = true;
            }
        }
        self.connect(nodes[1], &spec.name);
        self.globals.push(spec.clone());
    }

    /// Names the topic from which a store is written.
    pub(crate) fn add_writer(&mut self, store: &Arc<str>, topic: &Arc<str>) {
        if self.writers.insert(store.clone(), topic.clone()).is_some() {
            self.fail(Error::topology(format!("store {store} has two writers: one is enough")));
        }
    }

    /// Tells what the topology check wants to know of a node.
    pub(crate) fn set_facts(&mut self, node: usize, facts: NodeFacts) {
        if let Some(node) = self.nodes.get_mut(node) {
            node.facts = facts;
        }
    }

    /// Makes a node tell the value before each change of its table.
    pub(crate) fn send_old_values(&mut self, node: usize) {
        if let Some(node) = self.nodes.get_mut(node) {
            node.sends_old_values = true;
        }
    }

    pub(crate) fn add_repartition_topic(&mut self, name: &Arc<str>, topic: RepartitionTopic) {
        if let Err(error) = check_name("topic", name) {
            self.fail(error);
        }
        if self.repartition_topics.insert(name.clone(), topic).is_some() {
            self.fail(Error::topology(format!(
                "the repartition topic {name} is used twice: give Grouped or Repartitioned another name"
            )));
        }
    }

    /// Tells in which line of the user's program the last node was asked for.
    pub(crate) fn locate(&mut self, location: &Location<'_>) {
        if !self.located
            && let Some(mistake) = self.mistake.take()
        {
            self.mistake = Some(mistake.context(format!("at {location}")));
            self.located = true;
        }
    }

    pub(crate) fn fail(&mut self, mistake: Error) {
        self.mistake.get_or_insert(mistake);
    }
}

impl fmt::Debug for TopologyBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.nodes.iter().map(|node| &node.name)).finish()
    }
}

/// The physical form of a processor.
pub(crate) fn processor_kind<P: Processor>(supplier: ProcessorSupplier<P>) -> NodeKind {
    let factory = node_factory(move |wiring| build_processor(&supplier, wiring));
    operator_kind::<P::In, P::Out>(factory)
}

/// The physical form of an operator from pair `In` to pair `Out`.
pub(crate) fn operator_kind<In: KeyValue, Out: KeyValue>(factory: NodeFactory) -> NodeKind {
    NodeKind::Processor {
        input: EdgeType::of::<In::Key, In::Value>(),
        output: EdgeType::of::<Out::Key, Out::Value>(),
        factory,
    }
}

/// The physical form of a sink.
pub(crate) fn sink_kind<K: 'static, V: 'static>(spec: SinkSpec<K, V>) -> NodeKind {
    let topic = match &spec.target {
        TopicTarget::Fixed(topic) => SinkTopic::Fixed(topic.clone()),
        TopicTarget::Computed(extractor) => SinkTopic::Computed(extractor.name().into()),
    };
    NodeKind::Sink { topic, input: EdgeType::of::<K, V>(), factory: sink(spec) }
}

/// The physical form of a source of topics.
pub(crate) fn source_kind<K, V>(topics: Vec<Arc<str>>, consumed: Consumed<K, V>) -> NodeKind
where
    K: Clone + 'static,
    V: Clone + 'static,
{
    let reset = consumed.reset;
    let output = EdgeType::of::<K, V>();
    NodeKind::Source(SourceSpec { topics, reset, output, factory: source(consumed) })
}

//! The plan while it is written: shared by all streams and tables of one builder.

use super::names::{self, Names, RepartitionNames};
use super::node::{
    Changes, KeyFilter, PlanId, PlanKind, PlanNode, RepartitionNode, SelfJoinPlan, WindowClosing,
};
use super::optimize::Optimizations;
use crate::error::Error;
use crate::operators::{not_null_key, pass};
use crate::serde::SerdeRef;
use crate::state::StoreSpec;
use crate::task::SinkSpec;
use crate::topology::{
    Consumed, FailOnInvalidTimestamp, ProcessorWrapper, RepartitionTopic, Role, StreamPartitioner,
    TopicTarget, operator_kind, sink_kind, source_kind,
};
use std::cell::RefCell;
use std::ops::Range;
use std::panic::Location;
use std::rc::Rc;
use std::sync::Arc;

/// The nodes in the order in which they were asked for, which is the order in which they are lowered.
#[derive(Default)]
pub(crate) struct Plan {
    pub(super) nodes: Vec<PlanNode>,
    names: Names,
    /// Joins of two streams.
    pub(super) self_joins: Vec<SelfJoinPlan>,
    /// Nodes whose records meet by key, and why.
    pub(super) copartitioned: Vec<(Vec<PlanId>, &'static str)>,
    /// The user's code around all processors.
    pub(super) wrapper: Option<Rc<dyn ProcessorWrapper>>,
    /// The first mistake; `build` reports it.
    pub(super) mistake: Option<String>,
}

/// What may be said about a repartition topic.
pub(crate) struct RepartitionOptions<K, V> {
    pub(crate) topic: RepartitionTopic,
    pub(crate) partitioner: Option<Arc<dyn StreamPartitioner<K, V>>>,
    /// Whether it may become one with others that take the same records.
    pub(crate) is_optimizable: bool,
}

impl<K, V> Default for RepartitionOptions<K, V> {
    fn default() -> Self {
        RepartitionOptions {
            topic: RepartitionTopic::default(),
            partitioner: None,
            is_optimizable: true,
        }
    }
}

/// A plan that streams and tables share.
#[derive(Clone, Default)]
pub(crate) struct PlanRef(Rc<RefCell<Plan>>);

impl PlanRef {
    /// A name for a node of the plan: the one given, or Java's.
    pub(crate) fn name(&self, given: Option<String>, prefix: &str) -> String {
        self.0.borrow_mut().names.given_or_next(given, prefix)
    }

    /// A name for a processor: a given one takes no number.
    pub(crate) fn processor_name(&self, given: Option<String>, prefix: &str) -> String {
        given.unwrap_or_else(|| self.0.borrow_mut().names.next(prefix))
    }

    /// A name for a store.
    pub(crate) fn store_name(&self, given: Option<String>, prefix: &str) -> String {
        given.unwrap_or_else(|| self.0.borrow_mut().names.next_store(prefix))
    }

    #[track_caller]
    pub(crate) fn add(&self, name: String, kind: PlanKind, parents: Vec<PlanId>) -> PlanId {
        let location = Location::caller();
        let mut plan = self.0.borrow_mut();
        plan.nodes.push(PlanNode {
            name,
            kind,
            parents,
            location,
            table: None,
            wants_null_keys: false,
            store: None,
            joined_with: None,
            repartitioned: None,
            changes: Changes::Nothing,
            closing: None,
            role: Role::Operator,
            only_grows: false,
        });
        PlanId(plan.nodes.len() - 1)
    }

    /// Gives an operator another name than its generated one.
    pub(crate) fn rename(&self, id: PlanId, name: String) {
        self.with_node(id, |node| {
            if let PlanKind::TableJoin(join) = &mut node.kind {
                let [this, other] = &mut join.sides;
                this.name = format!("{name}-join-this");
                other.name = format!("{name}-join-other");
            }
            node.name = name;
        });
    }

    pub(super) fn with_node<R>(&self, id: PlanId, f: impl FnOnce(&mut PlanNode) -> R) -> R {
        f(&mut self.0.borrow_mut().nodes[id.0])
    }

    /// The next number.
    pub(crate) fn next_number(&self) -> u32 {
        self.0.borrow().names.peek()
    }

    /// Takes a number for a store that Java names before it names the operator, which has taken the numbers from `first` on: its
    /// own names move up by one. If other names came in between, they stay and the store comes last.
    pub(crate) fn store_name_before(&self, id: PlanId, taken: &Range<u32>, prefix: &str) -> String {
        let mut plan = self.0.borrow_mut();
        let last = plan.names.next_store(prefix);
        if plan.names.peek() != taken.end + 1 {
            return last;
        }
        plan.nodes[id.0].move_names_up(taken);
        names::store_name(prefix, taken.start)
    }

    /// Takes numbers back that turned out not to be needed, unless others came after them.
    pub(crate) fn give_back(&self, numbers: &Range<u32>) {
        self.0.borrow_mut().names.give_back(numbers);
    }

    /// Reports a mistake in the program, if there is one.
    #[track_caller]
    pub(crate) fn fail_if(&self, mistake: Option<String>) {
        if let Some(mistake) = mistake {
            self.fail(&mistake);
        }
    }

    /// What a node changes of the records that pass.
    pub(crate) fn set_changes(&self, id: PlanId, changes: Changes) {
        self.with_node(id, |node| node.changes = changes);
    }

    /// Notes a join that may be of a stream with itself.
    pub(crate) fn add_self_join(&self, join: SelfJoinPlan) {
        self.0.borrow_mut().self_joins.push(join);
    }

    /// Says that what comes out of these nodes meets by key: their topics need the same number of partitions.
    pub(crate) fn copartition(&self, nodes: &[PlanId], what: &'static str) {
        self.0.borrow_mut().copartitioned.push((nodes.to_vec(), what));
    }

    /// Reports a mistake in the program.
    #[track_caller]
    pub(crate) fn fail(&self, mistake: &str) {
        let mistake = format!("{mistake} ({})", Location::caller());
        self.0.borrow_mut().mistake.get_or_insert(mistake);
    }

    pub(crate) fn node_name(&self, id: PlanId) -> String {
        self.0.borrow().nodes[id.0].name.clone()
    }

    /// Adds a repartition topic under `parent`, named after `base`.
    #[track_caller]
    pub(crate) fn add_repartition<K, V>(
        &self,
        base: &str,
        parent: PlanId,
        key: &SerdeRef<K>,
        value: &SerdeRef<V>,
        options: RepartitionOptions<K, V>,
    ) -> PlanId
    where
        K: Clone + 'static,
        V: Clone + 'static,
    {
        let names = self.0.borrow_mut().names.repartition(base);
        let filter = KeyFilter {
            name: names.filter.clone(),
            strict: operator_kind::<(K, V), (K, V)>(not_null_key::<K, V>(key.clone())),
            lenient: operator_kind::<(K, V), (K, V)>(pass::<K, V>()),
        };
        self.add_repartition_topic(names, (parent, Some(filter)), (key, value), options)
    }

    /// The names around a repartition topic of `base`.
    pub(crate) fn repartition_names(&self, base: &str) -> RepartitionNames {
        self.0.borrow_mut().names.repartition(base)
    }

    /// Adds a repartition topic with what goes on in front of it.
    #[track_caller]
    pub(crate) fn add_repartition_topic<K, V>(
        &self,
        names: RepartitionNames,
        (parent, filter): (PlanId, Option<KeyFilter>),
        (key, value): (&SerdeRef<K>, &SerdeRef<V>),
        options: RepartitionOptions<K, V>,
    ) -> PlanId
    where
        K: Clone + 'static,
        V: Clone + 'static,
    {
        let RepartitionNames { topic, sink, source, .. } = names;
        let topic_name: Arc<str> = topic.into();
        let sink_spec = SinkSpec {
            target: TopicTarget::Fixed(topic_name.clone()),
            internal: true,
            key: key.clone(),
            value: value.clone(),
            partitioner: options.partitioner,
        };
        // The time was extracted before; a default extractor of the application is for its own inputs.
        let consumed = Consumed::with(key.clone(), value.clone());
        let consumed = consumed.timestamp_extractor(FailOnInvalidTimestamp);
        let name = source.clone();
        let node = RepartitionNode {
            filter,
            sink: (sink, sink_kind(sink_spec)),
            source: (source, source_kind(vec![topic_name.clone()], consumed)),
            topic_name,
            topic: options.topic,
            is_optimizable: options.is_optimizable,
        };
        self.add(name, PlanKind::Repartition(Box::new(node)), vec![parent])
    }

    /// Takes three numbers, as a repartition that is used a second time does in Java.
    pub(crate) fn skip_repartition_names(&self, base: &str) {
        self.0.borrow_mut().names.repartition(base);
    }

    /// The node below which the records of `stream` are partitioned by their key, for a join of that name. Joins without a name
    /// share one topic, named after the stream's operator.
    #[track_caller]
    pub(crate) fn repartition_for_join<K, V>(
        &self,
        stream: PlanId,
        name: Option<&str>,
        key: &SerdeRef<K>,
        value: &SerdeRef<V>,
    ) -> PlanId
    where
        K: Clone + 'static,
        V: Clone + 'static,
    {
        let own_name = self.node_name(stream);
        let base = name.unwrap_or(&own_name);
        let used = self.with_node(stream, |node| node.repartitioned);
        if let Some(used) = used.filter(|_| base == own_name) {
            self.skip_repartition_names(base);
            return used;
        }
        let options = RepartitionOptions::default();
        let repartitioned = self.add_repartition(base, stream, key, value, options);
        self.with_node(stream, |node| node.repartitioned = Some(repartitioned));
        repartitioned
    }

    /// Until when the windows of a node can still change.
    pub(crate) fn set_role(&self, id: PlanId, role: Role) {
        self.with_node(id, |node| node.role = role);
    }

    /// Notes that a table never deletes a key.
    pub(crate) fn only_grows(&self, id: PlanId) {
        self.with_node(id, |node| node.only_grows = true);
    }

    pub(crate) fn set_closing(&self, id: PlanId, closing: WindowClosing) {
        self.with_node(id, |node| node.closing = Some(closing));
    }

    /// Until when the windowed aggregations that a table comes from can change it; the last of several, none if it comes from
    /// something else as well.
    pub(crate) fn window_closing(&self, id: PlanId) -> Option<WindowClosing> {
        let (closing, parents) = self.with_node(id, |node| (node.closing, node.parents.clone()));
        if closing.is_some() {
            return closing;
        }
        let closings = parents.into_iter().map(|parent| self.window_closing(parent));
        closings.collect::<Option<Vec<WindowClosing>>>()?.into_iter().max()
    }

    /// Gives an operator that makes no table a store of its own.
    pub(crate) fn store_in(&self, id: PlanId, store: StoreSpec) {
        self.with_node(id, |node| node.store = Some(store));
    }

    /// Tells that the records of a node are also partitioned as those of `other` are: what it is joined with.
    pub(crate) fn join_with(&self, id: PlanId, other: PlanId) {
        self.with_node(id, |node| node.joined_with = Some(other));
    }

    /// Keeps records without a key for a join that has results for them: no repartition topic above it drops them.
    pub(crate) fn want_null_keys(&self, join: PlanId) {
        self.with_node(join, |node| node.wants_null_keys = true);
    }

    /// Reports that neither options nor stream have a serde.
    #[track_caller]
    pub(crate) fn fail_without_serdes(&self, what: &str) {
        let location = Location::caller();
        let mistake = format!(
            "{what} has no serde for its key or value, and the stream carries none \
             ({location}): give them by with(key, value) on the options"
        );
        self.0.borrow_mut().mistake.get_or_insert(mistake);
    }

    pub(crate) fn set_wrapper(&self, wrapper: Rc<dyn ProcessorWrapper>) {
        self.0.borrow_mut().wrapper = Some(wrapper);
    }

    pub(crate) fn lower(
        &self,
        optimizations: Optimizations,
    ) -> Result<crate::topology::Topology, Error> {
        super::lower::lower(&self.0.borrow(), optimizations)
    }
}

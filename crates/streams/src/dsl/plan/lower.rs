//! From plan to topology: the only place where the DSL calls the topology builder.

use super::graph::Plan;
use super::node::{
    ForeignKeyJoinNode, KeyFilter, NamedKind, PlanId, PlanKind, PlanNode, ReadingKind,
    RepartitionNode, TableJoinNode,
};
use super::optimize::{Layout, Optimizations};
use crate::error::{Error, Result};
use crate::state::StoreSpec;
use crate::topology::{NodeFacts, NodeKind, RepartitionTopic, Role, Topology, TopologyBuilder};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Writes the nodes in the order in which they were asked for; parents come first by construction.
pub(super) fn lower(plan: &Plan, optimizations: Optimizations) -> Result<Topology> {
    if let Some(mistake) = &plan.mistake {
        return Err(Error::topology(mistake.clone()));
    }
    let mut builder = TopologyBuilder::new();
    if let Some(wrapper) = &plan.wrapper {
        builder.set_wrapper(wrapper.clone());
    }
    // The physical node that a plan node's children hang on.
    let mut outputs: Vec<usize> = vec![0; plan.nodes.len()];
    let mut sources: BTreeMap<Vec<Arc<str>>, usize> = BTreeMap::new();
    let keeps_null_keys = keeping_null_keys(plan);
    let layout = Layout::of(plan, optimizations);
    for &PlanId(place) in &layout.order {
        let node = &plan.nodes[place];
        let (name, kind) = match layout.replaced.get(&PlanId(place)) {
            Some((name, kind)) => (name, kind),
            None => (&node.name, &node.kind),
        };
        let parents = layout.parents[place].iter().map(|parent| outputs[parent.0]).collect();
        let output = match kind {
            PlanKind::Source(kind) => add_source(&mut builder, &mut sources, name, kind),
            PlanKind::Node(kind) => builder.add(name, kind.clone(), parents),
            PlanKind::Stateful(kind, stores) | PlanKind::Table(kind, stores) => {
                add_stateful(&mut builder, name, kind, parents, stores)
            }
            PlanKind::StoreWriter(kind, store, topic) => {
                builder.add_writer(&store.name, topic);
                let stores = std::slice::from_ref(store);
                add_stateful(&mut builder, name, kind, parents, stores)
            }
            PlanKind::Reader(kind, stores) => {
                let index = builder.add(name, kind.clone(), parents);
                for store in stores {
                    builder.connect(index, store);
                }
                index
            }
            PlanKind::Repartition(node) => {
                add_repartition(&mut builder, node, parents, keeps_null_keys[place])
            }
            PlanKind::TableSource(table) => {
                let (source_name, source) = &table.source;
                let source = builder.add(source_name, source.clone(), Vec::new());
                builder.add(name, table.table.clone(), vec![source])
            }
            PlanKind::GlobalTable(table, spec) => {
                let (name, source) = &table.source;
                let source = builder.add(name, source.clone(), Vec::new());
                let table = builder.add(&node.name, table.table.clone(), vec![source]);
                builder.add_global([source, table], spec);
                table
            }
            PlanKind::ForeignKeyJoin(join) => {
                add_foreign_key_join(&mut builder, &node.name, join, &parents)
            }
            PlanKind::TableJoin(join) => add_table_join(&mut builder, node, join, &parents),
        };
        add_own_store(&mut builder, node, kind, output, optimizations);
        if node.sends_old_values() {
            builder.send_old_values(output);
        }
        builder.set_facts(output, node.facts());
        builder.locate(node.location);
        outputs[place] = output;
    }
    copartition(&mut builder, plan, &layout);
    builder.build()
}

/// Tells which topics must have equally many partitions.
fn copartition(builder: &mut TopologyBuilder, plan: &Plan, layout: &Layout) {
    for (nodes, what) in &plan.copartitioned {
        let topics = nodes.iter().flat_map(|&node| sources_of(plan, layout, node)).collect();
        builder.add_copartition(topics, what);
    }
    for (place, node) in plan.nodes.iter().enumerate() {
        if let PlanKind::StoreWriter(_, store, _) = &node.kind {
            let places = plan.nodes.iter().enumerate();
            let users = places.filter(|(other, user)| *other == place || user.uses(&store.name));
            let topics = users.flat_map(|(user, _)| sources_of(plan, layout, PlanId(user)));
            builder.add_copartition(topics.collect(), "a store and its writer");
        }
        if let PlanKind::ForeignKeyJoin(join) = &node.kind {
            for (table, messages) in node.parents.iter().zip([&join.response, &join.registration]) {
                let mut topics = sources_of(plan, layout, *table);
                topics.insert(messages.topic.clone());
                builder.add_copartition(topics, "a table and the messages of its join");
            }
        }
    }
}

/// Adds the store that only this node has.
fn add_own_store(
    builder: &mut TopologyBuilder,
    node: &PlanNode,
    kind: &PlanKind,
    output: usize,
    optimizations: Optimizations,
) {
    let Some(store) = node.own_store() else { return };
    match source_changelog(kind).filter(|_| optimizations.reuse_source_topics) {
        Some(topic) => {
            let store = StoreSpec { source_topic: Some(topic), logging: None, ..store.clone() };
            builder.add_own_store(output, &store);
        }
        None => builder.add_own_store(output, store),
    }
}

/// The topic that has all that a table's store has.
fn source_changelog(kind: &PlanKind) -> Option<Arc<str>> {
    let PlanKind::TableSource(table) = kind else { return None };
    match &table.source.1 {
        NodeKind::Source(source) => source.topics.first().cloned(),
        _ => None,
    }
}

/// The topics by which the records of a node are partitioned.
fn sources_of(plan: &Plan, layout: &Layout, id: PlanId) -> BTreeSet<Arc<str>> {
    let node = &plan.nodes[id.0];
    let kind = layout.replaced.get(&id).map_or(&node.kind, |(_, kind)| kind);
    let topics = |kind: &NodeKind| match kind {
        NodeKind::Source(source) => source.topics.iter().cloned().collect(),
        _ => BTreeSet::new(),
    };
    let parents = &layout.parents[id.0];
    match kind {
        PlanKind::Source(kind) => topics(kind),
        PlanKind::TableSource(table) => topics(&table.source.1),
        PlanKind::GlobalTable(..) => BTreeSet::new(),
        PlanKind::Repartition(repartition) => [repartition.topic_name.clone()].into(),
        PlanKind::ForeignKeyJoin(join) => {
            let left = parents.first().map(|&left| sources_of(plan, layout, left));
            let mut topics = left.unwrap_or_default();
            topics.insert(join.response.topic.clone());
            topics
        }
        _ => {
            let parents = parents.iter().chain(&node.joined_with);
            parents.flat_map(|&parent| sources_of(plan, layout, parent)).collect()
        }
    }
}

/// Above which nodes there is a join, near or far, that wants records without a key.
fn keeping_null_keys(plan: &Plan) -> Vec<bool> {
    let mut keeping = vec![false; plan.nodes.len()];
    for (place, node) in plan.nodes.iter().enumerate().rev() {
        if node.wants_null_keys || keeping[place] {
            for parent in &node.parents {
                keeping[parent.0] = true;
            }
        }
    }
    keeping
}

/// Adds a source, unless the same topics have one already.
fn add_source(
    builder: &mut TopologyBuilder,
    sources: &mut BTreeMap<Vec<Arc<str>>, usize>,
    name: &str,
    kind: &NodeKind,
) -> usize {
    let NodeKind::Source(source) = kind else { return builder.add(name, kind.clone(), Vec::new()) };
    *sources
        .entry(source.topics.clone())
        .or_insert_with(|| builder.add(name, kind.clone(), Vec::new()))
}

fn add_stateful(
    builder: &mut TopologyBuilder,
    name: &str,
    kind: &NodeKind,
    parents: Vec<usize>,
    stores: &[StoreSpec],
) -> usize {
    let index = builder.add(name, kind.clone(), parents);
    for store in stores {
        builder.add_store(store);
        builder.connect(index, &store.name);
    }
    index
}

fn add_repartition(
    builder: &mut TopologyBuilder,
    node: &RepartitionNode,
    parents: Vec<usize>,
    keeps_null_keys: bool,
) -> usize {
    builder.add_repartition_topic(&node.topic_name, node.topic.clone());
    let parents = match &node.filter {
        Some(KeyFilter { name, lenient, .. }) if keeps_null_keys => {
            vec![builder.add(name, lenient.clone(), parents)]
        }
        Some(KeyFilter { name, strict, .. }) => vec![builder.add(name, strict.clone(), parents)],
        None => parents,
    };
    builder.add(&node.sink.0, node.sink.1.clone(), parents);
    builder.add(&node.source.0, node.source.1.clone(), Vec::new())
}

fn add_table_join(
    builder: &mut TopologyBuilder,
    node: &PlanNode,
    join: &TableJoinNode,
    parents: &[usize],
) -> usize {
    let mut sides = Vec::new();
    for (side, &parent) in join.sides.iter().zip(parents) {
        let index = builder.add(&side.name, side.kind.clone(), vec![parent]);
        for store in &side.reads {
            builder.connect(index, store);
        }
        builder.set_facts(index, NodeFacts { role: Role::Reader, ..NodeFacts::default() });
        if node.sends_old_values() {
            builder.send_old_values(index);
        }
        sides.push(index);
    }
    builder.add(&node.name, join.merge.clone(), sides)
}

fn add_foreign_key_join(
    builder: &mut TopologyBuilder,
    name: &str,
    join: &ForeignKeyJoinNode,
    tables: &[usize],
) -> usize {
    let add = |builder: &mut TopologyBuilder, NamedKind(name, kind): &NamedKind, parents| {
        builder.add(name, kind.clone(), parents)
    };
    let add_reading = |builder: &mut TopologyBuilder, node: &ReadingKind, parent| {
        let index = builder.add(&node.name, node.kind.clone(), vec![parent]);
        for store in &node.reads {
            builder.connect(index, store);
        }
        builder.set_facts(index, NodeFacts { role: Role::Reader, ..NodeFacts::default() });
        index
    };
    let &[left, right] = tables else { return 0 };
    let send = add(builder, &join.send, vec![left]);
    builder.add_repartition_topic(&join.registration.topic, RepartitionTopic::default());
    add(builder, &join.registration.sink, vec![send]);
    let subscriptions = add(builder, &join.registration.source, Vec::new());
    let receive = add(builder, &join.receive, vec![subscriptions]);
    builder.add_own_store(receive, &join.store);
    let lookup = add_reading(builder, &join.lookup, receive);
    let foreign_change = add(builder, &join.foreign_change, vec![right]);
    builder.connect(foreign_change, &join.store.name);
    builder.add_repartition_topic(&join.response.topic, RepartitionTopic::default());
    add(builder, &join.response.sink, vec![lookup, foreign_change]);
    let responses = add(builder, &join.response.source, Vec::new());
    let resolve = add_reading(builder, &join.resolve, responses);
    builder.add(name, join.result.clone(), vec![resolve])
}

//! The topology as the group knows it. The broker keeps what the first member sent and refuses anything else, so this has to be
//! Java's to the letter, and must never change for the same topology.

use crate::config::Settings;
use crate::error::Result;
use crate::processor::TaskId;
use crate::topology::{Graph, NodeKind, RepartitionTopic, SinkTopic, check_counts};
use kstreams_client::topology_description::{
    TopologyDescription, TopologyDescriptionNode, TopologyDescriptionSubtopology,
};
use kstreams_client::{
    CopartitionGroup, GroupTopology, InternalTopic, Subtopology, Task, TopicPartition,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What the members of the group send.
pub(super) fn group_topology(graph: &Graph, settings: &Settings) -> GroupTopology {
    let with_tasks = graph.with_tasks();
    let subtopologies = with_tasks.map(|number| subtopology(graph, settings, number)).collect();
    GroupTopology { epoch: 0, subtopologies }
}

fn subtopology(graph: &Graph, settings: &Settings, number: u32) -> Subtopology {
    let app = &settings.application.id;
    let replication_factor = settings.replication_factor;
    let (internal, external): (Vec<Arc<str>>, Vec<Arc<str>>) = graph
        .source_topics(number)
        .into_iter()
        .partition(|topic| graph.repartition_topics.contains_key(topic));
    let repartition_source = |topic: &Arc<str>| InternalTopic {
        name: graph.topic_name(app, topic).to_string(),
        partitions: graph.repartition_topics[topic].partitions.unwrap_or(0),
        replication_factor,
        configs: RepartitionTopic::configs(),
    };
    let sinks = graph.sink_topics(number).into_iter();
    let additional_retention = settings.changelog_additional_retention;
    let changelogs = graph.changelogs(app, number, additional_retention).into_iter();
    Subtopology {
        id: number.to_string(),
        source_topics: external.iter().map(ToString::to_string).collect(),
        repartition_source_topics: internal.iter().map(repartition_source).collect(),
        repartition_sink_topics: sinks
            .filter(|topic| graph.repartition_topics.contains_key(topic))
            .map(|topic| graph.topic_name(app, &topic).to_string())
            .collect(),
        changelog_topics: changelogs
            .map(|changelog| InternalTopic {
                name: changelog.name.to_string(),
                partitions: 0,
                replication_factor,
                configs: changelog.configs,
            })
            .collect(),
        copartition_groups: graph
            .copartitions(app, number)
            .iter()
            .map(|topics| copartition_group(graph, topics))
            .collect(),
        ..Subtopology::default()
    }
}

fn copartition_group(graph: &Graph, topics: &[(Arc<str>, Arc<str>)]) -> CopartitionGroup {
    let is_internal = |topic: &Arc<str>| graph.repartition_topics.contains_key(topic);
    let (internal, external): (Vec<_>, Vec<_>) =
        topics.iter().partition(|(topic, _)| is_internal(topic));
    let names = |topics: Vec<&(Arc<str>, Arc<str>)>| {
        topics.into_iter().map(|(_, name)| name.to_string()).collect()
    };
    CopartitionGroup {
        source_topics: names(external),
        repartition_source_topics: names(internal),
        ..CopartitionGroup::default()
    }
}

/// Refuses topics of users that need equally many partitions and do not have them. Repartition topics that are given a number are
/// part of it; the others follow.
pub(super) fn check_copartitions(graph: &Graph, counts: &BTreeMap<Arc<str>, i32>) -> Result<()> {
    for group in &graph.copartition {
        check_counts(group, |topic| {
            let given = graph.repartition_topics.get(topic).and_then(|topic| topic.partitions);
            given.or_else(|| counts.get(topic).copied())
        })?;
    }
    Ok(())
}

const SOURCE: i8 = 1;
const PROCESSOR: i8 = 2;
const SINK: i8 = 3;

/// The topology node by node, for brokers that ask for it.
pub(super) fn description(graph: &Graph, application_id: &str) -> TopologyDescription {
    let described = graph.subtopologies.iter().enumerate().map(|(number, subtopology)| {
        let nodes = subtopology.nodes.iter();
        TopologyDescriptionSubtopology {
            subtopology_id: number.to_string().into(),
            nodes: nodes.map(|&index| described_node(graph, application_id, index)).collect(),
        }
    });
    TopologyDescription { subtopologies: described.collect(), ..TopologyDescription::default() }
}

fn described_node(graph: &Graph, app: &str, index: usize) -> TopologyDescriptionNode {
    let node = &graph.nodes[index];
    let topic = |topic: &Arc<str>| graph.topic_name(app, topic).to_string().into();
    let children = graph.nodes.iter().filter(|child| child.parents.contains(&index));
    let described = TopologyDescriptionNode {
        name: node.name.to_string().into(),
        successors: children.map(|child| child.name.to_string().into()).collect(),
        ..TopologyDescriptionNode::default()
    };
    match &node.kind {
        NodeKind::Source(source) => TopologyDescriptionNode {
            node_type: SOURCE,
            source_topics: source.topics.iter().map(topic).collect(),
            ..described
        },
        NodeKind::Processor { .. } => TopologyDescriptionNode {
            node_type: PROCESSOR,
            stores: node.stores.iter().map(|store| store.to_string().into()).collect(),
            ..described
        },
        NodeKind::Sink { topic: target, .. } => TopologyDescriptionNode {
            node_type: SINK,
            sink_topic: match target {
                SinkTopic::Fixed(fixed) => Some(topic(fixed)),
                SinkTopic::Computed(_) => None,
            },
            ..described
        },
    }
}

/// All topics that the application reads, with their names on the cluster.
pub(super) fn source_topics(graph: &Graph, application_id: &str) -> BTreeSet<Arc<str>> {
    graph
        .with_tasks()
        .flat_map(|number| graph.source_topics(number))
        .map(|topic| graph.topic_name(application_id, &topic))
        .collect()
}

/// The repartition topics, with their names on the cluster.
pub(super) fn repartition_topics(graph: &Graph, application_id: &str) -> BTreeSet<Arc<str>> {
    graph.repartition_topics.keys().map(|topic| graph.topic_name(application_id, topic)).collect()
}

/// The topics that users own and the application reads or writes.
pub(super) fn external_topics(graph: &Graph) -> BTreeSet<Arc<str>> {
    (0..graph.subtopologies.len() as u32)
        .flat_map(|number| graph.source_topics(number).into_iter().chain(graph.sink_topics(number)))
        .filter(|topic| !graph.repartition_topics.contains_key(topic))
        .collect()
}

/// The partitions that a task reads.
pub(super) fn inputs(
    graph: &Graph,
    application_id: &str,
    task: TaskId,
    partitions: impl Fn(&str) -> Option<i32>,
) -> Option<Vec<TopicPartition>> {
    let mut inputs = Vec::new();
    for topic in graph.source_topics(task.subtopology) {
        let topic = graph.topic_name(application_id, &topic);
        if task.partition < partitions(&topic)? {
            inputs.push(TopicPartition::new(topic, task.partition));
        }
    }
    Some(inputs)
}

/// The task's name in the group protocol.
pub(super) fn to_member_task(task: TaskId) -> Task {
    Task::new(task.subtopology.to_string(), task.partition)
}

/// The task behind a name of the group protocol.
pub(super) fn from_member_task(task: &Task) -> Option<TaskId> {
    Some(TaskId { subtopology: task.subtopology.parse().ok()?, partition: task.partition })
}

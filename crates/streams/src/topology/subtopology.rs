//! Sub-topologies: the parts of a graph that hang together by edges or stores. Each is run by one task a partition.

use super::node::{NodeKind, NodeSpec, SinkTopic};
use super::{ChangelogTopic, Graph};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A connected part of the graph: node indices, in the order in which nodes were added.
#[derive(Debug, Clone)]
pub(crate) struct Subtopology {
    pub(crate) nodes: Vec<usize>,
    /// Whether it only fills a global table, which no task does.
    pub(crate) is_global: bool,
}

/// Groups nodes. Numbers follow the order in which each group's first node was added.
pub(crate) fn group(nodes: &[NodeSpec]) -> Vec<Subtopology> {
    let mut groups = Groups((0..nodes.len()).collect());
    let mut store_users: BTreeMap<&str, usize> = BTreeMap::new();
    for (index, node) in nodes.iter().enumerate() {
        for &parent in &node.parents {
            groups.unite(parent, index);
        }
        for store in &node.stores {
            let first = *store_users.entry(store).or_insert(index);
            groups.unite(first, index);
        }
    }
    let mut by_root: BTreeMap<usize, usize> = BTreeMap::new();
    let mut subtopologies: Vec<Subtopology> = Vec::new();
    for (index, node) in nodes.iter().enumerate() {
        let number = *by_root.entry(groups.root(index)).or_insert_with(|| {
            let is_global = node.is_global;
            subtopologies.push(Subtopology { nodes: Vec::new(), is_global });
            subtopologies.len() - 1
        });
        subtopologies[number].nodes.push(index);
    }
    subtopologies
}

/// Union-find over node indices.
struct Groups(Vec<usize>);

impl Groups {
    fn root(&mut self, index: usize) -> usize {
        let parent = self.0[index];
        if parent == index {
            return index;
        }
        let root = self.root(parent);
        self.0[index] = root;
        root
    }

    fn unite(&mut self, a: usize, b: usize) {
        let (a, b) = (self.root(a), self.root(b));
        self.0[a.max(b)] = a.min(b);
    }
}

impl Graph {
    /// The topic's name on the cluster: repartition topics get the application's prefix.
    pub(crate) fn topic_name(&self, application_id: &str, topic: &Arc<str>) -> Arc<str> {
        if self.repartition_topics.contains_key(topic) {
            format!("{application_id}-{topic}").into()
        } else {
            topic.clone()
        }
    }

    /// The sub-topologies that tasks run.
    pub(crate) fn with_tasks(&self) -> impl Iterator<Item = u32> {
        let numbered = self.subtopologies.iter().zip(0..);
        numbered.filter(|(subtopology, _)| !subtopology.is_global).map(|(_, number)| number)
    }

    /// The sub-topologies whose processors fill global stores.
    pub(crate) fn with_global_processors(&self) -> impl Iterator<Item = u32> {
        let processed = |node: &NodeSpec| {
            let mut specs = self.globals.iter().filter(|spec| node.stores.contains(&spec.name));
            specs.any(|spec| spec.check.is_none())
        };
        let numbers = 0..self.subtopologies.len() as u32;
        numbers.filter(move |&number| {
            self.subtopologies[number as usize].is_global && self.nodes_of(number).any(processed)
        })
    }

    /// The nodes of a sub-topology.
    pub(crate) fn nodes_of(&self, subtopology: u32) -> impl Iterator<Item = &NodeSpec> {
        self.subtopologies[subtopology as usize].nodes.iter().map(|&index| &self.nodes[index])
    }

    /// The topics that a sub-topology reads, without the application's prefix.
    pub(crate) fn source_topics(&self, subtopology: u32) -> BTreeSet<Arc<str>> {
        self.nodes_of(subtopology)
            .filter_map(|node| match &node.kind {
                NodeKind::Source(source) => Some(source.topics.iter().cloned()),
                _ => None,
            })
            .flatten()
            .collect()
    }

    /// The fixed topics that a sub-topology writes, without the application's prefix.
    pub(crate) fn sink_topics(&self, subtopology: u32) -> BTreeSet<Arc<str>> {
        self.nodes_of(subtopology)
            .filter_map(|node| match &node.kind {
                NodeKind::Sink { topic: SinkTopic::Fixed(topic), .. } => Some(topic.clone()),
                _ => None,
            })
            .collect()
    }

    /// The names of the stores that a sub-topology uses.
    pub(crate) fn stores_of(&self, subtopology: u32) -> BTreeSet<&Arc<str>> {
        self.nodes_of(subtopology).flat_map(|node| &node.stores).collect()
    }

    /// The changelogs of a sub-topology, by name. `additional_retention` is in milliseconds.
    pub(crate) fn changelogs(
        &self,
        application_id: &str,
        subtopology: u32,
        additional_retention: i64,
    ) -> Vec<ChangelogTopic> {
        let used = self.stores_of(subtopology);
        let mut topics: Vec<ChangelogTopic> = self
            .stores
            .iter()
            .filter(|store| used.contains(&store.name))
            .filter_map(|store| ChangelogTopic::of(application_id, store, additional_retention))
            .collect();
        topics.sort_by(|a, b| a.name.cmp(&b.name));
        topics
    }
}

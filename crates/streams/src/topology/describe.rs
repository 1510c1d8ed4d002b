//! `describe()`: the text that Java's `TopologyDescription` prints, byte for byte.
//!
//! Within a sub-topology the nodes with the larger trees below them come first, then names decide. The lists behind the
//! arrows are in another order in Java: they are sorted sets that are filled while the sizes still grow, in the order of a
//! hash map. [`hash_order`] and [`insert_by_size`] give the same.

use super::Graph;
use super::java_hash::{buckets, java_hash};
use super::node::{NodeKind, NodeSpec, SinkTopic};
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::fmt::Write;

pub(crate) fn describe(graph: &Graph) -> String {
    // The odd indentation of the first line is Java's.
    let mut text = String::from("Topologies:\n ");
    for (number, subtopology) in graph.subtopologies.iter().enumerate() {
        let group = Group::new(graph, &subtopology.nodes);
        let global =
            if subtopology.is_global { " for global store (will not generate tasks)" } else { "" };
        let _ = writeln!(text, "  Sub-topology: {number}{global}");
        for place in group.sorted() {
            describe_node(&mut text, &group, place);
        }
        if !subtopology.is_global {
            text.push('\n');
        }
    }
    text
}

/// The nodes of one sub-topology with their tree sizes and neighbours, by place in `nodes`.
struct Group<'a> {
    nodes: Vec<&'a NodeSpec>,
    sizes: Vec<usize>,
    parents: Vec<Vec<usize>>,
    children: Vec<Vec<usize>>,
}

impl<'a> Group<'a> {
    fn new(graph: &'a Graph, indices: &[usize]) -> Self {
        let nodes: Vec<&NodeSpec> = indices.iter().map(|&index| &graph.nodes[index]).collect();
        let count = nodes.len();
        let mut group = Group {
            sizes: vec![1; count],
            parents: vec![Vec::new(); count],
            children: vec![Vec::new(); count],
            nodes,
        };
        let names: Vec<&str> = group.nodes.iter().map(|node| &*node.name).collect();
        for place in hash_order(&names) {
            for &parent in &group.nodes[place].parents {
                // Parents are in the same sub-topology: an edge unites them.
                if let Some(parent) = indices.iter().position(|&index| index == parent) {
                    group.connect(parent, place);
                }
            }
        }
        group
    }

    fn connect(&mut self, parent: usize, child: usize) {
        let mut parents = std::mem::take(&mut self.parents[child]);
        self.insert_by_size(&mut parents, parent);
        self.parents[child] = parents;
        let mut children = std::mem::take(&mut self.children[parent]);
        self.insert_by_size(&mut children, child);
        self.children[parent] = children;
        self.grow(parent, self.sizes[child]);
    }

    fn grow(&mut self, place: usize, by: usize) {
        self.sizes[place] += by;
        for parent in self.parents[place].clone() {
            self.grow(parent, by);
        }
    }

    /// Inserts into a list that is sorted by the sizes at the times of insertion.
    fn insert_by_size(&self, list: &mut Vec<usize>, place: usize) {
        let at = list.partition_point(|&other| self.order(other, place) == Ordering::Less);
        if list.get(at) != Some(&place) {
            list.insert(at, place);
        }
    }

    fn order(&self, a: usize, b: usize) -> Ordering {
        let by_size = self.sizes[b].cmp(&self.sizes[a]);
        by_size.then_with(|| self.nodes[a].name.cmp(&self.nodes[b].name))
    }

    fn sorted(&self) -> Vec<usize> {
        let mut places: Vec<usize> = (0..self.nodes.len()).collect();
        places.sort_by(|&a, &b| self.order(a, b));
        places
    }

    fn names(&self, places: &[usize]) -> String {
        if places.is_empty() {
            return "none".into();
        }
        let names: Vec<&str> = places.iter().map(|&place| &*self.nodes[place].name).collect();
        names.join(", ")
    }
}

fn describe_node(text: &mut String, group: &Group<'_>, place: usize) {
    let node = group.nodes[place];
    let (children, parents) =
        (group.names(&group.children[place]), group.names(&group.parents[place]));
    // Writing to a string cannot fail.
    let _ = match &node.kind {
        NodeKind::Source(source) => {
            let topics: BTreeSet<&str> = source.topics.iter().map(|topic| &**topic).collect();
            let topics: Vec<&str> = topics.into_iter().collect();
            let topics = topics.join(", ");
            writeln!(text, "    Source: {} (topics: [{topics}])\n      --> {children}", node.name)
        }
        NodeKind::Processor { .. } => {
            let names: Vec<&str> = node.stores.iter().map(|store| &**store).collect();
            let stores: Vec<&str> =
                hash_order(&names).into_iter().map(|place| names[place]).collect();
            let stores = stores.join(", ");
            writeln!(
                text,
                "    Processor: {} (stores: [{stores}])\n      --> {children}\n      <-- {parents}",
                node.name
            )
        }
        NodeKind::Sink { topic: SinkTopic::Fixed(topic), .. } => {
            writeln!(text, "    Sink: {} (topic: {topic})\n      <-- {parents}", node.name)
        }
        NodeKind::Sink { topic: SinkTopic::Computed(name), .. } => {
            writeln!(text, "    Sink: {} (extractor class: {name})\n      <-- {parents}", node.name)
        }
    };
}

/// The order in which Java's hash map of a hash set of these names lists them.
fn hash_order(names: &[&str]) -> Vec<usize> {
    let places: Vec<usize> = (0..names.len()).collect();
    let hashes: Vec<u32> = names.iter().map(|name| java_hash(name)).collect();
    buckets(&hashes, &buckets(&hashes, &places))
}

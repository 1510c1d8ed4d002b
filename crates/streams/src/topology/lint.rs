//! Looks at a topology for what compiles, runs, and is wrong all the same.

use super::node::{NodeKind, NodeSpec, Role, SinkTopic};
use super::{Graph, Topology};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Worth a thought: it may be meant so.
    Note,
    /// Nearly always a mistake.
    Warning,
}

/// Something that the topology check found.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// How much it matters.
    pub severity: Severity,
    /// The rule, as a short name that stays the same: `stale-table-in-a-loop`, …
    pub rule: &'static str,
    /// The nodes, stores or topics that it is about.
    pub names: Vec<String>,
    /// What is wrong, why, and what to do instead.
    pub message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Note => "note",
            Severity::Warning => "warning",
        };
        write!(f, "{severity}[{}]: {}", self.rule, self.message)
    }
}

impl Topology {
    /// Checks the topology for traps that compile and run: what it finds names nodes, says why it is wrong, and what to do instead.
    /// Warnings are logged when an application starts.
    ///
    /// | rule | severity | what |
    /// |---|---|---|
    /// | `stale-table-in-a-loop` | warning | a join with a table whose result is written to the topic that the table is made of: the next record is joined before the result has come back |
    /// | `stale-global-table-in-a-loop` | warning | the same with a global table |
    /// | `state-by-a-changed-key` | warning | a processor keeps state by a key that was changed above it, without a repartition: records of one key are in several tasks |
    /// | `unnamed-state` | warning | stores or repartition topics with generated names, which move when the topology changes |
    /// | `topics-meet-unchecked` | note | a processor keeps state by the keys of several topics, and nothing checks that these have equally many partitions |
    /// | `no-grace` | note | windows that take no late records at all |
    /// | `only-grows` | note | a table that never deletes a key and has no windows |
    ///
    /// ```
    /// use kstreams::prelude::*;
    ///
    /// let builder = StreamsBuilder::new();
    /// let versions = builder
    ///     .stream("events", Consumed::<String, i64>::new())
    ///     .group_by_key(Grouped::new())
    ///     .count(Materialized::named("versions"));
    /// builder
    ///     .stream("commands", Consumed::<String, String>::new())
    ///     .left_join_table(&versions, |_command, version| version.map_or(0, |version| *version), Joined::new())
    ///     .to("events", Produced::new());
    /// let findings = builder.build()?.lint();
    /// assert_eq!(findings[0].rule, "stale-table-in-a-loop");
    /// assert!(findings[0].message.contains("decide"));
    /// # Ok::<(), kstreams::Error>(())
    /// ```
    pub fn lint(&self) -> Vec<Finding> {
        let lint = Lint::new(self.graph());
        let mut findings = Vec::new();
        lint.stale_tables(&mut findings);
        lint.changed_keys(&mut findings);
        lint.unnamed(&mut findings);
        lint.meeting_topics(&mut findings);
        lint.windows_and_growth(&mut findings);
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
        findings
    }
}

struct Lint<'a> {
    graph: &'a Graph,
    /// The sinks of each topic, to find the way back through repartition topics.
    sinks: BTreeMap<&'a Arc<str>, Vec<usize>>,
}

impl<'a> Lint<'a> {
    fn new(graph: &'a Graph) -> Self {
        let mut sinks: BTreeMap<_, Vec<usize>> = BTreeMap::new();
        for (index, node) in graph.nodes.iter().enumerate() {
            if let NodeKind::Sink { topic: SinkTopic::Fixed(topic), .. } = &node.kind {
                sinks.entry(topic).or_default().push(index);
            }
        }
        Lint { graph, sinks }
    }

    fn node(&self, index: usize) -> &'a NodeSpec {
        &self.graph.nodes[index]
    }

    /// The node and all above it, also behind the application's own repartition topics.
    fn upstream(&self, index: usize) -> BTreeSet<usize> {
        let (mut met, mut ahead) = (BTreeSet::new(), vec![index]);
        while let Some(index) = ahead.pop() {
            if !met.insert(index) {
                continue;
            }
            let node = self.node(index);
            ahead.extend(&node.parents);
            if let NodeKind::Source(source) = &node.kind {
                let own = source.topics.iter();
                let own = own.filter(|topic| self.graph.repartition_topics.contains_key(*topic));
                ahead.extend(own.filter_map(|topic| self.sinks.get(topic)).flatten());
            }
        }
        met
    }

    /// The topics of users that lead to a node.
    fn topics_above(&self, index: usize) -> BTreeSet<&'a Arc<str>> {
        let above = self.upstream(index);
        let sources = above.into_iter().filter_map(|index| match &self.node(index).kind {
            NodeKind::Source(source) => Some(&source.topics),
            _ => None,
        });
        let topics = sources.flatten();
        topics.filter(|topic| !self.graph.repartition_topics.contains_key(*topic)).collect()
    }

    /// The nodes that fill a store.
    fn writers(&self, store: &str) -> impl Iterator<Item = usize> {
        let nodes = self.graph.nodes.iter().enumerate();
        let writers = nodes.filter(|(_, node)| {
            node.facts.role != Role::Reader && own_stores(node).any(|own| **own == *store)
        });
        writers.map(|(index, _)| index).collect::<Vec<_>>().into_iter()
    }

    /// A join with a table whose results go to what the table is made of.
    fn stale_tables(&self, findings: &mut Vec<Finding>) {
        for (topic, sinks) in &self.sinks {
            for &sink in sinks {
                for join in self.upstream(sink) {
                    self.stale_table(topic, sink, join, findings);
                }
            }
        }
    }

    fn stale_table(&self, topic: &Arc<str>, sink: usize, join: usize, findings: &mut Vec<Finding>) {
        let (node, sink) = (self.node(join), &self.node(sink).name);
        let read = match &node.facts.role {
            Role::Reader => own_stores(node),
            Role::GlobalReader(store) => {
                let globals = &self.graph.globals;
                if globals.iter().any(|global| global.name == *store && global.topic == *topic) {
                    findings.push(stale_global(node, store, sink, topic));
                }
                return;
            }
            Role::Operator | Role::Processor => return,
        };
        for store in read {
            let fills = |writer: &usize| self.topics_above(*writer).contains(topic);
            if let Some(writer) = self.writers(store).find(fills) {
                let table = &self.node(writer).name;
                findings.push(stale(node, store, table, sink, topic));
            }
        }
    }

    /// Processors that keep state by a key which is not the one that the records are partitioned by.
    fn changed_keys(&self, findings: &mut Vec<Finding>) {
        for (index, node) in self.processors() {
            let (mut met, mut ahead) = (BTreeSet::new(), vec![index]);
            let mut changing = Vec::new();
            while let Some(index) = ahead.pop() {
                if !met.insert(index) {
                    continue;
                }
                let above = self.node(index);
                if above.facts.changes_key {
                    changing.push(above.name.to_string());
                }
                ahead.extend(&above.parents);
            }
            if changing.is_empty() {
                continue;
            }
            let (name, stores) = (&node.name, listed(own_stores(node)));
            let by = changing.join(", ");
            let message = format!(
                "processor {name} keeps state ({stores}) by a key that {by} has changed, but the records are still partitioned by the \
                 key before: records of one key are processed by several tasks, each with a part of the state; put \
                 .repartition(Repartitioned::named(..)) in front of {name}"
            );
            let names = [vec![name.to_string()], changing].concat();
            let (severity, rule) = (Severity::Warning, "state-by-a-changed-key");
            findings.push(Finding { severity, rule, names, message });
        }
    }

    /// Processors of users that have stores.
    fn processors(&self) -> impl Iterator<Item = (usize, &'a NodeSpec)> {
        let nodes = self.graph.nodes.iter().enumerate();
        nodes.filter(|(_, node)| {
            node.facts.role == Role::Processor && own_stores(node).next().is_some()
        })
    }

    fn unnamed(&self, findings: &mut Vec<Finding>) {
        let names = self.graph.unnamed();
        if names.is_empty() {
            return;
        }
        let message = format!(
            "no name was given to: {}; a name that is made of a number moves when an operator is added in front of it, and the \
             state is lost: name it by Materialized, Grouped, Repartitioned, Joined, StreamJoined or TableJoined",
            names.join(", ")
        );
        let (severity, rule) = (Severity::Warning, "unnamed-state");
        findings.push(Finding { severity, rule, names, message });
    }

    fn meeting_topics(&self, findings: &mut Vec<Finding>) {
        for (index, node) in self.processors() {
            let topics = self.partitioning_topics(index);
            let checked =
                |group: &super::Copartition| topics.iter().all(|t| group.topics.contains(*t));
            if topics.len() < 2 || self.graph.copartition.iter().any(checked) {
                continue;
            }
            let topics: Vec<String> = topics.iter().map(ToString::to_string).collect();
            let (name, stores) = (&node.name, listed(own_stores(node)));
            let listed = topics.join(" and ");
            let message = format!(
                "processor {name} keeps state ({stores}) by the keys of {listed}: give them equally many partitions and the same \
                 partitioner, or equal keys end in different tasks; behind .repartition(..) that is certain"
            );
            let names = [vec![name.to_string()], topics].concat();
            let (severity, rule) = (Severity::Note, "topics-meet-unchecked");
            findings.push(Finding { severity, rule, names, message });
        }
    }

    /// The topics by which the records of a node are partitioned.
    fn partitioning_topics(&self, index: usize) -> BTreeSet<&'a Arc<str>> {
        let (mut met, mut ahead, mut topics) = (BTreeSet::new(), vec![index], BTreeSet::new());
        while let Some(index) = ahead.pop() {
            if met.insert(index) {
                let node = self.node(index);
                ahead.extend(&node.parents);
                if let NodeKind::Source(source) = &node.kind {
                    topics.extend(&source.topics);
                }
            }
        }
        topics
    }

    fn windows_and_growth(&self, findings: &mut Vec<Finding>) {
        for node in &self.graph.nodes {
            let name = &node.name;
            let mut note = |rule, message| {
                let (severity, names) = (Severity::Note, vec![name.to_string()]);
                findings.push(Finding { severity, rule, names, message });
            };
            if node.facts.has_no_grace {
                note(
                    "no-grace",
                    format!(
                        "the windows of {name} have no grace: a record that comes a millisecond after its window is dropped, and \
                         records of several partitions never come in the order of their times; say .grace(..)"
                    ),
                );
            }
            if node.facts.only_grows {
                note(
                    "only-grows",
                    format!(
                        "the table of {name} never deletes a key: it grows with every new one; use windows, or an aggregate that \
                         gives None when a key is done"
                    ),
                );
            }
        }
    }
}

fn stale(
    join: &NodeSpec,
    store: &Arc<str>,
    table: &Arc<str>,
    sink: &Arc<str>,
    topic: &Arc<str>,
) -> Finding {
    let name = &join.name;
    let message = format!(
        "{name} reads table {store}, and what comes of it is written by {sink} to topic {topic}, of which the table is made ({table}): \
         a result is in the table only after it went through the topic, so that the next records are still joined with the old value \
         (three quick commands all see version 0 and give 1, 1, 1); read and change the state in one step: \
         KGroupedStream::decide, or a processor with a store of its own"
    );
    let names = vec![name.to_string(), store.to_string(), sink.to_string(), topic.to_string()];
    Finding { severity: Severity::Warning, rule: "stale-table-in-a-loop", names, message }
}

/// The stores of a node, without those of the wrapper around it: they may be by any key.
fn own_stores(node: &NodeSpec) -> impl Iterator<Item = &Arc<str>> {
    let of_wrapper = node.wrapping.as_ref().map_or(&[][..], |wrapping| &wrapping.stores);
    let is_own = |store: &&Arc<str>| !of_wrapper.iter().any(|spec| spec.name == **store);
    node.stores.iter().filter(is_own)
}

fn listed<'a>(stores: impl Iterator<Item = &'a Arc<str>>) -> String {
    stores.map(|store| &**store).collect::<Vec<_>>().join(", ")
}

fn stale_global(join: &NodeSpec, store: &Arc<str>, sink: &Arc<str>, topic: &Arc<str>) -> Finding {
    let name = &join.name;
    let message = format!(
        "{name} reads the global table {store}, and what comes of it is written by {sink} to its topic {topic}: the table is filled \
         beside the tasks, some time later, so that changes made on what was read overwrite each other; keep the state in a \
         processor's own store, partitioned by its key"
    );
    let names = vec![name.to_string(), store.to_string(), sink.to_string(), topic.to_string()];
    Finding { severity: Severity::Warning, rule: "stale-global-table-in-a-loop", names, message }
}

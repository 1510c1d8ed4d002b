//! The parts of a physical graph: a node's place, its types, and the factory that makes it in a task.

use super::AutoOffsetReset;
use super::erased::{EdgeType, SourceFactory, Wrapping};
use std::sync::Arc;

pub(crate) use super::erased::NodeFactory;

/// One node.
pub(crate) struct NodeSpec {
    pub(crate) name: Arc<str>,
    pub(crate) kind: NodeKind,
    /// Indices of the parents, in the order given.
    pub(crate) parents: Vec<usize>,
    /// Names of the stores that it uses, in the order in which they were connected.
    pub(crate) stores: Vec<Arc<str>>,
    /// Whether changes of the node's table tell the value before.
    pub(crate) sends_old_values: bool,
    /// Whether it belongs to a global table.
    pub(crate) is_global: bool,
    /// What the user put around it.
    pub(crate) wrapping: Option<Wrapping>,
    pub(crate) facts: NodeFacts,
}

/// What the topology check wants to know of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct NodeFacts {
    pub(crate) role: Role,
    /// Whether what it gives has other keys than what it takes.
    pub(crate) changes_key: bool,
    /// Whether its windows take no late records.
    pub(crate) has_no_grace: bool,
    /// Whether its table never deletes a key, and has no windows.
    pub(crate) only_grows: bool,
}

/// What a node does with the stores that it has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Role {
    /// It fills them.
    #[default]
    Operator,
    /// It is code of a user, who reads and writes them.
    Processor,
    /// It only reads them: a join with a table.
    Reader,
    /// It reads a global table.
    GlobalReader(Arc<str>),
}

/// What a node is.
#[derive(Clone)]
pub(crate) enum NodeKind {
    Source(SourceSpec),
    Processor { input: EdgeType, output: EdgeType, factory: NodeFactory },
    Sink { topic: SinkTopic, input: EdgeType, factory: NodeFactory },
}

/// What a source reads. Repartition topics stand here without the application's prefix.
#[derive(Clone)]
pub(crate) struct SourceSpec {
    pub(crate) topics: Vec<Arc<str>>,
    pub(crate) reset: Option<AutoOffsetReset>,
    pub(crate) output: EdgeType,
    pub(crate) factory: SourceFactory,
}

/// Where a sink writes to.
#[derive(Clone)]
pub(crate) enum SinkTopic {
    Fixed(Arc<str>),
    /// Computed for each record; the name is what `describe()` shows.
    Computed(Arc<str>),
}

impl NodeSpec {
    pub(crate) fn output(&self) -> Option<EdgeType> {
        match &self.kind {
            NodeKind::Source(source) => Some(source.output),
            NodeKind::Processor { output, .. } => Some(*output),
            NodeKind::Sink { .. } => None,
        }
    }

    pub(crate) fn input(&self) -> Option<EdgeType> {
        match &self.kind {
            NodeKind::Source(_) => None,
            NodeKind::Processor { input, .. } | NodeKind::Sink { input, .. } => Some(*input),
        }
    }
}

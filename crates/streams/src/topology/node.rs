//! The parts of a physical graph: a node's place, its types, and the factory that makes it in a task.

use super::AutoOffsetReset;
use super::erased::{EdgeType, SourceFactory};
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

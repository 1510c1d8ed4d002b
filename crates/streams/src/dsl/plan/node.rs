//! The nodes of the logical plan.

use crate::state::StoreSpec;
use crate::topology::{NodeKind, RepartitionTopic};
use std::panic::Location;
use std::sync::Arc;

/// A node's place in its plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PlanId(pub(super) usize);

/// A node: what it is called, what it is, where it hangs, and who wrote it.
pub(crate) struct PlanNode {
    pub(crate) name: String,
    pub(crate) kind: PlanKind,
    pub(crate) parents: Vec<PlanId>,
    pub(crate) location: &'static Location<'static>,
}

/// What a node is.
pub(crate) enum PlanKind {
    /// A source; sources of the same topics become one.
    Source(NodeKind),
    /// An operator or a sink.
    Node(NodeKind),
    /// A processor with the stores that it shares with others.
    Stateful(NodeKind, Vec<StoreSpec>),
    /// An operator with a store of its own.
    Materialized(NodeKind, StoreSpec),
    /// A sink, a topic and a source in the middle of a stream.
    Repartition(Box<RepartitionNode>),
}

/// A repartition topic with the nodes around it.
pub(crate) struct RepartitionNode {
    pub(crate) topic_name: Arc<str>,
    pub(crate) topic: RepartitionTopic,
    /// Keeps records without a key out.
    pub(crate) filter: (String, NodeKind),
    pub(crate) sink: (String, NodeKind),
    pub(crate) source: (String, NodeKind),
}

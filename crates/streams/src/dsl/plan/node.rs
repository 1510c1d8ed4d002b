//! The nodes of the logical plan.

use super::tables::TableFacts;
use crate::state::{GlobalSpec, StoreSpec};
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
    /// Set if the node gives the changes of a table.
    pub(crate) table: Option<TableFacts>,
    /// Whether the node wants records without a key: a left or outer join.
    pub(crate) wants_null_keys: bool,
    /// The table that it reads and does not hang on.
    pub(crate) joined_with: Option<PlanId>,
    /// How long after the end of a window its result may still change, in milliseconds: a windowed aggregation.
    pub(crate) window_grace: Option<i64>,
    /// The repartition topic that was last put behind the node for a join.
    pub(crate) repartitioned: Option<PlanId>,
}

/// What a node is.
pub(crate) enum PlanKind {
    /// A source; sources of the same topics become one.
    Source(NodeKind),
    /// An operator or a sink.
    Node(NodeKind),
    /// A processor with the stores that it shares with others.
    Stateful(NodeKind, Vec<StoreSpec>),
    /// A sink, a topic and a source in the middle of a stream.
    Repartition(Box<RepartitionNode>),
    /// A topic that is read as a table.
    TableSource(Box<TableSourceNode>),
    /// A topic that every instance reads as a table.
    GlobalTable(Box<TableSourceNode>, GlobalSpec),
    /// An operator that gives a table, with the stores that it shares with others.
    Table(NodeKind, Vec<StoreSpec>),
    /// The join of two tables.
    TableJoin(Box<TableJoinNode>),
    /// The join of two tables by a foreign key.
    ForeignKeyJoin(Box<ForeignKeyJoinNode>),
    /// An operator that reads stores of others.
    Reader(NodeKind, Vec<Arc<str>>),
}

/// The source in front of a table.
pub(crate) struct TableSourceNode {
    pub(crate) source: (String, NodeKind),
    pub(crate) table: NodeKind,
}

/// A node with its name.
pub(crate) struct NamedKind(pub(crate) String, pub(crate) NodeKind);

/// An operator that reads stores of others.
pub(crate) struct ReadingKind {
    pub(crate) name: String,
    pub(crate) kind: NodeKind,
    pub(crate) reads: Vec<Arc<str>>,
}

/// A topic between two parts of a join.
pub(crate) struct MessageTopic {
    pub(crate) topic: Arc<str>,
    pub(crate) sink: NamedKind,
    pub(crate) source: NamedKind,
}

/// A join of two tables by a foreign key, in the order of its nodes.
pub(crate) struct ForeignKeyJoinNode {
    pub(crate) send: NamedKind,
    pub(crate) registration: MessageTopic,
    pub(crate) receive: NamedKind,
    pub(crate) lookup: ReadingKind,
    pub(crate) foreign_change: NamedKind,
    pub(crate) response: MessageTopic,
    pub(crate) resolve: ReadingKind,
    /// The store of subscriptions.
    pub(crate) store: StoreSpec,
    pub(crate) result: NodeKind,
}

/// A join of two tables: the side of each, which reads the stores of the other, and the node where they meet.
pub(crate) struct TableJoinNode {
    pub(crate) sides: [JoinSideNode; 2],
    pub(crate) merge: NodeKind,
}

/// One side of a join.
pub(crate) struct JoinSideNode {
    pub(crate) name: String,
    pub(crate) kind: NodeKind,
    /// The stores behind the other table.
    pub(crate) reads: Vec<Arc<str>>,
}

/// The node in front of a repartition topic, which keeps records without a key out unless a join behind the topic wants them.
pub(crate) struct KeyFilter {
    pub(crate) name: String,
    pub(crate) strict: NodeKind,
    pub(crate) lenient: NodeKind,
}

/// A repartition topic with the nodes around it.
pub(crate) struct RepartitionNode {
    pub(crate) topic_name: Arc<str>,
    pub(crate) topic: RepartitionTopic,
    pub(crate) filter: Option<KeyFilter>,
    pub(crate) sink: (String, NodeKind),
    pub(crate) source: (String, NodeKind),
}

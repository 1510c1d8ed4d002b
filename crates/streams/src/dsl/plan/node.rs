//! The nodes of the logical plan.

use super::tables::TableFacts;
use crate::state::{GlobalSpec, StoreSpec};
use crate::topology::{NodeFacts, NodeKind, RepartitionTopic, Role};
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
    /// A store of its own, for an operator that gives no table.
    pub(crate) store: Option<StoreSpec>,
    /// The table that it reads and does not hang on.
    pub(crate) joined_with: Option<PlanId>,
    /// The repartition topic that was last put behind the node for a join.
    pub(crate) repartitioned: Option<PlanId>,
    /// What the node changes of a record, for the optimizer.
    pub(crate) changes: Changes,
    /// When its windows are final.
    pub(crate) closing: Option<WindowClosing>,
    /// What it does with the stores that it has.
    pub(crate) role: Role,
    /// Whether its table never deletes a key, and has no windows.
    pub(crate) only_grows: bool,
}

/// Until when the windows of a table can still change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WindowClosing {
    /// How long after their ends, in milliseconds of stream time.
    pub(crate) grace: i64,
    /// Whether they still take records when exactly that time has come: their end belongs to them.
    pub(crate) with_end: bool,
}

/// What a node changes of the records that pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Changes {
    /// Neither key nor value, or both in a way that ends the stream's partitioning anyway.
    Nothing,
    /// The key.
    Key,
    /// The value.
    Value,
    /// Nothing, but it brings streams together.
    Merge,
}

/// A join of two streams, which may turn out to be of one with itself.
pub(crate) struct SelfJoinPlan {
    pub(crate) windowed: [PlanId; 2],
    pub(crate) joins: [PlanId; 2],
    pub(crate) merge: PlanId,
    /// The one join node of a stream with itself.
    pub(crate) kind: PlanKind,
}

/// What a node is.
#[derive(Clone)]
pub(crate) enum PlanKind {
    /// A source; sources of the same topics become one.
    Source(NodeKind),
    /// An operator or a sink.
    Node(NodeKind),
    /// A processor with the stores that it shares with others.
    Stateful(NodeKind, Vec<StoreSpec>),
    /// What writes a store from a topic.
    StoreWriter(NodeKind, StoreSpec, Arc<str>),
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
#[derive(Clone)]
pub(crate) struct TableSourceNode {
    pub(crate) source: (String, NodeKind),
    pub(crate) table: NodeKind,
}

/// A node with its name.
#[derive(Clone)]
pub(crate) struct NamedKind(pub(crate) String, pub(crate) NodeKind);

/// An operator that reads stores of others.
#[derive(Clone)]
pub(crate) struct ReadingKind {
    pub(crate) name: String,
    pub(crate) kind: NodeKind,
    pub(crate) reads: Vec<Arc<str>>,
}

/// A topic between two parts of a join.
#[derive(Clone)]
pub(crate) struct MessageTopic {
    pub(crate) topic: Arc<str>,
    pub(crate) sink: NamedKind,
    pub(crate) source: NamedKind,
}

/// A join of two tables by a foreign key, in the order of its nodes.
#[derive(Clone)]
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
#[derive(Clone)]
pub(crate) struct TableJoinNode {
    pub(crate) sides: [JoinSideNode; 2],
    pub(crate) merge: NodeKind,
}

/// One side of a join.
#[derive(Clone)]
pub(crate) struct JoinSideNode {
    pub(crate) name: String,
    pub(crate) kind: NodeKind,
    /// The stores behind the other table.
    pub(crate) reads: Vec<Arc<str>>,
}

/// The node in front of a repartition topic, which keeps records without a key out unless a join behind the topic wants them.
#[derive(Clone)]
pub(crate) struct KeyFilter {
    pub(crate) name: String,
    pub(crate) strict: NodeKind,
    pub(crate) lenient: NodeKind,
}

/// A repartition topic with the nodes around it.
#[derive(Clone)]
pub(crate) struct RepartitionNode {
    /// Whether it may become one with others that take the same records.
    pub(crate) is_optimizable: bool,
    pub(crate) topic_name: Arc<str>,
    pub(crate) topic: RepartitionTopic,
    pub(crate) filter: Option<KeyFilter>,
    pub(crate) sink: (String, NodeKind),
    pub(crate) source: (String, NodeKind),
}

impl RepartitionNode {
    /// The same topic with nodes that are named after it.
    pub(super) fn named_after_topic(&self) -> Self {
        let (topic, node) = (&self.topic_name, self.clone());
        let named = |suffix: &str| format!("{topic}-{suffix}");
        RepartitionNode {
            filter: node.filter.map(|filter| KeyFilter { name: named("filter"), ..filter }),
            sink: (named("sink"), node.sink.1),
            source: (named("source"), node.source.1),
            ..node
        }
    }
}

impl PlanNode {
    /// What the topology check wants to know.
    pub(super) fn facts(&self) -> NodeFacts {
        NodeFacts {
            role: match self.kind {
                PlanKind::Reader(..) => Role::Reader,
                _ => self.role.clone(),
            },
            changes_key: self.changes == Changes::Key,
            has_no_grace: self.closing.is_some_and(|closing| closing.grace == 0),
            only_grows: self.only_grows,
        }
    }

    /// Whether it has the store of that name, alone or with others.
    pub(super) fn uses(&self, store: &str) -> bool {
        let shared: &[StoreSpec] = match &self.kind {
            PlanKind::Stateful(_, stores) | PlanKind::Table(_, stores) => stores,
            _ => &[],
        };
        shared.iter().chain(self.own_store()).any(|spec| *spec.name == *store)
    }
}

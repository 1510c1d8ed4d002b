//! The logical plan: what the user asked for, node by node, and its translation into a topology.

mod graph;
mod lower;
mod names;
mod node;
mod optimize;
mod tables;

pub(crate) use self::graph::{PlanRef, RepartitionOptions};
pub(crate) use self::names::{RepartitionNames, prefix};
pub(crate) use self::node::{
    Changes, ForeignKeyJoinNode, JoinSideNode, KeyFilter, MessageTopic, NamedKind, PlanId,
    PlanKind, ReadingKind, SelfJoinPlan, TableJoinNode, TableSourceNode, WindowClosing,
};
pub(crate) use self::optimize::Optimizations;
pub(crate) use self::tables::{OldValues, TableFacts};

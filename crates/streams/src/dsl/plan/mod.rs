//! The logical plan: what the user asked for, node by node, and its translation into a topology.

mod graph;
mod lower;
mod names;
mod node;

pub(crate) use self::graph::{PlanRef, RepartitionOptions};
pub(crate) use self::names::prefix;
pub(crate) use self::node::{PlanId, PlanKind};

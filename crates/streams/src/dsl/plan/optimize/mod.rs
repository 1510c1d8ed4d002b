//! What the optimizer changes in a plan before it is lowered: `topology.optimization`.
//!
//! The plan itself stays as it was written. A [`Layout`] says which nodes are lowered, in which order, below which parents; each
//! rewrite changes that.

mod merge_repartition;
mod self_join;

use super::graph::Plan;
use super::node::{PlanId, PlanKind};
use std::collections::BTreeMap;

/// The optimizations that are wanted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Optimizations {
    /// The topic of a table is its changelog.
    pub(crate) reuse_source_topics: bool,
    /// Repartition topics that take the same records become one.
    pub(crate) merge_repartition_topics: bool,
    /// A stream that is joined with itself is stored once.
    pub(crate) single_store_self_join: bool,
}

impl Optimizations {
    /// What the setting `topology.optimization` asks for.
    pub(crate) fn of(setting: &str) -> Self {
        let wants =
            |name| setting.split(',').map(str::trim).any(|word| word == name || word == "all");
        Optimizations {
            reuse_source_topics: wants("reuse.ktable.source.topics"),
            merge_repartition_topics: wants("merge.repartition.topics"),
            single_store_self_join: wants("single.store.self.join"),
        }
    }
}

/// A plan as it will be lowered.
pub(super) struct Layout {
    /// Parents come first.
    pub(super) order: Vec<PlanId>,
    /// By place of the node.
    pub(super) parents: Vec<Vec<PlanId>>,
    /// Nodes that become others, and their new names.
    pub(super) replaced: BTreeMap<PlanId, (String, PlanKind)>,
}

impl Layout {
    /// The plan as it was written, with these optimizations.
    pub(super) fn of(plan: &Plan, optimizations: Optimizations) -> Self {
        let mut layout = Layout {
            order: (0..plan.nodes.len()).map(PlanId).collect(),
            parents: plan.nodes.iter().map(|node| node.parents.clone()).collect(),
            replaced: BTreeMap::new(),
        };
        if optimizations.merge_repartition_topics {
            merge_repartition::rewrite(plan, &mut layout);
        }
        if optimizations.single_store_self_join {
            self_join::rewrite(plan, &mut layout);
        }
        layout
    }

    fn remove(&mut self, id: PlanId) {
        self.order.retain(|&other| other != id);
    }

    /// Hangs the children of a node on its own parents, and takes it out.
    fn bridge(&mut self, id: PlanId) {
        let parents = self.parents[id.0].clone();
        for children in &mut self.parents {
            if let Some(place) = children.iter().position(|&parent| parent == id) {
                children.splice(place..=place, parents.iter().copied());
            }
        }
        self.remove(id);
    }
}

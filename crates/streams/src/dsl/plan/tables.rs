//! What the plan knows of tables: where their old values come from, and whether they need a store.
//!
//! Nobody stores more than is needed. A table's source has a store only if someone reads the table by key, wants to know the value
//! before a change, or gave the store a name. So operators ask for what they need when they are added, and the plan finds the node
//! upstream that has to provide it.

use super::graph::PlanRef;
use super::names;
use super::node::{PlanId, PlanKind, PlanNode};
use crate::state::{StoreKind, StoreSpec};
use std::collections::BTreeSet;
use std::ops::Range;

/// Where a table's node gets the value before a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OldValues {
    /// From the store that it may have: the source of a table.
    Source,
    /// From the store that it has in any case: an aggregation.
    Aggregate,
    /// From its store if it has one, else from its parent: an operator that makes one value of another.
    StoreOrParent,
    /// From its parents: a join.
    Parents,
}

/// A node that gives the changes of a table.
#[derive(Debug, Clone)]
pub(crate) struct TableFacts {
    pub(crate) old_values: OldValues,
    pub(crate) sends_old_values: bool,
    /// The store that it has or may have.
    pub(crate) store: Option<StoreSpec>,
    pub(crate) is_stored: bool,
}

impl TableFacts {
    /// A table without a store, which may get one.
    pub(crate) fn new(old_values: OldValues) -> Self {
        TableFacts { old_values, sends_old_values: false, store: None, is_stored: false }
    }

    /// The same with a store, which is made only if it is asked for.
    pub(crate) fn with_store(old_values: OldValues, store: StoreSpec, is_stored: bool) -> Self {
        TableFacts { store: Some(store), is_stored, ..TableFacts::new(old_values) }
    }
}

impl PlanRef {
    /// Makes a node tell the value before each change; false if that would take a store that nobody else needs. With `force` that
    /// store is made.
    #[track_caller]
    pub(crate) fn send_old_values(&self, id: PlanId, force: bool) -> bool {
        let Some((facts, parents)) = self
            .with_node(id, |node| node.table.clone().map(|facts| (facts, node.parents.clone())))
        else {
            return true;
        };
        if facts.sends_old_values {
            return true;
        }
        let sends = match facts.old_values {
            OldValues::Source if facts.store.is_none() => {
                if force {
                    let name = self.node_name(id);
                    self.fail(&format!(
                        "the values before the changes of {name} are asked for, so it needs a store: say \
                         .materialized(Materialized::new()) behind the join that makes it"
                    ));
                }
                force
            }
            OldValues::Source => force || facts.is_stored,
            OldValues::Aggregate => true,
            OldValues::StoreOrParent if facts.is_stored => true,
            OldValues::StoreOrParent => {
                parents.iter().all(|&parent| self.send_old_values(parent, force))
            }
            OldValues::Parents => {
                for &parent in &parents {
                    self.send_old_values(parent, true);
                }
                true
            }
        };
        self.with_node(id, |node| {
            if let Some(facts) = &mut node.table {
                facts.sends_old_values = sends;
                facts.is_stored |= sends && facts.old_values == OldValues::Source;
            }
        });
        sends
    }

    /// Makes `parent` tell the value before each change if that takes no store that nobody else needs; `child` then tells it too.
    pub(crate) fn send_old_values_if_free(&self, parent: PlanId, child: PlanId) {
        if self.send_old_values(parent, false) {
            self.with_node(child, |node| {
                if let Some(facts) = &mut node.table {
                    facts.sends_old_values = true;
                }
            });
        }
    }

    /// Whether changes of a node's table may be about its past: it has a versioned store, or none and comes from such a table.
    pub(crate) fn is_versioned(&self, id: PlanId) -> bool {
        let Some((facts, parents)) = self
            .with_node(id, |node| node.table.clone().map(|facts| (facts, node.parents.clone())))
        else {
            return false;
        };
        match &facts.store {
            Some(store) => matches!(store.kind, StoreKind::Versioned { .. }),
            None if facts.old_values == OldValues::StoreOrParent => {
                parents.iter().any(|&parent| self.is_versioned(parent))
            }
            None => false,
        }
    }

    /// How much of its past a versioned table knows, in milliseconds.
    pub(crate) fn history(&self, id: PlanId) -> Option<i64> {
        let (facts, parents) =
            self.with_node(id, |node| (node.table.clone(), node.parents.clone()));
        match facts?.store.map(|store| store.kind) {
            Some(StoreKind::Versioned { history, .. }) => Some(history),
            Some(_) => None,
            None => parents.into_iter().filter_map(|parent| self.history(parent)).min(),
        }
    }

    /// Whether two tables come from the same one, so that one change can change both.
    pub(crate) fn share_origin(&self, a: PlanId, b: PlanId) -> bool {
        let (mut of_a, mut of_b) = (BTreeSet::new(), BTreeSet::new());
        self.collect_origins(a, &mut of_a);
        self.collect_origins(b, &mut of_b);
        !of_a.is_disjoint(&of_b)
    }

    fn collect_origins(&self, id: PlanId, origins: &mut BTreeSet<PlanId>) {
        if origins.insert(id) {
            for parent in self.with_node(id, |node| node.parents.clone()) {
                self.collect_origins(parent, origins);
            }
        }
    }

    /// Gives a node the store that it may have.
    pub(crate) fn store_table(&self, id: PlanId) {
        self.with_node(id, |node| {
            if let Some(facts) = &mut node.table {
                facts.is_stored = facts.store.is_some();
            }
        });
    }

    /// Gives a node a store, which is made now or when somebody needs it.
    pub(crate) fn store_table_in(&self, id: PlanId, store: StoreSpec, is_stored: bool) {
        self.with_node(id, |node| {
            if let Some(facts) = &mut node.table {
                facts.store = Some(store);
                facts.is_stored |= is_stored;
            }
        });
    }

    /// Adds a node that gives the changes of a table.
    #[track_caller]
    pub(crate) fn add_table(
        &self,
        name: String,
        kind: PlanKind,
        parents: Vec<PlanId>,
        facts: TableFacts,
    ) -> PlanId {
        let id = self.add(name, kind, parents);
        self.with_node(id, |node| node.table = Some(facts));
        id
    }
}

impl PlanNode {
    /// Adds one to the numbers of generated names.
    pub(super) fn move_names_up(&mut self, taken: &Range<u32>) {
        names::move_up(&mut self.name, taken);
        if let PlanKind::TableJoin(join) = &mut self.kind {
            for side in &mut join.sides {
                names::move_up(&mut side.name, taken);
            }
        }
    }

    pub(super) fn sends_old_values(&self) -> bool {
        self.table.as_ref().is_some_and(|facts| facts.sends_old_values)
    }

    /// The store of its own that it has.
    pub(super) fn own_store(&self) -> Option<&StoreSpec> {
        let of_table = || self.table.as_ref().filter(|facts| facts.is_stored)?.store.as_ref();
        self.store.as_ref().or_else(of_table)
    }
}

//! `split`: one stream becomes several, each record goes one way.

use super::options::{BranchUse, Branched};
use super::plan::{PlanId, PlanKind, prefix};
use super::stream::KStream;
use crate::error::BoxError;
use crate::operators::{self, Branches};
use crate::topology::operator_kind;
use std::collections::BTreeMap;
use std::fmt;

/// A stream on its way to be split. Branches are asked in their order; the first that likes a record gets it.
///
/// ```
/// use kstreams::prelude::*;
///
/// let builder = StreamsBuilder::new();
/// let orders = builder.stream("orders", Consumed::<String, i64>::new());
/// let branches = orders
///     .split()
///     .named("by-size-")
///     .branch(|_, amount| *amount > 1000, Branched::named("large"))
///     .branch(|_, amount| *amount > 0, Branched::named("small"))
///     .default_branch(Branched::named("odd"));
/// branches["by-size-large"].to("large-orders", Produced::new());
/// branches["by-size-odd"].to("odd-orders", Produced::new());
///
/// let mut driver = TopologyTestDriver::new(builder.build()?)?;
/// let mut orders = driver.input::<String, i64>("orders");
/// orders.pipe_key_value_at(&mut driver, 0, "a", 5000)?;
/// orders.pipe_key_value_at(&mut driver, 0, "b", -1)?;
/// let mut large = driver.output::<String, i64>("large-orders");
/// assert_eq!(large.read_values(&mut driver)?, [5000]);
/// # Ok::<(), kstreams::Error>(())
/// ```
#[must_use = "a split ends with default_branch or no_default_branch"]
pub struct BranchedKStream<K, V> {
    source: KStream<K, V>,
    node: PlanId,
    /// What the operator knows of the branches.
    branches: Branches<K, V>,
    results: BTreeMap<String, KStream<K, V>>,
    count: usize,
}

impl<K: Clone + 'static, V: Clone + 'static> KStream<K, V> {
    /// Splits the stream: each record goes to the first branch that likes it, else to the default branch, else nowhere.
    #[track_caller]
    pub fn split(&self) -> BranchedKStream<K, V> {
        let branches = Branches::new();
        let name = self.plan.name(None, prefix::BRANCH);
        let kind = PlanKind::Node(operator_kind::<(K, V), (K, V)>(operators::branch(&branches)));
        let node = self.plan.add(name, kind, vec![self.node]);
        BranchedKStream { source: self.clone(), node, branches, results: BTreeMap::new(), count: 0 }
    }
}

impl<K: Clone + 'static, V: Clone + 'static> BranchedKStream<K, V> {
    /// Names the split: the first part of all its branches' names.
    pub fn named(self, name: impl Into<String>) -> Self {
        self.source.plan.rename(self.node, name.into());
        self
    }

    /// A branch for the records that `predicate` likes and no branch before it.
    #[track_caller]
    pub fn branch(
        self,
        predicate: impl Fn(&K, &V) -> bool + Send + Sync + 'static,
        branched: Branched<K, V>,
    ) -> Self {
        self.try_branch(move |key, value| Ok(predicate(key, value)), branched)
    }

    /// As [`Self::branch`]; the closure may fail.
    #[track_caller]
    pub fn try_branch<F>(mut self, predicate: F, branched: Branched<K, V>) -> Self
    where
        F: Fn(&K, &V) -> Result<bool, BoxError> + Send + Sync + 'static,
    {
        self.count += 1;
        let number = self.count;
        self.add(number, predicate, branched);
        self
    }

    /// Gives the branches by name, with one more for all other records.
    #[track_caller]
    pub fn default_branch(mut self, branched: Branched<K, V>) -> BTreeMap<String, KStream<K, V>> {
        self.add(0, |_, _| Ok(true), branched);
        self.results
    }

    /// Gives the branches by name; all other records end here.
    pub fn no_default_branch(self) -> BTreeMap<String, KStream<K, V>> {
        self.results
    }

    #[track_caller]
    fn add<F>(&mut self, number: usize, predicate: F, branched: Branched<K, V>)
    where
        F: Fn(&K, &V) -> Result<bool, BoxError> + Send + Sync + 'static,
    {
        let plan = &self.source.plan;
        let split = plan.node_name(self.node);
        let name = match branched.name {
            Some(name) => split + &name,
            None => format!("{split}{number}"),
        };
        // Named or not, a branch takes a number.
        plan.name(None, prefix::BRANCH);
        let kind = PlanKind::Node(operator_kind::<(K, V), (K, V)>(operators::pass::<K, V>()));
        let node = plan.add(name.clone(), kind, vec![self.node]);
        self.branches.add(name.clone(), predicate);
        let branch = KStream { node, ..self.source.clone() };
        let result = match branched.use_of {
            BranchUse::Kept => Some(branch),
            BranchUse::Chained(chain) => chain(branch),
        };
        if let Some(result) = result {
            self.results.insert(name, result);
        }
    }
}

impl<K, V> fmt::Debug for BranchedKStream<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("BranchedKStream").field(&self.source).finish()
    }
}

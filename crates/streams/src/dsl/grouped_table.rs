//! `KGroupedTable`: a table by another key, on its way to an aggregated table.

use super::options::Materialized;
use super::plan::{
    OldValues, PlanId, PlanKind, PlanRef, RepartitionNames, RepartitionOptions, TableFacts, prefix,
};
use super::table::{KTable, table_kind, table_token};
use crate::error::BoxError;
use crate::operators::{AddAndSubtract, Change, ChangeSerde, TableAggregation, table_aggregate};
use crate::serde::SerdeRef;
use std::cell::Cell;
use std::fmt;
use std::sync::Arc;

/// A table grouped by another key. When an entry changes, its old value is taken out of the aggregate that it was in, and its new
/// value is added to the one where it belongs now.
///
/// The changes go through the topic `<application.id>-<name>-repartition`, named after [`super::Grouped`], else after the store. The
/// time of a result is the latest time of what was added or taken away.
#[must_use = "a grouped table does nothing until it is aggregated"]
pub struct KGroupedTable<K, V> {
    plan: PlanRef,
    node: PlanId,
    name: Option<String>,
    /// None after a mistake that is already noted.
    serdes: Option<(SerdeRef<K>, SerdeRef<V>)>,
    /// The repartition topic of an explicit name, used by all aggregations of this group.
    repartitioned: Cell<Option<PlanId>>,
}

impl<K, V> fmt::Debug for KGroupedTable<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("KGroupedTable").field(&self.plan.node_name(self.node)).finish()
    }
}

impl<K, V> KGroupedTable<K, V> {
    pub(super) fn new(
        plan: PlanRef,
        node: PlanId,
        name: Option<String>,
        serdes: Option<(SerdeRef<K>, SerdeRef<V>)>,
    ) -> Self {
        KGroupedTable { plan, node, name, serdes, repartitioned: Cell::default() }
    }
}

impl<K: Clone + 'static, V: Clone + 'static> KGroupedTable<K, V> {
    /// How many entries each group has. A group that had some keeps its count of 0.
    ///
    /// ```
    /// use kstreams::prelude::*;
    ///
    /// let builder = StreamsBuilder::new();
    /// builder
    ///     .table("homes", Consumed::<String, String>::new(), Materialized::new())
    ///     .group_by(|who, city| (city, who.clone()), Grouped::new())
    ///     .count(Materialized::named("people"))
    ///     .to_stream()
    ///     .to("people", Produced::new());
    ///
    /// let mut driver = TopologyTestDriver::new(builder.build()?)?;
    /// let mut homes = driver.input::<String, String>("homes");
    /// for (who, city) in [("ann", "Rome"), ("bob", "Rome"), ("ann", "Oslo")] {
    ///     homes.pipe_key_value_at(&mut driver, 0, who, city)?;
    /// }
    /// let mut people = driver.output::<String, i64>("people");
    /// assert_eq!(people.read_table(&mut driver)?, table! { "Rome" => 1, "Oslo" => 1 });
    /// # Ok::<(), kstreams::Error>(())
    /// ```
    #[track_caller]
    pub fn count(&self, materialized: Materialized<K, i64>) -> KTable<K, i64> {
        let aggregation = AddAndSubtract {
            adder: |_: &K, count: Option<i64>, _: V| Ok(Some(count.unwrap_or(0) + 1)),
            subtractor: |_: &K, count: i64, _: V| Ok(Some(count - 1)),
        };
        self.aggregated(prefix::TABLE_AGGREGATE, materialized, aggregation)
    }

    /// Combines the values of each group with `adder`; the first is taken as it is. `subtractor` takes a value away again; where it
    /// gives `None` the group is empty.
    ///
    /// ```
    /// use kstreams::prelude::*;
    ///
    /// let builder = StreamsBuilder::new();
    /// builder
    ///     .table("stock", Consumed::<String, i64>::new(), Materialized::new())
    ///     .group_by(|item, pieces| (item[..1].to_string(), pieces), Grouped::new())
    ///     .reduce(|sum, pieces| sum + pieces, |sum, pieces| sum - pieces, Materialized::named("sums"))
    ///     .to_stream()
    ///     .to("sums", Produced::new());
    /// builder.build()?;
    /// # Ok::<(), kstreams::Error>(())
    /// ```
    #[track_caller]
    pub fn reduce<R, F, G>(
        &self,
        adder: F,
        subtractor: G,
        materialized: Materialized<K, V>,
    ) -> KTable<K, V>
    where
        R: Into<Option<V>>,
        F: Fn(V, V) -> V + Send + Sync + 'static,
        G: Fn(V, V) -> R + Send + Sync + 'static,
    {
        self.try_reduce(
            move |reduced, value| Ok(adder(reduced, value)),
            move |reduced, value| Ok(subtractor(reduced, value)),
            materialized,
        )
    }

    /// As [`Self::reduce`]; the closures may fail.
    #[track_caller]
    pub fn try_reduce<R, F, G>(
        &self,
        adder: F,
        subtractor: G,
        materialized: Materialized<K, V>,
    ) -> KTable<K, V>
    where
        R: Into<Option<V>>,
        F: Fn(V, V) -> Result<V, BoxError> + Send + Sync + 'static,
        G: Fn(V, V) -> Result<R, BoxError> + Send + Sync + 'static,
    {
        let aggregation = AddAndSubtract {
            adder: move |_: &K, reduced: Option<V>, value: V| match reduced {
                Some(reduced) => adder(reduced, value).map(Some),
                None => Ok(Some(value)),
            },
            subtractor: move |_: &K, reduced: V, value: V| subtractor(reduced, value).map(R::into),
        };
        self.aggregated(prefix::TABLE_REDUCE, materialized, aggregation)
    }

    /// Folds the values of each group into an aggregate that begins with `initializer`: `adder` puts a value in, `subtractor` takes
    /// it away. Each gives the new aggregate, or an `Option` of it: `None` deletes the group.
    ///
    /// ```
    /// use kstreams::prelude::*;
    ///
    /// let builder = StreamsBuilder::new();
    /// builder
    ///     .table("stock", Consumed::<String, i64>::new(), Materialized::new())
    ///     .group_by(|item, pieces| (item[..1].to_string(), pieces), Grouped::new())
    ///     .aggregate(
    ///         || 0,
    ///         |_, sum, pieces| sum + pieces,
    ///         |_, sum, pieces| Some(sum - pieces).filter(|sum| *sum != 0),
    ///         Materialized::<String, i64>::named("sums"),
    ///     )
    ///     .to_stream()
    ///     .to("sums", Produced::new());
    /// builder.build()?;
    /// # Ok::<(), kstreams::Error>(())
    /// ```
    #[track_caller]
    pub fn aggregate<A, R, S, I, F, G>(
        &self,
        initializer: I,
        adder: F,
        subtractor: G,
        materialized: Materialized<K, A>,
    ) -> KTable<K, A>
    where
        A: Clone + 'static,
        R: Into<Option<A>>,
        S: Into<Option<A>>,
        I: Fn() -> A + Send + Sync + 'static,
        F: Fn(&K, A, V) -> R + Send + Sync + 'static,
        G: Fn(&K, A, V) -> S + Send + Sync + 'static,
    {
        self.try_aggregate(
            initializer,
            move |key, aggregate, value| Ok(adder(key, aggregate, value)),
            move |key, aggregate, value| Ok(subtractor(key, aggregate, value)),
            materialized,
        )
    }

    /// As [`Self::aggregate`]; the closures may fail.
    #[track_caller]
    pub fn try_aggregate<A, R, S, I, F, G>(
        &self,
        initializer: I,
        adder: F,
        subtractor: G,
        materialized: Materialized<K, A>,
    ) -> KTable<K, A>
    where
        A: Clone + 'static,
        R: Into<Option<A>>,
        S: Into<Option<A>>,
        I: Fn() -> A + Send + Sync + 'static,
        F: Fn(&K, A, V) -> Result<R, BoxError> + Send + Sync + 'static,
        G: Fn(&K, A, V) -> Result<S, BoxError> + Send + Sync + 'static,
    {
        let aggregation = AddAndSubtract {
            adder: move |key: &K, aggregate: Option<A>, value: V| {
                adder(key, aggregate.unwrap_or_else(&initializer), value).map(R::into)
            },
            subtractor: move |key: &K, aggregate: A, value: V| {
                subtractor(key, aggregate, value).map(S::into)
            },
        };
        self.aggregated(prefix::TABLE_AGGREGATE, materialized, aggregation)
    }

    #[track_caller]
    fn aggregated<A, F>(
        &self,
        function: &str,
        materialized: Materialized<K, A>,
        aggregation: F,
    ) -> KTable<K, A>
    where
        A: Clone + 'static,
        F: TableAggregation<K, V, A>,
    {
        let plan = &self.plan;
        let store = plan.store_name(materialized.name.clone(), prefix::TABLE_AGGREGATE);
        let given = |suffix: &str| materialized.node.as_ref().map(|name| format!("{name}{suffix}"));
        let sink = plan.name(given("-sink"), prefix::SINK);
        let source = plan.name(given("-source"), prefix::SOURCE);
        let name = plan.name(given(""), function);
        let Some((key, value)) = &self.serdes else {
            return KTable::void(plan.clone(), self.node);
        };
        let Some(token) = table_token(plan, &store, &materialized, (Some(key), None)) else {
            return KTable::void(plan.clone(), self.node);
        };
        let parent = self.repartitioned.get().unwrap_or_else(|| {
            let topic = format!("{}-repartition", self.name.as_deref().unwrap_or(&store));
            let names = RepartitionNames { topic, sink, source, filter: String::new() };
            let change = Arc::new(ChangeSerde(value.clone())) as SerdeRef<Change<V>>;
            let options = RepartitionOptions::default();
            let parent =
                plan.add_repartition_topic(names, (self.node, None), (key, &change), options);
            self.repartitioned.set(self.name.is_some().then_some(parent));
            parent
        });
        let kind = table_kind::<K, V, A>(table_aggregate::<K, V, A, F>(aggregation, token));
        let facts = TableFacts::with_store(OldValues::Aggregate, token.spec().clone(), true);
        let kind = PlanKind::Table(kind, Vec::new());
        let node = plan.add_table(name, kind, vec![parent], facts);
        KTable::stored(plan.clone(), node, token, materialized.name)
    }
}

//! `KGroupedStream`: a stream by key, on its way to a table.

use super::options::Materialized;
use super::plan::{OldValues, PlanId, PlanKind, PlanRef, RepartitionOptions, TableFacts, prefix};
use super::table::{KTable, table_token};
use crate::error::BoxError;
use crate::operators::{Aggregation, Change, Grouping, Step, stream_aggregate};
use crate::serde::SerdeRef;
use crate::topology::operator_kind;
use std::cell::Cell;
use std::fmt;
use std::rc::Rc;

/// A stream grouped by key. Its operators make a table with one value a key.
///
/// Records with a null key or a null value are dropped (with a warning); there is no "too late". The time of a result is the
/// latest time of the records in it. The table is stored under the name given to [`Materialized`], with a changelog
/// `<application.id>-<name>-changelog`. If the key was changed before, the records first go through the topic
/// `<application.id>-<name>-repartition`, named after [`super::Grouped`], else after the store.
#[must_use = "a grouped stream does nothing until it is aggregated"]
pub struct KGroupedStream<K, V> {
    plan: PlanRef,
    node: PlanId,
    name: Option<String>,
    /// None after a mistake that is already noted.
    serdes: Option<(SerdeRef<K>, SerdeRef<V>)>,
    rekeyed: bool,
    /// The repartition topic of an explicit name, used by all aggregations of this group.
    repartitioned: Rc<Cell<Option<PlanId>>>,
}

impl<K, V> fmt::Debug for KGroupedStream<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("KGroupedStream").field(&self.plan.node_name(self.node)).finish()
    }
}

impl<K, V> KGroupedStream<K, V> {
    pub(super) fn new(
        plan: PlanRef,
        node: PlanId,
        name: Option<String>,
        key: SerdeRef<K>,
        value: SerdeRef<V>,
        rekeyed: bool,
    ) -> Self {
        let serdes = Some((key, value));
        KGroupedStream { plan, node, name, serdes, rekeyed, repartitioned: Rc::default() }
    }

    /// The group of a stream whose mistake is already noted: `build` will fail.
    pub(super) fn void(plan: PlanRef, node: PlanId) -> Self {
        let (name, serdes, rekeyed) = (None, None, false);
        KGroupedStream { plan, node, name, serdes, rekeyed, repartitioned: Rc::default() }
    }
}

impl<K: Clone + 'static, V: Clone + 'static> KGroupedStream<K, V> {
    /// How many records each key has.
    ///
    /// ```
    /// use kstreams::prelude::*;
    ///
    /// let builder = StreamsBuilder::new();
    /// let clicks = builder.stream("clicks", Consumed::<String, String>::new());
    /// clicks.group_by_key(Grouped::new()).count(Materialized::named("clicks")).to_stream().to("counts", Produced::new());
    ///
    /// let mut driver = TopologyTestDriver::new(builder.build()?)?;
    /// let mut clicks = driver.input::<String, String>("clicks");
    /// for page in ["/", "/cart"] {
    ///     clicks.pipe_key_value_at(&mut driver, 0, "ann", page)?;
    /// }
    /// let mut counts = driver.output::<String, i64>("counts");
    /// assert_eq!(counts.read_table(&mut driver)?, table! { "ann" => 2 });
    /// # Ok::<(), kstreams::Error>(())
    /// ```
    #[track_caller]
    pub fn count(&self, materialized: Materialized<K, i64>) -> KTable<K, i64> {
        if materialized.name.is_none() && !materialized.is_plain {
            // Java takes a number here for a reason of its own past; names after it depend on it.
            self.plan.store_name(None, prefix::AGGREGATE);
        }
        let count = |_: &K, _: V, count: Option<i64>| Ok(Step::Put(count.unwrap_or(0) + 1));
        self.aggregated(prefix::AGGREGATE, materialized, count)
    }

    /// Combines the values of each key; the first is taken as it is.
    ///
    /// ```
    /// use kstreams::prelude::*;
    ///
    /// let builder = StreamsBuilder::new();
    /// let bids = builder.stream("bids", Consumed::<String, i64>::new());
    /// bids.group_by_key(Grouped::new())
    ///     .reduce(|highest, bid| highest.max(bid), Materialized::named("highest"))
    ///     .to_stream()
    ///     .to("highest", Produced::new());
    /// builder.build()?;
    /// # Ok::<(), kstreams::Error>(())
    /// ```
    #[track_caller]
    pub fn reduce<F>(&self, reducer: F, materialized: Materialized<K, V>) -> KTable<K, V>
    where
        F: Fn(V, V) -> V + Send + Sync + 'static,
    {
        self.try_reduce(move |reduced, value| Ok(reducer(reduced, value)), materialized)
    }

    /// As [`Self::reduce`]; the closure may fail.
    #[track_caller]
    pub fn try_reduce<F>(&self, reducer: F, materialized: Materialized<K, V>) -> KTable<K, V>
    where
        F: Fn(V, V) -> Result<V, BoxError> + Send + Sync + 'static,
    {
        let reduce = move |_: &K, value: V, reduced: Option<V>| {
            Ok(Step::Put(match reduced {
                Some(reduced) => reducer(reduced, value)?,
                None => value,
            }))
        };
        self.aggregated(prefix::REDUCE, materialized, reduce)
    }

    /// Folds the values of each key into an aggregate that begins with `initializer`. The aggregator gives the new aggregate, or
    /// an `Option` of it: `None` deletes the key.
    ///
    /// ```
    /// use kstreams::prelude::*;
    ///
    /// let builder = StreamsBuilder::new();
    /// let moves = builder.stream("moves", Consumed::<String, i64>::new());
    /// moves
    ///     .group_by_key(Grouped::new())
    ///     .aggregate(
    ///         || 0,
    ///         |_item, stock, moved| Some(stock + moved).filter(|stock| *stock > 0),
    ///         Materialized::<String, i64>::named("stock"),
    ///     )
    ///     .to_stream()
    ///     .to("stock", Produced::new());
    /// builder.build()?;
    /// # Ok::<(), kstreams::Error>(())
    /// ```
    #[track_caller]
    pub fn aggregate<A, R, I, F>(
        &self,
        initializer: I,
        aggregator: F,
        materialized: Materialized<K, A>,
    ) -> KTable<K, A>
    where
        A: Clone + 'static,
        R: Into<Option<A>>,
        I: Fn() -> A + Send + Sync + 'static,
        F: Fn(&K, A, V) -> R + Send + Sync + 'static,
    {
        let aggregator = move |key: &K, aggregate, value| Ok(aggregator(key, aggregate, value));
        self.try_aggregate(initializer, aggregator, materialized)
    }

    /// As [`Self::aggregate`]; the aggregator may fail.
    #[track_caller]
    pub fn try_aggregate<A, R, I, F>(
        &self,
        initializer: I,
        aggregator: F,
        materialized: Materialized<K, A>,
    ) -> KTable<K, A>
    where
        A: Clone + 'static,
        R: Into<Option<A>>,
        I: Fn() -> A + Send + Sync + 'static,
        F: Fn(&K, A, V) -> Result<R, BoxError> + Send + Sync + 'static,
    {
        let aggregate = move |key: &K, value: V, aggregate: Option<A>| {
            let aggregate = aggregate.unwrap_or_else(&initializer);
            let new: Option<A> = aggregator(key, aggregate, value)?.into();
            Ok(new.map_or(Step::Delete, Step::Put))
        };
        self.aggregated(prefix::AGGREGATE, materialized, aggregate)
    }

    #[track_caller]
    fn aggregated<A, F>(
        &self,
        prefix: &str,
        materialized: Materialized<K, A>,
        aggregation: F,
    ) -> KTable<K, A>
    where
        A: Clone + 'static,
        F: Aggregation<K, V, A>,
    {
        let plan = &self.plan;
        let store = plan.store_name(materialized.name.clone(), prefix);
        let name = plan.name(materialized.node.clone(), prefix);
        let Some((key, value)) = &self.serdes else {
            return KTable::void(plan.clone(), self.node);
        };
        let Some(token) = table_token(plan, &store, &materialized, (Some(key), None)) else {
            return KTable::void(plan.clone(), self.node);
        };
        let parent = self.repartitioned(&store, key, value);
        let grouping = Grouping { key: key.clone(), value: value.clone() };
        let factory = stream_aggregate(grouping, aggregation, token);
        let kind = operator_kind::<(K, V), (K, Change<A>)>(factory);
        let facts = TableFacts::with_store(OldValues::Aggregate, token.spec().clone(), true);
        let kind = PlanKind::Table(kind, Vec::new());
        let node = plan.add_table(name, kind, vec![parent], facts);
        KTable::stored(plan.clone(), node, token, materialized.name)
    }

    /// The node below which the records are partitioned by their key.
    #[track_caller]
    fn repartitioned(&self, store: &str, key: &SerdeRef<K>, value: &SerdeRef<V>) -> PlanId {
        if !self.rekeyed {
            return self.node;
        }
        let base = self.name.as_deref().unwrap_or(store);
        if let Some(node) = self.repartitioned.get() {
            self.plan.skip_repartition_names(base);
            return node;
        }
        let node = {
            let options = RepartitionOptions::default();
            self.plan.add_repartition(base, self.node, key, value, options)
        };
        if self.name.is_some() {
            self.repartitioned.set(Some(node));
        }
        node
    }
}

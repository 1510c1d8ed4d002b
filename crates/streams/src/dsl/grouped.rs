//! `KGroupedStream`: a stream by key, on its way to a table.

use super::aggregations::{counting, folding, reducing};
use super::options::Materialized;
use super::plan::{OldValues, PlanId, PlanKind, PlanRef, RepartitionOptions, TableFacts, prefix};
use super::table::{KTable, table_token};
use super::time_windowed::WindowedBy;
use crate::error::BoxError;
use crate::operators::{Aggregation, Change, Grouping, stream_aggregate};
use crate::serde::SerdeRef;
use crate::state::KeyValueSerdes;
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
    pub(super) plan: PlanRef,
    pub(super) node: PlanId,
    name: Option<String>,
    /// None after a mistake that is already noted.
    serdes: Option<(SerdeRef<K>, SerdeRef<V>)>,
    rekeyed: bool,
    /// The repartition topic of an explicit name, used by all aggregations of this group.
    repartitioned: Rc<Cell<Option<PlanId>>>,
}

impl<K, V> Clone for KGroupedStream<K, V> {
    fn clone(&self) -> Self {
        KGroupedStream {
            plan: self.plan.clone(),
            node: self.node,
            name: self.name.clone(),
            serdes: self.serdes.clone(),
            rekeyed: self.rekeyed,
            repartitioned: self.repartitioned.clone(),
        }
    }
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
        self.skip_store_number(&materialized);
        let table = self.aggregated(prefix::AGGREGATE, materialized, None, counting());
        self.plan.only_grows(table.node);
        table
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
        let value = self.serdes.as_ref().map(|(_, value)| value);
        let table = self.aggregated(prefix::REDUCE, materialized, value, reducing(reducer));
        self.plan.only_grows(table.node);
        table
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
        self.aggregated(prefix::AGGREGATE, materialized, None, folding(initializer, aggregator))
    }

    /// The same records in windows: [`super::TimeWindows`], [`super::SlidingWindows`], [`super::SessionWindows`],
    /// [`super::UnlimitedWindows`], or a user's own ([`super::Windows`]).
    #[track_caller]
    pub fn windowed_by<W: WindowedBy<K, V>>(&self, windows: W) -> W::Windowed {
        windows.windowed(self)
    }

    #[track_caller]
    fn aggregated<A, F>(
        &self,
        prefix: &str,
        materialized: Materialized<K, A>,
        carried: Option<&SerdeRef<A>>,
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
        let Some(token) = table_token(plan, &store, &materialized, (Some(key), carried)) else {
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

    /// The serdes of the stream; none after a mistake that is noted.
    pub(super) fn grouping(&self) -> Option<Grouping<K, V>> {
        let (key, value) = self.serdes.clone()?;
        Some(Grouping { key, value })
    }

    pub(super) fn value_serde(&self) -> Option<SerdeRef<V>> {
        self.serdes.as_ref().map(|(_, value)| value.clone())
    }

    /// Java's `count` takes a number for a store that it never makes when the options have no name; names after it depend on it.
    pub(super) fn skip_store_number<A>(&self, materialized: &Materialized<K, A>) {
        if materialized.name.is_none() && !materialized.is_plain {
            self.plan.store_name(None, prefix::AGGREGATE);
        }
    }

    /// The serdes of the stream, and those of the store that it is aggregated into; none after a mistake that is noted.
    #[track_caller]
    pub(super) fn serdes_for<A: 'static>(
        &self,
        store: &str,
        materialized: &Materialized<K, A>,
        carried: Option<&SerdeRef<A>>,
    ) -> Option<(Grouping<K, V>, KeyValueSerdes<K, A>)> {
        let (key, value) = self.serdes.clone()?;
        let stored_key = materialized.key.resolve(Some(&key));
        let (Some(stored_key), Some(stored_value)) =
            (stored_key, materialized.value.resolve(carried))
        else {
            self.plan.fail_without_serdes(&format!("the store {store}"));
            return None;
        };
        let serdes = KeyValueSerdes { key: stored_key, value: stored_value };
        Some((Grouping { key, value }, serdes))
    }

    /// The node below which the records are partitioned by their key.
    #[track_caller]
    pub(super) fn repartitioned(
        &self,
        store: &str,
        key: &SerdeRef<K>,
        value: &SerdeRef<V>,
    ) -> PlanId {
        if !self.rekeyed {
            return self.node;
        }
        let base = self.name.as_deref().unwrap_or(store);
        if let Some(node) = self.repartitioned.get() {
            self.plan.skip_repartition_names(base);
            return node;
        }
        let options = RepartitionOptions::default();
        let node = self.plan.add_repartition(base, self.node, key, value, options);
        if self.name.is_some() {
            self.repartitioned.set(Some(node));
        }
        node
    }
}

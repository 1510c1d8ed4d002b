//! Joins of streams with global tables.

use super::global_table::GlobalKTable;
use super::options::Joined;
use super::plan::{PlanKind, prefix};
use super::stream::KStream;
use crate::error::BoxError;
use crate::operators::{GlobalJoiner, Grouping, Lookup, SelectAndJoin, stream_global_join};
use crate::topology::{Role, operator_kind};

impl<K: Clone + 'static, V: Clone + 'static> KStream<K, V> {
    /// Joins each record with the global table's value of the key that `selector` makes of it (a key, or an `Option` of one). A
    /// record without such a key, without a value, or that finds nothing has no result. The result has the stream's key, the record's
    /// time and its headers; nothing is repartitioned.
    ///
    /// ```
    /// use kstreams::prelude::*;
    ///
    /// let builder = StreamsBuilder::new();
    /// let products = builder.global_table("products", Consumed::<i64, String>::new(), Materialized::new());
    /// builder
    ///     .stream("orders", Consumed::<String, i64>::new())
    ///     .join_global(&products, |_, product| *product, |_, name| name.clone(), Joined::new())
    ///     .to("order-names", Produced::new());
    ///
    /// let mut driver = TopologyTestDriver::new(builder.build()?)?;
    /// driver.input::<i64, String>("products").pipe_key_value_at(&mut driver, 0, 7, "tea")?;
    /// driver.input::<String, i64>("orders").pipe_key_value_at(&mut driver, 1, "ann", 7)?;
    /// let mut names = driver.output::<String, String>("order-names");
    /// assert_eq!(names.read_table(&mut driver)?, table! { "ann" => "tea" });
    /// # Ok::<(), kstreams::Error>(())
    /// ```
    #[track_caller]
    pub fn join_global<GK, T, Q, R, S, F>(
        &self,
        table: &GlobalKTable<GK, T>,
        selector: S,
        joiner: F,
        joined: Joined<K, V>,
    ) -> KStream<K, R>
    where
        GK: 'static,
        T: 'static,
        Q: Into<Option<GK>>,
        R: Clone + 'static,
        S: Fn(&K, &V) -> Q + Send + Sync + 'static,
        F: Fn(&V, &T) -> R + Send + Sync + 'static,
    {
        let joiner = move |_: (&K, &GK), value: &V, found: &T| Ok(joiner(value, found));
        let selector = move |key: &K, value: &V| Ok(selector(key, value));
        self.try_join_global(table, selector, joiner, joined)
    }

    /// As [`Self::join_global`]; the joiner sees the stream's key and the key that was looked up as well, and both closures may fail.
    #[track_caller]
    pub fn try_join_global<GK, T, Q, R, S, F>(
        &self,
        table: &GlobalKTable<GK, T>,
        selector: S,
        joiner: F,
        joined: Joined<K, V>,
    ) -> KStream<K, R>
    where
        GK: 'static,
        T: 'static,
        Q: Into<Option<GK>>,
        R: Clone + 'static,
        S: Fn(&K, &V) -> Result<Q, BoxError> + Send + Sync + 'static,
        F: Fn((&K, &GK), &V, &T) -> Result<R, BoxError> + Send + Sync + 'static,
    {
        let joiner = SelectAndJoin {
            selector: move |key: &K, value: &V| selector(key, value).map(Q::into),
            joiner: move |(key, selected): (&K, Option<&GK>), value: &V, found: Option<&T>| match (
                selected, found,
            ) {
                (Some(selected), Some(found)) => joiner((key, selected), value, found),
                _ => Err("an inner join found nothing".into()),
            },
        };
        self.globally_joined(table, joiner, Lookup::Inner, joined)
    }

    /// As [`Self::join_global`], but a record that has no key to look up, or finds nothing, is joined with nothing.
    ///
    /// ```
    /// use kstreams::prelude::*;
    ///
    /// let builder = StreamsBuilder::new();
    /// let products = builder.global_table("products", Consumed::<i64, String>::new(), Materialized::new());
    /// builder
    ///     .stream("orders", Consumed::<String, i64>::new())
    ///     .left_join_global(
    ///         &products,
    ///         |_, product| *product,
    ///         |id, name| name.cloned().unwrap_or_else(|| format!("product {id}")),
    ///         Joined::new(),
    ///     )
    ///     .to("order-names", Produced::new());
    /// builder.build()?;
    /// # Ok::<(), kstreams::Error>(())
    /// ```
    #[track_caller]
    pub fn left_join_global<GK, T, Q, R, S, F>(
        &self,
        table: &GlobalKTable<GK, T>,
        selector: S,
        joiner: F,
        joined: Joined<K, V>,
    ) -> KStream<K, R>
    where
        GK: 'static,
        T: 'static,
        Q: Into<Option<GK>>,
        R: Clone + 'static,
        S: Fn(&K, &V) -> Q + Send + Sync + 'static,
        F: Fn(&V, Option<&T>) -> R + Send + Sync + 'static,
    {
        let joiner =
            move |_: (&K, Option<&GK>), value: &V, found: Option<&T>| Ok(joiner(value, found));
        let selector = move |key: &K, value: &V| Ok(selector(key, value));
        self.try_left_join_global(table, selector, joiner, joined)
    }

    /// As [`Self::left_join_global`]; the joiner sees the stream's key and the key that was looked up as well, and both closures may
    /// fail.
    #[track_caller]
    pub fn try_left_join_global<GK, T, Q, R, S, F>(
        &self,
        table: &GlobalKTable<GK, T>,
        selector: S,
        joiner: F,
        joined: Joined<K, V>,
    ) -> KStream<K, R>
    where
        GK: 'static,
        T: 'static,
        Q: Into<Option<GK>>,
        R: Clone + 'static,
        S: Fn(&K, &V) -> Result<Q, BoxError> + Send + Sync + 'static,
        F: Fn((&K, Option<&GK>), &V, Option<&T>) -> Result<R, BoxError> + Send + Sync + 'static,
    {
        let selector = move |key: &K, value: &V| selector(key, value).map(Q::into);
        self.globally_joined(table, SelectAndJoin { selector, joiner }, Lookup::Left, joined)
    }

    #[track_caller]
    fn globally_joined<GK, T, R, F>(
        &self,
        table: &GlobalKTable<GK, T>,
        joiner: F,
        lookup: Lookup,
        joined: Joined<K, V>,
    ) -> KStream<K, R>
    where
        GK: 'static,
        T: 'static,
        R: Clone + 'static,
        F: GlobalJoiner<K, V, GK, T, R>,
    {
        let plan = &self.plan;
        // In Java inner joins with global tables are called so too.
        let name = plan.name(joined.name, prefix::LEFT_JOIN);
        let key = joined.key.resolve(self.key.as_ref());
        let value = joined.value.resolve(self.value.as_ref());
        let (Some(key), Some(value)) = (key, value) else {
            plan.fail_without_serdes("the join with a global table");
            return KStream::new(plan.clone(), self.node, None, None);
        };
        let nulls = Grouping { key: key.clone(), value };
        let role = Role::GlobalReader(table.name.clone());
        let table = (table.name.clone(), table.serdes.clone());
        let factory = stream_global_join::<K, V, GK, T, R, F>(lookup, nulls, table, joiner);
        let kind = PlanKind::Node(operator_kind::<(K, V), (K, R)>(factory));
        let node = plan.add(name, kind, vec![self.node]);
        plan.set_role(node, role);
        if lookup == Lookup::Left {
            plan.want_null_keys(node);
        }
        let rekeyed = self.rekeyed;
        KStream { rekeyed, ..KStream::new(plan.clone(), node, Some(key), None) }
    }
}

//! Joins of tables with tables.

use super::plan::{JoinSideNode, OldValues, PlanKind, TableFacts, TableJoinNode, prefix};
use super::table::{KTable, UnnamedStore, table_kind};
use crate::error::BoxError;
use crate::operators::{
    JoinSide, Joiner, TableOwnStore, merge_joined, table_join, table_join_view,
};
use std::sync::Arc;

/// Which of the two tables must have a key for it to be in the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum JoinKind {
    Inner,
    Left,
    Outer,
}

impl<K: Clone + 'static, V: Clone + 'static> KTable<K, V> {
    /// Joins each value with the other table's value of the same key; keys that only one table has are not in the result.
    ///
    /// A change of either table makes a change of the result; its time is the later of both entries'. When an entry is deleted, the
    /// deletion goes on if the other table has the key. Both topics must have the same number of partitions.
    ///
    /// ```
    /// use kstreams::prelude::*;
    ///
    /// let builder = StreamsBuilder::new();
    /// let prices = builder.table("prices", Consumed::<String, i64>::new(), Materialized::new());
    /// let stock = builder.table("stock", Consumed::<String, i64>::new(), Materialized::new());
    /// prices.join(&stock, |price, pieces| price * pieces).to_stream().to("worth", Produced::new());
    ///
    /// let mut driver = TopologyTestDriver::new(builder.build()?)?;
    /// driver.input::<String, i64>("prices").pipe_key_value_at(&mut driver, 0, "tea", 3)?;
    /// driver.input::<String, i64>("stock").pipe_key_value_at(&mut driver, 1, "tea", 5)?;
    /// let mut worth = driver.output::<String, i64>("worth");
    /// assert_eq!(worth.read_table(&mut driver)?, table! { "tea" => 15 });
    /// # Ok::<(), kstreams::Error>(())
    /// ```
    #[track_caller]
    pub fn join<V2, R, F>(&self, other: &KTable<K, V2>, joiner: F) -> KTable<K, R>
    where
        V2: Clone + 'static,
        R: Clone + 'static,
        F: Fn(&V, &V2) -> R + Send + Sync + 'static,
    {
        self.try_join(other, move |left, right| Ok(Some(joiner(left, right))))
    }

    /// As [`Self::join`]; the joiner may fail, or give `None` for what shall not be in the result.
    #[track_caller]
    pub fn try_join<V2, R, F>(&self, other: &KTable<K, V2>, joiner: F) -> KTable<K, R>
    where
        V2: Clone + 'static,
        R: Clone + 'static,
        F: Fn(&V, &V2) -> Result<Option<R>, BoxError> + Send + Sync + 'static,
    {
        let joiner = move |left: Option<&V>, right: Option<&V2>| match (left, right) {
            (Some(left), Some(right)) => joiner(left, right),
            _ => Ok(None),
        };
        self.joined(other, joiner, JoinKind::Inner)
    }

    /// As [`Self::join`], but keys that only this table has are in the result too.
    ///
    /// ```
    /// use kstreams::prelude::*;
    ///
    /// let builder = StreamsBuilder::new();
    /// let users = builder.table("users", Consumed::<i64, String>::new(), Materialized::new());
    /// let cities = builder.table("cities", Consumed::<i64, String>::new(), Materialized::new());
    /// users
    ///     .left_join(&cities, |user, city| format!("{user} of {}", city.map_or("nowhere", String::as_str)))
    ///     .to_stream()
    ///     .to("people", Produced::new());
    /// builder.build()?;
    /// # Ok::<(), kstreams::Error>(())
    /// ```
    #[track_caller]
    pub fn left_join<V2, R, F>(&self, other: &KTable<K, V2>, joiner: F) -> KTable<K, R>
    where
        V2: Clone + 'static,
        R: Clone + 'static,
        F: Fn(&V, Option<&V2>) -> R + Send + Sync + 'static,
    {
        self.try_left_join(other, move |left, right| Ok(Some(joiner(left, right))))
    }

    /// As [`Self::left_join`]; the joiner may fail, or give `None` for what shall not be in the result.
    #[track_caller]
    pub fn try_left_join<V2, R, F>(&self, other: &KTable<K, V2>, joiner: F) -> KTable<K, R>
    where
        V2: Clone + 'static,
        R: Clone + 'static,
        F: Fn(&V, Option<&V2>) -> Result<Option<R>, BoxError> + Send + Sync + 'static,
    {
        let joiner = move |left: Option<&V>, right: Option<&V2>| match left {
            Some(left) => joiner(left, right),
            None => Ok(None),
        };
        self.joined(other, joiner, JoinKind::Left)
    }

    /// As [`Self::join`], but keys that only one of the tables has are in the result too; the joiner always gets one value at least.
    ///
    /// ```
    /// use kstreams::prelude::*;
    ///
    /// let builder = StreamsBuilder::new();
    /// let morning = builder.table("morning", Consumed::<String, i64>::new(), Materialized::new());
    /// let evening = builder.table("evening", Consumed::<String, i64>::new(), Materialized::new());
    /// morning
    ///     .outer_join(&evening, |morning, evening| morning.unwrap_or(&0) + evening.unwrap_or(&0))
    ///     .to_stream()
    ///     .to("day", Produced::new());
    /// builder.build()?;
    /// # Ok::<(), kstreams::Error>(())
    /// ```
    #[track_caller]
    pub fn outer_join<V2, R, F>(&self, other: &KTable<K, V2>, joiner: F) -> KTable<K, R>
    where
        V2: Clone + 'static,
        R: Clone + 'static,
        F: Fn(Option<&V>, Option<&V2>) -> R + Send + Sync + 'static,
    {
        self.try_outer_join(other, move |left, right| Ok(Some(joiner(left, right))))
    }

    /// As [`Self::outer_join`]; the joiner may fail, or give `None` for what shall not be in the result.
    #[track_caller]
    pub fn try_outer_join<V2, R, F>(&self, other: &KTable<K, V2>, joiner: F) -> KTable<K, R>
    where
        V2: Clone + 'static,
        R: Clone + 'static,
        F: Fn(Option<&V>, Option<&V2>) -> Result<Option<R>, BoxError> + Send + Sync + 'static,
    {
        let joiner = move |left: Option<&V>, right: Option<&V2>| match (left, right) {
            (None, None) => Ok(None),
            _ => joiner(left, right),
        };
        self.joined(other, joiner, JoinKind::Outer)
    }

    #[track_caller]
    fn joined<V2, R, F>(&self, other: &KTable<K, V2>, joiner: F, kind: JoinKind) -> KTable<K, R>
    where
        V2: Clone + 'static,
        R: Clone + 'static,
        F: Joiner<V, V2, R>,
    {
        let plan = &self.plan;
        let first = plan.next_number();
        let name = plan.name(None, prefix::TABLE_MERGE);
        if kind != JoinKind::Inner {
            plan.send_old_values(self.node, true);
        }
        if kind == JoinKind::Outer {
            plan.send_old_values(other.node, true);
        }
        plan.copartition(&[self.node, other.node], "the tables of a join");
        let (left, right) = (self.view(), other.view());
        let joiner = Arc::new(joiner);
        let mirrored = joiner.clone();
        let mirrored = move |right: Option<&V2>, left: Option<&V>| mirrored.join(left, right);
        let shares_origin = plan.share_origin(self.node, other.node);
        let side = |needs_other, table| JoinSide {
            needs_other,
            ignores_past: plan.is_versioned(table),
            shares_origin,
        };
        let this_side = side(kind == JoinKind::Inner, self.node);
        let other_side = side(kind != JoinKind::Outer, other.node);
        let this = JoinSideNode {
            name: plan.name(None, prefix::TABLE_JOIN_THIS),
            reads: right.stores.clone(),
            kind: table_kind::<K, V, R>(table_join(this_side, right.clone(), joiner.clone())),
        };
        let that = JoinSideNode {
            name: plan.name(None, prefix::TABLE_JOIN_OTHER),
            reads: left.stores.clone(),
            kind: table_kind::<K, V2, R>(table_join(other_side, left.clone(), Arc::new(mirrored))),
        };
        let own = TableOwnStore::default();
        let merge = table_kind::<K, R, R>(merge_joined(own.clone()));
        let join = PlanKind::TableJoin(Box::new(TableJoinNode { sides: [this, that], merge }));
        let facts = TableFacts::new(OldValues::Parents);
        let node = plan.add_table(name, join, vec![self.node, other.node], facts);
        let view = move || table_join_view(left.clone(), right.clone(), joiner.clone());
        let numbers = first..plan.next_number();
        KTable::new(plan.clone(), node, self.key.clone(), None, view).unstored(
            own,
            numbers,
            UnnamedStore::Made(prefix::TABLE_MERGE),
        )
    }
}

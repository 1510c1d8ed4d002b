//! Where a table goes on in another form: grouped by another key, or kept back.

use super::grouped_table::KGroupedTable;
use super::options::{Grouped, Suppressed};
use super::plan::{OldValues, PlanKind, TableFacts, WindowClosing, prefix};
use super::table::{KTable, table_kind};
use crate::error::BoxError;
use crate::operators::{Change, GroupSerdes, Suppression, suppress, suppress_view, table_group};
use crate::state::{KeyValueSerdes, StoreFormat, StoreKind, StoreSpec, StoreToken};
use crate::topology::operator_kind;

impl<K: Clone + 'static, V: Clone + 'static> KTable<K, V> {
    /// Groups the entries by a new key, with a new value: what [`KGroupedTable`] aggregates. An entry whose new key or value is null
    /// belongs to no group.
    #[track_caller]
    pub fn group_by<K2, V2, F>(
        &self,
        selector: F,
        grouped: Grouped<K2, V2>,
    ) -> KGroupedTable<K2, V2>
    where
        K2: Clone + PartialEq + 'static,
        V2: Clone + 'static,
        F: Fn(&K, V) -> (K2, V2) + Send + Sync + 'static,
    {
        self.try_group_by(move |key, value| Ok(selector(key, value)), grouped)
    }

    /// As [`Self::group_by`]; the closure may fail.
    #[track_caller]
    pub fn try_group_by<K2, V2, F>(
        &self,
        selector: F,
        grouped: Grouped<K2, V2>,
    ) -> KGroupedTable<K2, V2>
    where
        K2: Clone + PartialEq + 'static,
        V2: Clone + 'static,
        F: Fn(&K, V) -> Result<(K2, V2), BoxError> + Send + Sync + 'static,
    {
        let plan = &self.plan;
        let node_name = plan.name(grouped.name.clone(), prefix::TABLE_SELECT);
        let (key, value) = (grouped.key.resolve(None), grouped.value.resolve(None));
        let (Some(key), Some(value)) = (key, value) else {
            plan.fail_without_serdes("group_by");
            return KGroupedTable::new(plan.clone(), self.node, grouped.name, None);
        };
        let serdes = GroupSerdes { key: key.clone(), value: value.clone() };
        let ignores_past = plan.is_versioned(self.node);
        let factory = table_group::<K, V, K2, V2, F>(selector, serdes, ignores_past);
        let kind = operator_kind::<(K, Change<V>), (K2, Change<V2>)>(factory);
        let node = plan.add(node_name, PlanKind::Node(kind), vec![self.node]);
        plan.send_old_values(self.node, true);
        KGroupedTable::new(plan.clone(), node, grouped.name, Some((key, value)))
    }

    /// Keeps changes back: sends the last change of a key on once in a while, or the final result of a window once it is closed, as
    /// [`Suppressed`] says. Only records move the time.
    ///
    /// ```
    /// use kstreams::prelude::*;
    /// use std::time::Duration;
    ///
    /// let builder = StreamsBuilder::new();
    /// builder
    ///     .table("prices", Consumed::<String, i64>::new(), Materialized::new())
    ///     .suppress(Suppressed::until_time_limit(Duration::from_secs(60)).max_records(10_000))
    ///     .to_stream()
    ///     .to("calm-prices", Produced::new());
    ///
    /// let mut driver = TopologyTestDriver::new(builder.build()?)?;
    /// let mut prices = driver.input::<String, i64>("prices");
    /// for (time, price) in [(0, 5), (30_000, 6), (60_000, 7)] {
    ///     prices.pipe_key_value_at(&mut driver, time, "tea", price)?;
    /// }
    /// let mut calm = driver.output::<String, i64>("calm-prices");
    /// assert_eq!(calm.read_values(&mut driver)?, [7]);
    /// # Ok::<(), kstreams::Error>(())
    /// ```
    #[track_caller]
    pub fn suppress<M>(&self, suppressed: Suppressed<K, M>) -> KTable<K, V> {
        let plan = &self.plan;
        let name = plan.processor_name(suppressed.name.clone(), prefix::SUPPRESS);
        let store = suppressed.name.map(|name| format!("{name}-store"));
        let store = plan.store_name(store, prefix::SUPPRESS);
        if plan.is_versioned(self.node) {
            plan.fail("suppress() is for tables that are not versioned");
            return KTable::void(plan.clone(), self.node);
        }
        let wait = match suppressed.wait {
            Some(wait) => {
                let grace = i64::try_from(wait.as_millis()).unwrap_or(i64::MAX);
                Some(WindowClosing { grace, with_end: false })
            }
            None => plan.window_closing(self.node),
        };
        let Some(wait) = wait else {
            plan.fail(&format!(
                "{name} waits until windows close, and the table before it is not made by a windowed aggregation only"
            ));
            return KTable::void(plan.clone(), self.node);
        };
        let (Some(key), Some(value)) = (self.key.clone(), self.value.clone()) else {
            plan.fail(&format!(
                "the buffer of {name} needs serdes, and the table carries none: say \
                 .materialized(Materialized::new()) behind the operator that makes it"
            ));
            return KTable::void(plan.clone(), self.node);
        };
        let spec = StoreSpec {
            persistent: false,
            logging: suppressed.logging,
            ..StoreSpec::of::<K, V>(&store, StoreKind::ChangeBuffer, StoreFormat::Plain)
        };
        let token =
            StoreToken::new(spec, KeyValueSerdes { key: key.clone(), value: value.clone() });
        let suppression = Suppression {
            time: suppressed.time,
            wait: wait.grace,
            waits_longer: wait.with_end,
            records_max: suppressed.records_max,
            bytes_max: suppressed.bytes_max,
            when_full: suppressed.when_full,
            drops_deletions: suppressed.wait.is_none(),
        };
        plan.send_old_values(self.node, true);
        let kind = table_kind::<K, V, V>(suppress(suppression, token));
        let kind = PlanKind::Table(kind, vec![token.spec.clone()]);
        let facts = TableFacts::new(OldValues::Parents);
        let node = plan.add_table(name, kind, vec![self.node], facts);
        let parent = self.clone();
        let view = move || suppress_view(parent.view(), token);
        KTable::new(plan.clone(), node, Some(key), Some(value), view)
    }
}

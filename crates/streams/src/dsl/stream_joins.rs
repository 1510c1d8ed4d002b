//! Where streams meet tables: a stream that becomes a table.

use super::options::Materialized;
use super::plan::{OldValues, PlanKind, RepartitionOptions, TableFacts, prefix};
use super::stream::KStream;
use super::table::{KTable, table_token};
use crate::operators::{Change, TableOwnStore, map_where_key, table_source};
use crate::serde::{OptionSerde, SerdeRef};
use crate::state::KeyValueSerdes;
use crate::topology::{NodeKind, operator_kind};
use std::sync::Arc;

impl<K: Clone + 'static, V: Clone + 'static> KStream<K, V> {
    /// The stream as a table: each record is the new value of its key. A stream of `V` or of `Option<V>` makes a table of `V`;
    /// `None` deletes a key. Null keys are dropped with a warning.
    ///
    /// Stored as [`super::StreamsBuilder::table`] is. If the key was changed before, the records first go through a topic
    /// `<application.id>-<operator's name>-repartition`.
    ///
    /// ```
    /// use kstreams::prelude::*;
    ///
    /// let builder = StreamsBuilder::new();
    /// let table = builder
    ///     .stream("changes", Consumed::<String, Option<i64>>::new())
    ///     .to_table(Materialized::<String, i64>::named("latest"));
    /// table.map_values(|value| value * 2).to_stream().to("doubled", Produced::new());
    /// builder.build()?;
    /// # Ok::<(), kstreams::Error>(())
    /// ```
    #[track_caller]
    pub fn to_table<T>(&self, materialized: Materialized<K, T>) -> KTable<K, T>
    where
        T: Clone + 'static,
        V: Into<Option<T>>,
    {
        let plan = &self.plan;
        let name = plan.name(materialized.node.clone(), prefix::TO_TABLE);
        let store = plan.store_name(materialized.name.clone(), prefix::TO_TABLE);
        let carried = (self.key.as_ref(), None);
        let Some(token) = table_token(plan, &store, &materialized, carried) else {
            return KTable::void(plan.clone(), self.node);
        };
        let own = TableOwnStore::default();
        let _ = own.set(token);
        let serdes = token.0.serdes;
        let (parent, kind) = match self.rekeyed {
            true => {
                let value = Arc::new(OptionSerde::new(serdes.value.clone())) as SerdeRef<_>;
                let filter = map_where_key::<K, V, Option<T>, _>(serdes.key.clone(), V::into);
                let filter = operator_kind::<(K, V), (K, Option<T>)>(filter);
                let behind = (self.node, filter);
                let options = RepartitionOptions::default();
                let parent =
                    plan.add_repartition_behind(&name, behind, &serdes.key, &value, options);
                (parent, to_table_kind::<K, Option<T>, T>(serdes, own))
            }
            false => (self.node, to_table_kind::<K, V, T>(serdes, own)),
        };
        let is_stored = materialized.name.is_some();
        let facts = TableFacts::with_store(OldValues::Source, token.0.spec.clone(), is_stored);
        let node = plan.add_table(name, PlanKind::Table(kind, Vec::new()), vec![parent], facts);
        KTable::stored(plan.clone(), node, token, materialized.name)
    }
}

/// The operator that makes a table of a stream.
fn to_table_kind<K, V, T>(serdes: &KeyValueSerdes<K, T>, own: TableOwnStore<K, T>) -> NodeKind
where
    K: Clone + 'static,
    V: Into<Option<T>> + Clone + 'static,
    T: Clone + 'static,
{
    let KeyValueSerdes { key, value } = serdes.clone();
    let split = move |k: K, v: V| {
        let v: Option<T> = v.into();
        (!key.is_null(&k)).then(|| (k, v.filter(|v| !value.is_null(v))))
    };
    operator_kind::<(K, V), (K, Change<T>)>(table_source(split, own))
}

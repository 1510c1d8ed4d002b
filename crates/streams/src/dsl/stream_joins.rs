//! Where streams meet tables: a stream that becomes one, and joins of a stream with one.

use super::options::{Joined, Materialized};
use super::plan::{KeyFilter, OldValues, PlanKind, RepartitionOptions, TableFacts, prefix};
use super::stream::KStream;
use super::table::{KTable, table_token};
use crate::error::BoxError;
use crate::operators::{
    Change, Grace, Grouping, Lookup, LookupJoiner, TableOwnStore, map_values, map_where_key,
    stream_table_join, table_source,
};
use crate::serde::{OptionSerde, SerdeRef};
use crate::state::{KeyValueSerdes, StoreFormat, StoreSpec, StoreToken};
use crate::topology::{NodeKind, operator_kind};
use std::sync::Arc;
use std::time::Duration;

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
        own.set(token);
        let serdes = token.serdes();
        let (parent, kind) = match self.rekeyed {
            true => {
                let value = Arc::new(OptionSerde::new(serdes.value.clone())) as SerdeRef<_>;
                let names = plan.repartition_names(&name);
                let strict = map_where_key::<K, V, Option<T>, _>(serdes.key.clone(), V::into);
                let lenient = map_values(|_: &K, v: V| Ok(v.into()));
                let filter = KeyFilter {
                    name: names.filter.clone(),
                    strict: operator_kind::<(K, V), (K, Option<T>)>(strict),
                    lenient: operator_kind::<(K, V), (K, Option<T>)>(lenient),
                };
                let parent = plan.add_repartition_topic(
                    names,
                    (self.node, Some(filter)),
                    (&serdes.key, &value),
                    RepartitionOptions::default(),
                );
                (parent, to_table_kind::<K, Option<T>, T>(serdes, own))
            }
            false => (self.node, to_table_kind::<K, V, T>(serdes, own)),
        };
        let is_stored = materialized.name.is_some();
        let facts = TableFacts::with_store(OldValues::Source, token.spec().clone(), is_stored);
        let node = plan.add_table(name, PlanKind::Table(kind, Vec::new()), vec![parent], facts);
        KTable::stored(plan.clone(), node, token, materialized.name)
    }
}

impl<K: Clone + 'static, V: Clone + 'static> KStream<K, V> {
    /// Joins each record with the table's value of its key. A record that finds none has no result, nor has one whose key or value is
    /// null; changes of the table make no results.
    ///
    /// A result has the record's time and headers. If the key was changed before, the records first go through a topic
    /// `<application.id>-<name>-repartition`; both topics must have the same number of partitions.
    ///
    /// ```
    /// use kstreams::prelude::*;
    ///
    /// let builder = StreamsBuilder::new();
    /// let users = builder.table("users", Consumed::<String, String>::new(), Materialized::named("users"));
    /// builder
    ///     .stream("clicks", Consumed::<String, String>::new())
    ///     .join_table(&users, |page, country| format!("{page} from {country}"), Joined::new())
    ///     .to("placed-clicks", Produced::new());
    ///
    /// let mut driver = TopologyTestDriver::new(builder.build()?)?;
    /// driver.input::<String, String>("users").pipe_key_value_at(&mut driver, 0, "ann", "Peru")?;
    /// driver.input::<String, String>("clicks").pipe_key_value_at(&mut driver, 1, "ann", "/")?;
    /// let mut placed = driver.output::<String, String>("placed-clicks");
    /// assert_eq!(placed.read_values(&mut driver)?, ["/ from Peru"]);
    /// # Ok::<(), kstreams::Error>(())
    /// ```
    #[track_caller]
    pub fn join_table<T, R, F>(
        &self,
        table: &KTable<K, T>,
        joiner: F,
        joined: Joined<K, V>,
    ) -> KStream<K, R>
    where
        T: Clone + 'static,
        R: Clone + 'static,
        F: Fn(&V, &T) -> R + Send + Sync + 'static,
    {
        self.try_join_table(table, move |_, value, found| Ok(joiner(value, found)), joined)
    }

    /// As [`Self::join_table`]; the joiner sees the key as well, and may fail.
    #[track_caller]
    pub fn try_join_table<T, R, F>(
        &self,
        table: &KTable<K, T>,
        joiner: F,
        joined: Joined<K, V>,
    ) -> KStream<K, R>
    where
        T: Clone + 'static,
        R: Clone + 'static,
        F: Fn(&K, &V, &T) -> Result<R, BoxError> + Send + Sync + 'static,
    {
        let joiner = move |key: &K, value: &V, found: Option<&T>| match found {
            Some(found) => joiner(key, value, found),
            None => Err("an inner join found nothing".into()),
        };
        self.lookup(table, joiner, (Lookup::Inner, prefix::JOIN), joined)
    }

    /// As [`Self::join_table`], but a record that finds nothing is joined with nothing; so is one with a null key. Only a null value
    /// has no result.
    ///
    /// ```
    /// use kstreams::prelude::*;
    ///
    /// let builder = StreamsBuilder::new();
    /// let users = builder.table("users", Consumed::<String, String>::new(), Materialized::new());
    /// builder
    ///     .stream("clicks", Consumed::<String, String>::new())
    ///     .left_join_table(
    ///         &users,
    ///         |page, country| format!("{page} from {}", country.map_or("somewhere", String::as_str)),
    ///         Joined::new(),
    ///     )
    ///     .to("placed-clicks", Produced::new());
    /// builder.build()?;
    /// # Ok::<(), kstreams::Error>(())
    /// ```
    #[track_caller]
    pub fn left_join_table<T, R, F>(
        &self,
        table: &KTable<K, T>,
        joiner: F,
        joined: Joined<K, V>,
    ) -> KStream<K, R>
    where
        T: Clone + 'static,
        R: Clone + 'static,
        F: Fn(&V, Option<&T>) -> R + Send + Sync + 'static,
    {
        self.try_left_join_table(table, move |_, value, found| Ok(joiner(value, found)), joined)
    }

    /// As [`Self::left_join_table`]; the joiner sees the key as well, and may fail.
    #[track_caller]
    pub fn try_left_join_table<T, R, F>(
        &self,
        table: &KTable<K, T>,
        joiner: F,
        joined: Joined<K, V>,
    ) -> KStream<K, R>
    where
        T: Clone + 'static,
        R: Clone + 'static,
        F: Fn(&K, &V, Option<&T>) -> Result<R, BoxError> + Send + Sync + 'static,
    {
        self.lookup(table, joiner, (Lookup::Left, prefix::LEFT_JOIN), joined)
    }

    #[track_caller]
    fn lookup<T, R, F>(
        &self,
        table: &KTable<K, T>,
        joiner: F,
        (lookup, prefix): (Lookup, &str),
        joined: Joined<K, V>,
    ) -> KStream<K, R>
    where
        T: Clone + 'static,
        R: Clone + 'static,
        F: LookupJoiner<K, V, T, R>,
    {
        let plan = &self.plan;
        let key = joined.key.resolve(self.key.as_ref());
        let value = joined.value.resolve(self.value.as_ref());
        let (Some(key), Some(value)) = (key, value) else {
            plan.fail_without_serdes("the join with a table");
            return KStream::new(plan.clone(), self.node, None, None);
        };
        let parent = match self.rekeyed {
            true => plan.repartition_for_join(self.node, joined.name.as_deref(), &key, &value),
            false => self.node,
        };
        plan.copartition(&[parent, table.node], "a stream and the table that it is joined with");
        let name = plan.name(joined.name, prefix);
        let view = table.view();
        let grace = joined.grace.and_then(|grace| {
            let serdes = KeyValueSerdes { key: key.clone(), value: value.clone() };
            self.join_grace(grace, table, &name, serdes)
        });
        let buffer = grace.as_ref().map(|grace| grace.buffer.spec.clone());
        let (stores, nulls) = (view.stores.clone(), Grouping { key: key.clone(), value });
        let factory = stream_table_join::<K, V, T, R, F>(lookup, nulls, (view, grace), joiner);
        let kind = PlanKind::Reader(operator_kind::<(K, V), (K, R)>(factory), stores);
        let node = plan.add(name, kind, vec![parent]);
        plan.join_with(node, table.node);
        if let Some(buffer) = buffer {
            plan.store_in(node, buffer);
        }
        if lookup == Lookup::Left {
            plan.want_null_keys(node);
        }
        KStream::new(plan.clone(), node, Some(key), None)
    }
}

impl<K: Clone + 'static, V: Clone + 'static> KStream<K, V> {
    /// The buffer of a join that waits for its table.
    #[track_caller]
    fn join_grace<T>(
        &self,
        grace: Duration,
        table: &KTable<K, T>,
        name: &str,
        serdes: KeyValueSerdes<K, V>,
    ) -> Option<Grace<K, V>> {
        let millis = i64::try_from(grace.as_millis()).unwrap_or(i64::MAX);
        match self.plan.history(table.node) {
            Some(history) if history >= millis => {
                let store = format!("{name}-Buffer");
                let spec = StoreSpec::new::<K, V>(&store, StoreFormat::Plain);
                Some(Grace { millis, buffer: StoreToken::new(spec, serdes) })
            }
            Some(history) => {
                self.plan.fail(&format!(
                    "the join {name} waits {millis} ms for a table that knows its last {history} ms only: give it a longer history"
                ));
                None
            }
            None => {
                self.plan.fail(&format!(
                    "the join {name} has a grace, so its table has to be versioned: Materialized::versioned(name, history)"
                ));
                None
            }
        }
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

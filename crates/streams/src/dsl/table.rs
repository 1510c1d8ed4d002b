//! `KTable`: the latest value of each key.

use super::options::{Materialized, Processed};
use super::plan::{OldValues, PlanId, PlanKind, PlanRef, TableFacts, prefix};
use super::stream::KStream;
use crate::error::{BoxError, Result};
use crate::operators::{
    Change, TableMapping, TableOwnStore, TableToken, TransformSupplier, View, map_view, store_view,
    table_map, table_to_stream, table_transform, transform_view,
};
use crate::processor::{InitContext, ValueTransformer};
use crate::serde::{OptionSerde, SerdeRef};
use crate::state::{KeyValueSerdes, StoreFormat, StoreKind, StoreSpec, StoreToken};
use crate::topology::{NodeKind, operator_kind};
use std::fmt;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

/// How operators that follow read a table by key.
pub(super) type ViewOf<K, V> = Rc<dyn Fn() -> View<K, V>>;

/// A table: the latest value of each key. It holds no nulls; a key that was deleted is not there. Cloning gives the same table
/// again.
///
/// Most tables need no store: `filter` and `map_values` compute what they are asked for from the table before. A table gets a store
/// of its own by [`Self::materialized`] behind the operator that makes it; it can then be read from outside under the store's name,
/// and is computed once for each change and not again for each look-up:
///
/// ```
/// use kstreams::prelude::*;
///
/// let builder = StreamsBuilder::new();
/// builder
///     .table("prices", Consumed::<String, i64>::new(), Materialized::new())
///     .filter(|_item, price| *price > 100)
///     .materialized(Materialized::named("expensive"))
///     .to_stream()
///     .to("expensive", Produced::new());
/// assert!(builder.build()?.describe().contains("(stores: [expensive])"));
/// # Ok::<(), kstreams::Error>(())
/// ```
#[must_use = "a table is of use when it is read or turned into a stream"]
pub struct KTable<K: 'static, V: 'static> {
    pub(super) plan: PlanRef,
    pub(super) node: PlanId,
    pub(super) key: Option<SerdeRef<K>>,
    pub(super) value: Option<SerdeRef<V>>,
    /// The table without a store of its own.
    view: ViewOf<K, V>,
    /// The store that the operator may still be given.
    own: TableOwnStore<K, V>,
    unstored: Option<Unstored>,
    /// The name that the user gave to the store.
    queryable: Option<String>,
}

/// What `materialized` has to know of the operator.
#[derive(Clone)]
pub(super) struct Unstored {
    /// The numbers that the operator's names have taken.
    pub(super) numbers: Range<u32>,
    pub(super) unnamed: UnnamedStore,
}

/// What Java does with a `Materialized` without a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum UnnamedStore {
    /// It takes its serdes.
    SerdesOnly,
    /// It takes its serdes, and a number for a store that is never made.
    SerdesAndNumber(&'static str),
    /// It makes a store with a generated name.
    Made(&'static str),
    /// It makes the store of that name if somebody needs one. The name has taken its number already.
    IfNeeded(String),
}

impl<K, V> Clone for KTable<K, V> {
    fn clone(&self) -> Self {
        KTable {
            plan: self.plan.clone(),
            node: self.node,
            key: self.key.clone(),
            value: self.value.clone(),
            view: self.view.clone(),
            own: self.own.clone(),
            unstored: self.unstored.clone(),
            queryable: self.queryable.clone(),
        }
    }
}

impl<K, V> fmt::Debug for KTable<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("KTable").field(&self.plan.node_name(self.node)).finish()
    }
}

impl<K: 'static, V: 'static> KTable<K, V> {
    /// A table that is read by `view`.
    pub(super) fn new(
        plan: PlanRef,
        node: PlanId,
        key: Option<SerdeRef<K>>,
        value: Option<SerdeRef<V>>,
        view: impl Fn() -> View<K, V> + 'static,
    ) -> Self {
        let own = TableOwnStore::default();
        KTable { plan, node, key, value, view: Rc::new(view), own, unstored: None, queryable: None }
    }

    /// A table in the store of a token, which the user gave a name or not.
    pub(super) fn stored(
        plan: PlanRef,
        node: PlanId,
        token: TableToken<K, V>,
        queryable: Option<String>,
    ) -> Self {
        let KeyValueSerdes { key, value } = token.serdes().clone();
        let owner = plan.clone();
        let table = KTable::new(plan, node, Some(key), Some(value), move || {
            owner.store_table(node);
            store_view(token)
        });
        KTable { queryable, ..table }
    }

    /// The same for an operator that may be given a store.
    pub(super) fn unstored(
        self,
        own: TableOwnStore<K, V>,
        numbers: Range<u32>,
        unnamed: UnnamedStore,
    ) -> Self {
        KTable { own, unstored: Some(Unstored { numbers, unnamed }), ..self }
    }

    /// The table of an operator whose mistake is already noted: `build` will fail.
    pub(super) fn void(plan: PlanRef, node: PlanId) -> Self {
        KTable::new(plan, node, None, None, || View {
            stores: Vec::new(),
            open: Arc::new(|_| Err(crate::error::Error::topology("a table without a view"))),
        })
    }

    /// The same with the name under which it can be read from outside.
    pub(super) fn queryable_as(self, queryable: Option<String>) -> Self {
        KTable { queryable, ..self }
    }

    /// How operators read the table; a source gets its store by that.
    pub(super) fn view(&self) -> View<K, V> {
        match self.own.get() {
            Some(token) => {
                self.plan.store_table(self.node);
                store_view(token)
            }
            None => (self.view)(),
        }
    }

    /// Names the operator that made this table; without it, operators are numbered.
    pub fn named(self, name: impl Into<String>) -> Self {
        self.plan.rename(self.node, name.into());
        self
    }
}

impl<K: Clone + 'static, V: Clone + 'static> KTable<K, V> {
    /// Keeps the result of the operator before in a store: `table.filter(…).materialized(Materialized::named("f"))`.
    ///
    /// Without a name, what happens is up to the operator, as in Java: a join makes a store with a generated name, `filter`,
    /// `map_values` and `transform_values` only take over the serdes. Tables that have a store from the beginning (a source, an
    /// aggregation) get their options where they are made.
    #[track_caller]
    pub fn materialized(self, materialized: Materialized<K, V>) -> Self {
        let Some(Unstored { numbers, unnamed }) = &self.unstored else {
            self.plan.fail("materialized() is for tables that were just made by an operator without a store of its own");
            return self;
        };
        let name = match (materialized.name.clone(), unnamed) {
            (Some(name), UnnamedStore::IfNeeded(_)) => {
                self.plan.give_back(numbers);
                Some(name)
            }
            (Some(name), _) => Some(name),
            (None, UnnamedStore::IfNeeded(name)) => Some(name.clone()),
            (None, UnnamedStore::SerdesOnly) => None,
            (None, UnnamedStore::SerdesAndNumber(prefix)) => {
                self.plan.store_name_before(self.node, numbers, prefix);
                None
            }
            (None, UnnamedStore::Made(prefix)) => {
                Some(self.plan.store_name_before(self.node, numbers, prefix))
            }
        };
        let serdes = (self.key.as_ref(), self.value.as_ref());
        let Some(name) = name else {
            let key = materialized.key.resolve(serdes.0);
            let value = materialized.value.resolve(serdes.1);
            return KTable { key, value, unstored: None, ..self };
        };
        let Some(token) = table_token(&self.plan, &name, &materialized, serdes) else {
            return KTable::void(self.plan.clone(), self.node);
        };
        self.own.set(token);
        let is_needed =
            materialized.name.is_some() || !matches!(unnamed, UnnamedStore::IfNeeded(_));
        self.plan.store_table_in(self.node, token.spec().clone(), is_needed);
        let KeyValueSerdes { key, value } = token.serdes().clone();
        let queryable = materialized.name;
        KTable { key: Some(key), value: Some(value), unstored: None, queryable, ..self }
    }

    /// The result of an operator that may be given a store.
    #[track_caller]
    fn derived<V2: Clone + 'static>(
        &self,
        names: (&str, UnnamedStore),
        operator: impl FnOnce(TableOwnStore<K, V2>) -> PlanKind,
        view: impl Fn() -> View<K, V2> + 'static,
    ) -> KTable<K, V2> {
        let plan = &self.plan;
        let first = plan.next_number();
        let name = plan.name(None, names.0);
        let own = TableOwnStore::default();
        let facts = TableFacts::new(OldValues::StoreOrParent);
        let node = plan.add_table(name, operator(own.clone()), vec![self.node], facts);
        let numbers = first..plan.next_number();
        KTable::new(plan.clone(), node, self.key.clone(), None, view)
            .unstored(own, numbers, names.1)
    }

    #[track_caller]
    fn mapped<V2, F>(&self, prefix: &'static str, mapping: F, ends_nothing: bool) -> KTable<K, V2>
    where
        V2: Clone + 'static,
        F: TableMapping<K, V, V2>,
    {
        let mapping = Arc::new(mapping);
        let (parent, again) = (self.clone(), mapping.clone());
        self.derived(
            (prefix, UnnamedStore::SerdesAndNumber(prefix)),
            |own| {
                PlanKind::Table(
                    table_kind::<K, V, V2>(table_map(mapping, ends_nothing, own)),
                    Vec::new(),
                )
            },
            move || map_view(parent.view(), again.clone()),
        )
    }

    /// The entries that `predicate` likes. What it does not like is deleted from the result; it is not asked about deletions.
    ///
    /// Where the values before are at hand (behind a store), what was never in the result is not deleted from it. A new release
    /// with another filter behind a store therefore leaves what the old one wrote to its topic: give it a topic of its own.
    ///
    /// ```
    /// use kstreams::prelude::*;
    ///
    /// let builder = StreamsBuilder::new();
    /// let stock = builder.table("stock", Consumed::<String, i64>::new(), Materialized::new());
    /// stock.filter(|_item, pieces| *pieces < 10).to_stream().to("scarce", Produced::new());
    ///
    /// let mut driver = TopologyTestDriver::new(builder.build()?)?;
    /// let mut stock = driver.input::<String, i64>("stock");
    /// stock.pipe_key_value_at(&mut driver, 0, "tea", 5)?;
    /// stock.pipe_key_value_at(&mut driver, 1, "ink", 50)?;
    /// let mut scarce = driver.output::<String, i64>("scarce");
    /// assert_eq!(scarce.read_table(&mut driver)?, table! { "tea" => 5 });
    /// # Ok::<(), kstreams::Error>(())
    /// ```
    #[track_caller]
    pub fn filter(&self, predicate: impl Fn(&K, &V) -> bool + Send + Sync + 'static) -> Self {
        self.try_filter(move |key, value| Ok(predicate(key, value)))
    }

    /// As [`Self::filter`]; the closure may fail.
    #[track_caller]
    pub fn try_filter<F>(&self, predicate: F) -> Self
    where
        F: Fn(&K, &V) -> Result<bool, BoxError> + Send + Sync + 'static,
    {
        let mapping = move |key: &K, value: V| Ok(predicate(key, &value)?.then_some(value));
        // The past of a versioned table is not told by the latest value.
        let ends_nothing = !self.plan.is_versioned(self.node);
        let filtered = self.mapped(prefix::TABLE_FILTER, mapping, ends_nothing);
        // With the value before at hand a filter says nothing when nothing becomes nothing; it is not worth a store.
        self.plan.send_old_values_if_free(self.node, filtered.node);
        KTable { value: self.value.clone(), ..filtered }
    }

    /// The entries that `predicate` does not like.
    #[track_caller]
    pub fn filter_not(&self, predicate: impl Fn(&K, &V) -> bool + Send + Sync + 'static) -> Self {
        self.filter(move |key, value| !predicate(key, value))
    }

    /// A new value for each entry. The mapper is not asked about deletions.
    ///
    /// ```
    /// use kstreams::prelude::*;
    ///
    /// let builder = StreamsBuilder::new();
    /// let names = builder.table("names", Consumed::<i64, String>::new(), Materialized::new());
    /// names.map_values(|name| name.len() as i64).to_stream().to("lengths", Produced::new());
    ///
    /// let mut driver = TopologyTestDriver::new(builder.build()?)?;
    /// driver.input::<i64, String>("names").pipe_key_value_at(&mut driver, 0, 1, "Ann")?;
    /// let mut lengths = driver.output::<i64, i64>("lengths");
    /// assert_eq!(lengths.read_table(&mut driver)?, table! { 1 => 3 });
    /// # Ok::<(), kstreams::Error>(())
    /// ```
    #[track_caller]
    pub fn map_values<V2, F>(&self, mapper: F) -> KTable<K, V2>
    where
        V2: Clone + 'static,
        F: Fn(V) -> V2 + Send + Sync + 'static,
    {
        self.try_filter_map_values_with_key(move |_, value| Ok(Some(mapper(value))))
    }

    /// As [`Self::map_values`], looking at the key as well.
    #[track_caller]
    pub fn map_values_with_key<V2, F>(&self, mapper: F) -> KTable<K, V2>
    where
        V2: Clone + 'static,
        F: Fn(&K, V) -> V2 + Send + Sync + 'static,
    {
        self.try_filter_map_values_with_key(move |key, value| Ok(Some(mapper(key, value))))
    }

    /// As [`Self::map_values`]; the closure may fail.
    #[track_caller]
    pub fn try_map_values<V2, F>(&self, mapper: F) -> KTable<K, V2>
    where
        V2: Clone + 'static,
        F: Fn(V) -> Result<V2, BoxError> + Send + Sync + 'static,
    {
        self.try_filter_map_values_with_key(move |_, value| mapper(value).map(Some))
    }

    /// As [`Self::map_values_with_key`]; the closure may fail.
    #[track_caller]
    pub fn try_map_values_with_key<V2, F>(&self, mapper: F) -> KTable<K, V2>
    where
        V2: Clone + 'static,
        F: Fn(&K, V) -> Result<V2, BoxError> + Send + Sync + 'static,
    {
        self.try_filter_map_values_with_key(move |key, value| mapper(key, value).map(Some))
    }

    /// As [`Self::map_values`]; what the mapper gives `None` for is not in the result.
    #[track_caller]
    pub fn filter_map_values<V2, F>(&self, mapper: F) -> KTable<K, V2>
    where
        V2: Clone + 'static,
        F: Fn(V) -> Option<V2> + Send + Sync + 'static,
    {
        self.try_filter_map_values_with_key(move |_, value| Ok(mapper(value)))
    }

    /// As [`Self::filter_map_values`], looking at the key as well; the closure may fail.
    #[track_caller]
    pub fn try_filter_map_values_with_key<V2, F>(&self, mapper: F) -> KTable<K, V2>
    where
        V2: Clone + 'static,
        F: Fn(&K, V) -> Result<Option<V2>, BoxError> + Send + Sync + 'static,
    {
        self.mapped(prefix::TABLE_MAP_VALUES, mapper, false)
    }

    /// New values by user code that keeps state: see [`ValueTransformer`]. It sees deletions too, as `None`. If an operator that
    /// follows needs the values before each change and the result has no store, it is called for them as well.
    #[track_caller]
    pub fn transform_values<T, F>(&self, supplier: F, processed: Processed) -> KTable<K, T::Out>
    where
        T: ValueTransformer<Key = K, In = V>,
        F: Fn(&mut InitContext) -> Result<T> + Send + Sync + 'static,
    {
        let supplier: TransformSupplier<T> = Arc::new(supplier);
        let (parent, again) = (self.clone(), supplier.clone());
        let shared: Vec<StoreSpec> = processed.stores.into_iter().cloned().collect();
        let names: Vec<Arc<str>> = shared.iter().map(|store| store.name.clone()).collect();
        let transformed = self.derived(
            (prefix::TABLE_TRANSFORM, UnnamedStore::SerdesOnly),
            |own| {
                PlanKind::Table(table_kind::<K, V, T::Out>(table_transform(supplier, own)), shared)
            },
            move || transform_view(parent.view(), names.clone(), again.clone()),
        );
        match processed.name {
            Some(name) => transformed.named(name),
            None => transformed,
        }
    }

    /// The changes of the table: each new value, and `None` for a deletion.
    #[track_caller]
    pub fn to_stream(&self) -> KStream<K, Option<V>> {
        let name = self.plan.name(None, prefix::TO_STREAM);
        let kind = operator_kind::<(K, Change<V>), (K, Option<V>)>(table_to_stream::<K, V>());
        let node = self.plan.add(name, PlanKind::Node(kind), vec![self.node]);
        let value = self
            .value
            .clone()
            .map(|value| Arc::new(OptionSerde::new(value)) as SerdeRef<Option<V>>);
        KStream::new(self.plan.clone(), node, self.key.clone(), value)
    }

    /// The changes of the table under a new key. Grouping the result repartitions it.
    #[track_caller]
    pub fn to_stream_with_key<K2, F>(&self, selector: F) -> KStream<K2, Option<V>>
    where
        K2: Clone + 'static,
        F: Fn(&K, &Option<V>) -> K2 + Send + Sync + 'static,
    {
        self.to_stream().select_key(selector)
    }

    /// The name under which the table can be read from outside, if it was given one.
    pub fn queryable_store_name(&self) -> Option<&str> {
        self.queryable.as_deref()
    }
}

/// The physical form of an operator from table to table.
pub(super) fn table_kind<K, V, V2>(factory: crate::topology::erased::NodeFactory) -> NodeKind
where
    K: Clone + 'static,
    V: Clone + 'static,
    V2: Clone + 'static,
{
    operator_kind::<(K, Change<V>), (K, Change<V2>)>(factory)
}

/// The token of a table's store with the serdes of the options, else those that are carried.
#[track_caller]
pub(super) fn table_token<K: 'static, V: 'static>(
    plan: &PlanRef,
    name: &str,
    materialized: &Materialized<K, V>,
    carried: (Option<&SerdeRef<K>>, Option<&SerdeRef<V>>),
) -> Option<TableToken<K, V>> {
    let (key, value) = (materialized.key.resolve(carried.0), materialized.value.resolve(carried.1));
    let (Some(key), Some(value)) = (key, value) else {
        plan.fail_without_serdes(&format!("the store {name}"));
        return None;
    };
    let (kind, format) = match materialized.history {
        Some(history) => (StoreKind::versioned(history), StoreFormat::Plain),
        None => (StoreKind::KeyValue, StoreFormat::Timestamped),
    };
    let spec = StoreSpec {
        persistent: materialized.persistent,
        logging: materialized.logging.clone(),
        caching: materialized.caching,
        ..StoreSpec::of::<K, V>(name, kind, format)
    };
    let serdes = KeyValueSerdes { key, value };
    Some(match materialized.history {
        Some(_) => TableToken::Versioned(StoreToken::new(spec, serdes)),
        None => TableToken::Latest(StoreToken::new(spec, serdes)),
    })
}

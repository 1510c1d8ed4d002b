//! Where every topology of the DSL begins.

use super::global_table::GlobalKTable;
use super::options::Materialized;
use super::plan::{
    OldValues, Optimizations, PlanKind, PlanRef, TableFacts, TableSourceNode, prefix,
};
use super::stream::KStream;
use super::table::{KTable, table_token};
use crate::config::StreamsConfig;
use crate::error::Result;
use crate::operators::{Change, TableOwnStore, table_source};
use crate::processor::{InitContext, KeyOf, Processor, ValueOf};
use crate::state::{GlobalSpec, GlobalTable, KeyValueSerdes, StoreToken};
use crate::topology::{
    Consumed, ProcessorWrapper, TopicNames, Topology, operator_kind, processor_kind, source_kind,
};
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

/// Builds a topology from streams.
///
/// ```
/// use kstreams::prelude::*;
///
/// let builder = StreamsBuilder::new();
/// builder
///     .stream("lines", Consumed::values::<String>())
///     .flat_map_values(|line| line.split_whitespace().map(str::to_lowercase).collect::<Vec<_>>())
///     .group_by(|_, word| word.clone(), Grouped::new())
///     .count(Materialized::named("word-counts"))
///     .to_stream()
///     .to("counts", Produced::new());
/// let topology = builder.build()?;
/// println!("{topology}");
/// # Ok::<(), kstreams::Error>(())
/// ```
#[derive(Default)]
pub struct StreamsBuilder {
    pub(super) plan: PlanRef,
}

impl StreamsBuilder {
    /// An empty builder.
    pub fn new() -> Self {
        StreamsBuilder::default()
    }

    /// The records of one topic or several. Reading a topic twice gives the same source twice.
    #[track_caller]
    pub fn stream<K, V>(
        &self,
        topics: impl Into<TopicNames>,
        consumed: Consumed<K, V>,
    ) -> KStream<K, V>
    where
        K: Clone + 'static,
        V: Clone + 'static,
    {
        let name = self.plan.name(consumed.name.clone(), prefix::SOURCE);
        let (key, value) = (consumed.key.clone(), consumed.value.clone());
        let kind = PlanKind::Source(source_kind(topics.into().0, consumed));
        let node = self.plan.add(name, kind, Vec::new());
        KStream::new(self.plan.clone(), node, Some(key), Some(value))
    }

    /// A topic as a table: each record is the new value of its key, a null value deletes it, and a null key is dropped with a
    /// warning. A record that is older than the one before it is applied all the same.
    ///
    /// The table is stored (under the name that [`Materialized`] gives, with a changelog `<application.id>-<name>-changelog`) if it
    /// has a name, if an operator looks it up by key, or if one needs the value before a change. The time of an entry is its
    /// record's.
    ///
    /// ```
    /// use kstreams::prelude::*;
    ///
    /// let builder = StreamsBuilder::new();
    /// let users = builder.table("users", Consumed::<i64, String>::new(), Materialized::named("users"));
    /// users.to_stream().to("changes", Produced::new());
    ///
    /// let mut driver = TopologyTestDriver::new(builder.build()?)?;
    /// let mut users = driver.input::<i64, Option<String>>("users");
    /// users.pipe_key_value_at(&mut driver, 0, 1, Some("ann".to_string()))?;
    /// users.pipe_key_value_at(&mut driver, 1, 1, None)?;
    /// let mut changes = driver.output::<i64, Option<String>>("changes");
    /// assert_eq!(changes.read_values(&mut driver)?, [Some("ann".into()), None]);
    /// # Ok::<(), kstreams::Error>(())
    /// ```
    #[track_caller]
    pub fn table<K, V>(
        &self,
        topic: impl Into<String>,
        consumed: Consumed<K, V>,
        materialized: Materialized<K, V>,
    ) -> KTable<K, V>
    where
        K: Clone + 'static,
        V: Clone + 'static,
    {
        let plan = &self.plan;
        let own = TableOwnStore::default();
        let TableParts { store, name, kind } =
            self.table_parts(topic.into(), &consumed, materialized.name.clone(), &own);
        let kind = PlanKind::TableSource(Box::new(kind));
        let carried = (Some(&consumed.key), Some(&consumed.value));
        let token = table_token(plan, &store, &materialized, carried);
        let Some(token) = token else {
            let node = plan.add(name, kind, Vec::new());
            return KTable::void(plan.clone(), node);
        };
        own.set(token);
        let facts = TableFacts::with_store(
            OldValues::Source,
            token.spec().clone(),
            materialized.name.is_some(),
        );
        let node = plan.add_table(name, kind, Vec::new(), facts);
        KTable::stored(plan.clone(), node, token, materialized.name)
    }

    /// A topic as a table that every instance has as a whole: see [`GlobalKTable`]. Null values delete, null keys are left out. Names
    /// the store as [`Materialized`] says.
    ///
    /// ```
    /// use kstreams::prelude::*;
    ///
    /// let builder = StreamsBuilder::new();
    /// let countries =
    ///     builder.global_table("countries", Consumed::<String, String>::new(), Materialized::named("countries"));
    /// assert_eq!(countries.queryable_store_name(), Some("countries"));
    /// assert!(builder.build()?.describe().contains("Sub-topology: 0 for global store (will not generate tasks)"));
    /// # Ok::<(), kstreams::Error>(())
    /// ```
    #[track_caller]
    pub fn global_table<K, V>(
        &self,
        topic: impl Into<String>,
        consumed: Consumed<K, V>,
        materialized: Materialized<K, V>,
    ) -> GlobalKTable<K, V>
    where
        K: Clone + 'static,
        V: Clone + 'static,
    {
        let topic = topic.into();
        if materialized.history.is_some() {
            self.plan.fail("global tables cannot be versioned");
        }
        let is_named = materialized.name.is_some();
        let (key, value) = (consumed.key.clone(), consumed.value.clone());
        let own = TableOwnStore::default();
        let TableParts { store, name, kind } =
            self.table_parts(topic.clone(), &consumed, materialized.name, &own);
        let key = materialized.key.resolve(Some(&key)).unwrap_or(key);
        let value = materialized.value.resolve(Some(&value)).unwrap_or(value);
        let serdes = KeyValueSerdes { key, value };
        let store: Arc<str> = store.into();
        let spec = GlobalSpec::copied(&store, &topic, &serdes);
        self.plan.add(name, PlanKind::GlobalTable(Box::new(kind), spec), Vec::new());
        GlobalKTable { name: store, serdes, is_named }
    }

    /// A store that holds on every instance what a processor of the user's makes of a topic: see
    /// [`crate::topology::TopologyBuilder::add_global_store_updated_by`], which has an example. Every processor may read it. The name of
    /// `consumed` is that of the node.
    #[track_caller]
    pub fn global_store<K, V, P, F>(
        &self,
        token: &StoreToken<GlobalTable<K, V>>,
        topic: impl Into<String>,
        consumed: Consumed<KeyOf<P::In>, ValueOf<P::In>>,
        supplier: F,
    ) where
        K: 'static,
        V: 'static,
        P: Processor<Out = ((), ())>,
        F: Fn(&mut InitContext) -> Result<P> + Send + Sync + 'static,
    {
        let topic = topic.into();
        let source_name = consumed.name.as_ref().map(|name| format!("{name}-source"));
        let source_name = self.plan.name(source_name, prefix::SOURCE);
        let name = self.plan.name(consumed.name.clone(), prefix::TABLE_SOURCE);
        let spec = GlobalSpec::processed::<K, V>(&token.spec.name, &topic);
        let source = (source_name, source_kind(vec![topic.into()], consumed));
        let table = processor_kind(Arc::new(supplier));
        let kind = Box::new(TableSourceNode { source, table });
        self.plan.add(name, PlanKind::GlobalTable(kind, spec), Vec::new());
    }

    /// The names and nodes at the beginning of a table; Java names its store first.
    fn table_parts<K: Clone + 'static, V: Clone + 'static>(
        &self,
        topic: String,
        consumed: &Consumed<K, V>,
        store: Option<String>,
        own: &TableOwnStore<K, V>,
    ) -> TableParts {
        let plan = &self.plan;
        let store = plan.store_name(store, &format!("{topic}-"));
        let source_name = consumed.name.as_ref().map(|name| format!("{name}-source"));
        let source_name = plan.name(source_name, prefix::SOURCE);
        let name = plan.name(consumed.name.clone(), prefix::TABLE_SOURCE);
        let (key, value) = (consumed.key.clone(), consumed.value.clone());
        let split = move |k: Option<K>, v: Option<V>| {
            let k = k.filter(|k| !key.is_null(k))?;
            Some((k, v.filter(|v| !value.is_null(v))))
        };
        let source = source_kind(vec![topic.into()], consumed.clone().of_table());
        let factory = table_source(split, own.clone());
        let table = operator_kind::<(Option<K>, Option<V>), (K, Change<V>)>(factory);
        TableParts { store, name, kind: TableSourceNode { source: (source_name, source), table } }
    }

    /// Puts code around every processor of the topology, also those that the DSL makes; see [`ProcessorWrapper`]. There is one
    /// wrapper: the last.
    pub fn wrap_processors(&self, wrapper: impl ProcessorWrapper) {
        self.plan.set_wrapper(Rc::new(wrapper));
    }

    /// The topology of everything that was asked for so far.
    ///
    /// # Errors
    /// The first mistake, with the line of the program where it is: two nodes of one name, a missing serde, a store of two
    /// types, one topic read with two types.
    pub fn build(&self) -> Result<Topology> {
        self.plan.lower(Optimizations::default())
    }

    /// The same as two settings want it.
    ///
    /// `topology.optimization`: with `all`, repartition topics that take the same records become one, and a stream that is joined with
    /// itself is stored once. That changes names, topics and state: decide it before the first start.
    ///
    /// `ensure.explicit.internal.resource.naming`: with `true`, stores and internal topics that were not given a name are a mistake.
    /// Names that are made of numbers move when the topology changes.
    ///
    /// ```
    /// use kstreams::prelude::*;
    ///
    /// let builder = StreamsBuilder::new();
    /// let words = builder.stream("words", Consumed::<String, String>::new());
    /// words.group_by(|_, word| word.clone(), Grouped::new()).count(Materialized::new()).to_stream();
    /// let config = StreamsConfig::new("app", "localhost:9092").set("ensure.explicit.internal.resource.naming", "true")?;
    /// let error = builder.build_with(&config).unwrap_err().to_string();
    /// assert!(error.contains("store KSTREAM-AGGREGATE-STATE-STORE-0000000002 with its changelog"));
    /// # Ok::<(), kstreams::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Self::build`], and when something has no name that has to have one.
    pub fn build_with(&self, config: &StreamsConfig) -> Result<Topology> {
        let setting = config.get("topology.optimization").unwrap_or_default();
        let topology = self.plan.lower(Optimizations::of(setting))?;
        if config.get("ensure.explicit.internal.resource.naming") == Some("true") {
            topology.graph().check_named()?;
        }
        Ok(topology)
    }
}

struct TableParts {
    store: String,
    name: String,
    kind: TableSourceNode,
}

impl fmt::Debug for StreamsBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StreamsBuilder")
    }
}

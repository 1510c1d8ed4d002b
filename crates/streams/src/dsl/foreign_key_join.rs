//! Joins of tables by a foreign key.

use super::options::{KeyPartitioner, TableJoined, by_key};
use super::plan::{
    ForeignKeyJoinNode, MessageTopic, NamedKind, OldValues, PlanKind, PlanRef, ReadingKind,
    TableFacts, prefix,
};
use super::table::{KTable, UnnamedStore};
use crate::error::BoxError;
use crate::operators::foreign_key_join::{
    ForeignJoin, ForeignJoiner, ForeignKeyOf, PseudoTopics, Response, ResponseSerde, SendSerdes,
    Subscription, SubscriptionSerde, SubscriptionToken, foreign_change, lookup, receive, resolve,
    send,
};
use crate::operators::{Change, TableOwnStore, View, table_source};
use crate::serde::{OptionSerde, SerdeRef, VecSerde};
use crate::state::{KeyValueSerdes, StoreFormat, StoreSpec, StoreToken};
use crate::task::SinkSpec;
use crate::topology::{
    Consumed, FailOnInvalidTimestamp, NodeKind, RecordToPartition, StreamPartitioner, TopicTarget,
    operator_kind, sink_kind, source_kind,
};
use std::sync::Arc;

/// The names of a join's nodes, topics and store, in the order in which Java takes them.
struct Names {
    registration: String,
    send: String,
    registration_sink: String,
    registration_source: String,
    store: String,
    receive: String,
    lookup: String,
    foreign_change: String,
    response: String,
    response_sink: String,
    response_source: String,
    resolve: String,
    result: String,
}

impl Names {
    fn new(plan: &PlanRef, name: Option<&str>) -> Self {
        let next = |suffix: &str, prefix: &str| {
            plan.name(name.map(|name| format!("{name}{suffix}")), prefix)
        };
        Names {
            registration: next("-subscription-registration", prefix::FK_REGISTRATION) + "-topic",
            send: next("-subscription-registration-processor", prefix::FK_REGISTRATION),
            registration_sink: next("-subscription-registration-sink", prefix::TABLE_SINK),
            registration_source: next("-subscription-registration-source", prefix::TABLE_SOURCE),
            store: next("-subscription-store", prefix::FK_STORE),
            receive: next("-subscription-receive", prefix::FK_PROCESSOR),
            lookup: next("-subscription-join-foreign", prefix::FK_PROCESSOR),
            foreign_change: next("-foreign-join-subscription", prefix::FK_PROCESSOR),
            response: next("-subscription-response", prefix::FK_RESPONSE) + "-topic",
            response_sink: next("-subscription-response-sink", prefix::TABLE_SINK),
            response_source: next("-subscription-response-source", prefix::TABLE_SOURCE),
            resolve: next("-subscription-response-resolver", prefix::FK_RESOLVER),
            result: next("-result", prefix::FK_OUTPUT),
        }
    }
}

/// The serdes of both tables.
struct Serdes<K, V, KO, VO> {
    key: SerdeRef<K>,
    value: SerdeRef<V>,
    foreign_key: SerdeRef<KO>,
    foreign_value: SerdeRef<VO>,
}

impl<K: Clone + 'static, V: Clone + 'static> KTable<K, V> {
    /// Joins each value with the other table's value of the key that `foreign_key` takes out of it: the value's foreign key, or an
    /// `Option` of one. A value without a foreign key, or whose key the other table does not have, is not in the result.
    ///
    /// Changes of both tables make changes of the result, at the later time of both. `foreign_key` must give the same for the same
    /// value every time. The two tables may have different numbers of partitions: they talk to each other over two topics,
    /// `<application.id>-…-subscription-registration…-topic` and `…-subscription-response…-topic`, and who wants to know which foreign
    /// key is kept in a store with a changelog. Both tables need serdes for their keys and values, and get stores.
    ///
    /// ```
    /// use kstreams::prelude::*;
    ///
    /// let builder = StreamsBuilder::new();
    /// let orders = builder.table("orders", Consumed::<String, i64>::new(), Materialized::new());
    /// let products = builder.table("products", Consumed::<i64, String>::new(), Materialized::new());
    /// orders
    ///     .join_foreign_key(&products, |product| *product, |_, name| name.clone(), TableJoined::new())
    ///     .to_stream()
    ///     .to("order-names", Produced::new());
    ///
    /// let mut driver = TopologyTestDriver::new(builder.build()?)?;
    /// driver.input::<String, i64>("orders").pipe_key_value_at(&mut driver, 0, "ann", 7)?;
    /// driver.input::<i64, String>("products").pipe_key_value_at(&mut driver, 1, 7, "tea")?;
    /// let mut names = driver.output::<String, String>("order-names");
    /// assert_eq!(names.read_table(&mut driver)?, table! { "ann" => "tea" });
    /// # Ok::<(), kstreams::Error>(())
    /// ```
    #[track_caller]
    pub fn join_foreign_key<KO, VO, Q, R, E, F>(
        &self,
        other: &KTable<KO, VO>,
        foreign_key: E,
        joiner: F,
        joined: TableJoined<K, KO>,
    ) -> KTable<K, R>
    where
        KO: Clone + 'static,
        VO: Clone + 'static,
        Q: Into<Option<KO>>,
        R: Clone + 'static,
        E: Fn(&V) -> Q + Send + Sync + 'static,
        F: Fn(&V, &VO) -> R + Send + Sync + 'static,
    {
        let foreign_key = move |_: &K, value: &V| Ok(foreign_key(value));
        let joiner = move |value: &V, foreign: &VO| Ok(Some(joiner(value, foreign)));
        self.try_join_foreign_key(other, foreign_key, joiner, joined)
    }

    /// As [`Self::join_foreign_key`]; the foreign key may be taken from the key as well, the joiner may give `None` for what shall not
    /// be in the result, and both may fail.
    #[track_caller]
    pub fn try_join_foreign_key<KO, VO, Q, R, E, F>(
        &self,
        other: &KTable<KO, VO>,
        foreign_key: E,
        joiner: F,
        joined: TableJoined<K, KO>,
    ) -> KTable<K, R>
    where
        KO: Clone + 'static,
        VO: Clone + 'static,
        Q: Into<Option<KO>>,
        R: Clone + 'static,
        E: Fn(&K, &V) -> Result<Q, BoxError> + Send + Sync + 'static,
        F: Fn(&V, &VO) -> Result<Option<R>, BoxError> + Send + Sync + 'static,
    {
        let foreign_key = move |key: &K, value: &V| foreign_key(key, value).map(Q::into);
        let joiner = move |value: &V, foreign: Option<&VO>| match foreign {
            Some(foreign) => joiner(value, foreign),
            None => Ok(None),
        };
        self.joined_by_foreign_key(other, foreign_key, joiner, ForeignJoin::Inner, joined)
    }

    /// As [`Self::join_foreign_key`], but values without a foreign key, or whose key the other table does not have, are in the result
    /// too.
    ///
    /// ```
    /// use kstreams::prelude::*;
    ///
    /// let builder = StreamsBuilder::new();
    /// let orders = builder.table("orders", Consumed::<String, i64>::new(), Materialized::new());
    /// let products = builder.table("products", Consumed::<i64, String>::new(), Materialized::new());
    /// orders
    ///     .left_join_foreign_key(
    ///         &products,
    ///         |product| *product,
    ///         |id, name| name.cloned().unwrap_or_else(|| format!("product {id}")),
    ///         TableJoined::named("names"),
    ///     )
    ///     .to_stream()
    ///     .to("order-names", Produced::new());
    /// builder.build()?;
    /// # Ok::<(), kstreams::Error>(())
    /// ```
    #[track_caller]
    pub fn left_join_foreign_key<KO, VO, Q, R, E, F>(
        &self,
        other: &KTable<KO, VO>,
        foreign_key: E,
        joiner: F,
        joined: TableJoined<K, KO>,
    ) -> KTable<K, R>
    where
        KO: Clone + 'static,
        VO: Clone + 'static,
        Q: Into<Option<KO>>,
        R: Clone + 'static,
        E: Fn(&V) -> Q + Send + Sync + 'static,
        F: Fn(&V, Option<&VO>) -> R + Send + Sync + 'static,
    {
        let foreign_key = move |_: &K, value: &V| Ok(foreign_key(value));
        let joiner = move |value: &V, foreign: Option<&VO>| Ok(Some(joiner(value, foreign)));
        self.try_left_join_foreign_key(other, foreign_key, joiner, joined)
    }

    /// As [`Self::left_join_foreign_key`]; the foreign key may be taken from the key as well, the joiner may give `None` for what shall
    /// not be in the result, and both may fail.
    #[track_caller]
    pub fn try_left_join_foreign_key<KO, VO, Q, R, E, F>(
        &self,
        other: &KTable<KO, VO>,
        foreign_key: E,
        joiner: F,
        joined: TableJoined<K, KO>,
    ) -> KTable<K, R>
    where
        KO: Clone + 'static,
        VO: Clone + 'static,
        Q: Into<Option<KO>>,
        R: Clone + 'static,
        E: Fn(&K, &V) -> Result<Q, BoxError> + Send + Sync + 'static,
        F: Fn(&V, Option<&VO>) -> Result<Option<R>, BoxError> + Send + Sync + 'static,
    {
        let foreign_key = move |key: &K, value: &V| foreign_key(key, value).map(Q::into);
        self.joined_by_foreign_key(other, foreign_key, joiner, ForeignJoin::Left, joined)
    }

    #[track_caller]
    fn joined_by_foreign_key<KO, VO, R, E, F>(
        &self,
        other: &KTable<KO, VO>,
        foreign_key: E,
        joiner: F,
        kind: ForeignJoin,
        joined: TableJoined<K, KO>,
    ) -> KTable<K, R>
    where
        KO: Clone + 'static,
        VO: Clone + 'static,
        R: Clone + 'static,
        E: ForeignKeyOf<K, V, KO>,
        F: ForeignJoiner<V, VO, R>,
    {
        let plan = &self.plan;
        plan.send_old_values(other.node, true);
        plan.send_old_values(self.node, true);
        let names = Names::new(plan, joined.name.as_deref());
        let result_name = names.result.clone();
        let Some(serdes) = self.serdes_for_join(other) else {
            return KTable::void(plan.clone(), self.node);
        };
        let first = plan.next_number();
        let store = plan.store_name(None, prefix::FK_OUTPUT);
        let numbers = first..plan.next_number();
        let own = TableOwnStore::default();
        let key = serdes.key.clone();
        let tables = Tables {
            kind,
            serdes,
            left: self.view(),
            right: other.view(),
            left_past: plan.is_versioned(self.node),
            right_past: plan.is_versioned(other.node),
        };
        let join = tables.join(names, (foreign_key, joiner), joined, own.clone());
        let facts = TableFacts::new(OldValues::Source);
        let join = PlanKind::ForeignKeyJoin(Box::new(join));
        let node = plan.add_table(result_name, join, vec![self.node, other.node], facts);
        let (owner, unnamed) = (plan.clone(), store.clone());
        let view = move || {
            owner.fail(&format!(
                "the result of a foreign-key join is looked up, so it needs a store, {unnamed}, and serdes: say \
                 .materialized(Materialized::new()) behind the join"
            ));
            KTable::<K, R>::void(owner.clone(), node).view()
        };
        KTable::new(plan.clone(), node, Some(key), None, view).unstored(
            own,
            numbers,
            UnnamedStore::IfNeeded(store),
        )
    }

    #[track_caller]
    fn serdes_for_join<KO: 'static, VO: 'static>(
        &self,
        other: &KTable<KO, VO>,
    ) -> Option<Serdes<K, V, KO, VO>> {
        let left = self.key.clone().zip(self.value.clone());
        let right = other.key.clone().zip(other.value.clone());
        let Some(((key, value), (foreign_key, foreign_value))) = left.zip(right) else {
            self.plan.fail(
                "a join by foreign key needs the serdes of both tables, and one carries none: say \
                 .materialized(Materialized::new()) behind the operator that makes it",
            );
            return None;
        };
        Some(Serdes { key, value, foreign_key, foreign_value })
    }
}

/// Both tables of a join.
struct Tables<K, V, KO, VO> {
    kind: ForeignJoin,
    serdes: Serdes<K, V, KO, VO>,
    left: View<K, V>,
    right: View<KO, VO>,
    /// Whether changes of the left table may be about its past.
    left_past: bool,
    right_past: bool,
}

impl<K, V, KO, VO> Tables<K, V, KO, VO>
where
    K: Clone + 'static,
    V: Clone + 'static,
    KO: Clone + 'static,
    VO: Clone + 'static,
{
    /// The nodes and topics of the join.
    fn join<R, E, F>(
        self,
        names: Names,
        (foreign_key, joiner): (E, F),
        joined: TableJoined<K, KO>,
        own: TableOwnStore<K, R>,
    ) -> ForeignKeyJoinNode
    where
        R: Clone + 'static,
        E: ForeignKeyOf<K, V, KO>,
        F: ForeignJoiner<V, VO, R>,
    {
        let Tables { kind, serdes, left, right, left_past, right_past } = self;
        let topics = PseudoTopics::new(names.registration.as_str().into());
        let token = subscription_token(&names.store, &serdes.key, &topics);
        let (left_stores, right_stores) = (left.stores.clone(), right.stores.clone());
        let table = (left, serdes.value.clone());
        let resolver = resolve::<K, V, VO, R, F>(kind, table, topics.clone(), joiner);
        let split = |key: K, value: Option<R>| Some((key, value));
        ForeignKeyJoinNode {
            send: NamedKind(
                names.send,
                send_kind((kind, left_past), foreign_key, &serdes, &topics),
            ),
            registration: registration(
                (&names.registration, names.registration_sink, names.registration_source),
                &serdes,
                &topics,
                joined.other_partitioner,
            ),
            receive: NamedKind(names.receive, receive_kind(&serdes, &topics, token)),
            lookup: ReadingKind {
                name: names.lookup,
                kind: operator_kind::<(Option<KO>, Subscription<K>), (K, Response<VO>)>(lookup::<
                    K,
                    KO,
                    VO,
                >(
                    right
                )),
                reads: right_stores,
            },
            foreign_change: NamedKind(
                names.foreign_change,
                foreign_change_kind(right_past, &serdes, &topics, token),
            ),
            response: response(
                (&names.response, names.response_sink, names.response_source),
                &serdes,
                joined.partitioner,
            ),
            resolve: ReadingKind {
                name: names.resolve,
                kind: operator_kind::<(K, Response<VO>), (K, Option<R>)>(resolver),
                reads: left_stores,
            },
            store: token.spec.clone(),
            result: operator_kind::<(K, Option<R>), (K, Change<R>)>(table_source(split, own)),
        }
    }
}

fn subscription_token<K: Clone + 'static>(
    store: &str,
    key: &SerdeRef<K>,
    topics: &PseudoTopics,
) -> SubscriptionToken<K> {
    let spec = StoreSpec {
        logs_headers: true,
        ..StoreSpec::new::<Vec<u8>, Subscription<K>>(store, StoreFormat::Timestamped)
    };
    let value = SubscriptionSerde { key: key.clone(), topics: topics.clone() };
    StoreToken::new(spec, KeyValueSerdes { key: Arc::new(VecSerde), value: Arc::new(value) })
}

fn send_kind<K, V, KO, VO, E>(
    (kind, ignores_past): (ForeignJoin, bool),
    foreign_key_of: E,
    serdes: &Serdes<K, V, KO, VO>,
    topics: &PseudoTopics,
) -> NodeKind
where
    K: Clone + 'static,
    V: Clone + 'static,
    KO: Clone + 'static,
    E: ForeignKeyOf<K, V, KO>,
{
    let serdes = SendSerdes {
        value: serdes.value.clone(),
        foreign_key: serdes.foreign_key.clone(),
        topics: topics.clone(),
    };
    let factory = send::<K, V, KO, E>(kind, ignores_past, foreign_key_of, serdes);
    operator_kind::<(K, Change<V>), (Option<KO>, Subscription<K>)>(factory)
}

fn receive_kind<K, V, KO, VO>(
    serdes: &Serdes<K, V, KO, VO>,
    topics: &PseudoTopics,
    token: SubscriptionToken<K>,
) -> NodeKind
where
    K: Clone + 'static,
    KO: Clone + 'static,
{
    let (foreign_key, key) = (serdes.foreign_key.clone(), serdes.key.clone());
    let factory = receive(foreign_key, key, topics.clone(), token);
    operator_kind::<(Option<KO>, Subscription<K>), (Option<KO>, Subscription<K>)>(factory)
}

fn foreign_change_kind<K, V, KO, VO>(
    ignores_past: bool,
    serdes: &Serdes<K, V, KO, VO>,
    topics: &PseudoTopics,
    token: SubscriptionToken<K>,
) -> NodeKind
where
    K: Clone + 'static,
    KO: Clone + 'static,
    VO: Clone + 'static,
{
    let foreign_key = serdes.foreign_key.clone();
    let factory = foreign_change::<K, KO, VO>(ignores_past, foreign_key, topics.clone(), token);
    operator_kind::<(KO, Change<VO>), (K, Response<VO>)>(factory)
}

/// The way of subscriptions: sink, topic, source.
fn registration<K, V, KO, VO>(
    names: (&str, String, String),
    serdes: &Serdes<K, V, KO, VO>,
    topics: &PseudoTopics,
    partitioner: Option<KeyPartitioner<KO>>,
) -> MessageTopic
where
    K: Clone + 'static,
    KO: Clone + 'static,
{
    let key = Arc::new(OptionSerde::new(serdes.foreign_key.clone())) as SerdeRef<Option<KO>>;
    let value = SubscriptionSerde { key: serdes.key.clone(), topics: topics.clone() };
    message_topic(names, key, Arc::new(value), partitioner.map(by_key))
}

/// The way of answers: to where the left entry was, unless the user says where left keys are.
fn response<K, V, KO, VO>(
    names: (&str, String, String),
    serdes: &Serdes<K, V, KO, VO>,
    partitioner: Option<KeyPartitioner<K>>,
) -> MessageTopic
where
    K: Clone + 'static,
    VO: Clone + 'static,
{
    let by_message = move |key: &K, response: &Response<VO>, count: i32| {
        let partition = match &partitioner {
            Some(partitioner) => partitioner(key, count),
            None => response.partition,
        };
        partition.map_or(RecordToPartition::Default, RecordToPartition::One)
    };
    let value = Arc::new(ResponseSerde(serdes.foreign_value.clone()));
    message_topic(names, serdes.key.clone(), value, Some(Arc::new(by_message)))
}

fn message_topic<K: Clone + 'static, V: Clone + 'static>(
    (topic, sink, source): (&str, String, String),
    key: SerdeRef<K>,
    value: SerdeRef<V>,
    partitioner: Option<Arc<dyn StreamPartitioner<K, V>>>,
) -> MessageTopic {
    let topic: Arc<str> = topic.into();
    let spec = SinkSpec {
        target: TopicTarget::Fixed(topic.clone()),
        internal: true,
        key: key.clone(),
        value: value.clone(),
        partitioner,
    };
    // The time was extracted before; a default extractor of the application is for its own inputs.
    let consumed = Consumed::with(key, value).timestamp_extractor(FailOnInvalidTimestamp);
    MessageTopic {
        sink: NamedKind(sink, sink_kind(spec)),
        source: NamedKind(source, source_kind(vec![topic.clone()], consumed)),
        topic,
    }
}

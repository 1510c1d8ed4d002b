//! `KStream`: a stream of records.

use super::grouped::KGroupedStream;
use super::options::{Grouped, Printed, Processed, Repartitioned};
use super::plan::{Changes, PlanId, PlanKind, PlanRef, RepartitionOptions, prefix};
use super::stream_end::StreamEnd;
use crate::error::{BoxError, Result};
use crate::operators;
use crate::processor::{FixedKey, FixedKeyProcessor, InitContext, KeyOf, Processor, ValueOf};
use crate::serde::SerdeRef;
use crate::task::SinkSpec;
use crate::topology::erased::NodeFactory;
use crate::topology::{
    Produced, RepartitionTopic, Role, TopicTarget, operator_kind, processor_kind, sink_kind,
};
use std::fmt;
use std::sync::Arc;

/// A stream of records. Cloning gives the same stream again; using it twice sends each record both ways.
///
/// Closures that only look take references, closures that transform take values. The `try_` forms may return any error; it stops
/// the task at that record.
#[must_use = "a stream does nothing until it is written to a topic or a store"]
pub struct KStream<K, V> {
    pub(super) plan: PlanRef,
    pub(super) node: PlanId,
    pub(super) key: Option<SerdeRef<K>>,
    pub(super) value: Option<SerdeRef<V>>,
    /// Whether the key may have changed since the records were partitioned.
    pub(super) rekeyed: bool,
}

impl<K, V> Clone for KStream<K, V> {
    fn clone(&self) -> Self {
        KStream {
            plan: self.plan.clone(),
            node: self.node,
            key: self.key.clone(),
            value: self.value.clone(),
            rekeyed: self.rekeyed,
        }
    }
}

impl<K, V> fmt::Debug for KStream<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("KStream").field(&self.plan.node_name(self.node)).finish()
    }
}

impl<K, V> KStream<K, V> {
    pub(super) fn new(
        plan: PlanRef,
        node: PlanId,
        key: Option<SerdeRef<K>>,
        value: Option<SerdeRef<V>>,
    ) -> Self {
        KStream { plan, node, key, value, rekeyed: false }
    }

    /// Names the operator that made this stream; without it, operators are numbered.
    ///
    /// ```
    /// use kstreams::prelude::*;
    ///
    /// let builder = StreamsBuilder::new();
    /// let words = builder.stream("words", Consumed::<String, String>::new());
    /// words.filter(|_, word| word.len() > 3).named("long-words").to("long-words", Produced::new());
    /// assert!(builder.build()?.describe().contains("Processor: long-words (stores: [])"));
    /// # Ok::<(), kstreams::Error>(())
    /// ```
    pub fn named(self, name: impl Into<String>) -> Self {
        self.plan.rename(self.node, name.into());
        self
    }
}

impl<K: Clone + 'static, V: Clone + 'static> KStream<K, V> {
    /// Adds an operator below this stream.
    #[track_caller]
    fn operator<K2, V2>(&self, prefix: &str, factory: NodeFactory) -> KStream<K2, V2>
    where
        K2: Clone + 'static,
        V2: Clone + 'static,
    {
        let name = self.plan.name(None, prefix);
        let kind = PlanKind::Node(operator_kind::<(K, V), (K2, V2)>(factory));
        let node = self.plan.add(name, kind, vec![self.node]);
        KStream { plan: self.plan.clone(), node, key: None, value: None, rekeyed: self.rekeyed }
    }

    fn with_serdes_of(self, other: &KStream<K, V>) -> Self {
        KStream { key: other.key.clone(), value: other.value.clone(), ..self }
    }

    /// The same after its key was changed.
    fn rekeyed(self) -> Self {
        self.plan.set_changes(self.node, Changes::Key);
        KStream { rekeyed: true, ..self }
    }

    /// The records that `predicate` likes.
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
        self.operator(prefix::FILTER, operators::filter(predicate)).with_serdes_of(self)
    }

    /// The records that `predicate` does not like.
    #[track_caller]
    pub fn filter_not(&self, predicate: impl Fn(&K, &V) -> bool + Send + Sync + 'static) -> Self {
        self.filter(move |key, value| !predicate(key, value))
    }

    /// A new key and value for each record. Grouping the result repartitions it.
    #[track_caller]
    pub fn map<K2, V2, F>(&self, mapper: F) -> KStream<K2, V2>
    where
        K2: Clone + 'static,
        V2: Clone + 'static,
        F: Fn(K, V) -> (K2, V2) + Send + Sync + 'static,
    {
        self.try_map(move |key, value| Ok(mapper(key, value)))
    }

    /// As [`Self::map`]; the closure may fail.
    #[track_caller]
    pub fn try_map<K2, V2, F>(&self, mapper: F) -> KStream<K2, V2>
    where
        K2: Clone + 'static,
        V2: Clone + 'static,
        F: Fn(K, V) -> Result<(K2, V2), BoxError> + Send + Sync + 'static,
    {
        self.operator(prefix::MAP, operators::map(mapper)).rekeyed()
    }

    /// A new value for each record; the key stays.
    #[track_caller]
    pub fn map_values<V2, F>(&self, mapper: F) -> KStream<K, V2>
    where
        V2: Clone + 'static,
        F: Fn(V) -> V2 + Send + Sync + 'static,
    {
        self.try_map_values_with_key(move |_, value| Ok(mapper(value)))
    }

    /// As [`Self::map_values`], looking at the key as well.
    #[track_caller]
    pub fn map_values_with_key<V2, F>(&self, mapper: F) -> KStream<K, V2>
    where
        V2: Clone + 'static,
        F: Fn(&K, V) -> V2 + Send + Sync + 'static,
    {
        self.try_map_values_with_key(move |key, value| Ok(mapper(key, value)))
    }

    /// As [`Self::map_values`]; the closure may fail.
    #[track_caller]
    pub fn try_map_values<V2, F>(&self, mapper: F) -> KStream<K, V2>
    where
        V2: Clone + 'static,
        F: Fn(V) -> Result<V2, BoxError> + Send + Sync + 'static,
    {
        self.try_map_values_with_key(move |_, value| mapper(value))
    }

    /// As [`Self::map_values_with_key`]; the closure may fail.
    #[track_caller]
    pub fn try_map_values_with_key<V2, F>(&self, mapper: F) -> KStream<K, V2>
    where
        V2: Clone + 'static,
        F: Fn(&K, V) -> Result<V2, BoxError> + Send + Sync + 'static,
    {
        let mapped = self.operator(prefix::MAP_VALUES, operators::map_values(mapper));
        self.plan.set_changes(mapped.node, Changes::Value);
        KStream { key: self.key.clone(), ..mapped }
    }

    /// Any number of keys and values for each record. Grouping the result repartitions it.
    #[track_caller]
    pub fn flat_map<K2, V2, I, F>(&self, mapper: F) -> KStream<K2, V2>
    where
        K2: Clone + 'static,
        V2: Clone + 'static,
        I: IntoIterator<Item = (K2, V2)> + 'static,
        F: Fn(K, V) -> I + Send + Sync + 'static,
    {
        self.try_flat_map(move |key, value| Ok(mapper(key, value)))
    }

    /// As [`Self::flat_map`]; the closure may fail.
    #[track_caller]
    pub fn try_flat_map<K2, V2, I, F>(&self, mapper: F) -> KStream<K2, V2>
    where
        K2: Clone + 'static,
        V2: Clone + 'static,
        I: IntoIterator<Item = (K2, V2)> + 'static,
        F: Fn(K, V) -> Result<I, BoxError> + Send + Sync + 'static,
    {
        self.operator(prefix::FLAT_MAP, operators::flat_map(mapper)).rekeyed()
    }

    /// Any number of values for each record, all under its key.
    #[track_caller]
    pub fn flat_map_values<V2, I, F>(&self, mapper: F) -> KStream<K, V2>
    where
        V2: Clone + 'static,
        I: IntoIterator<Item = V2> + 'static,
        F: Fn(V) -> I + Send + Sync + 'static,
    {
        self.try_flat_map_values_with_key(move |_, value| Ok(mapper(value)))
    }

    /// As [`Self::flat_map_values`], looking at the key as well.
    #[track_caller]
    pub fn flat_map_values_with_key<V2, I, F>(&self, mapper: F) -> KStream<K, V2>
    where
        V2: Clone + 'static,
        I: IntoIterator<Item = V2> + 'static,
        F: Fn(&K, V) -> I + Send + Sync + 'static,
    {
        self.try_flat_map_values_with_key(move |key, value| Ok(mapper(key, value)))
    }

    /// As [`Self::flat_map_values`]; the closure may fail.
    #[track_caller]
    pub fn try_flat_map_values<V2, I, F>(&self, mapper: F) -> KStream<K, V2>
    where
        V2: Clone + 'static,
        I: IntoIterator<Item = V2> + 'static,
        F: Fn(V) -> Result<I, BoxError> + Send + Sync + 'static,
    {
        self.try_flat_map_values_with_key(move |_, value| mapper(value))
    }

    /// As [`Self::flat_map_values_with_key`]; the closure may fail.
    #[track_caller]
    pub fn try_flat_map_values_with_key<V2, I, F>(&self, mapper: F) -> KStream<K, V2>
    where
        V2: Clone + 'static,
        I: IntoIterator<Item = V2> + 'static,
        F: Fn(&K, V) -> Result<I, BoxError> + Send + Sync + 'static,
    {
        let mapped = self.operator(prefix::FLAT_MAP_VALUES, operators::flat_map_values(mapper));
        self.plan.set_changes(mapped.node, Changes::Value);
        KStream { key: self.key.clone(), ..mapped }
    }

    /// A new key for each record. Grouping the result repartitions it.
    #[track_caller]
    pub fn select_key<K2, F>(&self, selector: F) -> KStream<K2, V>
    where
        K2: Clone + 'static,
        F: Fn(&K, &V) -> K2 + Send + Sync + 'static,
    {
        self.try_select_key(move |key, value| Ok(selector(key, value)))
    }

    /// As [`Self::select_key`]; the closure may fail.
    #[track_caller]
    pub fn try_select_key<K2, F>(&self, selector: F) -> KStream<K2, V>
    where
        K2: Clone + 'static,
        F: Fn(&K, &V) -> Result<K2, BoxError> + Send + Sync + 'static,
    {
        let selected = self.operator(prefix::KEY_SELECT, operators::select_key(selector)).rekeyed();
        KStream { value: self.value.clone(), ..selected }
    }

    /// Shows each record to `look` as it passes.
    #[track_caller]
    pub fn peek(&self, look: impl Fn(&K, &V) + Send + Sync + 'static) -> Self {
        let look = operators::peek(move |key, value| {
            look(key, value);
            Ok(())
        });
        self.operator(prefix::PEEK, look).with_serdes_of(self)
    }

    /// Hands each record to `action`: the stream ends here.
    #[track_caller]
    pub fn for_each(&self, action: impl Fn(K, V) + Send + Sync + 'static) -> StreamEnd {
        self.try_for_each(move |key, value| {
            action(key, value);
            Ok(())
        })
    }

    /// As [`Self::for_each`]; the closure may fail.
    #[track_caller]
    pub fn try_for_each<F>(&self, action: F) -> StreamEnd
    where
        F: Fn(K, V) -> Result<(), BoxError> + Send + Sync + 'static,
    {
        let end: KStream<(), ()> = self.operator(prefix::FOR_EACH, operators::for_each(action));
        StreamEnd::new(end.plan, end.node)
    }

    /// Prints each record: the stream ends here.
    ///
    /// ```
    /// use kstreams::prelude::*;
    ///
    /// let builder = StreamsBuilder::new();
    /// let words = builder.stream("words", Consumed::<String, String>::new());
    /// words.print(Printed::to_stdout().with_label("words"));
    /// builder.build()?;
    /// # Ok::<(), kstreams::Error>(())
    /// ```
    #[track_caller]
    pub fn print(&self, printed: Printed<K, V>) {
        let name = self.plan.name(printed.name, prefix::PRINTER);
        let label = printed.label.unwrap_or_else(|| self.plan.node_name(self.node));
        let text = printed.text;
        let print =
            operators::print(label, move |key: &K, value: &V| text(key, value), printed.writer);
        let kind = PlanKind::Node(operator_kind::<(K, V), ((), ())>(print));
        self.plan.add(name, kind, vec![self.node]);
    }

    /// Writes the records to a topic of the application's own and reads them again: partitioned by their key now, or as
    /// [`Repartitioned`] says. Records with a null key are dropped. The topic is `<application.id>-<name>-repartition`; timestamps and
    /// headers stay.
    ///
    /// ```
    /// use kstreams::prelude::*;
    ///
    /// let builder = StreamsBuilder::new();
    /// builder
    ///     .stream("orders", Consumed::<String, String>::new())
    ///     .select_key(|_, item| item.clone())
    ///     .repartition(Repartitioned::named("by-item").number_of_partitions(12))
    ///     .to("orders-by-item", Produced::new());
    /// assert!(builder.build()?.describe().contains("topic: by-item-repartition"));
    /// # Ok::<(), kstreams::Error>(())
    /// ```
    #[track_caller]
    pub fn repartition(&self, repartitioned: Repartitioned<K, V>) -> Self {
        let name = self.plan.processor_name(repartitioned.name, prefix::REPARTITION);
        let key = repartitioned.key.resolve(self.key.as_ref());
        let value = repartitioned.value.resolve(self.value.as_ref());
        let (Some(key), Some(value)) = (key, value) else {
            self.plan.fail_without_serdes(&format!("repartition {name}"));
            return self.clone();
        };
        let topic = RepartitionTopic { partitions: repartitioned.partitions };
        let partitioner = repartitioned.partitioner;
        let options = RepartitionOptions { topic, partitioner, is_optimizable: false };
        let node = self.plan.add_repartition(&name, self.node, &key, &value, options);
        KStream::new(self.plan.clone(), node, Some(key), Some(value))
    }

    /// The records of both streams, each stream's in its order. The result carries no serdes.
    #[track_caller]
    pub fn merge(&self, other: &KStream<K, V>) -> Self {
        let name = self.plan.name(None, prefix::MERGE);
        let kind = PlanKind::Node(operator_kind::<(K, V), (K, V)>(operators::pass::<K, V>()));
        let node = self.plan.add(name, kind, vec![self.node, other.node]);
        self.plan.set_changes(node, Changes::Merge);
        let rekeyed = self.rekeyed || other.rekeyed;
        KStream { plan: self.plan.clone(), node, key: None, value: None, rekeyed }
    }

    /// Groups the records by their key. Null keys are dropped where the groups are aggregated.
    #[track_caller]
    pub fn group_by_key(&self, grouped: Grouped<K, V>) -> KGroupedStream<K, V> {
        let key = grouped.key.resolve(self.key.as_ref());
        let value = grouped.value.resolve(self.value.as_ref());
        let (Some(key), Some(value)) = (key, value) else {
            self.plan.fail_without_serdes("group_by_key");
            return KGroupedStream::void(self.plan.clone(), self.node);
        };
        let name = grouped.name;
        KGroupedStream::new(self.plan.clone(), self.node, name, key, value, self.rekeyed)
    }

    /// Groups the records by a new key; they are repartitioned by it.
    #[track_caller]
    pub fn group_by<K2, F>(&self, selector: F, grouped: Grouped<K2, V>) -> KGroupedStream<K2, V>
    where
        K2: Clone + 'static,
        F: Fn(&K, &V) -> K2 + Send + Sync + 'static,
    {
        let name = grouped.name.clone();
        let selected = self.select_key(selector);
        if let Some(name) = name {
            self.plan.rename(selected.node, name);
        }
        selected.group_by_key(grouped)
    }

    /// Runs a processor on the stream: it sees every record, may use stores, and forwards what it likes. The supplier makes a
    /// new one for each task; it cannot hand out the same one twice (P61):
    ///
    /// ```compile_fail,E0507
    /// # use kstreams::prelude::*;
    /// # struct Mine;
    /// # impl Processor for Mine {
    /// #     type In = (String, String);
    /// #     type Out = ((), ());
    /// #     fn process(&mut self, _: Record<String, String>, _: &mut Context<Self>) -> ProcessResult { Ok(()) }
    /// # }
    /// let shared = Mine;
    /// let builder = StreamsBuilder::new();
    /// let stream = builder.stream("in", Consumed::<String, String>::new());
    /// let _ = stream.process(move |_| Ok(shared), Processed::new());
    /// ```
    #[track_caller]
    pub fn process<P, F>(
        &self,
        supplier: F,
        processed: Processed,
    ) -> KStream<KeyOf<P::Out>, ValueOf<P::Out>>
    where
        P: Processor<In = (K, V)>,
        F: Fn(&mut InitContext) -> Result<P> + Send + Sync + 'static,
    {
        let name = self.plan.processor_name(processed.name, prefix::PROCESSOR);
        let stores = processed.stores.into_iter().cloned().collect();
        let kind = PlanKind::Stateful(processor_kind(Arc::new(supplier)), stores);
        let node = self.plan.add(name, kind, vec![self.node]);
        self.plan.set_role(node, Role::Processor);
        KStream { plan: self.plan.clone(), node, key: None, value: None, rekeyed: true }
    }

    /// Runs a processor that cannot change the key on the stream: nothing below has to be repartitioned. See
    /// [`FixedKeyProcessor`] for an example.
    #[track_caller]
    pub fn process_values<P, F>(&self, supplier: F, processed: Processed) -> KStream<K, P::Out>
    where
        P: FixedKeyProcessor<Key = K, In = V>,
        F: Fn(&mut InitContext) -> Result<P> + Send + Sync + 'static,
    {
        let name = self.plan.processor_name(processed.name, prefix::PROCESS_VALUES);
        let stores = processed.stores.into_iter().cloned().collect();
        let supplier = move |ctx: &mut InitContext| supplier(ctx).map(FixedKey);
        let kind = PlanKind::Stateful(processor_kind(Arc::new(supplier)), stores);
        let node = self.plan.add(name, kind, vec![self.node]);
        self.plan.set_role(node, Role::Processor);
        let (plan, key) = (self.plan.clone(), self.key.clone());
        KStream { plan, node, key, value: None, rekeyed: self.rekeyed }
    }

    /// Writes the records to a topic, which has to exist; it can be computed for each record ([`TopicTarget::computed`]).
    #[track_caller]
    pub fn to(&self, topic: impl Into<TopicTarget<K, V>>, produced: Produced<K, V>) {
        let name = self.plan.name(produced.name.clone(), prefix::SINK);
        let key = produced.key.resolve(self.key.as_ref());
        let value = produced.value.resolve(self.value.as_ref());
        let (Some(key), Some(value)) = (key, value) else {
            self.plan.fail_without_serdes(&name);
            return;
        };
        let partitioner = produced.partitioner;
        let spec = SinkSpec { target: topic.into(), internal: false, key, value, partitioner };
        self.plan.add(name, PlanKind::Node(sink_kind(spec)), vec![self.node]);
    }
}

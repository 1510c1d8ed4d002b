//! Stores that are filled from a topic of their own: global ones, and those whose changelog is somebody else's topic.

use super::TopologyBuilder;
use super::builder::{operator_kind, processor_kind, source_kind};
use super::consumed::Consumed;
use super::erased::{Port, node_factory};
use super::node::NodeKind;
use crate::error::{Error, Result};
use crate::processor::{InitContext, KeyOf, Processor, StoreUpdate, ValueOf};
use crate::serde::OptionSerde;
use crate::state::{GlobalSpec, GlobalTable, StoreSpec, StoreToken, Writable};
use std::sync::Arc;

impl TopologyBuilder {
    /// Adds a store that holds the whole of a topic on every instance, filled before any task runs and kept up to date. Every
    /// processor may read it. The names are those of the two nodes that `describe()` shows for it.
    ///
    /// ```
    /// use kstreams::prelude::*;
    ///
    /// let prices = Stores::global::<String, i64>("prices");
    /// let mut topology = TopologyBuilder::new();
    /// topology.add_global_store(&prices, "price-source", "prices", "price-store");
    /// let topology = topology.build()?;
    /// assert!(topology.describe().contains("for global store"));
    /// # Ok::<(), kstreams::Error>(())
    /// ```
    pub fn add_global_store<K, V>(
        &mut self,
        token: &StoreToken<GlobalTable<K, V>>,
        source: &str,
        topic: &str,
        processor: &str,
    ) where
        K: Clone + 'static,
        V: Clone + 'static,
    {
        let consumed = Consumed::with(token.serdes.key.clone(), token.serdes.value.clone());
        let source = self.add(source, source_kind(vec![topic.into()], consumed), Vec::new());
        // A reader beside the tasks copies the bytes; this node is only there to be seen.
        let seen = node_factory(|wiring| {
            let name = wiring.name();
            Err::<Port<K, V>, _>(Error::topology(format!("{name} is not for tasks")))
        });
        let processor = self.add(processor, operator_kind::<(K, V), ((), ())>(seen), vec![source]);
        self.add_global(
            [source, processor],
            &GlobalSpec::copied(&token.spec.name, topic, token.serdes),
        );
    }

    /// As [`Self::add_global_store`], with a processor of the user's between the topic and the store: the store then holds what the
    /// processor makes of the records, in other types if it likes. The supplier gets its hand on the store by
    /// [`InitContext::global_writer`].
    ///
    /// The processor runs beside the tasks, on every instance, one for each partition of the topic, and sees all records from the
    /// beginning at each start: so it has to come to the same each time. It has no children, and no punctuators.
    ///
    /// ```
    /// use kstreams::prelude::*;
    ///
    /// /// Knows the cheapest offer of each item.
    /// struct Cheapest {
    ///     offers: GlobalTableWriter<String, i64>,
    /// }
    ///
    /// impl Processor for Cheapest {
    ///     type In = (String, i64);
    ///     type Out = ((), ());
    ///
    ///     fn process(&mut self, offer: Record<String, i64>, _: &mut Context<Self>) -> ProcessResult {
    ///         match self.offers.get(&offer.key)? {
    ///             Some((known, _)) if known <= offer.value => Ok(()),
    ///             _ => Ok(self.offers.put(&offer.key, Some(&offer.value), offer.timestamp)?),
    ///         }
    ///     }
    /// }
    ///
    /// let offers = Stores::global::<String, i64>("cheapest");
    /// let mut topology = TopologyBuilder::new();
    /// topology.add_global_store_updated_by(
    ///     &offers,
    ///     "offers",
    ///     "offers",
    ///     Consumed::<String, i64>::new(),
    ///     "cheapest-offers",
    ///     move |ctx| Ok(Cheapest { offers: ctx.global_writer(&offers)? }),
    /// );
    /// let mut driver = TopologyTestDriver::new(topology.build()?)?;
    /// let mut input = driver.input::<String, i64>("offers");
    /// for (at, price) in [30, 20, 40].into_iter().enumerate() {
    ///     input.pipe_key_value_at(&mut driver, at as i64, "apple", price)?;
    /// }
    /// assert_eq!(driver.store(&offers)?.get(&"apple".to_string())?, Some((20, 1)));
    /// # Ok::<(), kstreams::Error>(())
    /// ```
    pub fn add_global_store_updated_by<K, V, P, F>(
        &mut self,
        token: &StoreToken<GlobalTable<K, V>>,
        source: &str,
        topic: &str,
        consumed: Consumed<KeyOf<P::In>, ValueOf<P::In>>,
        processor: &str,
        supplier: F,
    ) where
        K: 'static,
        V: 'static,
        P: Processor<Out = ((), ())>,
        F: Fn(&mut InitContext) -> Result<P> + Send + Sync + 'static,
    {
        let source = self.add(source, source_kind(vec![topic.into()], consumed), Vec::new());
        let processor = self.add(processor, processor_kind(Arc::new(supplier)), vec![source]);
        self.add_global(
            [source, processor],
            &GlobalSpec::processed::<K, V>(&token.spec.name, topic),
        );
    }

    /// Adds a store whose changelog is a topic of somebody else: it holds the latest value of each key of the topic's partition, on the
    /// task of that partition, and nothing is written for it. [`Self::connect_store`] gives it to the processors that read it; they must not
    /// write to it, since what they write would be gone after a restore. Keys and values are read by the store's serdes; a null value
    /// deletes. The topic should be compacted, and is one of those that must have as many partitions as the processors' others.
    ///
    /// ```
    /// use kstreams::prelude::*;
    ///
    /// let prices = Stores::key_value::<String, i64>("prices");
    /// let mut topology = TopologyBuilder::new();
    /// topology.add_read_only_state_store(&prices, "price-source", "prices", "price-store");
    /// let mut driver = TopologyTestDriver::new(topology.build()?)?;
    /// let mut input = driver.input::<String, Option<i64>>("prices");
    /// input.pipe_key_value_at(&mut driver, 0, "apple", Some(3))?;
    /// assert_eq!(driver.store(&prices)?.get(&"apple".to_string())?, Some(3));
    /// # Ok::<(), kstreams::Error>(())
    /// ```
    pub fn add_read_only_state_store<S: Writable + 'static>(
        &mut self,
        token: &StoreToken<S>,
        source: &str,
        topic: &str,
        processor: &str,
    ) {
        let (read, update) = store_update(token, topic.into());
        let source = self.add(source, read, Vec::new());
        let processor = self.add(processor, update, vec![source]);
        let spec =
            StoreSpec { source_topic: Some(topic.into()), logging: None, ..token.spec.clone() };
        self.add_own_store(processor, &spec);
    }
}

/// A source and the processor below it that keep a store like a topic, by the store's serdes; null deletes.
pub(crate) fn store_update<S: Writable + 'static>(
    token: &StoreToken<S>,
    topic: Arc<str>,
) -> (NodeKind, NodeKind) {
    let serdes = S::serdes(token);
    let value = Arc::new(OptionSerde::new(serdes.value.clone()));
    let consumed = Consumed::with(serdes.key.clone(), value);
    let token = *token;
    let update = move |ctx: &mut InitContext| Ok(StoreUpdate(ctx.store(&token)?));
    (source_kind(vec![topic], consumed), processor_kind(Arc::new(update)))
}

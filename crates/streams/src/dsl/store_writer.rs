//! A topic from which a store is written: the way in for code outside of the topology.

use super::builder::StreamsBuilder;
use super::plan::{PlanKind, prefix};
use crate::state::{StoreToken, Writable};
use crate::topology::{Role, store_update};
use std::sync::Arc;

impl StreamsBuilder {
    /// Lets code outside of the topology write to a store: through `topic`, which brings each update to the task that owns the key,
    /// in order and between records, so that nothing needs a lock. While the application runs,
    /// [`crate::runtime::KafkaStreams::store_writer`] gives the other end; any other program may write to the topic as well. Its
    /// keys and values are those of the store, in the store's serdes, and null deletes.
    ///
    /// The topic has to exist, with as many partitions as the other topics that lead to the store; compaction suits it. An update
    /// is not told to operators behind a table that has the store: give a processor a store of its own.
    ///
    /// ```
    /// use kstreams::prelude::*;
    ///
    /// let prices = Stores::key_value::<String, f64>("prices");
    /// let builder = StreamsBuilder::new();
    /// builder.store_writer(&prices, "price-updates");
    ///
    /// let mut driver = TopologyTestDriver::new(builder.build()?)?;
    /// let mut updates = driver.input::<String, Option<f64>>("price-updates");
    /// updates.pipe_key_value_at(&mut driver, 0, "EUR", Some(1.08))?;
    /// assert_eq!(driver.store(&prices)?.get(&"EUR".to_string())?, Some(1.08));
    /// # Ok::<(), kstreams::Error>(())
    /// ```
    #[track_caller]
    pub fn store_writer<S: Writable + 'static>(
        &self,
        token: &StoreToken<S>,
        topic: impl Into<String>,
    ) {
        let topic: Arc<str> = topic.into().into();
        let (read, update) = store_update(token, topic.clone());
        let source = PlanKind::Source(read);
        let source = self.plan.add(self.plan.name(None, prefix::SOURCE), source, Vec::new());
        let writer = PlanKind::StoreWriter(update, token.spec.clone(), topic);
        let node = self.plan.add(self.plan.name(None, prefix::STORE_WRITER), writer, vec![source]);
        self.plan.set_role(node, Role::Processor);
    }
}

//! How a stream is repartitioned on request.

use crate::serde::{DefaultSerde, SerdeChoice, SerdeRef};
use crate::topology::{RecordToPartition, StreamPartitioner};
use std::fmt;
use std::sync::Arc;

/// Options of `repartition`. A name names the topic: `<application.id>-<name>-repartition`.
pub struct Repartitioned<K, V> {
    pub(crate) name: Option<String>,
    pub(crate) key: SerdeChoice<K>,
    pub(crate) value: SerdeChoice<V>,
    pub(crate) partitions: Option<i32>,
    pub(crate) partitioner: Option<Arc<dyn StreamPartitioner<K, V>>>,
}

impl<K, V> Repartitioned<K, V> {
    /// With the serdes that the stream carries, else the types' own.
    #[expect(clippy::new_without_default, reason = "options are made by name, as in Java")]
    pub fn new() -> Self
    where
        K: DefaultSerde,
        V: DefaultSerde,
    {
        Repartitioned::from(SerdeChoice::default_for_type(), SerdeChoice::default_for_type())
    }

    /// The same with a name.
    pub fn named(name: impl Into<String>) -> Self
    where
        K: DefaultSerde,
        V: DefaultSerde,
    {
        Repartitioned::new().with_name(name)
    }
}

impl<K, V> Repartitioned<K, V> {
    fn from(key: SerdeChoice<K>, value: SerdeChoice<V>) -> Self {
        Repartitioned { name: None, key, value, partitions: None, partitioner: None }
    }

    /// With these serdes.
    pub fn with(key: SerdeRef<K>, value: SerdeRef<V>) -> Self {
        Repartitioned::from(SerdeChoice::Given(key), SerdeChoice::Given(value))
    }

    /// With the serdes that the stream carries; `build()` fails if it carries none.
    pub fn carried() -> Self {
        Repartitioned::from(SerdeChoice::Carried, SerdeChoice::Carried)
    }

    /// The name.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// The number of partitions of the topic; default: the most of the topics that the stream comes from.
    #[must_use]
    pub fn number_of_partitions(mut self, partitions: i32) -> Self {
        self.partitions = Some(partitions);
        self
    }

    /// Chooses the partition of each record; default: by the key, as Java's default partitioner does.
    #[must_use]
    pub fn partitions<F>(mut self, partition: F) -> Self
    where
        F: Fn(&K, &V, i32) -> RecordToPartition + Send + Sync + 'static,
    {
        self.partitioner = Some(Arc::new(partition));
        self
    }

    /// Chooses the partition by a partitioner.
    #[must_use]
    pub fn partitioner(mut self, partitioner: impl StreamPartitioner<K, V>) -> Self {
        self.partitioner = Some(Arc::new(partitioner));
        self
    }
}

impl<K, V> fmt::Debug for Repartitioned<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = f.debug_struct("Repartitioned");
        text.field("name", &self.name).field("partitions", &self.partitions).finish()
    }
}

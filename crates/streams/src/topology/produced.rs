//! How a topic is written: serdes, the topic's name, the partition.

use crate::record::{Headers, Record, RecordMetadata};
use crate::serde::{DefaultSerde, SerdeChoice, SerdeRef};
use std::fmt;
use std::sync::Arc;

/// Options of a sink.
///
/// ```
/// use kstreams::prelude::*;
///
/// let by_type = Produced::<String, i64>::new();
/// let on_partition_0 = Produced::<String, i64>::new().partitions(|_, _, _| RecordToPartition::One(0));
/// ```
pub struct Produced<K, V> {
    pub(crate) key: SerdeChoice<K>,
    pub(crate) value: SerdeChoice<V>,
    pub(crate) partitioner: Option<Arc<dyn StreamPartitioner<K, V>>>,
    pub(crate) name: Option<String>,
}

impl<K, V> Produced<K, V> {
    /// With the serdes that the stream carries, else the types' own.
    #[expect(clippy::new_without_default, reason = "options are made by name, as in Java")]
    pub fn new() -> Self
    where
        K: DefaultSerde,
        V: DefaultSerde,
    {
        let (key, value) = (SerdeChoice::default_for_type(), SerdeChoice::default_for_type());
        Produced { key, value, partitioner: None, name: None }
    }

    /// The same, for a sink node of that name.
    pub fn named(name: impl Into<String>) -> Self
    where
        K: DefaultSerde,
        V: DefaultSerde,
    {
        Produced::new().with_name(name)
    }
}

impl<K, V> Produced<K, V> {
    /// With these serdes.
    pub fn with(key: SerdeRef<K>, value: SerdeRef<V>) -> Self {
        let (key, value) = (SerdeChoice::Given(key), SerdeChoice::Given(value));
        Produced { key, value, partitioner: None, name: None }
    }

    /// With the serdes that the stream carries; `build()` fails if it carries none.
    pub fn carried() -> Self {
        Produced {
            key: SerdeChoice::Carried,
            value: SerdeChoice::Carried,
            partitioner: None,
            name: None,
        }
    }

    /// The name of the sink node.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Chooses the partition from key, value and the number of partitions; default: the one that Java's default partitioner
    /// chooses for the key.
    #[must_use]
    pub fn partitions<F>(self, partition: F) -> Self
    where
        F: Fn(&K, &V, i32) -> RecordToPartition + Send + Sync + 'static,
    {
        self.partitioner(partition)
    }

    /// Chooses the partition by a partitioner.
    #[must_use]
    pub fn partitioner(mut self, partitioner: impl StreamPartitioner<K, V>) -> Self {
        self.partitioner = Some(Arc::new(partitioner));
        self
    }
}

impl<K, V> fmt::Debug for Produced<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Produced").field("name", &self.name).finish()
    }
}

/// The partitions that a record goes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordToPartition {
    /// The one that the default partitioner chooses.
    Default,
    /// This one.
    One(i32),
    /// All of these; none drops the record.
    Many(Vec<i32>),
}

/// Chooses the partition of a record. Closures of key, value and the number of partitions are partitioners.
pub trait StreamPartitioner<K, V>: Send + Sync + 'static {
    /// The partitions of a record, for a topic with that many partitions.
    fn partitions(
        &self,
        key: &K,
        value: &V,
        partitions: i32,
        headers: &Headers,
    ) -> RecordToPartition;
}

impl<K, V, F> StreamPartitioner<K, V> for F
where
    F: Fn(&K, &V, i32) -> RecordToPartition + Send + Sync + 'static,
{
    fn partitions(&self, key: &K, value: &V, partitions: i32, _: &Headers) -> RecordToPartition {
        self(key, value, partitions)
    }
}

/// Computes the topic of a record. Closures of the record are extractors.
pub trait TopicNameExtractor<K, V>: Send + Sync + 'static {
    /// The topic that the record goes to; it has to exist.
    fn topic(&self, record: &Record<K, V>, metadata: Option<&RecordMetadata>) -> String;

    /// What `describe()` shows.
    fn name(&self) -> String {
        "closure".into()
    }
}

impl<K, V, F> TopicNameExtractor<K, V> for F
where
    F: Fn(&Record<K, V>) -> String + Send + Sync + 'static,
{
    fn topic(&self, record: &Record<K, V>, _: Option<&RecordMetadata>) -> String {
        self(record)
    }
}

/// A fixed topic or a computed one: whatever `to` accepts.
pub enum TopicTarget<K, V> {
    /// Always the same topic.
    Fixed(Arc<str>),
    /// Computed for each record.
    Computed(Arc<dyn TopicNameExtractor<K, V>>),
}

impl<K, V> TopicTarget<K, V> {
    /// Computes the topic of each record.
    ///
    /// ```
    /// use kstreams::prelude::*;
    ///
    /// let builder = StreamsBuilder::new();
    /// builder
    ///     .stream("orders", Consumed::<String, i64>::new())
    ///     .to(TopicTarget::computed(|record| format!("orders-{}", record.key)), Produced::new());
    /// builder.build()?;
    /// # Ok::<(), kstreams::Error>(())
    /// ```
    pub fn computed<F>(topic: F) -> Self
    where
        F: Fn(&Record<K, V>) -> String + Send + Sync + 'static,
    {
        TopicTarget::extracted(topic)
    }

    /// Computes the topic of each record by an extractor.
    pub fn extracted(extractor: impl TopicNameExtractor<K, V>) -> Self {
        TopicTarget::Computed(Arc::new(extractor))
    }
}

impl<K, V> From<&str> for TopicTarget<K, V> {
    fn from(topic: &str) -> Self {
        TopicTarget::Fixed(topic.into())
    }
}

impl<K, V> From<&String> for TopicTarget<K, V> {
    fn from(topic: &String) -> Self {
        topic.as_str().into()
    }
}

impl<K, V> From<String> for TopicTarget<K, V> {
    fn from(topic: String) -> Self {
        TopicTarget::Fixed(topic.into())
    }
}

impl<K, V> Clone for TopicTarget<K, V> {
    fn clone(&self) -> Self {
        match self {
            TopicTarget::Fixed(topic) => TopicTarget::Fixed(topic.clone()),
            TopicTarget::Computed(extractor) => TopicTarget::Computed(extractor.clone()),
        }
    }
}

impl<K: 'static, V: 'static> fmt::Debug for TopicTarget<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TopicTarget::Fixed(topic) => f.debug_tuple("Fixed").field(topic).finish(),
            TopicTarget::Computed(extractor) => {
                f.debug_tuple("Computed").field(&extractor.name()).finish()
            }
        }
    }
}

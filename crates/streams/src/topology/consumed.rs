//! How a topic is read: serdes, timestamps, where to start.

use crate::serde::{DefaultSerde, OptionSerde, RawKey, SerdeRef};
use crate::task::{SourceRecord, TableTimestamps, TimestampExtractor};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Where to start on a partition without a committed offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AutoOffsetReset {
    /// At the first record that is still there.
    Earliest,
    /// After the last record.
    Latest,
    /// At the first record that is not older than this, by the wall clock; after the last record if all are older.
    ByDuration(Duration),
    /// Nowhere: a missing offset is an error.
    None,
}

/// Options of a source.
///
/// ```
/// use kstreams::prelude::*;
///
/// let by_type = Consumed::<String, i64>::new();
/// let null_keys = Consumed::<Option<String>, i64>::new();
/// let keys_do_not_matter = Consumed::values::<String>();
/// let event_time = Consumed::<String, i64>::new().timestamps(|record| *record.value);
/// ```
pub struct Consumed<K, V> {
    pub(crate) key: SerdeRef<K>,
    pub(crate) value: SerdeRef<V>,
    pub(crate) extractor: Option<Arc<dyn TimestampExtractor<K, V>>>,
    pub(crate) reset: Option<AutoOffsetReset>,
    pub(crate) name: Option<String>,
}

impl<K, V> Consumed<K, V> {
    /// With the types' own serdes.
    #[expect(clippy::new_without_default, reason = "options are made by name, as in Java")]
    pub fn new() -> Self
    where
        K: DefaultSerde,
        V: DefaultSerde,
    {
        Consumed::with(K::default_serde(), V::default_serde())
    }

    /// The same, for a source node of that name.
    pub fn named(name: impl Into<String>) -> Self
    where
        K: DefaultSerde,
        V: DefaultSerde,
    {
        Consumed::new().with_name(name)
    }
}

impl Consumed<(), ()> {
    /// For a topic whose keys do not matter: they are kept as they are.
    pub fn values<V: DefaultSerde>() -> Consumed<RawKey, V> {
        Consumed::new()
    }

    /// The same with a serde for the values.
    pub fn values_with<V>(value: SerdeRef<V>) -> Consumed<RawKey, V> {
        Consumed::with(RawKey::default_serde(), value)
    }
}

impl<K, V> Consumed<K, V> {
    /// With these serdes.
    pub fn with(key: SerdeRef<K>, value: SerdeRef<V>) -> Self {
        Consumed { key, value, extractor: None, reset: None, name: None }
    }

    /// The name of the source node.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Takes the time of a record from its content, in milliseconds since the epoch; negative: the record is dropped.
    #[must_use]
    pub fn timestamps<F>(self, timestamp: F) -> Self
    where
        F: Fn(&SourceRecord<'_, K, V>) -> i64 + Send + Sync + 'static,
    {
        self.timestamp_extractor(timestamp)
    }

    /// Takes the time of a record by an extractor.
    #[must_use]
    pub fn timestamp_extractor(mut self, extractor: impl TimestampExtractor<K, V>) -> Self {
        self.extractor = Some(Arc::new(extractor));
        self
    }

    /// Where to start on a partition without a committed offset; default: the setting `auto.offset.reset`.
    #[must_use]
    pub fn auto_offset_reset(mut self, reset: AutoOffsetReset) -> Self {
        self.reset = Some(reset);
        self
    }
}

impl<K: 'static, V: 'static> Consumed<K, V> {
    /// For a topic that is read as a table: null keys and null values come through.
    pub(crate) fn of_table(self) -> Consumed<Option<K>, Option<V>> {
        Consumed {
            key: Arc::new(OptionSerde::new(self.key)),
            value: Arc::new(OptionSerde::new(self.value)),
            extractor: self.extractor.map(|extractor| {
                Arc::new(TableTimestamps(extractor)) as Arc<dyn TimestampExtractor<_, _>>
            }),
            reset: self.reset,
            name: self.name,
        }
    }
}

impl<K, V> Clone for Consumed<K, V> {
    fn clone(&self) -> Self {
        Consumed {
            key: self.key.clone(),
            value: self.value.clone(),
            extractor: self.extractor.clone(),
            reset: self.reset,
            name: self.name.clone(),
        }
    }
}

impl<K, V> fmt::Debug for Consumed<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Consumed").field("name", &self.name).field("reset", &self.reset).finish()
    }
}

//! When a record happened: its own time, or one that is taken from its content.

use crate::error::BoxError;
use crate::record::Headers;
use std::sync::Arc;

/// A record as it was read, for a timestamp extractor.
#[derive(Debug)]
pub struct SourceRecord<'a, K, V> {
    /// The key.
    pub key: &'a K,
    /// The value.
    pub value: &'a V,
    /// The headers.
    pub headers: &'a Headers,
    /// The timestamp in the record, in milliseconds since the epoch; -1 if it has none.
    pub timestamp: i64,
    /// The topic.
    pub topic: &'a str,
    /// The partition.
    pub partition: i32,
    /// The offset.
    pub offset: i64,
    /// The wall clock in milliseconds since the epoch.
    pub wall_clock: i64,
}

impl<'a, K, V> SourceRecord<'a, K, V> {
    fn with<'b, K2, V2>(&self, key: &'b K2, value: &'b V2) -> SourceRecord<'b, K2, V2>
    where
        'a: 'b,
    {
        SourceRecord {
            key,
            value,
            headers: self.headers,
            timestamp: self.timestamp,
            topic: self.topic,
            partition: self.partition,
            offset: self.offset,
            wall_clock: self.wall_clock,
        }
    }
}

/// Tells the time of a record. Closures `|record| milliseconds` are extractors.
pub trait TimestampExtractor<K, V>: Send + Sync + 'static {
    /// The time of the record in milliseconds since the epoch; negative: the record is dropped. `partition_time` is the
    /// highest time seen on the partition so far, -1 at first.
    ///
    /// # Errors
    /// When the record must not be without a time: the task stops there.
    fn extract(
        &self,
        record: &SourceRecord<'_, K, V>,
        partition_time: i64,
    ) -> Result<i64, BoxError>;

    /// The time of a record that has no key or no value, in a topic that is read as a table: a deletion has no content to take
    /// the time from. The record's own timestamp unless said otherwise.
    ///
    /// # Errors
    /// As [`Self::extract`].
    fn extract_deletion(
        &self,
        record: &SourceRecord<'_, (), ()>,
        partition_time: i64,
    ) -> Result<i64, BoxError> {
        FailOnInvalidTimestamp.extract(record, partition_time)
    }
}

/// Reads the times of a topic that is read as a table, with the extractor for its keys and values.
pub(crate) struct TableTimestamps<K, V>(pub(crate) Arc<dyn TimestampExtractor<K, V>>);

impl<K: 'static, V: 'static> TimestampExtractor<Option<K>, Option<V>> for TableTimestamps<K, V> {
    fn extract(
        &self,
        record: &SourceRecord<'_, Option<K>, Option<V>>,
        partition_time: i64,
    ) -> Result<i64, BoxError> {
        match (record.key, record.value) {
            (Some(key), Some(value)) => self.0.extract(&record.with(key, value), partition_time),
            _ => self.0.extract_deletion(&record.with(&(), &()), partition_time),
        }
    }
}

impl<K, V, F> TimestampExtractor<K, V> for F
where
    F: Fn(&SourceRecord<'_, K, V>) -> i64 + Send + Sync + 'static,
{
    fn extract(&self, record: &SourceRecord<'_, K, V>, _: i64) -> Result<i64, BoxError> {
        Ok(self(record))
    }
}

/// The record's own timestamp; without one the task stops. The default.
#[derive(Debug, Clone, Copy, Default)]
pub struct FailOnInvalidTimestamp;

impl<K, V> TimestampExtractor<K, V> for FailOnInvalidTimestamp {
    fn extract(&self, record: &SourceRecord<'_, K, V>, _: i64) -> Result<i64, BoxError> {
        if record.timestamp >= 0 {
            return Ok(record.timestamp);
        }
        Err(format!(
            "the record has the invalid timestamp {}: an old producer may have written it; take another \
             timestamp extractor to drop such records or to give them a time",
            record.timestamp
        )
        .into())
    }
}

/// The record's own timestamp; records without one are dropped.
#[derive(Debug, Clone, Copy, Default)]
pub struct LogAndSkipOnInvalidTimestamp;

impl<K, V> TimestampExtractor<K, V> for LogAndSkipOnInvalidTimestamp {
    fn extract(&self, record: &SourceRecord<'_, K, V>, _: i64) -> Result<i64, BoxError> {
        Ok(record.timestamp)
    }

    fn extract_deletion(
        &self,
        record: &SourceRecord<'_, (), ()>,
        partition_time: i64,
    ) -> Result<i64, BoxError> {
        self.extract(record, partition_time)
    }
}

/// The record's own timestamp, else the highest seen on the partition so far.
#[derive(Debug, Clone, Copy, Default)]
pub struct UsePartitionTimeOnInvalidTimestamp;

impl<K, V> TimestampExtractor<K, V> for UsePartitionTimeOnInvalidTimestamp {
    fn extract(
        &self,
        record: &SourceRecord<'_, K, V>,
        partition_time: i64,
    ) -> Result<i64, BoxError> {
        if record.timestamp >= 0 {
            return Ok(record.timestamp);
        }
        if partition_time >= 0 {
            return Ok(partition_time);
        }
        Err("the record has no timestamp, and neither had one before it on its partition".into())
    }

    fn extract_deletion(
        &self,
        record: &SourceRecord<'_, (), ()>,
        partition_time: i64,
    ) -> Result<i64, BoxError> {
        self.extract(record, partition_time)
    }
}

/// The wall clock when the record is taken up.
#[derive(Debug, Clone, Copy, Default)]
pub struct WallclockTimestampExtractor;

impl<K, V> TimestampExtractor<K, V> for WallclockTimestampExtractor {
    fn extract(&self, record: &SourceRecord<'_, K, V>, _: i64) -> Result<i64, BoxError> {
        Ok(record.wall_clock)
    }

    fn extract_deletion(
        &self,
        record: &SourceRecord<'_, (), ()>,
        partition_time: i64,
    ) -> Result<i64, BoxError> {
        self.extract(record, partition_time)
    }
}

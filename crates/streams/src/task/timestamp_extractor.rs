//! When a record happened: its own time, or one that is taken from its content.

use crate::error::BoxError;
use crate::record::Headers;

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
}

/// The wall clock when the record is taken up.
#[derive(Debug, Clone, Copy, Default)]
pub struct WallclockTimestampExtractor;

impl<K, V> TimestampExtractor<K, V> for WallclockTimestampExtractor {
    fn extract(&self, record: &SourceRecord<'_, K, V>, _: i64) -> Result<i64, BoxError> {
        Ok(record.wall_clock)
    }
}

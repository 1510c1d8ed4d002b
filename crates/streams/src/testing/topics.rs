//! Typed ends of a test: topics to pipe records into, and topics to read results from.

use super::collector::ProducedRecord;
use super::driver::TopologyTestDriver;
use crate::error::{BoxError, Error, ErrorKind, Result};
use crate::record::Record;
use crate::serde::{At, SerdeRef, deserialize_nullable, serialize_nullable};
use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::time::Duration;

/// A topic that a test writes. It has a time of its own, which [`Self::pipe`] uses and `pipe_at` sets.
///
/// ```
/// use kstreams::prelude::*;
///
/// let builder = StreamsBuilder::new();
/// builder.stream("in", Consumed::<String, i64>::new()).to("out", Produced::new());
/// let mut driver = TopologyTestDriver::new(builder.build()?)?;
/// let mut input = driver.input::<String, i64>("in").start_at(1_000).advance_by(millis(10));
/// input.pipe_all(&mut driver, [("a", 1), ("b", 2)])?;
/// let times = driver.output::<String, i64>("out").read_all(&mut driver)?;
/// assert_eq!(times.iter().map(|record| record.timestamp).collect::<Vec<_>>(), [1_000, 1_010]);
/// # Ok::<(), kstreams::Error>(())
/// ```
pub struct TestInputTopic<K, V> {
    topic: String,
    key: SerdeRef<K>,
    value: SerdeRef<V>,
    time: i64,
    step: i64,
    partition: Option<i32>,
}

impl<K, V> fmt::Debug for TestInputTopic<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TestInputTopic").field(&self.topic).finish()
    }
}

impl<K: 'static, V: 'static> TestInputTopic<K, V> {
    pub(super) fn new(topic: &str, key: SerdeRef<K>, value: SerdeRef<V>) -> Self {
        TestInputTopic { topic: topic.into(), key, value, time: 0, step: 0, partition: None }
    }

    /// Sets the topic's time, in milliseconds since the epoch; 0 at first.
    #[must_use]
    pub fn start_at(mut self, time: i64) -> Self {
        self.time = time;
        self
    }

    /// How far the topic's time moves behind each record that [`Self::pipe`] gives it.
    #[must_use]
    pub fn advance_by(mut self, step: Duration) -> Self {
        self.step = i64::try_from(step.as_millis()).unwrap_or(i64::MAX);
        self
    }

    /// Writes to this partition, whatever the keys.
    #[must_use]
    pub fn partition(mut self, partition: i32) -> Self {
        self.partition = Some(partition);
        self
    }

    /// Pipes a key and a value at the topic's time.
    ///
    /// # Errors
    /// When the record cannot be serialized, and what processing reports.
    pub fn pipe(
        &mut self,
        driver: &mut TopologyTestDriver,
        key: impl Into<K>,
        value: impl Into<V>,
    ) -> Result<()> {
        let time = self.time;
        self.pipe_key_value_at(driver, time, key, value)?;
        self.time = time.saturating_add(self.step);
        Ok(())
    }

    /// As [`Self::pipe`] for each pair.
    ///
    /// # Errors
    /// As [`Self::pipe`]; what comes behind is not piped.
    pub fn pipe_all<KeyLike: Into<K>, ValueLike: Into<V>>(
        &mut self,
        driver: &mut TopologyTestDriver,
        pairs: impl IntoIterator<Item = (KeyLike, ValueLike)>,
    ) -> Result<()> {
        pairs.into_iter().try_for_each(|(key, value)| self.pipe(driver, key, value))
    }

    /// Pipes a key and a value at a time in milliseconds, which becomes the topic's time.
    ///
    /// # Errors
    /// As [`Self::pipe`].
    pub fn pipe_key_value_at(
        &mut self,
        driver: &mut TopologyTestDriver,
        time: i64,
        key: impl Into<K>,
        value: impl Into<V>,
    ) -> Result<()> {
        self.pipe_record(driver, Record::new(key.into(), value.into(), time))
    }

    /// Pipes a whole record; its time becomes the topic's time.
    ///
    /// # Errors
    /// As [`Self::pipe`].
    pub fn pipe_record(
        &mut self,
        driver: &mut TopologyTestDriver,
        record: Record<K, V>,
    ) -> Result<()> {
        self.time = record.timestamp;
        let at = |is_key| At { topic: &self.topic, headers: &record.headers, is_key };
        let (mut key, mut value) = (Vec::new(), Vec::new());
        let unwritable = |error| failed("write", &self.topic, error);
        let key = serialize_nullable(&*self.key, &at(true), &record.key, &mut key);
        let key = key.map_err(unwritable)?;
        let value = serialize_nullable(&*self.value, &at(false), &record.value, &mut value);
        let value = value.map_err(unwritable)?;
        match self.partition {
            None => driver.pipe_bytes(&self.topic, key, value, record.timestamp, &record.headers),
            Some(partition) => driver.pipe_produced(&ProducedRecord {
                topic: self.topic.clone(),
                partition,
                key: key.map(Bytes::copy_from_slice),
                value: value.map(Bytes::copy_from_slice),
                timestamp: record.timestamp,
                headers: record.headers,
            }),
        }
    }
}

impl<V: 'static> TestInputTopic<(), V> {
    /// Pipes a value without a key at a time in milliseconds, which becomes the topic's time.
    ///
    /// # Errors
    /// As [`Self::pipe`].
    pub fn pipe_at(
        &mut self,
        driver: &mut TopologyTestDriver,
        time: i64,
        value: impl Into<V>,
    ) -> Result<()> {
        self.pipe_key_value_at(driver, time, (), value)
    }
}

/// A topic that a test reads.
pub struct TestOutputTopic<K, V> {
    topic: String,
    key: SerdeRef<K>,
    value: SerdeRef<V>,
}

impl<K, V> fmt::Debug for TestOutputTopic<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TestOutputTopic").field(&self.topic).finish()
    }
}

impl<K: 'static, V: 'static> TestOutputTopic<K, V> {
    pub(super) fn new(topic: &str, key: SerdeRef<K>, value: SerdeRef<V>) -> Self {
        TestOutputTopic { topic: topic.into(), key, value }
    }

    /// How many records were not read yet.
    pub fn len(&self, driver: &TopologyTestDriver) -> usize {
        driver.outputs.get(&self.topic).map_or(0, VecDeque::len)
    }

    /// Whether all records were read.
    pub fn is_empty(&self, driver: &TopologyTestDriver) -> bool {
        self.len(driver) == 0
    }

    /// The next record that was not read yet.
    ///
    /// # Errors
    /// When its bytes are not a `K` and a `V`.
    pub fn read(&mut self, driver: &mut TopologyTestDriver) -> Result<Option<Record<K, V>>> {
        let record = driver.outputs.get_mut(&self.topic).and_then(VecDeque::pop_front);
        record.map(|record| self.typed(record)).transpose()
    }

    /// All records that were not read yet.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn read_all(&mut self, driver: &mut TopologyTestDriver) -> Result<Vec<Record<K, V>>> {
        driver.take_records(&self.topic).into_iter().map(|record| self.typed(record)).collect()
    }

    /// The values of all records that were not read yet.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn read_values(&mut self, driver: &mut TopologyTestDriver) -> Result<Vec<V>> {
        Ok(self.read_all(driver)?.into_iter().map(|record| record.value).collect())
    }

    /// The last value of each key among the records that were not read yet; a null value removes its key.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn read_table(&mut self, driver: &mut TopologyTestDriver) -> Result<BTreeMap<K, V>>
    where
        K: Ord,
    {
        let mut table = BTreeMap::new();
        for record in driver.take_records(&self.topic) {
            let deleted = record.value.is_none() && self.value.null().is_none();
            if deleted {
                table.remove(&self.key_of(&record)?);
            } else {
                let Record { key, value, .. } = self.typed(record)?;
                table.insert(key, value);
            }
        }
        Ok(table)
    }

    fn key_of(&self, record: &ProducedRecord) -> Result<K> {
        let at = At { topic: &self.topic, headers: &record.headers, is_key: true };
        let key = deserialize_nullable(&*self.key, &at, record.key.as_deref());
        key.map_err(|error| failed("read", &self.topic, error))
    }

    fn typed(&self, record: ProducedRecord) -> Result<Record<K, V>> {
        let key = self.key_of(&record)?;
        let at = At { topic: &self.topic, headers: &record.headers, is_key: false };
        let value = deserialize_nullable(&*self.value, &at, record.value.as_deref());
        let value = value.map_err(|error| failed("read", &self.topic, error))?;
        Ok(Record { key, value, timestamp: record.timestamp, headers: record.headers })
    }
}

fn failed(what: &str, topic: &str, error: BoxError) -> Error {
    Error::new(ErrorKind::BadRecord, format!("cannot {what} a record of topic {topic}"))
        .with_source(error)
}

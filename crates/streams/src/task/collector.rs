//! The way out of a task: records for topics, whoever carries them.

use crate::error::{Error, ErrorKind, Result};
use crate::handlers::DeadLetter;
use crate::record::Headers;

/// A topic that a collector knows, so that no record looks a name up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct TopicHandle(pub(crate) usize);

/// Where in its topic a record goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Placement {
    /// This partition.
    Partition(i32),
    /// The partition that the default partitioner gives to the key; without a key, any.
    ByKey,
}

/// A record for a topic, in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outgoing<'a> {
    pub(crate) timestamp: i64,
    pub(crate) key: Option<&'a [u8]>,
    pub(crate) value: Option<&'a [u8]>,
    pub(crate) headers: &'a Headers,
}

impl Outgoing<'_> {
    /// Bytes of key and value.
    pub(crate) fn sizes(&self) -> (usize, usize) {
        (self.key.map_or(0, <[u8]>::len), self.value.map_or(0, <[u8]>::len))
    }
}

/// Takes the records that tasks write: the producer's batches in a stream thread, a list in the test driver.
pub(crate) trait RecordCollector {
    /// The handle of a topic; the same for the same name.
    fn topic(&mut self, name: &str) -> TopicHandle;

    /// How many partitions the topic has.
    ///
    /// # Errors
    /// When it is not known.
    fn partitions(&mut self, topic: TopicHandle) -> Result<i32>;

    /// Appends a record.
    ///
    /// # Errors
    /// When the record can never be written (too large, no such partition), or when writing failed before.
    fn append(&mut self, topic: TopicHandle, placement: Placement, record: Outgoing) -> Result<()>;

    /// Asks to send soon what was appended, because memory is short.
    fn is_full(&self) -> bool {
        false
    }
}

/// For processors without a sink and without a producer: those of global stores, and those that are tested alone.
pub(crate) struct Nowhere;

impl RecordCollector for Nowhere {
    fn topic(&mut self, _: &str) -> TopicHandle {
        TopicHandle(0)
    }

    fn partitions(&mut self, _: TopicHandle) -> Result<i32> {
        Err(Error::new(ErrorKind::InvalidState, "there is no topic to write to"))
    }

    /// Only dead letters come here.
    fn append(&mut self, _: TopicHandle, _: Placement, _: Outgoing) -> Result<()> {
        tracing::warn!("dead letters of global tables are not written");
        Ok(())
    }
}

/// Appends a dead letter. That it cannot be written is nobody's to leave out.
pub(crate) fn send_dead_letter(
    collector: &mut dyn RecordCollector,
    letter: &DeadLetter,
) -> Result<()> {
    let DeadLetter { topic, partition, key, value, timestamp, headers } = letter;
    let handle = collector.topic(topic);
    let placement = partition.map_or(Placement::ByKey, Placement::Partition);
    let (timestamp, key, value) = (*timestamp, key.as_deref(), value.as_deref());
    let record = Outgoing { timestamp, key, value, headers };
    let sent = collector.append(handle, placement, record);
    sent.map_err(|error| error.context(format!("writing a dead letter to topic {topic}")))
}

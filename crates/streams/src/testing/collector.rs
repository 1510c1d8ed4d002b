//! Takes what tasks write, for the test to read.

use crate::error::Result;
use crate::record::Headers;
use crate::task::{Outgoing, Placement, RecordCollector, TopicHandle};
use bytes::Bytes;

/// A record that a task wrote, in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProducedRecord {
    /// The topic; internal ones have the application's prefix.
    pub topic: String,
    /// The key.
    pub key: Option<Bytes>,
    /// The value.
    pub value: Option<Bytes>,
    /// The timestamp in milliseconds since the epoch.
    pub timestamp: i64,
    /// The headers.
    pub headers: Headers,
}

/// Records in the order in which they were written.
#[derive(Debug, Default)]
pub(super) struct Recorder {
    topics: Vec<String>,
    pub(super) written: Vec<ProducedRecord>,
}

impl RecordCollector for Recorder {
    fn topic(&mut self, name: &str) -> TopicHandle {
        let known = self.topics.iter().position(|topic| topic == name);
        TopicHandle(known.unwrap_or_else(|| {
            self.topics.push(name.into());
            self.topics.len() - 1
        }))
    }

    fn partitions(&mut self, _: TopicHandle) -> Result<i32> {
        Ok(1)
    }

    fn append(&mut self, topic: TopicHandle, _: Placement, record: Outgoing) -> Result<()> {
        self.written.push(ProducedRecord {
            topic: self.topics[topic.0].clone(),
            key: record.key.map(Bytes::copy_from_slice),
            value: record.value.map(Bytes::copy_from_slice),
            timestamp: record.timestamp,
            headers: record.headers.clone(),
        });
        Ok(())
    }
}

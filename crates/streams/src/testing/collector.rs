//! Takes what tasks write, for the test to read.

use super::cluster::Cluster;
use crate::error::{Error, ErrorKind, Result};
use crate::record::Headers;
use crate::task::{Outgoing, Placement, RecordCollector, TopicHandle};
use bytes::Bytes;
use std::cell::RefCell;
use std::rc::Rc;

/// A record that a task wrote, in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProducedRecord {
    /// The topic; internal ones have the application's prefix.
    pub topic: String,
    /// The partition.
    pub partition: i32,
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
pub(super) struct Recorder {
    topics: Vec<String>,
    cluster: Rc<RefCell<Cluster>>,
    pub(super) written: Vec<ProducedRecord>,
}

impl Recorder {
    pub(super) fn new(cluster: Rc<RefCell<Cluster>>) -> Self {
        Recorder { topics: Vec::new(), cluster, written: Vec::new() }
    }

    /// The topic behind a handle.
    pub(super) fn name(&self, topic: TopicHandle) -> &str {
        &self.topics[topic.0]
    }
}

impl RecordCollector for Recorder {
    fn topic(&mut self, name: &str) -> TopicHandle {
        let known = self.topics.iter().position(|topic| topic == name);
        TopicHandle(known.unwrap_or_else(|| {
            self.topics.push(name.into());
            self.topics.len() - 1
        }))
    }

    fn partitions(&mut self, topic: TopicHandle) -> Result<i32> {
        Ok(self.cluster.borrow().partitions(self.name(topic)))
    }

    fn append(&mut self, topic: TopicHandle, placement: Placement, record: Outgoing) -> Result<()> {
        let name = self.topics[topic.0].clone();
        let partition = match placement {
            Placement::Partition(partition) => {
                let count = self.cluster.borrow().partitions(&name);
                if !(0..count).contains(&partition) {
                    let message =
                        format!("topic {name} has {count} partitions, none is {partition}");
                    return Err(Error::new(ErrorKind::BadRecord, message));
                }
                partition
            }
            Placement::ByKey => self.cluster.borrow_mut().partition_of(&name, record.key),
        };
        self.written.push(ProducedRecord {
            topic: name,
            partition,
            key: record.key.map(Bytes::copy_from_slice),
            value: record.value.map(Bytes::copy_from_slice),
            timestamp: record.timestamp,
            headers: record.headers.clone(),
        });
        Ok(())
    }
}

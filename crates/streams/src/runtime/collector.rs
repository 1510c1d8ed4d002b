//! The collector of a stream thread: records go straight into the producer's open batches.

use crate::error::{Error, ErrorKind, Result};
use crate::record::Headers;
use crate::task::{Outgoing, Placement, RecordCollector, TopicHandle, partition_for_key};
use bytes::Bytes;
use kstreams_client::{
    AppendError, Committed, CommittedOffset, Flushed, GroupMetadata, PartitionHandle, Pending,
    Producer, TopicPartition, TopicState,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// How long records may wait for a topic that the cluster does not have.
const MISSING_TOPIC: Duration = Duration::from_secs(10);

/// Takes the records of all tasks of a thread.
pub(super) struct ProducerCollector {
    producer: Producer,
    topics: Vec<Topic>,
    by_name: BTreeMap<Arc<str>, TopicHandle>,
    /// Topics whose metadata the client shall watch.
    unwatched: Vec<Arc<str>>,
    /// Bytes at which processing pauses.
    buffer_bytes: usize,
    /// Bytes of records that wait for metadata.
    deferred_bytes: usize,
    /// The time of records that have none.
    wall_clock: i64,
}

struct Topic {
    name: Arc<str>,
    partitions: Option<i32>,
    handles: Vec<Option<PartitionHandle>>,
    /// Records that wait until the number of partitions is known.
    deferred: Vec<Deferred>,
    missing_since: Option<Duration>,
    /// The partition for records without a key: another one for each batch would do, another one for each record spreads evenly.
    next: i32,
}

struct Deferred {
    key: Option<Bytes>,
    value: Option<Bytes>,
    timestamp: i64,
    headers: Headers,
}

impl ProducerCollector {
    pub(super) fn new(producer: Producer, buffer_bytes: usize) -> Self {
        let (topics, by_name, unwatched) = (Vec::new(), BTreeMap::new(), Vec::new());
        ProducerCollector {
            producer,
            topics,
            by_name,
            unwatched,
            buffer_bytes,
            deferred_bytes: 0,
            wall_clock: 0,
        }
    }

    /// Tells the time that records without one get.
    pub(super) fn set_wall_clock(&mut self, now: i64) {
        self.wall_clock = now;
    }

    /// The topics that were met since the last call.
    pub(super) fn take_unwatched(&mut self) -> Vec<Arc<str>> {
        std::mem::take(&mut self.unwatched)
    }

    /// Learns about a topic; what waited for it is sent.
    pub(super) fn learn(&mut self, name: &str, state: TopicState, now: Duration) -> Result<()> {
        let Some(&handle) = self.by_name.get(name) else { return Ok(()) };
        let topic = &mut self.topics[handle.0];
        match state {
            TopicState::Exists { partitions } => {
                topic.partitions = Some(partitions);
                topic.missing_since = None;
            }
            TopicState::Missing | TopicState::Unauthorized => {
                topic.missing_since.get_or_insert(now);
                return Ok(());
            }
        }
        for record in std::mem::take(&mut topic.deferred) {
            let Deferred { key, value, timestamp, headers } = &record;
            let (key, value) = (key.as_deref(), value.as_deref());
            self.deferred_bytes -= size(key, value);
            let record = Outgoing { timestamp: *timestamp, key, value, headers };
            self.append(handle, Placement::ByKey, record)?;
        }
        Ok(())
    }

    /// Sends batches that lingered long enough; gives when the next one will have.
    ///
    /// # Errors
    /// When records wait for a topic that the cluster does not have.
    pub(super) fn poll(&mut self, now: Duration) -> Result<Option<Duration>> {
        for topic in self.topics.iter().filter(|topic| !topic.deferred.is_empty()) {
            if topic.missing_since.is_some_and(|since| now - since > MISSING_TOPIC) {
                let message = format!(
                    "cannot write to topic {}: the cluster does not have it; create it, topics of users are never made here",
                    topic.name
                );
                return Err(Error::new(ErrorKind::Broker, message));
            }
        }
        Ok(self.producer.poll(now))
    }

    /// Whether the number of partitions is known of every topic that the cluster has.
    pub(super) fn knows_topics(&self) -> bool {
        let unknown = |topic: &Topic| topic.partitions.is_none() && topic.missing_since.is_none();
        !self.topics.iter().any(unknown)
    }

    /// Whether records still wait for metadata; a flush would miss them.
    pub(super) fn has_deferred(&self) -> bool {
        self.topics.iter().any(|topic| !topic.deferred.is_empty())
    }

    pub(super) fn flush(&mut self) -> Pending<Flushed> {
        self.producer.flush()
    }

    /// Commits the transaction with everything that was ever appended and with `offsets`.
    pub(super) fn commit(
        &mut self,
        offsets: BTreeMap<TopicPartition, CommittedOffset>,
        group: Option<GroupMetadata>,
    ) -> Pending<Committed> {
        self.producer.commit(offsets, group)
    }

    /// Goes on with another producer; the one before sends nothing more.
    pub(super) fn replace_producer(&mut self, producer: Producer) {
        std::mem::replace(&mut self.producer, producer).discard();
        for topic in &mut self.topics {
            topic.handles.clear();
        }
    }

    /// Forgets the records that wait for metadata: they are not part of a commit any more.
    pub(super) fn discard(&mut self) {
        for topic in &mut self.topics {
            topic.deferred.clear();
        }
        self.deferred_bytes = 0;
    }

    /// Aborts the transaction; a producer that is `fenced` starts anew instead.
    pub(super) fn undo(&mut self, fenced: bool) -> Pending<()> {
        if fenced { self.producer.init() } else { self.producer.abort() }
    }

    /// The producer's handle of a partition, if something was ever written to it.
    pub(super) fn written(&self, topic: TopicHandle, partition: i32) -> Option<PartitionHandle> {
        *self.topics.get(topic.0)?.handles.get(partition as usize)?
    }

    fn handle(&mut self, topic: TopicHandle, partition: i32) -> Result<PartitionHandle> {
        let known = &mut self.topics[topic.0];
        let place = usize::try_from(partition).ok();
        let place = place.filter(|_| known.partitions.is_none_or(|count| partition < count));
        let Some(place) = place else {
            let message = format!(
                "topic {} has no partition {partition}, only {}",
                known.name,
                known.partitions.unwrap_or_default()
            );
            return Err(Error::new(ErrorKind::Processing, message));
        };
        if known.handles.len() <= place {
            known.handles.resize(place + 1, None);
        }
        let (producer, name) = (&mut self.producer, &known.name);
        let handle = known.handles[place].get_or_insert_with(|| {
            producer.partition(&TopicPartition::new(name.clone(), partition))
        });
        Ok(*handle)
    }

    fn defer(&mut self, topic: TopicHandle, record: Outgoing) {
        self.deferred_bytes += size(record.key, record.value);
        self.topics[topic.0].deferred.push(Deferred {
            key: record.key.map(Bytes::copy_from_slice),
            value: record.value.map(Bytes::copy_from_slice),
            timestamp: record.timestamp,
            headers: record.headers.clone(),
        });
    }
}

fn size(key: Option<&[u8]>, value: Option<&[u8]>) -> usize {
    key.map_or(0, <[u8]>::len) + value.map_or(0, <[u8]>::len)
}

impl RecordCollector for ProducerCollector {
    fn topic(&mut self, name: &str) -> TopicHandle {
        if let Some(&handle) = self.by_name.get(name) {
            return handle;
        }
        let (handle, name) = (TopicHandle(self.topics.len()), Arc::<str>::from(name));
        self.topics.push(Topic {
            name: name.clone(),
            partitions: None,
            handles: Vec::new(),
            deferred: Vec::new(),
            missing_since: None,
            next: 0,
        });
        self.by_name.insert(name.clone(), handle);
        self.unwatched.push(name);
        handle
    }

    fn partitions(&mut self, topic: TopicHandle) -> Result<i32> {
        let topic = &self.topics[topic.0];
        topic.partitions.ok_or_else(|| {
            let message = format!(
                "the number of partitions of topic {} is not known yet, and its partitioner needs it",
                topic.name
            );
            Error::new(ErrorKind::Broker, message)
        })
    }

    fn append(&mut self, topic: TopicHandle, placement: Placement, record: Outgoing) -> Result<()> {
        let partition = match placement {
            Placement::Partition(partition) => partition,
            Placement::ByKey => {
                let known = &mut self.topics[topic.0];
                // A topic that was deleted may come back, with as many partitions or others.
                let partitions = known.partitions.filter(|_| known.missing_since.is_none());
                match (partitions, record.key) {
                    (None, _) => {
                        self.defer(topic, record);
                        return Ok(());
                    }
                    (Some(count), Some(key)) => partition_for_key(key, count),
                    (Some(count), None) => {
                        known.next = (known.next + 1) % count;
                        known.next
                    }
                }
            }
        };
        let handle = self.handle(topic, partition)?;
        let headers: Vec<(&str, Option<&[u8]>)> =
            record.headers.iter().map(|header| (&*header.name, header.value.as_deref())).collect();
        let Outgoing { timestamp, key, value, .. } = record;
        let timestamp = if timestamp < 0 { self.wall_clock } else { timestamp };
        let appended = self.producer.append(handle, timestamp, key, value, &headers);
        appended.map_err(|error: AppendError| {
            Error::new(ErrorKind::BadRecord, "cannot write a record")
                .with_source(error)
                .context(format!("topic {}, partition {partition}", self.topics[topic.0].name))
        })
    }

    fn is_full(&self) -> bool {
        self.producer.buffered_bytes() + self.deferred_bytes >= self.buffer_bytes
    }
}

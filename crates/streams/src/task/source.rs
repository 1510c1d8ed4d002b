//! The beginning of a record's way through a task: fetched batches of one partition, read record by record.
//!
//! Only the first record of a partition, its *head*, is deserialized: the task compares the heads' times to choose the next
//! record. So a bad record is met when it becomes the head; it is reported when its turn has come, after everything before it.

use super::timestamp_extractor::{
    FailOnInvalidTimestamp, LogAndSkipOnInvalidTimestamp, SourceRecord, TimestampExtractor,
    UsePartitionTimeOnInvalidTimestamp, WallclockTimestampExtractor,
};
use crate::error::{BoxError, Error, ErrorKind, Result};
use crate::handlers::{BadRecord, ErrorContext};
use crate::processor::{Failure, RawRecord, RawSource, TaskContext};
use crate::record::{Header, Headers, Record, RecordMetadata};
use crate::serde::{At, SerdeRef, deserialize_nullable};
use crate::topology::Consumed;
use crate::topology::erased::{Fault, Output, SourceFactory, catch_panic};
use kstreams_protocol::batch::{BatchError, HeadersRef, RecordReader, RecordRef};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

/// A source in a task: makes the queue of each partition that it reads.
pub(crate) trait SourceNode {
    fn input(
        &self,
        topic: Rc<str>,
        partition: i32,
        settings: &SourceSettings,
    ) -> Box<dyn InputPartition>;
}

/// What the configuration says about reading.
#[derive(Debug, Clone)]
pub(crate) struct SourceSettings {
    pub(crate) timestamps: DefaultTimestamps,
}

/// The setting `default.timestamp.extractor`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DefaultTimestamps {
    FailOnInvalid,
    LogAndSkipOnInvalid,
    UsePartitionTimeOnInvalid,
    Wallclock,
}

impl DefaultTimestamps {
    fn extractor<K, V>(self) -> Arc<dyn TimestampExtractor<K, V>> {
        match self {
            DefaultTimestamps::FailOnInvalid => Arc::new(FailOnInvalidTimestamp),
            DefaultTimestamps::LogAndSkipOnInvalid => Arc::new(LogAndSkipOnInvalidTimestamp),
            DefaultTimestamps::UsePartitionTimeOnInvalid => {
                Arc::new(UsePartitionTimeOnInvalidTimestamp)
            }
            DefaultTimestamps::Wallclock => Arc::new(WallclockTimestampExtractor),
        }
    }
}

/// The records of one partition that wait for their turn.
pub(crate) trait InputPartition {
    fn topic(&self) -> &Rc<str>;
    fn partition(&self) -> i32;

    /// Where reading begins, and the time that the partition had reached there.
    fn start_at(&mut self, offset: i64, partition_time: i64);

    /// Adds fetched records; `next_offset` is where the next fetch begins, also when nothing was in between.
    fn add(&mut self, batches: Vec<RecordReader>, next_offset: i64);

    /// The time of the head. A head that cannot be read comes before everything else.
    fn head_time(&self) -> Option<i64>;

    /// Sends the head to the children.
    fn process_head(&mut self) -> Result<(), Fault>;

    /// The offset up to which everything is processed, and the leader epoch of the last batch.
    fn position(&self) -> (i64, i32);

    /// The highest time of a processed record, -1 at first.
    fn partition_time(&self) -> i64;
}

struct Source<K, V> {
    name: Arc<str>,
    task: Rc<TaskContext>,
    key: SerdeRef<K>,
    value: SerdeRef<V>,
    extractor: Option<Arc<dyn TimestampExtractor<K, V>>>,
    out: Rc<Output<K, V>>,
}

/// The factory of a source.
pub(crate) fn source<K, V>(consumed: Consumed<K, V>) -> SourceFactory
where
    K: Clone + 'static,
    V: Clone + 'static,
{
    Arc::new(move |wiring| {
        Ok(Box::new(Source {
            name: wiring.name().clone(),
            task: wiring.task().clone(),
            key: consumed.key.clone(),
            value: consumed.value.clone(),
            extractor: consumed.extractor.clone(),
            out: Rc::new(wiring.output()?),
        }))
    })
}

impl<K: Clone + 'static, V: Clone + 'static> SourceNode for Source<K, V> {
    fn input(
        &self,
        topic: Rc<str>,
        partition: i32,
        settings: &SourceSettings,
    ) -> Box<dyn InputPartition> {
        Box::new(Input {
            queue: Rc::default(),
            head: None,
            position: (-1, -1),
            next_offset: -1,
            partition_time: -1,
            reader: Reader {
                operator: self.name.clone(),
                topic,
                partition,
                task: self.task.clone(),
                key: self.key.clone(),
                value: self.value.clone(),
                extractor: self
                    .extractor
                    .clone()
                    .unwrap_or_else(|| settings.timestamps.extractor()),
                step: Cell::new(Step::Key),
            },
            out: self.out.clone(),
        })
    }
}

/// Fetched batches. The first one has given the record in hand.
#[derive(Default)]
struct Queue(RefCell<VecDeque<RecordReader>>);

impl RawSource for Queue {
    fn raw(&self, offset: i64) -> Option<RawRecord> {
        let queue = self.0.borrow();
        let record = queue.front()?.last_record().filter(|record| record.offset == offset)?;
        Some(owned(&record))
    }
}

#[cold]
fn owned(record: &RecordRef<'_>) -> RawRecord {
    RawRecord {
        key: record.key.map(Into::into),
        value: record.value.map(Into::into),
        timestamp: record.timestamp,
        headers: read_headers(&record.headers),
    }
}

/// What of a record is being read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Key,
    Value,
    Time,
}

struct Input<K, V> {
    queue: Rc<Queue>,
    /// The next record, or why it cannot be read. Its offset is the position.
    head: Option<Result<Record<K, V>, Box<Failure>>>,
    position: (i64, i32),
    next_offset: i64,
    partition_time: i64,
    reader: Reader<K, V>,
    out: Rc<Output<K, V>>,
}

impl<K: Clone + 'static, V: Clone + 'static> InputPartition for Input<K, V> {
    fn topic(&self) -> &Rc<str> {
        &self.reader.topic
    }

    fn partition(&self) -> i32 {
        self.reader.partition
    }

    fn start_at(&mut self, offset: i64, partition_time: i64) {
        self.position = (offset, -1);
        self.next_offset = offset;
        self.partition_time = self.partition_time.max(partition_time);
        self.reader.task.reach(partition_time);
    }

    fn add(&mut self, batches: Vec<RecordReader>, next_offset: i64) {
        self.queue.0.borrow_mut().extend(batches);
        self.next_offset = next_offset;
        if self.head.is_none() {
            self.advance();
        }
    }

    fn head_time(&self) -> Option<i64> {
        match self.head.as_ref()? {
            Ok(record) => Some(record.timestamp),
            Err(_) => Some(i64::MIN),
        }
    }

    fn process_head(&mut self) -> Result<(), Fault> {
        let task = &self.reader.task;
        match self.head.take() {
            None => return Ok(()),
            Some(Err(failure)) => return Err(task.failures.keep(*failure)),
            Some(Ok(record)) => {
                let (offset, _) = self.position;
                task.enter_source(&self.reader.topic, self.reader.partition, &self.queue);
                task.enter_record(offset, record.timestamp);
                self.partition_time = self.partition_time.max(record.timestamp);
                self.out.send(record)?;
            }
        }
        self.advance();
        Ok(())
    }

    fn position(&self) -> (i64, i32) {
        self.position
    }

    fn partition_time(&self) -> i64 {
        self.partition_time
    }
}

impl<K: 'static, V: 'static> Input<K, V> {
    /// Reads on to the next record that counts. Serdes and timestamp extractors are user code: they may panic.
    fn advance(&mut self) {
        while let Err(panic) = catch_panic(|| self.read_on()) {
            if let Some(failure) = self.panicked(panic) {
                self.head = Some(Err(failure));
                return;
            }
        }
    }

    /// A record could not be read for a panic; `None` if it is left out.
    #[cold]
    fn panicked(&self, panic: Error) -> Option<Box<Failure>> {
        let offset = self.position.0;
        let raw = self.queue.raw(offset);
        match (self.reader.step.get(), raw) {
            (step @ (Step::Key | Step::Value), Some(raw)) => {
                self.reader.bad(&raw, offset, step == Step::Key, panic.into())
            }
            _ => Some(self.reader.failure(panic.context(self.reader.place(offset)), offset)),
        }
    }

    fn read_on(&mut self) {
        let mut queue = self.queue.0.borrow_mut();
        while let Some(batch) = queue.front_mut() {
            let epoch = batch.leader_epoch();
            match batch.next_record() {
                Ok(Some(raw)) => {
                    self.position = (raw.offset, epoch);
                    self.head = self.reader.read(&raw, self.partition_time);
                    if self.head.is_some() {
                        return;
                    }
                }
                Ok(None) => {
                    self.position = (batch.next_offset(), epoch);
                    queue.pop_front();
                }
                Err(error) => {
                    let error = self.reader.damaged(error);
                    self.head = Some(Err(self.reader.failure(error, self.position.0)));
                    return;
                }
            }
        }
        self.position.0 = self.position.0.max(self.next_offset);
    }
}

/// Turns raw records of one partition into typed ones.
struct Reader<K, V> {
    operator: Arc<str>,
    topic: Rc<str>,
    partition: i32,
    task: Rc<TaskContext>,
    key: SerdeRef<K>,
    value: SerdeRef<V>,
    extractor: Arc<dyn TimestampExtractor<K, V>>,
    step: Cell<Step>,
}

type Read<T> = Result<T, Box<Failure>>;

impl<K: 'static, V: 'static> Reader<K, V> {
    /// The record; `None` if it is left out.
    fn read(&self, raw: &RecordRef<'_>, partition_time: i64) -> Option<Read<Record<K, V>>> {
        let headers = read_headers(&raw.headers);
        let at = |is_key| At { topic: &self.topic, headers: &headers, is_key };
        self.step.set(Step::Key);
        let key = match deserialize_nullable(&*self.key, &at(true), raw.key) {
            Ok(key) => key,
            Err(error) => return self.bad(&owned(raw), raw.offset, true, error).map(Err),
        };
        self.step.set(Step::Value);
        let value = match deserialize_nullable(&*self.value, &at(false), raw.value) {
            Ok(value) => value,
            Err(error) => return self.bad(&owned(raw), raw.offset, false, error).map(Err),
        };
        self.step.set(Step::Time);
        let timestamp = match self.timestamp(raw, &key, &value, &headers, partition_time) {
            Ok(timestamp) => timestamp,
            Err(error) => return Some(Err(self.failure(error, raw.offset))),
        };
        if timestamp < 0 {
            let (task, offset) = (&self.task, raw.offset);
            let reason = "its extracted timestamp is negative";
            task.drop_record_at("source", &self.topic, self.partition, offset, reason);
            return None;
        }
        Some(Ok(Record { key, value, timestamp, headers }))
    }

    fn timestamp(
        &self,
        raw: &RecordRef<'_>,
        key: &K,
        value: &V,
        headers: &Headers,
        partition_time: i64,
    ) -> Result<i64> {
        let record = SourceRecord {
            key,
            value,
            headers,
            timestamp: raw.timestamp,
            topic: &self.topic,
            partition: self.partition,
            offset: raw.offset,
            wall_clock: self.task.wall_clock(),
        };
        self.extractor.extract(&record, partition_time).map_err(|error| {
            Error::new(ErrorKind::BadRecord, "cannot tell the time of a record")
                .with_source(error)
                .context(self.place(raw.offset))
        })
    }

    /// Asks the handler about a record that cannot be read; `None` if it is left out.
    #[cold]
    fn bad(
        &self,
        raw: &RawRecord,
        offset: i64,
        is_key: bool,
        error: BoxError,
    ) -> Option<Box<Failure>> {
        let policy = self.task.failures.policy();
        let context = ErrorContext {
            task: self.task.task_id,
            operator: &self.operator,
            metadata: Some(self.metadata(offset)),
            timestamp: raw.timestamp,
            headers: &raw.headers,
            key: raw.key.as_deref(),
            value: raw.value.as_deref(),
            dead_letters: policy.dead_letters.as_deref(),
            kind: ErrorKind::BadRecord,
        };
        match policy.unreadable(BadRecord { context, is_key }, error) {
            Ok(letters) => {
                self.task.failures.leave(letters);
                self.task.count_dropped();
                None
            }
            Err((error, dead_letters)) => {
                let place = Some(self.metadata(offset));
                Some(Box::new(Failure { error, place, dead_letters }))
            }
        }
    }

    fn failure(&self, error: Error, offset: i64) -> Box<Failure> {
        let place = Some(self.metadata(offset));
        Box::new(Failure { error, place, dead_letters: Vec::new() })
    }

    fn metadata(&self, offset: i64) -> RecordMetadata {
        RecordMetadata { topic: self.topic.clone(), partition: self.partition, offset }
    }

    fn damaged(&self, error: BatchError) -> Error {
        Error::new(ErrorKind::Broker, "a fetched batch is damaged")
            .with_source(error)
            .context(format!("topic {}, partition {}", self.topic, self.partition))
    }

    fn place(&self, offset: i64) -> String {
        format!("topic {}, partition {}, offset {offset}", self.topic, self.partition)
    }
}

pub(crate) fn read_headers(headers: &HeadersRef<'_>) -> Headers {
    if headers.is_empty() {
        return Headers::new();
    }
    headers
        .iter()
        .map(|(name, value)| Header {
            name: String::from_utf8_lossy(name).into(),
            value: value.map(Into::into),
        })
        .collect()
}

//! The topics of a test, as brokers would have them: partitions, offsets, and what has to be read again after a crash.

use crate::error::{Error, ErrorKind, Result};
use crate::record::Headers;
use crate::task::{CommitOffset, partition_for_key};
use crate::testing::ProducedRecord;
use bytes::Bytes;
use kstreams_protocol::batch::{Batch, BatchHead, BatchWriter, RecordReader, batches};
use std::collections::{BTreeMap, BTreeSet};

/// A partition of a topic.
pub(super) type Place = (String, i32);

/// One partition.
#[derive(Default)]
struct Log {
    end: i64,
    /// What may have to be read again, with offsets.
    kept: Vec<(i64, RecordReader)>,
}

pub(super) struct Cluster {
    partitions: i32,
    /// Topics that have another number of partitions.
    sized: BTreeMap<String, i32>,
    /// Topics from which stores are restored: they are kept whole.
    changelogs: BTreeSet<String>,
    logs: BTreeMap<Place, Log>,
    committed: BTreeMap<Place, CommitOffset>,
    /// Where the next record without a key goes.
    turn: i32,
}

impl Cluster {
    pub(super) fn new(
        partitions: i32,
        sized: BTreeMap<String, i32>,
        changelogs: BTreeSet<String>,
    ) -> Self {
        let (logs, committed) = (BTreeMap::new(), BTreeMap::new());
        Cluster { partitions, sized, changelogs, logs, committed, turn: 0 }
    }

    /// How many partitions a topic has.
    pub(super) fn partitions(&self, topic: &str) -> i32 {
        self.sized.get(topic).copied().unwrap_or(self.partitions)
    }

    /// The partition of a record: by its key as producers do, in turns without one.
    pub(super) fn partition_of(&mut self, topic: &str, key: Option<&[u8]>) -> i32 {
        let count = self.partitions(topic);
        match key {
            Some(key) => partition_for_key(key, count),
            None => {
                self.turn += 1;
                (self.turn - 1) % count
            }
        }
    }

    /// Appends a record; gives it as it would be fetched, and the offset behind it.
    pub(super) fn append(&mut self, record: &ProducedRecord) -> Result<(RecordReader, i64)> {
        let log = self.logs.entry((record.topic.clone(), record.partition)).or_default();
        let offset = log.end;
        let batch = one_record(offset, record)?;
        log.end += 1;
        log.kept.push((offset, batch.clone()));
        Ok((batch, log.end))
    }

    /// The offset behind the last record.
    pub(super) fn end(&self, topic: &str, partition: i32) -> Option<i64> {
        self.logs.get(&(topic.to_string(), partition)).map(|log| log.end)
    }

    /// A store of an earlier driver has been so far.
    pub(super) fn reach(&mut self, topic: &str, partition: i32, offset: i64) {
        let log = self.logs.entry((topic.to_string(), partition)).or_default();
        log.end = log.end.max(offset);
    }

    /// The records from an offset on.
    pub(super) fn read(&self, topic: &str, partition: i32, from: i64) -> Vec<RecordReader> {
        let log = self.logs.get(&(topic.to_string(), partition));
        let kept = log.map_or(&[][..], |log| &log.kept);
        kept.iter().filter(|(offset, _)| *offset >= from).map(|(_, batch)| batch.clone()).collect()
    }

    /// A task has processed its input up to there. What lies before is not read again, unless a store comes from it.
    pub(super) fn commit(&mut self, offset: CommitOffset) {
        let place = (offset.topic.to_string(), offset.partition);
        if let Some(log) = self.logs.get_mut(&place)
            && !self.changelogs.contains(&place.0)
        {
            log.kept.retain(|(kept, _)| *kept >= offset.offset);
        }
        self.committed.insert(place, offset);
    }

    pub(super) fn committed(&self, topic: &str, partition: i32) -> Option<&CommitOffset> {
        self.committed.get(&(topic.to_string(), partition))
    }

    /// Whether stores are restored from a topic.
    pub(super) fn is_changelog(&self, topic: &str) -> bool {
        self.changelogs.contains(topic)
    }
}

/// A record as it would be fetched.
fn one_record(offset: i64, record: &ProducedRecord) -> Result<RecordReader> {
    let failed =
        |error| Error::new(ErrorKind::BadRecord, "cannot write a test record").with_source(error);
    let ProducedRecord { key, value, timestamp, headers, .. } = record;
    let mut writer = BatchWriter::new();
    writer.append(*timestamp, key.as_deref(), value.as_deref(), &pairs(headers));
    let mut bytes = writer.seal(&BatchHead::default()).map_err(failed)?.to_vec();
    bytes[..8].copy_from_slice(&offset.to_be_bytes());
    let Some(batch) = batches(&Bytes::from(bytes)).next() else {
        return Err(Error::new(ErrorKind::BadRecord, "a test record makes no batch"));
    };
    batch.and_then(Batch::into_records).map_err(failed)
}

fn pairs(headers: &Headers) -> Vec<(&str, Option<&[u8]>)> {
    headers.iter().map(|header| (&*header.name, header.value.as_deref())).collect()
}

//! A partition's log: record batches by offset, the producers that wrote them, and what is open or
//! aborted of transactions. Java: `UnifiedLog`.
//!
//! ```text
//!   log start offset          last stable offset      end = high watermark (one replica)
//!         |  segment | segment | segment (open)  |          |
//! ```

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::io;
use std::path::PathBuf;

use bytes::Bytes;
use kstreams_protocol::ResponseError;
use kstreams_protocol::batch::{Batch, ControlType, set_appended};

use crate::error::Refusal;
use crate::producer_state::{ProducerStates, Verdict};
use crate::segment::{Placed, Segment, base_offset_of};
use crate::txn::ProducerEpoch;

/// The one leader epoch that there is.
pub(crate) const LEADER_EPOCH: i32 = 0;

/// The log of one partition.
#[derive(Debug)]
pub(crate) struct PartitionLog {
    pub(crate) producers: ProducerStates,
    pub(super) segments: VecDeque<Segment>,
    directory: Option<PathBuf>,
    start_offset: i64,
    end_offset: i64,
    /// Producers with an open transaction and its first offset here.
    open: BTreeMap<i64, i64>,
    pub(super) aborted: Vec<Aborted>,
}

/// An aborted transaction: readers of committed records skip what its producer wrote in between.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Aborted {
    pub(crate) producer_id: i64,
    pub(crate) first_offset: i64,
    pub(crate) last_offset: i64,
}

/// Where an append went.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Appended {
    pub(crate) base_offset: i64,
    /// The broker's time, if the topic's timestamps are the broker's; else -1.
    pub(crate) append_time: i64,
    pub(crate) duplicate: bool,
}

/// What bounds a log's segments and stamps its records.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AppendRules {
    pub(crate) segment_bytes: usize,
    pub(crate) segment_ms: i64,
    pub(crate) log_append_time: bool,
    pub(crate) now: i64,
}

impl PartitionLog {
    /// An empty log, or the one that lies in `directory`.
    pub(crate) fn open(
        directory: Option<PathBuf>,
        start_offset: i64,
        now: i64,
    ) -> io::Result<Self> {
        let mut log = Self {
            producers: ProducerStates::default(),
            segments: VecDeque::new(),
            directory,
            start_offset,
            end_offset: start_offset,
            open: BTreeMap::new(),
            aborted: Vec::new(),
        };
        let mut paths = Vec::new();
        if let Some(directory) = &log.directory {
            fs::create_dir_all(directory)?;
            for entry in fs::read_dir(directory)? {
                paths.push(entry?.path());
            }
        }
        paths.retain(|path| base_offset_of(path).is_some());
        paths.sort();
        for path in paths {
            let segment = Segment::open(path, now, |batch| log.note(batch))?;
            log.end_offset = log.end_offset.max(segment.base_offset);
            log.segments.push_back(segment);
        }
        if let Some(first) = log.segments.front() {
            log.start_offset = log.start_offset.max(first.base_offset);
        }
        log.drop_before(log.start_offset)?;
        Ok(log)
    }

    pub(crate) fn start_offset(&self) -> i64 {
        self.start_offset
    }

    /// The offset of the next record; with one replica also the high watermark.
    pub(crate) fn end_offset(&self) -> i64 {
        self.end_offset
    }

    /// Where readers of committed records must stop.
    pub(crate) fn last_stable_offset(&self) -> i64 {
        self.open.values().copied().min().unwrap_or(self.end_offset)
    }

    /// The first offset of a producer's open transaction.
    pub(crate) fn open_transaction(&self, producer_id: i64) -> Option<i64> {
        self.open.get(&producer_id).copied()
    }

    /// Whether the producer has a transaction open here under its epoch.
    pub(crate) fn has_open_transaction(&self, (id, epoch): ProducerEpoch) -> bool {
        self.open.contains_key(&id) && self.producers.epoch_of(id) == Some(epoch)
    }

    pub(crate) fn expire_producers(&mut self, before: i64) {
        let open = &self.open;
        self.producers.expire(before, |id| open.contains_key(&id));
    }

    /// Aborted transactions that a reader of `from..to` must know.
    pub(crate) fn aborted(&self, from: i64, to: i64) -> Vec<Aborted> {
        let touches = |a: &&Aborted| a.last_offset >= from && a.first_offset < to;
        self.aborted.iter().filter(touches).copied().collect()
    }

    /// Appends one batch, unless it is there already.
    pub(crate) fn append(
        &mut self,
        batch: &Batch,
        rules: AppendRules,
    ) -> Result<Appended, Refusal> {
        let append_time = if rules.log_append_time { rules.now } else { -1 };
        if !batch.is_transactional() && self.open.contains_key(&batch.producer_id()) {
            let message =
                format!("Expected transactional write from producer {}", batch.producer_id());
            return Err(Refusal::new(ResponseError::InvalidTxnState, message));
        }
        if !batch.is_control()
            && let Verdict::Duplicate { base_offset, timestamp } = self.producers.check(batch)?
        {
            let append_time = if rules.log_append_time { timestamp } else { -1 };
            return Ok(Appended { base_offset, append_time, duplicate: true });
        }
        let base_offset = self.end_offset;
        let mut bytes = bytes::BytesMut::from(&batch.bytes()[..]);
        set_appended(
            &mut bytes,
            base_offset,
            LEADER_EPOCH,
            rules.log_append_time.then_some(rules.now),
        )
        .and_then(|()| Batch::new(bytes.freeze()))
        .map_err(|error| Refusal::new(ResponseError::InvalidRecord, error.to_string()))
        .and_then(|batch| {
            self.write(&batch, rules).map_err(|error| {
                tracing::error!(%error, "a batch could not be written");
                Refusal::new(ResponseError::KafkaStorageError, error.to_string())
            })
        })?;
        Ok(Appended { base_offset, append_time, duplicate: false })
    }

    fn write(&mut self, batch: &Batch, rules: AppendRules) -> io::Result<()> {
        let roll = self.segments.back().is_none_or(|last| {
            last.is_full(batch.bytes().len(), rules.segment_bytes)
                || (last.size() > 0 && rules.now - last.created >= rules.segment_ms)
        });
        if roll {
            self.roll(rules.now)?;
        }
        if let Some(segment) = self.segments.back_mut() {
            segment.append(batch)?;
        }
        self.note(batch);
        Ok(())
    }

    /// Begins a new segment.
    pub(crate) fn roll(&mut self, now: i64) -> io::Result<()> {
        if let Some(last) = self.segments.back_mut() {
            last.seal();
        }
        self.segments.push_back(Segment::create(self.directory.as_deref(), self.end_offset, now)?);
        Ok(())
    }

    /// Keeps offsets, producers and transactions in step with a batch of the log.
    fn note(&mut self, batch: &Batch) {
        self.end_offset = batch.next_offset();
        self.producers.appended(batch);
        if !batch.is_transactional() {
            return;
        }
        let producer_id = batch.producer_id();
        if !batch.is_control() {
            self.open.entry(producer_id).or_insert(batch.base_offset());
            return;
        }
        let first = self.open.remove(&producer_id);
        if let (Some(first_offset), Some(ControlType::Abort)) = (first, control_type(batch)) {
            let last_offset = batch.last_offset();
            self.aborted.push(Aborted { producer_id, first_offset, last_offset });
        }
    }

    /// Batches from `offset` on that begin before `limit`, from one segment.
    pub(crate) fn read(
        &mut self,
        offset: i64,
        limit: i64,
        max_bytes: usize,
        at_least_one: bool,
    ) -> io::Result<Bytes> {
        let mut at = self.segment_of(offset);
        // Compaction may have emptied the end of a segment: the next batch is in the next one.
        while let Some(segment) = self.segments.get_mut(at) {
            if segment.next_offset().is_some_and(|next| next > offset) {
                return segment.read(offset, limit, max_bytes, at_least_one);
            }
            at += 1;
        }
        Ok(Bytes::new())
    }

    /// Bytes that a reader of `offset` could get, without reading them.
    pub(crate) fn available(&self, offset: i64, limit: i64) -> usize {
        if offset >= limit {
            return 0;
        }
        let at = self.segment_of(offset);
        self.segments.iter().skip(at).map(|segment| segment.size_from(offset)).sum()
    }

    fn segment_of(&self, offset: i64) -> usize {
        self.segments.partition_point(|segment| segment.base_offset <= offset).saturating_sub(1)
    }

    /// The first record at or after `timestamp`, as (offset, timestamp).
    pub(crate) fn offset_for_time(&mut self, timestamp: i64) -> io::Result<Option<(i64, i64)>> {
        let start = self.start_offset;
        self.first_record(
            |batch| batch.max_timestamp >= timestamp,
            |offset, time| time >= timestamp && offset >= start,
        )
    }

    /// The record with the largest timestamp, as (offset, timestamp).
    pub(crate) fn offset_of_max_time(&mut self) -> io::Result<Option<(i64, i64)>> {
        let start = self.start_offset;
        let held = self.segments.iter().flat_map(Segment::batches);
        let Some(max) = held.filter(|b| b.last_offset >= start).map(|b| b.max_timestamp).max()
        else {
            return Ok(None);
        };
        self.first_record(|b| b.max_timestamp == max, |offset, time| time == max && offset >= start)
    }

    fn first_record(
        &mut self,
        in_batch: impl Fn(&Placed) -> bool,
        wanted: impl Fn(i64, i64) -> bool,
    ) -> io::Result<Option<(i64, i64)>> {
        for segment in &mut self.segments {
            let matching: Vec<Placed> =
                segment.batches().iter().filter(|batch| in_batch(batch)).copied().collect();
            for placed in matching {
                let batch = segment.read_batch(placed)?;
                let invalid = |error| io::Error::new(io::ErrorKind::InvalidData, error);
                let mut records = batch.into_records().map_err(invalid)?;
                while let Some(record) = records.next_record().map_err(invalid)? {
                    if wanted(record.offset, record.timestamp) {
                        return Ok(Some((record.offset, record.timestamp)));
                    }
                }
            }
        }
        Ok(None)
    }

    /// All batches that hold an offset from the log start on.
    pub(crate) fn all_batches(&mut self) -> io::Result<Vec<Batch>> {
        let start = self.start_offset;
        let mut all = Vec::new();
        for segment in &mut self.segments {
            let held: Vec<Placed> = segment.batches().to_vec();
            for placed in held.into_iter().filter(|placed| placed.last_offset >= start) {
                all.push(segment.read_batch(placed)?);
            }
        }
        Ok(all)
    }

    pub(crate) fn size(&self) -> usize {
        self.segments.iter().map(Segment::size).sum()
    }

    /// Makes `offset` the first that can be read.
    pub(crate) fn delete_before(&mut self, offset: i64) -> io::Result<()> {
        self.start_offset = self.start_offset.max(offset.min(self.end_offset));
        self.drop_before(self.start_offset)
    }

    /// Drops segments that hold nothing from `offset` on; never the last one.
    fn drop_before(&mut self, offset: i64) -> io::Result<()> {
        while self.segments.len() > 1
            && self.segments.get(1).is_some_and(|next| next.base_offset <= offset)
        {
            self.drop_first()?;
        }
        self.aborted.retain(|aborted| aborted.last_offset >= offset);
        Ok(())
    }

    fn drop_first(&mut self) -> io::Result<()> {
        self.segments.pop_front().map_or(Ok(()), Segment::delete)
    }

    /// Drops the oldest segments that are too old or too many; negative bounds keep all. Says
    /// whether the log start moved.
    pub(crate) fn retain(
        &mut self,
        retention_ms: i64,
        retention_bytes: i64,
        now: i64,
    ) -> io::Result<bool> {
        let before = self.start_offset;
        loop {
            let stable = self.last_stable_offset();
            let Some(first) = self.segments.front() else { break };
            let Some(next) = first.next_offset() else { break };
            let newest = first.max_timestamp().unwrap_or(now);
            let too_old = retention_ms >= 0 && now - newest > retention_ms;
            let rest = (self.size() - first.size()) as i64;
            let too_many =
                retention_bytes >= 0 && rest >= retention_bytes && self.segments.len() > 1;
            if next > stable || !(too_old || too_many) {
                break;
            }
            if self.segments.len() == 1 {
                self.roll(now)?;
            }
            self.delete_before(next)?;
        }
        Ok(self.start_offset > before)
    }

    /// Removes all files of the log.
    pub(crate) fn delete(self) -> io::Result<()> {
        let directory = self.directory.clone();
        drop(self);
        directory.map_or(Ok(()), fs::remove_dir_all)
    }
}

fn control_type(batch: &Batch) -> Option<ControlType> {
    let mut records = batch.clone().into_records().ok()?;
    let record = records.next_record().ok()??;
    ControlType::from_key(record.key?)
}

//! Cleaning of compacted partitions: of each key the last record stays, and a tombstone goes when
//! it has been seen by a cleaning longer than `delete.retention.ms` ago. Java: `Cleaner`.
//!
//! Offsets stay what they are. A batch that loses records is written again as one batch for each
//! run of records that stay, so the gaps lie between batches. Records of aborted transactions go;
//! control batches and open transactions stay; what lies in the open segment is not touched.

use std::collections::BTreeMap;
use std::io;

use bytes::Bytes;
use kstreams_protocol::batch::{
    Batch, BatchError, BatchHead, BatchWriter, TimestampType, sequence_after, set_appended,
};

use crate::log::{Aborted, LEADER_EPOCH, PartitionLog};
use crate::topic_config::TopicConfig;

/// Of each key, the offset of its last record.
type Newest = BTreeMap<Bytes, i64>;

impl PartitionLog {
    /// Cleans the closed segments, if there is something new in them; with `whole`, also closes the
    /// open one first.
    pub(crate) fn compact(
        &mut self,
        config: &TopicConfig,
        now: i64,
        whole: bool,
    ) -> io::Result<()> {
        if whole && self.segments.back().is_some_and(|segment| segment.size() > 0) {
            self.roll(now)?;
        }
        let closed = self.segments.len().saturating_sub(1);
        if closed == 0 || (!whole && !self.is_dirty(closed)) {
            return Ok(());
        }
        let stable = self.last_stable_offset();
        let newest = self.newest(closed, stable, now - config.min_compaction_lag_ms)?;
        for at in 0..closed {
            self.clean_segment(at, &newest, config, now)?;
        }
        Ok(())
    }

    /// Half of the closed bytes, or more, were not cleaned yet.
    fn is_dirty(&self, closed: usize) -> bool {
        let segments = self.segments.iter().take(closed);
        let (mut clean, mut dirty) = (0, 0);
        for segment in segments {
            match segment.cleaned {
                Some(_) => clean += segment.size(),
                None => dirty += segment.size(),
            }
        }
        dirty > 0 && dirty >= clean
    }

    fn newest(&mut self, closed: usize, stable: i64, before: i64) -> io::Result<Newest> {
        let mut newest = Newest::new();
        for segment in self.segments.iter_mut().take(closed) {
            for placed in segment.batches().to_vec() {
                if placed.base_offset >= stable || placed.max_timestamp > before {
                    return Ok(newest);
                }
                let batch = segment.read_batch(placed)?;
                if batch.is_control() || is_aborted(&self.aborted, &batch) {
                    continue;
                }
                let mut records = batch.into_records().map_err(invalid)?;
                while let Some(record) = records.next_record().map_err(invalid)? {
                    let key = Bytes::copy_from_slice(record.key.unwrap_or_default());
                    newest.insert(key, record.offset);
                }
            }
        }
        Ok(newest)
    }

    fn clean_segment(
        &mut self,
        at: usize,
        newest: &Newest,
        config: &TopicConfig,
        now: i64,
    ) -> io::Result<()> {
        let Some(segment) = self.segments.get_mut(at) else { return Ok(()) };
        let first_cleaned = *segment.cleaned.get_or_insert(now);
        let drop_tombstones = now - first_cleaned > config.delete_retention_ms;
        let mut kept = Vec::new();
        let mut changed = false;
        for placed in segment.batches().to_vec() {
            let batch = segment.read_batch(placed)?;
            if batch.is_control() {
                kept.push(batch);
                continue;
            }
            if is_aborted(&self.aborted, &batch) {
                changed = true;
                continue;
            }
            match clean(&batch, newest, drop_tombstones).map_err(invalid)? {
                Some(runs) => {
                    changed = true;
                    kept.extend(runs);
                }
                None => kept.push(batch),
            }
        }
        if changed { segment.replace(&kept) } else { Ok(()) }
    }
}

fn is_aborted(aborted: &[Aborted], batch: &Batch) -> bool {
    let offset = batch.base_offset();
    batch.is_transactional()
        && aborted.iter().any(|aborted| {
            aborted.producer_id == batch.producer_id()
                && (aborted.first_offset..aborted.last_offset).contains(&offset)
        })
}

/// The batches in the place of one that loses records; `None` if it loses none.
fn clean(
    batch: &Batch,
    newest: &Newest,
    drop_tombstones: bool,
) -> Result<Option<Vec<Batch>>, BatchError> {
    let stays = |key: Option<&[u8]>, value: Option<&[u8]>, offset: i64| {
        let last = newest.get(key.unwrap_or_default()).copied();
        last.is_none_or(|last| offset >= last && (value.is_some() || !drop_tombstones))
    };
    let mut lost = false;
    let mut records = batch.clone().into_records()?;
    while let Some(record) = records.next_record()? {
        lost |= !stays(record.key, record.value, record.offset);
    }
    if !lost {
        return Ok(None);
    }
    let mut runs = Vec::new();
    let mut run = Run::default();
    let mut records = batch.clone().into_records()?;
    while let Some(record) = records.next_record()? {
        if !stays(record.key, record.value, record.offset) {
            continue;
        }
        if record.offset != run.next {
            runs.extend(std::mem::take(&mut run).seal(batch)?);
            (run.base, run.next) = (record.offset, record.offset);
        }
        let headers: Result<Vec<_>, BatchError> = record
            .headers
            .iter()
            .map(|(key, value)| match std::str::from_utf8(key) {
                Ok(key) => Ok((key, value)),
                Err(_) => Err(BatchError::Malformed("a header's key is not UTF-8")),
            })
            .collect();
        run.writer.append(record.timestamp, record.key, record.value, &headers?);
        run.next += 1;
    }
    runs.extend(run.seal(batch)?);
    Ok(Some(runs))
}

/// Records of consecutive offsets.
#[derive(Default)]
struct Run {
    base: i64,
    next: i64,
    writer: BatchWriter,
}

impl Run {
    fn seal(self, of: &Batch) -> Result<Option<Batch>, BatchError> {
        if self.writer.is_empty() {
            return Ok(None);
        }
        let head = BatchHead {
            producer_id: of.producer_id(),
            producer_epoch: of.producer_epoch(),
            base_sequence: sequence(of, self.base),
            transactional: of.is_transactional(),
            compression: of.compression()?,
            base_offset: self.base,
            leader_epoch: LEADER_EPOCH,
            ..BatchHead::default()
        };
        let bytes = self.writer.seal(&head)?;
        if of.timestamp_type() == TimestampType::CreateTime {
            return Batch::new(bytes).map(Some);
        }
        let mut bytes = Vec::from(bytes);
        set_appended(&mut bytes, self.base, LEADER_EPOCH, Some(of.max_timestamp()))?;
        Batch::new(bytes.into()).map(Some)
    }
}

/// The sequence of the record at `offset`.
fn sequence(of: &Batch, offset: i64) -> i32 {
    match i32::try_from(offset - of.base_offset()) {
        Ok(records) if of.base_sequence() >= 0 => sequence_after(of.base_sequence(), records),
        _ => of.base_sequence(),
    }
}

fn invalid(error: BatchError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

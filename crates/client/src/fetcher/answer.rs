//! What a fetch brought: errors, positions, and records made ready for the stream thread. Checksums
//! and compression are dealt with here, on the driver's thread.

use super::{Context, Fetcher, Partition, Position, Told};
use crate::error::{ClientError, ErrorKind, is_retriable};
use crate::event::{Credit, Event, Fetched};
use crate::requests::Response;
use crate::types::{Isolation, ResetPolicy, Topic, TopicPartition};
use kstreams_protocol::batch::{Batch, BatchError, ControlType, RecordReader, batches};
use kstreams_protocol::messages::FetchResponse;
use kstreams_protocol::messages::fetch_response::{AbortedTransaction, PartitionData};
use std::collections::BTreeSet;

const OFFSET_OUT_OF_RANGE: i16 = 1;
const CORRUPT_MESSAGE: i16 = 2;

impl Fetcher {
    pub(crate) fn on_answer(
        &mut self,
        id: u64,
        result: Result<Response, ClientError>,
        cx: &mut Context<'_>,
    ) {
        let Some(asked) = self.asked.remove(&id) else { return };
        for (name, (generation, _)) in &asked.partitions {
            if let Some(partition) = self.partitions.get_mut(name)
                && partition.generation == *generation
            {
                partition.in_request = false;
            }
        }
        let answer = match result {
            Ok(Response::Fetch(answer)) if answer.error_code == 0 => answer,
            Ok(Response::Fetch(answer)) => {
                let error = ClientError::broker(answer.error_code, "fetch", None);
                return self.on_failure(asked.partitions.keys(), &error, cx);
            }
            Ok(_) => return,
            Err(error) => return self.on_failure(asked.partitions.keys(), &error, cx),
        };
        let FetchResponse { responses, .. } = *answer;
        for topic in responses {
            let name = match topic.topic.is_empty() {
                true => asked.topics.get(&topic.topic_id).cloned(),
                false => Some(Topic::from(topic.topic.as_str())),
            };
            let Some(name) = name else { continue };
            for data in topic.partitions {
                let name = TopicPartition::new(name.clone(), data.partition_index);
                let Some((generation, offset)) = asked.partitions.get(&name) else { continue };
                // Moved or stopped in the meantime.
                let current = self.partitions.get(&name);
                if current.is_none_or(|partition| partition.generation != *generation) {
                    continue;
                }
                self.on_partition(&name, *offset, data, cx);
            }
        }
    }

    /// The whole request failed: its partitions wait a little.
    fn on_failure<'a>(
        &mut self,
        names: impl Iterator<Item = &'a TopicPartition>,
        error: &ClientError,
        cx: &mut Context<'_>,
    ) {
        tracing::debug!(reader = ?self.reader, %error, "a fetch failed");
        cx.metadata.refresh();
        for name in names {
            if let Some(partition) = self.partitions.get_mut(name) {
                partition.not_before = cx.now + self.retry_backoff;
            }
        }
    }

    fn on_partition(
        &mut self,
        name: &TopicPartition,
        offset: i64,
        data: PartitionData,
        cx: &mut Context<'_>,
    ) {
        let Some(partition) = self.partitions.get_mut(name) else { return };
        match data.error_code {
            0 if data.diverging_epoch.epoch >= 0 => {
                self.on_truncation(name, offset, &data, cx);
            }
            0 => self.on_records(name, offset, data, cx),
            OFFSET_OUT_OF_RANGE => {
                tracing::info!(partition = %name, offset, "the offset is out of range");
                partition.position = Position::Reset { from: Some(offset) };
            }
            CORRUPT_MESSAGE => {
                let error = ClientError::broker(CORRUPT_MESSAGE, format_args!("{name}"), None);
                self.fail(name, error.within(format_args!("offset {offset}")), cx.events);
            }
            code if is_retriable(code) => {
                cx.metadata.refresh();
                partition.not_before = cx.now + self.retry_backoff;
                tracing::debug!(partition = %name, code, "the leader is another, or not ready");
            }
            code => {
                let error = ClientError::broker(code, format_args!("fetch of {name}"), None);
                self.fail(name, error, cx.events);
            }
        }
    }

    /// The log was cut below the position: a leader was lost with records that were read already.
    fn on_truncation(
        &mut self,
        name: &TopicPartition,
        offset: i64,
        data: &PartitionData,
        cx: &mut Context<'_>,
    ) {
        let Some(partition) = self.partitions.get_mut(name) else { return };
        let end = data.diverging_epoch.end_offset;
        if partition.reset == ResetPolicy::None || end < 0 {
            partition.position = Position::Reset { from: Some(offset) };
            return;
        }
        let to = end.min(offset);
        partition.position = Position::At { offset: to, epoch: Some(data.diverging_epoch.epoch) };
        tracing::warn!(partition = %name, from = offset, to, "the log was cut");
        cx.events.push(Event::PositionReset {
            reader: self.reader,
            partition: name.clone(),
            from: Some(offset),
            to,
        });
    }

    fn on_records(
        &mut self,
        name: &TopicPartition,
        offset: i64,
        data: PartitionData,
        cx: &mut Context<'_>,
    ) {
        let aborted = match self.config.isolation {
            Isolation::ReadCommitted => data.aborted_transactions.unwrap_or_default(),
            Isolation::ReadUncommitted => Vec::new(),
        };
        let bytes = data.records.unwrap_or_default();
        let ready = match ready(&bytes, offset, aborted) {
            Ok(ready) => ready,
            Err((at, error)) => {
                let message = format!("{name} cannot be read at offset {at}: {error}");
                let error = ClientError::new(ErrorKind::Corrupt, message);
                return self.fail(name, error, cx.events);
            }
        };
        let Some(partition) = self.partitions.get_mut(name) else { return };
        let Partition { position, told, buffered, .. } = partition;
        if let (Position::At { offset, epoch }, Some(next)) = (&mut *position, ready.next_offset) {
            (*offset, *epoch) = (next, ready.epoch);
        }
        let now = Told {
            high_watermark: data.high_watermark,
            last_stable_offset: match data.last_stable_offset {
                -1 => data.high_watermark,
                stable => stable,
            },
            log_start_offset: data.log_start_offset,
        };
        if ready.next_offset.is_none() && *told == Some(now) {
            return;
        }
        *told = Some(now);
        let size = ready.batches.iter().map(RecordReader::remaining_bytes).sum();
        cx.events.push(Event::Fetched(Fetched {
            reader: self.reader,
            partition: name.clone(),
            position: offset,
            batches: ready.batches,
            next_offset: ready.next_offset.unwrap_or(offset),
            high_watermark: now.high_watermark,
            last_stable_offset: now.last_stable_offset,
            log_start_offset: now.log_start_offset,
            credit: Credit::new(size, self.budget.clone(), buffered.clone()),
        }));
    }
}

/// Batches that the stream thread may see.
#[derive(Debug, Default)]
pub(super) struct Ready {
    pub(super) batches: Vec<RecordReader>,
    /// Behind the last whole batch, seen or not.
    pub(super) next_offset: Option<i64>,
    epoch: Option<i32>,
}

/// Checks and unpacks the whole batches in `bytes` from `offset` on, and leaves out control records
/// and the records of `aborted` transactions.
pub(super) fn ready(
    bytes: &bytes::Bytes,
    offset: i64,
    mut aborted: Vec<AbortedTransaction>,
) -> Result<Ready, (i64, BatchError)> {
    aborted.sort_by_key(|transaction| transaction.first_offset);
    let mut aborted = aborted.into_iter().peekable();
    let mut aborting: BTreeSet<i64> = BTreeSet::new();
    let mut ready = Ready::default();
    for batch in batches(bytes) {
        let at = ready.next_offset.unwrap_or(offset);
        let batch = batch.map_err(|error| (at, error))?;
        if batch.last_offset() < offset {
            continue;
        }
        batch.verify_checksum().map_err(|error| (at, error))?;
        ready.next_offset = Some(batch.next_offset());
        ready.epoch = Some(batch.leader_epoch()).filter(|epoch| *epoch >= 0);
        let producer = batch.producer_id();
        while let Some(transaction) = aborted.next_if(|t| t.first_offset <= batch.last_offset()) {
            aborting.insert(transaction.producer_id.0);
        }
        if batch.is_control() {
            if control_type(batch).map_err(|error| (at, error))? == Some(ControlType::Abort) {
                aborting.remove(&producer);
            }
            continue;
        }
        if batch.count() == 0 || (batch.is_transactional() && aborting.contains(&producer)) {
            continue;
        }
        let records = batch.into_records().map_err(|error| (at, error))?;
        ready.batches.push(records.starting_at(offset));
    }
    Ok(ready)
}

fn control_type(batch: Batch) -> Result<Option<ControlType>, BatchError> {
    let mut records = batch.into_records()?;
    Ok(records.next_record()?.and_then(|record| ControlType::from_key(record.key?)))
}

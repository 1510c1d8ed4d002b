//! Produce (0), versions 3 to 13: appends a batch to each partition; a retry of an idempotent
//! producer is answered and not written again. Topics by name, from version 13 by id. A batch of a
//! transaction needs its partition to be part of it; from version 12 on (transaction version 2) it
//! makes it so.
//!
//! Deviations: with one replica, acks of 1 and all are the same, and nothing waits for the disk.
//! Batches are stored as they come: `compression.type` recompresses nothing.

use kstreams_protocol::ResponseError;
use kstreams_protocol::batch::{Batch, BatchError, batches};
use kstreams_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kstreams_protocol::messages::produce_response::{
    PartitionProduceResponse, TopicProduceResponse,
};
use kstreams_protocol::messages::{ProduceRequest, ProduceResponse};

use super::{Call, Reply, str_bytes};
use crate::error::Refusal;
use crate::log::{AppendRules, Appended};
use crate::node::Node;
use crate::topic_config::TopicConfig;
use crate::txn::Part;

/// The first version that names topics by id.
const BY_ID: i16 = 13;
/// The first version of transaction version 2.
const ADDS: i16 = 12;

pub(super) fn handle(
    node: &mut Node,
    call: &Call,
    request: ProduceRequest,
) -> Reply<ProduceResponse> {
    let acks = request.acks;
    if !matches!(acks, -1..=1) {
        return Reply::Now(refuse(&request, ResponseError::InvalidRequiredAcks.code()));
    }
    let id = request.transactional_id.as_ref().map(|id| id.as_str().to_owned());
    let from = From { id, adds: call.version >= ADDS, by_id: call.version >= BY_ID };
    let topic = |topic: TopicProduceData| one_topic(node, &from, topic);
    let responses: Vec<TopicProduceResponse> = request.topic_data.into_iter().map(topic).collect();
    if acks == 0 {
        return Reply::Nothing;
    }
    Reply::Now(ProduceResponse::default().with_responses(responses))
}

pub(super) fn refuse(request: &ProduceRequest, error: i16) -> ProduceResponse {
    let partition = |data: &PartitionProduceData| refused(data.index, error, None);
    let topic = |topic: &TopicProduceData| {
        TopicProduceResponse::default()
            .with_name(topic.name.clone())
            .with_topic_id(topic.topic_id)
            .with_partition_responses(topic.partition_data.iter().map(partition).collect())
    };
    ProduceResponse::default().with_responses(request.topic_data.iter().map(topic).collect())
}

/// How a request writes.
struct From {
    /// Its transactional id.
    id: Option<String>,
    /// Partitions become part of the transaction by it.
    adds: bool,
    by_id: bool,
}

fn one_topic(node: &mut Node, from: &From, topic: TopicProduceData) -> TopicProduceResponse {
    let name = match from.by_id {
        true => node.topics.name_of(topic.topic_id).map(str::to_owned),
        false => Some(topic.name.to_string()),
    };
    let mut responses = Vec::with_capacity(topic.partition_data.len());
    for data in topic.partition_data {
        let index = data.index;
        let appended = match &name {
            Some(name) => append(node, from, name, data),
            None => Err(ResponseError::UnknownTopicId.into()),
        };
        responses.push(match appended {
            Ok((appended, start)) => PartitionProduceResponse::default()
                .with_index(index)
                .with_base_offset(appended.base_offset)
                .with_log_append_time_ms(appended.append_time)
                .with_log_start_offset(start),
            Err(refusal) => refused(index, refusal.code(), refusal.message),
        });
    }
    TopicProduceResponse::default()
        .with_name(topic.name)
        .with_topic_id(topic.topic_id)
        .with_partition_responses(responses)
}

fn refused(index: i32, error: i16, message: Option<String>) -> PartitionProduceResponse {
    PartitionProduceResponse::default()
        .with_index(index)
        .with_error_code(error)
        .with_error_message(message.as_deref().map(str_bytes))
        .with_base_offset(-1)
        .with_log_start_offset(-1)
}

/// Whether a batch of a transaction may be written. One whose transaction is open in the log already
/// is part of it; any other asks the coordinator.
fn join(
    node: &mut Node,
    from: &From,
    (topic, partition): (&str, i32),
    batch: &Batch,
) -> Result<(), Refusal> {
    let producer = (batch.producer_id(), batch.producer_epoch());
    let id = from.id.as_deref().ok_or(ResponseError::TransactionalIdAuthorizationFailed)?;
    let log = node.topics.log(topic, partition).ok_or(ResponseError::UnknownTopicOrPartition)?;
    if log.has_open_transaction(producer) {
        return Ok(());
    }
    if from.adds && batch.base_sequence() != 0 && !log.producers.knows(producer.0) {
        let message = format!(
            "Invalid sequence number for producer {} at its first batch of the partition: {}",
            producer.0,
            batch.base_sequence()
        );
        return Err(Refusal::new(ResponseError::OutOfOrderSequenceNumber, message));
    }
    let part = Part::Partition(topic.to_owned(), partition);
    match node.join_transaction(id, producer, part, from.adds)? {
        true => Ok(()),
        false => Err(ResponseError::InvalidTxnState.into()),
    }
}

fn append(
    node: &mut Node,
    from: &From,
    name: &str,
    data: PartitionProduceData,
) -> Result<(Appended, i64), Refusal> {
    let now = node.now;
    node.topics.log(name, data.index).ok_or(ResponseError::UnknownTopicOrPartition)?;
    let batch = only_batch(&data.records.unwrap_or_default())?;
    if batch.is_transactional() {
        join(node, from, (name, data.index), &batch)?;
    }
    let topic = node.topics.get_mut(name).ok_or(ResponseError::UnknownTopicOrPartition)?;
    let index = usize::try_from(data.index).unwrap_or(usize::MAX);
    let log = topic.partitions.get_mut(index).ok_or(ResponseError::UnknownTopicOrPartition)?;
    check(&batch, &topic.config, now)?;
    let rules = AppendRules {
        segment_bytes: topic.config.segment_bytes,
        segment_ms: topic.config.segment_ms,
        log_append_time: topic.config.log_append_time,
        now,
    };
    let appended = log.append(&batch, rules)?;
    let start = log.start_offset();
    let id = topic.id;
    if !appended.duplicate {
        node.note_appended((id, data.index));
    }
    Ok((appended, start))
}

/// A produce request holds exactly one batch for a partition.
fn only_batch(records: &bytes::Bytes) -> Result<Batch, Refusal> {
    let invalid = |message: &str| Refusal::new(ResponseError::InvalidRecord, message);
    let mut all = batches(records);
    let batch = match all.next() {
        Some(Ok(batch)) => batch,
        Some(Err(BatchError::UnsupportedMagic(_))) => {
            return Err(invalid("Produce requests must hold record batches with magic version 2"));
        }
        Some(Err(error)) => {
            return Err(Refusal::new(ResponseError::CorruptMessage, error.to_string()));
        }
        None => return Err(invalid("Produce requests must have exactly one record batch")),
    };
    if all.next().is_some() || batch.bytes().len() != records.len() {
        return Err(invalid("Produce requests must have exactly one record batch"));
    }
    Ok(batch)
}

fn check(batch: &Batch, config: &TopicConfig, now: i64) -> Result<(), Refusal> {
    let invalid = |message: &str| Err(Refusal::new(ResponseError::InvalidRecord, message));
    let size = batch.bytes().len();
    if size > config.max_message_bytes {
        let message = format!(
            "The record batch size is {size} bytes which exceeds the maximum configured size of {}.",
            config.max_message_bytes
        );
        return Err(Refusal::new(ResponseError::MessageTooLarge, message));
    }
    if let Err(error) = batch.verify_checksum() {
        return Err(Refusal::new(ResponseError::CorruptMessage, error.to_string()));
    }
    if batch.is_control() {
        return invalid("Clients are not allowed to write control records");
    }
    let offsets = batch.next_offset() - batch.base_offset();
    if batch.count() == 0 || offsets != i64::from(batch.count()) {
        return invalid("Inconsistent batch offset range and count of records");
    }
    let idempotent = batch.producer_id() >= 0;
    if idempotent && (batch.base_sequence() < 0 || batch.producer_epoch() < 0) {
        return invalid("Invalid sequence number or epoch in a batch with a producer id");
    }
    let newest = batch.max_timestamp();
    if !config.log_append_time
        && (newest.saturating_sub(now) > config.timestamp_after_max_ms
            || now.saturating_sub(newest) > config.timestamp_before_max_ms)
    {
        let message = format!("Timestamp {newest} of message is out of range (now {now})");
        return Err(Refusal::new(ResponseError::InvalidTimestamp, message));
    }
    if config.compact { check_keys(batch) } else { Ok(()) }
}

/// Compaction knows records by their keys.
fn check_keys(batch: &Batch) -> Result<(), Refusal> {
    let corrupt =
        |error: BatchError| Refusal::new(ResponseError::CorruptMessage, error.to_string());
    let mut records = batch.clone().into_records().map_err(corrupt)?;
    while let Some(record) = records.next_record().map_err(corrupt)? {
        if record.key.is_none() {
            let message = "Compacted topic cannot accept message without key in topic partition.";
            return Err(Refusal::new(ResponseError::InvalidRecord, message));
        }
    }
    Ok(())
}

//! Fetch (1), versions 4 to 18: record batches of many partitions, by topic name or (from 13) id,
//! with or without a fetch session (7), as a long poll.
//!
//! Deviations: whole batches only (Kafka may cut the last one); a read does not cross segments.
//! Diverging epochs are never reported: there is one leader epoch.

use std::collections::BTreeSet;

use bytes::Bytes;
use kstreams_protocol::ResponseError;
use kstreams_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kstreams_protocol::messages::fetch_response::{
    AbortedTransaction, FetchableTopicResponse, PartitionData,
};
use kstreams_protocol::messages::{FetchRequest, FetchResponse, TopicName};
use uuid::Uuid;

use super::{Answer, Call, Reply};
use crate::fetch_session::Told;
use crate::log::{LEADER_EPOCH, PartitionLog};
use crate::node::Node;
use crate::waiting::{Held, PartitionId};

/// The first version that names topics by id.
const BY_ID: i16 = 13;
const READ_COMMITTED: i8 = 1;
const SESSION_INITIAL: i32 = 0;
const SESSION_FINAL: i32 = -1;

/// A partition to read.
#[derive(Debug, Clone)]
pub(crate) struct FetchItem {
    pub(crate) topic: TopicName,
    pub(crate) topic_id: Uuid,
    pub(crate) partition: i32,
    offset: i64,
    max_bytes: usize,
    leader_epoch: i32,
}

/// What a fetch wants, once its session is known.
#[derive(Debug)]
pub(crate) struct FetchPlan {
    items: Vec<FetchItem>,
    /// The ids behind the items, to wait on.
    waits_on: BTreeSet<PartitionId>,
    min_bytes: usize,
    max_bytes: usize,
    committed: bool,
    session: i32,
    /// Partitions without news are left out.
    incremental: bool,
}

impl FetchPlan {
    pub(crate) fn partitions(&self) -> impl Iterator<Item = PartitionId> + '_ {
        self.waits_on.iter().copied()
    }
}

pub(super) fn handle(node: &mut Node, call: &Call, request: FetchRequest) -> Reply<FetchResponse> {
    let max_wait = i64::from(request.max_wait_ms);
    let plan = match plan(node, call, request) {
        Ok(plan) => plan,
        Err(error) => {
            return Reply::Now(FetchResponse::default().with_error_code(error.code()));
        }
    };
    if max_wait <= 0 || is_satisfied(node, &plan) {
        return Reply::Now(respond(node, &plan));
    }
    let until = node.now.saturating_add(max_wait);
    node.waiting.hold(until, Held::Fetch(call.clone(), plan));
    Reply::Later
}

pub(super) fn refuse(request: &FetchRequest, error: i16) -> FetchResponse {
    let partition = |partition: &FetchPartition| failed(partition.partition, error);
    let topic = |topic: &FetchTopic| {
        FetchableTopicResponse::default()
            .with_topic(topic.topic.clone())
            .with_topic_id(topic.topic_id)
            .with_partitions(topic.partitions.iter().map(partition).collect())
    };
    FetchResponse::default().with_responses(request.topics.iter().map(topic).collect())
}

fn plan(node: &mut Node, call: &Call, request: FetchRequest) -> Result<FetchPlan, ResponseError> {
    let by_id = call.version >= BY_ID;
    let mut items = Vec::new();
    for topic in request.topics {
        items.extend(topic.partitions.iter().map(|partition| FetchItem {
            topic: topic.topic.clone(),
            topic_id: topic.topic_id,
            partition: partition.partition,
            offset: partition.fetch_offset,
            max_bytes: usize::try_from(partition.partition_max_bytes).unwrap_or(0),
            leader_epoch: partition.current_leader_epoch,
        }));
    }
    let (id, epoch) = (request.session_id, request.session_epoch);
    let (items, session, incremental) = if call.version < 7 || epoch == SESSION_FINAL {
        node.sessions.end(id);
        (items, 0, false)
    } else if epoch == SESSION_INITIAL {
        node.sessions.end(id);
        let session = node.sessions.begin(&items, by_id);
        (items, session, false)
    } else {
        let forgotten: Vec<_> = request
            .forgotten_topics_data
            .iter()
            .flat_map(|t| t.partitions.iter().map(|p| (t.topic.to_string(), t.topic_id, *p)))
            .collect();
        (node.sessions.go_on(id, epoch, by_id, items, &forgotten)?, id, true)
    };
    let waits_on = items.iter().filter_map(|item| {
        let id = match by_id {
            true => item.topic_id,
            false => node.topics.get(&item.topic)?.id,
        };
        Some((id, item.partition))
    });
    Ok(FetchPlan {
        waits_on: waits_on.collect(),
        items,
        min_bytes: usize::try_from(request.min_bytes).unwrap_or(0),
        max_bytes: usize::try_from(request.max_bytes).unwrap_or(usize::MAX),
        committed: request.isolation_level == READ_COMMITTED,
        session,
        incremental,
    })
}

/// Whether there is enough to answer: records, or an error.
pub(crate) fn is_satisfied(node: &Node, plan: &FetchPlan) -> bool {
    if plan.items.is_empty() {
        return true;
    }
    let mut bytes = 0;
    for item in &plan.items {
        let log = topic_name(node, item).and_then(|name| node.topics.log(name, item.partition));
        match log.ok_or(ResponseError::UnknownTopicOrPartition).and_then(|log| {
            check(log, item)?;
            Ok(log.available(item.offset, limit(log, plan)).min(item.max_bytes.max(1)))
        }) {
            Ok(available) => bytes += available,
            Err(_) => return true,
        }
    }
    bytes >= plan.min_bytes
}

/// Answers a fetch that waited.
pub(crate) fn complete(node: &mut Node, call: &Call, plan: FetchPlan) -> Answer {
    let response = respond(node, &plan);
    call.frame(&response)
}

fn respond(node: &mut Node, plan: &FetchPlan) -> FetchResponse {
    let mut topics: Vec<FetchableTopicResponse> = Vec::new();
    let mut left = plan.max_bytes;
    let mut empty = true;
    for item in &plan.items {
        let data = read(node, item, plan, left, empty);
        let size = data.records.as_ref().map_or(0, Bytes::len);
        left = left.saturating_sub(size);
        empty &= size == 0;
        let told = Told {
            high_watermark: data.high_watermark,
            last_stable_offset: data.last_stable_offset,
            start_offset: data.log_start_offset,
        };
        let news = plan.session == 0
            || node.sessions.tell(plan.session, item, told, size > 0)
            || data.error_code != 0;
        if plan.incremental && !news {
            continue;
        }
        match topics.last_mut() {
            Some(last) if last.topic == item.topic && last.topic_id == item.topic_id => {
                last.partitions.push(data);
            }
            _ => topics.push(
                FetchableTopicResponse::default()
                    .with_topic(item.topic.clone())
                    .with_topic_id(item.topic_id)
                    .with_partitions(vec![data]),
            ),
        }
    }
    FetchResponse::default().with_session_id(plan.session).with_responses(topics)
}

fn topic_name<'a>(node: &'a Node, item: &'a FetchItem) -> Option<&'a str> {
    if item.topic_id.is_nil() { Some(&item.topic) } else { node.topics.name_of(item.topic_id) }
}

fn limit(log: &PartitionLog, plan: &FetchPlan) -> i64 {
    if plan.committed { log.last_stable_offset() } else { log.end_offset() }
}

fn check(log: &PartitionLog, item: &FetchItem) -> Result<(), ResponseError> {
    if item.leader_epoch > LEADER_EPOCH {
        return Err(ResponseError::UnknownLeaderEpoch);
    }
    if item.offset < log.start_offset() || item.offset > log.end_offset() {
        return Err(ResponseError::OffsetOutOfRange);
    }
    Ok(())
}

fn read(
    node: &mut Node,
    item: &FetchItem,
    plan: &FetchPlan,
    left: usize,
    at_least_one: bool,
) -> PartitionData {
    let Some(name) = topic_name(node, item).map(str::to_owned) else {
        return failed(item.partition, ResponseError::UnknownTopicId.code());
    };
    let Some(log) = node.topics.log_mut(&name, item.partition) else {
        return failed(item.partition, ResponseError::UnknownTopicOrPartition.code());
    };
    if let Err(error) = check(log, item) {
        return failed(item.partition, error.code());
    }
    let limit = limit(log, plan);
    let records = match log.read(item.offset, limit, left.min(item.max_bytes), at_least_one) {
        Ok(records) => records,
        Err(error) => {
            tracing::error!(topic = name, partition = item.partition, %error, "read failed");
            return failed(item.partition, ResponseError::KafkaStorageError.code());
        }
    };
    let aborted = plan.committed.then(|| {
        let aborted = log.aborted(item.offset, limit).into_iter().map(|aborted| {
            AbortedTransaction::default()
                .with_producer_id(aborted.producer_id.into())
                .with_first_offset(aborted.first_offset)
        });
        aborted.collect()
    });
    PartitionData::default()
        .with_partition_index(item.partition)
        .with_high_watermark(log.end_offset())
        .with_last_stable_offset(log.last_stable_offset())
        .with_log_start_offset(log.start_offset())
        .with_aborted_transactions(aborted)
        .with_records(Some(records))
}

fn failed(partition: i32, error: i16) -> PartitionData {
    PartitionData::default()
        .with_partition_index(partition)
        .with_error_code(error)
        .with_high_watermark(-1)
        .with_last_stable_offset(-1)
        .with_log_start_offset(-1)
        .with_records(Some(Bytes::new()))
}

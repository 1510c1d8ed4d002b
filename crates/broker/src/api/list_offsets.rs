//! ListOffsets (2), versions 1 to 10: the first and the last offset, by time, and of the largest
//! timestamp. Tiered offsets: the earliest local one is the first, and there is no tiered one.

use kstreams_protocol::ResponseError;
use kstreams_protocol::messages::list_offsets_request::ListOffsetsPartition;
use kstreams_protocol::messages::list_offsets_response::{
    ListOffsetsPartitionResponse, ListOffsetsTopicResponse,
};
use kstreams_protocol::messages::{ListOffsetsRequest, ListOffsetsResponse};

use super::Call;
use crate::log::LEADER_EPOCH;
use crate::node::Node;

const LATEST: i64 = -1;
const EARLIEST: i64 = -2;
const MAX_TIMESTAMP: i64 = -3;
const EARLIEST_LOCAL: i64 = -4;
const LATEST_TIERED: i64 = -5;
const READ_COMMITTED: i8 = 1;

pub(super) fn handle(
    node: &mut Node,
    call: &Call,
    request: ListOffsetsRequest,
) -> ListOffsetsResponse {
    let committed = request.isolation_level == READ_COMMITTED;
    answer(&request, |topic, asked| match look_up(node, topic, asked, committed) {
        Ok(found) => {
            let (offset, timestamp) = found.unwrap_or((-1, -1));
            ListOffsetsPartitionResponse::default()
                .with_offset(offset)
                .with_timestamp(timestamp)
                .with_leader_epoch(if found.is_some() && call.version >= 4 {
                    LEADER_EPOCH
                } else {
                    -1
                })
        }
        Err(error) => failed(error.code()),
    })
}

pub(super) fn refuse(request: &ListOffsetsRequest, error: i16) -> ListOffsetsResponse {
    answer(request, |_, _| failed(error))
}

fn answer(
    request: &ListOffsetsRequest,
    mut partition: impl FnMut(&str, &ListOffsetsPartition) -> ListOffsetsPartitionResponse,
) -> ListOffsetsResponse {
    let mut topics = Vec::with_capacity(request.topics.len());
    for topic in &request.topics {
        let one = |asked: &ListOffsetsPartition| {
            partition(&topic.name, asked).with_partition_index(asked.partition_index)
        };
        topics.push(
            ListOffsetsTopicResponse::default()
                .with_name(topic.name.clone())
                .with_partitions(topic.partitions.iter().map(one).collect()),
        );
    }
    ListOffsetsResponse::default().with_topics(topics)
}

fn failed(error: i16) -> ListOffsetsPartitionResponse {
    ListOffsetsPartitionResponse::default()
        .with_error_code(error)
        .with_offset(-1)
        .with_timestamp(-1)
}

/// The offset and, where a record has it, its timestamp.
fn look_up(
    node: &mut Node,
    topic: &str,
    asked: &ListOffsetsPartition,
    committed: bool,
) -> Result<Option<(i64, i64)>, ResponseError> {
    let log = node
        .topics
        .log_mut(topic, asked.partition_index)
        .ok_or(ResponseError::UnknownTopicOrPartition)?;
    if asked.current_leader_epoch > LEADER_EPOCH {
        return Err(ResponseError::UnknownLeaderEpoch);
    }
    let end = if committed { log.last_stable_offset() } else { log.end_offset() };
    let found = match asked.timestamp {
        LATEST => Ok(Some((end, -1))),
        EARLIEST | EARLIEST_LOCAL => Ok(Some((log.start_offset(), -1))),
        LATEST_TIERED => Ok(None),
        MAX_TIMESTAMP => log.offset_of_max_time(),
        time if time >= 0 => log.offset_for_time(time),
        _ => return Err(ResponseError::UnsupportedVersion),
    };
    let found = found.map_err(|error| {
        tracing::error!(topic, %error, "read failed");
        ResponseError::KafkaStorageError
    })?;
    Ok(found.filter(|(offset, _)| asked.timestamp < 0 || *offset < end))
}

//! OffsetForLeaderEpoch (23), versions 2 to 4: where the records of an epoch end. There is one
//! epoch, so that is the end of the log, or nowhere.

use kstreams_protocol::ResponseError;
use kstreams_protocol::messages::offset_for_leader_epoch_request::OffsetForLeaderPartition;
use kstreams_protocol::messages::offset_for_leader_epoch_response::{
    EpochEndOffset, OffsetForLeaderTopicResult,
};
use kstreams_protocol::messages::{OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse};

use super::Call;
use crate::log::LEADER_EPOCH;
use crate::node::Node;

pub(super) fn handle(
    node: &mut Node,
    _: &Call,
    request: OffsetForLeaderEpochRequest,
) -> OffsetForLeaderEpochResponse {
    let partition = |topic: &str, asked: &OffsetForLeaderPartition| {
        let end = EpochEndOffset::default().with_partition(asked.partition);
        let Some(log) = node.topics.log(topic, asked.partition) else {
            return end.with_error_code(ResponseError::UnknownTopicOrPartition.code());
        };
        if asked.current_leader_epoch > LEADER_EPOCH {
            return end.with_error_code(ResponseError::UnknownLeaderEpoch.code());
        }
        if asked.leader_epoch == LEADER_EPOCH {
            return end.with_leader_epoch(LEADER_EPOCH).with_end_offset(log.end_offset());
        }
        end.with_leader_epoch(-1).with_end_offset(-1)
    };
    let topics = request.topics.iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|asked| partition(&topic.topic, asked));
        OffsetForLeaderTopicResult::default()
            .with_topic(topic.topic.clone())
            .with_partitions(partitions.collect())
    });
    OffsetForLeaderEpochResponse::default().with_topics(topics.collect())
}

//! OffsetCommit (8), versions 2 to 9: a member's offsets, under its generation or member epoch.
//! From version 9 on by members of streams groups. Offsets do not expire.

use kstreams_protocol::ResponseError;
use kstreams_protocol::messages::offset_commit_request::OffsetCommitRequestPartition;
use kstreams_protocol::messages::offset_commit_response::{
    OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};
use kstreams_protocol::messages::{OffsetCommitRequest, OffsetCommitResponse};

use super::Call;
use crate::group::GroupKind;
use crate::group::offsets::Committed;
use crate::node::Node;

/// The first version with a member epoch.
const MEMBER_EPOCH: i16 = 9;

pub(super) fn handle(
    node: &mut Node,
    call: &Call,
    request: OffsetCommitRequest,
) -> OffsetCommitResponse {
    let verdicts = match check(node, call, &request) {
        Ok(verdicts) => verdicts,
        Err(error) => return refuse(&request, error.code()),
    };
    let mut verdicts = verdicts.into_iter();
    let group_id = request.group_id.to_string();
    let longest = node.config.offset_metadata_max_bytes;
    let group = node.groups.get_or_create(&group_id);
    let mut topics = Vec::with_capacity(request.topics.len());
    for topic in &request.topics {
        let mut partitions = Vec::with_capacity(topic.partitions.len());
        for partition in &topic.partitions {
            let metadata = partition.committed_metadata.as_ref().map_or("", |text| text.as_str());
            let verdict = verdicts.next().unwrap_or(Err(ResponseError::UnknownServerError));
            let error = match verdict {
                Err(error) => error.code(),
                Ok(()) if metadata.len() > longest => ResponseError::OffsetMetadataTooLarge.code(),
                Ok(()) => {
                    let committed = Committed {
                        offset: partition.committed_offset,
                        leader_epoch: partition.committed_leader_epoch,
                        metadata: metadata.to_owned(),
                    };
                    let at = (topic.name.as_str(), partition.partition_index);
                    group.offsets.put(&group_id, at, committed, &mut node.journal);
                    0
                }
            };
            partitions.push(result(partition, error));
        }
        topics.push(
            OffsetCommitResponseTopic::default()
                .with_name(topic.name.clone())
                .with_partitions(partitions),
        );
    }
    OffsetCommitResponse::default().with_topics(topics)
}

pub(super) fn refuse(request: &OffsetCommitRequest, error: i16) -> OffsetCommitResponse {
    let topics = request.topics.iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|partition| result(partition, error));
        OffsetCommitResponseTopic::default()
            .with_name(topic.name.clone())
            .with_partitions(partitions.collect())
    });
    OffsetCommitResponse::default().with_topics(topics.collect())
}

fn result(partition: &OffsetCommitRequestPartition, error: i16) -> OffsetCommitResponsePartition {
    OffsetCommitResponsePartition::default()
        .with_partition_index(partition.partition_index)
        .with_error_code(error)
}

/// What each partition may be: all in order, or one error for all.
fn check(
    node: &mut Node,
    call: &Call,
    request: &OffsetCommitRequest,
) -> Result<Vec<Result<(), ResponseError>>, ResponseError> {
    let (id, epoch) = (request.member_id.as_str(), request.generation_id_or_member_epoch);
    if request.group_id.is_empty() && epoch >= 0 {
        return Err(ResponseError::InvalidGroupId);
    }
    let now = node.now;
    let Some(group) = node.groups.get_mut(&request.group_id) else {
        return match epoch {
            ..0 => Ok(existing(node, request)),
            _ if call.version >= MEMBER_EPOCH => Err(ResponseError::GroupIdNotFound),
            _ => Err(ResponseError::IllegalGeneration),
        };
    };
    match &mut group.kind {
        GroupKind::Classic(group) => {
            let instance = request.group_instance_id.as_ref();
            group.check_commit(id, instance, epoch, false)?;
            if !id.is_empty() {
                // A commit shows that the member lives.
                let _ = group.heartbeat(id, instance, epoch, now);
            }
            Ok(existing(node, request))
        }
        GroupKind::Streams(_) => {
            let Some(group) = node.groups.get(&request.group_id) else { return Ok(Vec::new()) };
            let GroupKind::Streams(group) = &group.kind else { return Ok(Vec::new()) };
            let may = group.check_commit(id, epoch, false).map_err(|refusal| refusal.error)?;
            if call.version < MEMBER_EPOCH && epoch >= 0 {
                return Err(ResponseError::UnsupportedVersion);
            }
            let topics = request.topics.iter();
            let mut all = topics.flat_map(|t| t.partitions.iter().map(move |p| (&t.name, p)));
            // One partition that may not be committed refuses them all.
            if !all.all(|(topic, p)| may.allows(topic, p.partition_index)) {
                return Err(ResponseError::StaleMemberEpoch);
            }
            Ok(existing(node, request))
        }
    }
}

fn existing(node: &Node, request: &OffsetCommitRequest) -> Vec<Result<(), ResponseError>> {
    let topics = request.topics.iter();
    topics
        .flat_map(|t| t.partitions.iter().map(move |p| (t.name.as_str(), p.partition_index)))
        .map(|(topic, partition)| match node.topics.log(topic, partition) {
            Some(_) => Ok(()),
            None => Err(ResponseError::UnknownTopicOrPartition),
        })
        .collect()
}

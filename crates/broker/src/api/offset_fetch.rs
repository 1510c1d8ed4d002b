//! OffsetFetch (9), versions 1 to 9: committed offsets of a group or (from 8) many; from 9 under a
//! member id and epoch. With `require_stable`, a partition whose offset a transaction may still
//! change is unstable.

use kstreams_protocol::ResponseError;
use kstreams_protocol::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopics,
};
use kstreams_protocol::messages::offset_fetch_response::{
    OffsetFetchResponseGroup, OffsetFetchResponsePartition, OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic, OffsetFetchResponseTopics,
};
use kstreams_protocol::messages::{OffsetFetchRequest, OffsetFetchResponse, TopicName};

use super::{Call, str_bytes};
use crate::group::offsets::Committed;
use crate::group::{Group, GroupKind};
use crate::node::Node;

/// The first version that asks for many groups.
const BATCHED: i16 = 8;

pub(super) fn handle(
    node: &mut Node,
    call: &Call,
    request: OffsetFetchRequest,
) -> OffsetFetchResponse {
    if call.version >= BATCHED {
        let groups =
            request.groups.iter().map(|asked| one_group(node, asked, request.require_stable));
        return OffsetFetchResponse::default().with_groups(groups.collect());
    }
    let topics = request.topics.map(|topics| {
        let topic =
            |topic: kstreams_protocol::messages::offset_fetch_request::OffsetFetchRequestTopic| {
                OffsetFetchRequestTopics::default()
                    .with_name(topic.name)
                    .with_partition_indexes(topic.partition_indexes)
            };
        topics.into_iter().map(topic).collect()
    });
    let asked = OffsetFetchRequestGroup::default()
        .with_group_id(request.group_id)
        .with_member_epoch(-1)
        .with_topics(topics);
    let group = one_group(node, &asked, request.require_stable);
    // Before version 2 an error has its place in the partitions only.
    let error = if call.version >= 2 { group.error_code } else { 0 };
    OffsetFetchResponse::default()
        .with_error_code(error)
        .with_topics(group.topics.into_iter().map(|topic| old_topic(call, topic)).collect())
}

pub(super) fn refused(
    call: &Call,
    request: &OffsetFetchRequest,
    error: i16,
) -> OffsetFetchResponse {
    if call.version < BATCHED {
        return OffsetFetchResponse::default().with_error_code(error);
    }
    let group = |asked: &OffsetFetchRequestGroup| {
        OffsetFetchResponseGroup::default()
            .with_group_id(asked.group_id.clone())
            .with_error_code(error)
    };
    OffsetFetchResponse::default().with_groups(request.groups.iter().map(group).collect())
}

fn old_topic(call: &Call, topic: OffsetFetchResponseTopics) -> OffsetFetchResponseTopic {
    let partition = |p: OffsetFetchResponsePartitions| {
        let epoch = if call.version >= 5 { p.committed_leader_epoch } else { -1 };
        OffsetFetchResponsePartition::default()
            .with_partition_index(p.partition_index)
            .with_committed_offset(p.committed_offset)
            .with_committed_leader_epoch(epoch)
            .with_metadata(p.metadata)
            .with_error_code(p.error_code)
    };
    OffsetFetchResponseTopic::default()
        .with_name(topic.name)
        .with_partitions(topic.partitions.into_iter().map(partition).collect())
}

fn one_group(
    node: &Node,
    asked: &OffsetFetchRequestGroup,
    stable: bool,
) -> OffsetFetchResponseGroup {
    let response = OffsetFetchResponseGroup::default().with_group_id(asked.group_id.clone());
    let group = node.groups.get(&asked.group_id);
    if let Err(error) = check(group, asked) {
        return response.with_error_code(error.code());
    }
    let topics = match &asked.topics {
        Some(topics) => topics
            .iter()
            .map(|topic| {
                let partition = |partition: &i32| {
                    let offsets = group.map(|group| &group.offsets);
                    if stable && offsets.is_some_and(|o| o.is_pending(&topic.name, *partition)) {
                        return unstable(*partition);
                    }
                    let committed = offsets.and_then(|o| o.get(&topic.name, *partition));
                    describe(*partition, committed)
                };
                OffsetFetchResponseTopics::default()
                    .with_name(topic.name.clone())
                    .with_partitions(topic.partition_indexes.iter().map(partition).collect())
            })
            .collect(),
        None => group.map(|group| all(group, stable)).unwrap_or_default(),
    };
    response.with_topics(topics)
}

fn check(group: Option<&Group>, asked: &OffsetFetchRequestGroup) -> Result<(), ResponseError> {
    let member = asked
        .member_id
        .as_ref()
        .map(kstreams_protocol::protocol::StrBytes::as_str)
        .filter(|id| !id.is_empty());
    let Some(group) = group else {
        return match member {
            Some(_) if asked.member_epoch >= 0 => Err(ResponseError::GroupIdNotFound),
            _ => Ok(()),
        };
    };
    match &group.kind {
        GroupKind::Streams(group) => {
            group.check_fetch(member, asked.member_epoch).map_err(|refusal| refusal.error)
        }
        GroupKind::Classic(_) => Ok(()),
    }
}

fn all(group: &Group, stable: bool) -> Vec<OffsetFetchResponseTopics> {
    let topics = group.offsets.iter().map(|(topic, partitions)| {
        let partition = |(p, committed): (&i32, &Committed)| match stable {
            true if group.offsets.is_pending(topic, *p) => unstable(*p),
            _ => describe(*p, Some(committed)),
        };
        let partitions = partitions.iter().map(partition);
        OffsetFetchResponseTopics::default()
            .with_name(TopicName(str_bytes(topic)))
            .with_partitions(partitions.collect())
    });
    topics.collect()
}

fn unstable(partition: i32) -> OffsetFetchResponsePartitions {
    describe(partition, None).with_error_code(ResponseError::UnstableOffsetCommit.code())
}

fn describe(partition: i32, committed: Option<&Committed>) -> OffsetFetchResponsePartitions {
    let response = OffsetFetchResponsePartitions::default().with_partition_index(partition);
    match committed {
        Some(committed) => response
            .with_committed_offset(committed.offset)
            .with_committed_leader_epoch(committed.leader_epoch)
            .with_metadata(Some(str_bytes(&committed.metadata))),
        None => response
            .with_committed_offset(-1)
            .with_committed_leader_epoch(-1)
            .with_metadata(Some(str_bytes(""))),
    }
}

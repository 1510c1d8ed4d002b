//! OffsetDelete (47), version 0: forgets committed offsets of topics that no member reads.

use kstreams_protocol::ResponseError;
use kstreams_protocol::messages::offset_delete_response::{
    OffsetDeleteResponsePartition, OffsetDeleteResponseTopic,
};
use kstreams_protocol::messages::{OffsetDeleteRequest, OffsetDeleteResponse};

use super::Call;
use crate::group::GroupKind;
use crate::node::Node;

pub(super) fn handle(
    node: &mut Node,
    _: &Call,
    request: OffsetDeleteRequest,
) -> OffsetDeleteResponse {
    let refused =
        |error: ResponseError| OffsetDeleteResponse::default().with_error_code(error.code());
    let Some(group) = node.groups.get_mut(&request.group_id) else {
        return refused(ResponseError::GroupIdNotFound);
    };
    if matches!(&group.kind, GroupKind::Classic(classic) if !classic.is_empty()) {
        return refused(ResponseError::NonEmptyGroup);
    }
    let mut topics = Vec::with_capacity(request.topics.len());
    for topic in &request.topics {
        let read = matches!(&group.kind, GroupKind::Streams(streams) if streams.reads(&topic.name));
        let partitions = topic.partitions.iter().map(|partition| {
            let index = partition.partition_index;
            if !read {
                let at = (topic.name.as_str(), index);
                group.offsets.remove(&request.group_id, at, &mut node.journal);
            }
            let error = if read { ResponseError::GroupSubscribedToTopic.code() } else { 0 };
            OffsetDeleteResponsePartition::default()
                .with_partition_index(index)
                .with_error_code(error)
        });
        let partitions = partitions.collect();
        topics.push(
            OffsetDeleteResponseTopic::default()
                .with_name(topic.name.clone())
                .with_partitions(partitions),
        );
    }
    OffsetDeleteResponse::default().with_topics(topics)
}

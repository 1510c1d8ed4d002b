//! TxnOffsetCommit (28), versions 0 to 5: offsets that count with the end of the transaction. From
//! version 5 on (transaction version 2) they make their group part of it.
//!
//! A member is fenced here by its epoch: a stale one is an illegal generation. Who names no member
//! is let in.

use kstreams_protocol::ResponseError;
use kstreams_protocol::messages::txn_offset_commit_response::{
    TxnOffsetCommitResponsePartition, TxnOffsetCommitResponseTopic,
};
use kstreams_protocol::messages::{TxnOffsetCommitRequest, TxnOffsetCommitResponse};

use super::Call;
use crate::group::GroupKind;
use crate::group::offsets::Committed;
use crate::node::Node;
use crate::txn::Part;

/// The first version of transaction version 2.
const ADDS: i16 = 5;

pub(super) fn handle(
    node: &mut Node,
    call: &Call,
    request: TxnOffsetCommitRequest,
) -> TxnOffsetCommitResponse {
    let topics = request.topics.iter();
    let mut asked = topics.flat_map(|t| t.partitions.iter().map(move |p| (&t.name, p)));
    let some_exist = asked.any(|(topic, p)| node.topics.log(topic, p.partition_index).is_some());
    if some_exist && let Err(error) = check(node, call, &request) {
        return refuse(&request, error.code());
    }
    answer(node, &request)
}

pub(super) fn refuse(request: &TxnOffsetCommitRequest, error: i16) -> TxnOffsetCommitResponse {
    let topics = request.topics.iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|p| result(p.partition_index, error));
        TxnOffsetCommitResponseTopic::default()
            .with_name(topic.name.clone())
            .with_partitions(partitions.collect())
    });
    TxnOffsetCommitResponse::default().with_topics(topics.collect())
}

fn result(partition: i32, error: i16) -> TxnOffsetCommitResponsePartition {
    TxnOffsetCommitResponsePartition::default()
        .with_partition_index(partition)
        .with_error_code(error)
}

fn answer(node: &mut Node, request: &TxnOffsetCommitRequest) -> TxnOffsetCommitResponse {
    let producer = (request.producer_id.0, request.producer_epoch);
    let longest = node.config.offset_metadata_max_bytes;
    let name = request.group_id.as_str();
    let mut topics = Vec::with_capacity(request.topics.len());
    for topic in &request.topics {
        let mut results = Vec::with_capacity(topic.partitions.len());
        for partition in &topic.partitions {
            let at = (topic.name.as_str(), partition.partition_index);
            let metadata = partition.committed_metadata.as_ref().map_or("", |text| text.as_str());
            let error = if node.topics.log(at.0, at.1).is_none() {
                ResponseError::UnknownTopicOrPartition.code()
            } else if metadata.len() > longest {
                ResponseError::OffsetMetadataTooLarge.code()
            } else {
                let committed = Committed {
                    offset: partition.committed_offset,
                    leader_epoch: partition.committed_leader_epoch,
                    metadata: metadata.to_owned(),
                };
                let offsets = &mut node.groups.get_or_create(name).offsets;
                offsets.put_pending(name, at, producer, committed, &mut node.journal);
                0
            };
            results.push(result(at.1, error));
        }
        topics.push(
            TxnOffsetCommitResponseTopic::default()
                .with_name(topic.name.clone())
                .with_partitions(results),
        );
    }
    TxnOffsetCommitResponse::default().with_topics(topics)
}

/// Whether the producer may, and the member that it writes for.
fn check(
    node: &mut Node,
    call: &Call,
    request: &TxnOffsetCommitRequest,
) -> Result<(), ResponseError> {
    if request.group_id.is_empty() {
        return Err(ResponseError::InvalidGroupId);
    }
    let producer = (request.producer_id.0, request.producer_epoch);
    let group = node.groups.get(&request.group_id);
    // What is written into already is part of the transaction.
    if !group.is_some_and(|group| group.offsets.is_pending_of(producer)) {
        let part = Part::Group(request.group_id.to_string());
        let adds = call.version >= ADDS;
        if !node.join_transaction(&request.transactional_id, producer, part, adds)? {
            return Err(ResponseError::TransactionAbortable);
        }
    }
    check_member(node, request)
}

fn check_member(node: &Node, request: &TxnOffsetCommitRequest) -> Result<(), ResponseError> {
    let (id, epoch) = (request.member_id.as_str(), request.generation_id);
    let Some(group) = node.groups.get(&request.group_id) else {
        return if epoch < 0 { Ok(()) } else { Err(ResponseError::IllegalGeneration) };
    };
    match &group.kind {
        GroupKind::Classic(group) => {
            group.check_commit(id, request.group_instance_id.as_ref(), epoch, true)
        }
        GroupKind::Streams(group) => {
            let may =
                group.check_commit(id, epoch, true).map_err(|refusal| illegal(refusal.error))?;
            let topics = request.topics.iter();
            let mut all = topics.flat_map(|t| t.partitions.iter().map(move |p| (&t.name, p)));
            match all.all(|(topic, p)| may.allows(topic, p.partition_index)) {
                true => Ok(()),
                false => Err(ResponseError::IllegalGeneration),
            }
        }
    }
}

/// Old clients know no member epochs.
fn illegal(error: ResponseError) -> ResponseError {
    match error {
        ResponseError::StaleMemberEpoch => ResponseError::IllegalGeneration,
        other => other,
    }
}

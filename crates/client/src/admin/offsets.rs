//! Positions of groups: commit and fetch, under the member's epoch or from outside.

use super::records::by_topic;
use super::topics::{text, topic_name};
use super::{Asking, Destination, Kind, Reply};
use crate::error::is_retriable;
use crate::requests::{Request, Response};
use crate::types::{CommittedOffset, Topic, TopicPartition};
use kstreams_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kstreams_protocol::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopics,
};
use kstreams_protocol::messages::{GroupId, OffsetCommitRequest, OffsetFetchRequest};
use std::collections::BTreeMap;

/// The member that commits or fetches; none for tools.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Member {
    /// The epoch it acknowledged last.
    pub(crate) epoch: i32,
}

#[derive(Debug)]
pub(crate) struct CommitOffsets {
    pub(crate) group: Topic,
    pub(crate) member: Option<Member>,
    pub(crate) offsets: BTreeMap<TopicPartition, CommittedOffset>,
}

impl Kind for CommitOffsets {
    type Key = TopicPartition;
    type Value = ();
    const WHAT: &'static str = "commit of partition";

    fn keys(&self) -> Vec<TopicPartition> {
        self.offsets.keys().cloned().collect()
    }

    fn destination(&self, _key: &TopicPartition) -> Destination {
        Destination::Coordinator(self.group.clone())
    }

    fn request(&self, keys: &[TopicPartition], asking: &Asking<'_>) -> Request {
        let partition = |key: &&TopicPartition| {
            let committed = self.offsets.get(*key);
            OffsetCommitRequestPartition::default()
                .with_partition_index(key.partition)
                .with_committed_offset(committed.map_or(0, |committed| committed.offset))
                .with_committed_leader_epoch(committed.and_then(|c| c.leader_epoch).unwrap_or(-1))
                .with_committed_metadata(committed.map(|committed| text(&committed.metadata)))
        };
        let topics = by_topic(keys).into_iter().map(|(topic, keys)| {
            OffsetCommitRequestTopic::default()
                .with_name(topic_name(&topic))
                .with_partitions(keys.iter().map(partition).collect())
        });
        OffsetCommitRequest::default()
            .with_group_id(GroupId(text(&self.group)))
            .with_member_id(text(self.member.map_or("", |_| asking.member_id)))
            .with_generation_id_or_member_epoch(self.member.map_or(-1, |member| member.epoch))
            .with_topics(topics.collect())
            .into()
    }

    fn read(
        &self,
        _keys: &[TopicPartition],
        response: Response,
    ) -> Vec<(TopicPartition, Reply<()>)> {
        let Response::OffsetCommit(response) = response else { return Vec::new() };
        let replies = response.topics.iter().flat_map(|topic| {
            let name = Topic::from(topic.name.as_str());
            topic.partitions.iter().map(move |partition| {
                let key = TopicPartition::new(name.clone(), partition.partition_index);
                (key, Reply::of(partition.error_code, None, || ()))
            })
        });
        replies.collect()
    }
}

#[derive(Debug)]
pub(crate) struct FetchOffsets {
    pub(crate) group: Topic,
    pub(crate) member: Option<Member>,
    pub(crate) partitions: Vec<TopicPartition>,
}

/// Positions that a transaction is about to change.
const UNSTABLE_OFFSET_COMMIT: i16 = 88;

impl Kind for FetchOffsets {
    type Key = TopicPartition;
    type Value = Option<CommittedOffset>;
    const WHAT: &'static str = "committed offset of partition";

    fn keys(&self) -> Vec<TopicPartition> {
        if self.partitions.is_empty() {
            // One item that stands for all.
            return vec![TopicPartition::new("", -1)];
        }
        self.partitions.clone()
    }

    fn destination(&self, _key: &TopicPartition) -> Destination {
        Destination::Coordinator(self.group.clone())
    }

    fn request(&self, keys: &[TopicPartition], asking: &Asking<'_>) -> Request {
        let topics = by_topic(keys).into_iter().map(|(topic, keys)| {
            OffsetFetchRequestTopics::default()
                .with_name(topic_name(&topic))
                .with_partition_indexes(keys.iter().map(|key| key.partition).collect())
        });
        let group = OffsetFetchRequestGroup::default()
            .with_group_id(GroupId(text(&self.group)))
            .with_member_id(self.member.map(|_| text(asking.member_id)))
            .with_member_epoch(self.member.map_or(-1, |member| member.epoch))
            .with_topics((!self.partitions.is_empty()).then(|| topics.collect()));
        OffsetFetchRequest::default().with_groups(vec![group]).with_require_stable(true).into()
    }

    fn read(
        &self,
        keys: &[TopicPartition],
        response: Response,
    ) -> Vec<(TopicPartition, Reply<Option<CommittedOffset>>)> {
        let Response::OffsetFetch(response) = response else { return Vec::new() };
        let Some(group) = response.groups.iter().find(|group| *group.group_id.0 == *self.group)
        else {
            return Vec::new();
        };
        if group.error_code != 0 {
            let failed =
                |key: &TopicPartition| (key.clone(), Reply::of(group.error_code, None, || None));
            return keys.iter().map(failed).collect();
        }
        let mut replies = Vec::new();
        for topic in &group.topics {
            let name = Topic::from(topic.name.as_str());
            for partition in &topic.partitions {
                let key = TopicPartition::new(name.clone(), partition.partition_index);
                let committed = || {
                    (partition.committed_offset >= 0).then(|| CommittedOffset {
                        offset: partition.committed_offset,
                        leader_epoch: Some(partition.committed_leader_epoch).filter(|e| *e >= 0),
                        metadata: partition
                            .metadata
                            .as_ref()
                            .map(ToString::to_string)
                            .unwrap_or_default(),
                    })
                };
                replies.push((key, Reply::of(partition.error_code, None, committed)));
            }
        }
        if self.partitions.is_empty() {
            replies.push((TopicPartition::new("", -1), Reply::Done(None)));
        }
        replies
    }

    fn retries(&self, code: i16) -> bool {
        code == UNSTABLE_OFFSET_COMMIT || is_retriable(code)
    }
}

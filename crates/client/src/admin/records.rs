//! Offsets of logs, and the deletion of their first records: both are the leaders' business.

use super::topics::topic_name;
use super::{Asking, Destination, Kind, Reply};
use crate::requests::{Request, Response};
use crate::types::{Isolation, ListedOffset, OffsetSpec, Topic, TopicPartition};
use kstreams_protocol::messages::delete_records_request::{
    DeleteRecordsPartition, DeleteRecordsTopic,
};
use kstreams_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kstreams_protocol::messages::{BrokerId, DeleteRecordsRequest, ListOffsetsRequest};
use std::collections::BTreeMap;

/// Groups partitions by topic, as most requests have them.
pub(super) fn by_topic(keys: &[TopicPartition]) -> BTreeMap<Topic, Vec<&TopicPartition>> {
    let mut topics: BTreeMap<Topic, Vec<&TopicPartition>> = BTreeMap::new();
    for key in keys {
        topics.entry(key.topic.clone()).or_default().push(key);
    }
    topics
}

#[derive(Debug)]
pub(crate) struct ListOffsets {
    pub(crate) partitions: BTreeMap<TopicPartition, OffsetSpec>,
}

impl Kind for ListOffsets {
    type Key = TopicPartition;
    type Value = ListedOffset;
    const WHAT: &'static str = "offset of partition";

    fn keys(&self) -> Vec<TopicPartition> {
        self.partitions.keys().cloned().collect()
    }

    fn destination(&self, key: &TopicPartition) -> Destination {
        Destination::Leader(key.clone())
    }

    fn group(&self, key: &TopicPartition) -> u8 {
        u8::from(self.partitions.get(key) == Some(&OffsetSpec::Latest(Isolation::ReadCommitted)))
    }

    fn request(&self, keys: &[TopicPartition], asking: &Asking<'_>) -> Request {
        let committed = keys.first().is_some_and(|key| self.group(key) == 1);
        let partition = |key: &&TopicPartition| {
            ListOffsetsPartition::default().with_partition_index(key.partition).with_timestamp(
                match self.partitions.get(*key) {
                    Some(OffsetSpec::Latest(_)) => -1,
                    Some(OffsetSpec::Timestamp(time)) => *time,
                    Some(OffsetSpec::Earliest) | None => -2,
                },
            )
        };
        let topics = by_topic(keys).into_iter().map(|(topic, keys)| {
            ListOffsetsTopic::default()
                .with_name(topic_name(&topic))
                .with_partitions(keys.iter().map(partition).collect())
        });
        ListOffsetsRequest::default()
            .with_replica_id(BrokerId(-1))
            .with_isolation_level(i8::from(committed))
            .with_topics(topics.collect())
            .with_timeout_ms(asking.timeout.as_millis() as i32)
            .into()
    }

    fn read(
        &self,
        _keys: &[TopicPartition],
        response: Response,
    ) -> Vec<(TopicPartition, Reply<ListedOffset>)> {
        let Response::ListOffsets(response) = response else { return Vec::new() };
        let replies = response.topics.iter().flat_map(|topic| {
            let name = Topic::from(topic.name.as_str());
            topic.partitions.iter().map(move |partition| {
                let reply = Reply::of(partition.error_code, None, || ListedOffset {
                    offset: partition.offset,
                    timestamp: partition.timestamp,
                    leader_epoch: Some(partition.leader_epoch).filter(|epoch| *epoch >= 0),
                });
                (TopicPartition::new(name.clone(), partition.partition_index), reply)
            })
        });
        replies.collect()
    }
}

#[derive(Debug)]
pub(crate) struct DeleteRecords {
    pub(crate) before: BTreeMap<TopicPartition, i64>,
}

impl Kind for DeleteRecords {
    type Key = TopicPartition;
    type Value = i64;
    const WHAT: &'static str = "delete records of partition";

    fn keys(&self) -> Vec<TopicPartition> {
        self.before.keys().cloned().collect()
    }

    fn destination(&self, key: &TopicPartition) -> Destination {
        Destination::Leader(key.clone())
    }

    fn request(&self, keys: &[TopicPartition], asking: &Asking<'_>) -> Request {
        let partition = |key: &&TopicPartition| {
            DeleteRecordsPartition::default()
                .with_partition_index(key.partition)
                .with_offset(self.before.get(*key).copied().unwrap_or(0))
        };
        let topics = by_topic(keys).into_iter().map(|(topic, keys)| {
            DeleteRecordsTopic::default()
                .with_name(topic_name(&topic))
                .with_partitions(keys.iter().map(partition).collect())
        });
        DeleteRecordsRequest::default()
            .with_topics(topics.collect())
            .with_timeout_ms(asking.timeout.as_millis() as i32)
            .into()
    }

    fn read(
        &self,
        _keys: &[TopicPartition],
        response: Response,
    ) -> Vec<(TopicPartition, Reply<i64>)> {
        let Response::DeleteRecords(response) = response else { return Vec::new() };
        let replies = response.topics.iter().flat_map(|topic| {
            let name = Topic::from(topic.name.as_str());
            topic.partitions.iter().map(move |partition| {
                let reply = Reply::of(partition.error_code, None, || partition.low_watermark);
                (TopicPartition::new(name.clone(), partition.partition_index), reply)
            })
        });
        replies.collect()
    }
}

//! Topics: describe, create, delete.

use super::{Asking, Destination, Kind, Reply};
use crate::error::is_retriable;
use crate::requests::{Request, Response};
use crate::types::{NewTopic, Topic, TopicDescription};
use kstreams_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use kstreams_protocol::messages::delete_topics_request::DeleteTopicState;
use kstreams_protocol::messages::metadata_request::MetadataRequestTopic;
use kstreams_protocol::messages::metadata_response::MetadataResponseTopic;
use kstreams_protocol::messages::{
    CreateTopicsRequest, DeleteTopicsRequest, MetadataRequest, TopicName,
};
use kstreams_protocol::protocol::StrBytes;

/// A text as the protocol wants it.
pub(super) fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

pub(super) fn topic_name(topic: &str) -> TopicName {
    TopicName(text(topic))
}

#[derive(Debug)]
pub(crate) struct DescribeTopics {
    pub(crate) topics: Vec<Topic>,
}

impl Kind for DescribeTopics {
    type Key = Topic;
    type Value = TopicDescription;
    const WHAT: &'static str = "topic";

    fn keys(&self) -> Vec<Topic> {
        self.topics.clone()
    }

    fn destination(&self, _key: &Topic) -> Destination {
        Destination::Any
    }

    fn request(&self, keys: &[Topic], _asking: &Asking<'_>) -> Request {
        let topic = |key: &Topic| MetadataRequestTopic::default().with_name(Some(topic_name(key)));
        MetadataRequest::default()
            .with_topics(Some(keys.iter().map(topic).collect()))
            .with_allow_auto_topic_creation(false)
            .into()
    }

    fn read(&self, _keys: &[Topic], response: Response) -> Vec<(Topic, Reply<TopicDescription>)> {
        let Response::Metadata(response) = response else { return Vec::new() };
        let described = response.topics.iter().filter_map(|topic| {
            let name: Topic = topic.name.as_ref()?.as_str().into();
            Some((name.clone(), Reply::of(topic.error_code, None, || description(name, topic))))
        });
        described.collect()
    }

    /// That a topic does not exist is an answer here.
    fn retries(&self, code: i16) -> bool {
        code != 3 && is_retriable(code)
    }
}

fn description(name: Topic, topic: &MetadataResponseTopic) -> TopicDescription {
    let mut leaders = vec![None; topic.partitions.len()];
    for partition in &topic.partitions {
        if let Some(leader) = leaders.get_mut(partition.partition_index as usize) {
            *leader = Some(partition.leader_id.0).filter(|id| *id >= 0);
        }
    }
    TopicDescription {
        name,
        partitions: topic.partitions.len() as i32,
        leaders,
        replication_factor: topic.partitions.first().map_or(0, |p| p.replica_nodes.len() as i16),
        internal: topic.is_internal,
    }
}

#[derive(Debug)]
pub(crate) struct CreateTopics {
    pub(crate) topics: Vec<NewTopic>,
    pub(crate) validate_only: bool,
}

impl Kind for CreateTopics {
    type Key = Topic;
    type Value = ();
    const WHAT: &'static str = "create topic";

    fn keys(&self) -> Vec<Topic> {
        self.topics.iter().map(|topic| topic.name.clone()).collect()
    }

    fn destination(&self, _key: &Topic) -> Destination {
        Destination::Controller
    }

    fn request(&self, keys: &[Topic], asking: &Asking<'_>) -> Request {
        let config = |(key, value): (&String, &String)| {
            CreatableTopicConfig::default().with_name(text(key)).with_value(Some(text(value)))
        };
        let topics = self.topics.iter().filter(|topic| keys.contains(&topic.name)).map(|topic| {
            CreatableTopic::default()
                .with_name(topic_name(&topic.name))
                .with_num_partitions(topic.partitions)
                .with_replication_factor(topic.replication_factor)
                .with_configs(topic.configs.iter().map(config).collect())
        });
        CreateTopicsRequest::default()
            .with_topics(topics.collect())
            .with_timeout_ms(asking.timeout.as_millis() as i32)
            .with_validate_only(self.validate_only)
            .into()
    }

    fn read(&self, _keys: &[Topic], response: Response) -> Vec<(Topic, Reply<()>)> {
        let Response::CreateTopics(response) = response else { return Vec::new() };
        let replies = response.topics.iter().map(|topic| {
            let reply = Reply::of(topic.error_code, topic.error_message.as_deref(), || ());
            (topic.name.as_str().into(), reply)
        });
        replies.collect()
    }
}

#[derive(Debug)]
pub(crate) struct DeleteTopics {
    pub(crate) topics: Vec<Topic>,
}

impl Kind for DeleteTopics {
    type Key = Topic;
    type Value = ();
    const WHAT: &'static str = "delete topic";

    fn keys(&self) -> Vec<Topic> {
        self.topics.clone()
    }

    fn destination(&self, _key: &Topic) -> Destination {
        Destination::Controller
    }

    fn request(&self, keys: &[Topic], asking: &Asking<'_>) -> Request {
        let state = |key: &Topic| DeleteTopicState::default().with_name(Some(topic_name(key)));
        DeleteTopicsRequest::default()
            .with_topics(keys.iter().map(state).collect())
            .with_timeout_ms(asking.timeout.as_millis() as i32)
            .into()
    }

    fn read(&self, _keys: &[Topic], response: Response) -> Vec<(Topic, Reply<()>)> {
        let Response::DeleteTopics(response) = response else { return Vec::new() };
        let replies = response.responses.iter().filter_map(|topic| {
            let reply = Reply::of(topic.error_code, topic.error_message.as_deref(), || ());
            Some((topic.name.as_ref()?.as_str().into(), reply))
        });
        replies.collect()
    }

    /// That a topic does not exist is an answer here.
    fn retries(&self, code: i16) -> bool {
        code != 3 && is_retriable(code)
    }
}

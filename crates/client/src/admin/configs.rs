//! Configs of topics and groups: describe, alter.

use super::topics::text;
use super::{Asking, Destination, Kind, Reply};
use crate::error::is_retriable;
use crate::requests::{Request, Response};
use crate::types::Topic;
use kstreams_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kstreams_protocol::messages::incremental_alter_configs_request::{
    AlterConfigsResource, AlterableConfig,
};
use kstreams_protocol::messages::{DescribeConfigsRequest, IncrementalAlterConfigsRequest};
use std::collections::BTreeMap;

/// The resource type "topic".
const TOPIC: i8 = 2;
/// The resource type "group".
const GROUP: i8 = 32;

/// Whose configs.
#[derive(Debug)]
pub(crate) enum DescribeConfigs {
    Topics(Vec<Topic>),
    Groups(Vec<Topic>),
}

impl Kind for DescribeConfigs {
    type Key = Topic;
    type Value = BTreeMap<String, Option<String>>;
    const WHAT: &'static str = "configs of";

    fn keys(&self) -> Vec<Topic> {
        let (Self::Topics(names) | Self::Groups(names)) = self;
        names.clone()
    }

    fn destination(&self, _key: &Topic) -> Destination {
        Destination::Any
    }

    fn request(&self, keys: &[Topic], _asking: &Asking<'_>) -> Request {
        let kind = match self {
            Self::Topics(_) => TOPIC,
            Self::Groups(_) => GROUP,
        };
        let resource = |key: &Topic| {
            DescribeConfigsResource::default()
                .with_resource_type(kind)
                .with_resource_name(text(key))
                .with_configuration_keys(None)
        };
        DescribeConfigsRequest::default().with_resources(keys.iter().map(resource).collect()).into()
    }

    fn read(&self, _keys: &[Topic], response: Response) -> Vec<(Topic, Reply<Self::Value>)> {
        let Response::DescribeConfigs(response) = response else { return Vec::new() };
        let replies = response.results.iter().map(|found| {
            let reply = Reply::of(found.error_code, found.error_message.as_deref(), || {
                let value = |value: &Option<_>| value.as_ref().map(ToString::to_string);
                found.configs.iter().map(|c| (c.name.to_string(), value(&c.value))).collect()
            });
            (found.resource_name.as_str().into(), reply)
        });
        replies.collect()
    }

    /// That a topic does not exist is an answer here.
    fn retries(&self, code: i16) -> bool {
        code != 3 && is_retriable(code)
    }
}

#[derive(Debug)]
pub(crate) struct AlterConfigs {
    pub(crate) topics: BTreeMap<Topic, BTreeMap<String, String>>,
}

impl Kind for AlterConfigs {
    type Key = Topic;
    type Value = ();
    const WHAT: &'static str = "alter configs of topic";

    fn keys(&self) -> Vec<Topic> {
        self.topics.keys().cloned().collect()
    }

    fn destination(&self, _key: &Topic) -> Destination {
        Destination::Controller
    }

    fn request(&self, keys: &[Topic], _asking: &Asking<'_>) -> Request {
        let config = |(key, value): (&String, &String)| {
            AlterableConfig::default().with_name(text(key)).with_value(Some(text(value)))
        };
        let resources = self.topics.iter().filter(|(topic, _)| keys.contains(topic));
        let resources = resources.map(|(topic, configs)| {
            AlterConfigsResource::default()
                .with_resource_type(TOPIC)
                .with_resource_name(text(topic))
                .with_configs(configs.iter().map(config).collect())
        });
        IncrementalAlterConfigsRequest::default().with_resources(resources.collect()).into()
    }

    fn read(&self, _keys: &[Topic], response: Response) -> Vec<(Topic, Reply<()>)> {
        let Response::AlterConfigs(response) = response else { return Vec::new() };
        let replies = response.responses.iter().map(|topic| {
            let reply = Reply::of(topic.error_code, topic.error_message.as_deref(), || ());
            (topic.resource_name.as_str().into(), reply)
        });
        replies.collect()
    }

    /// That a topic does not exist is an answer here.
    fn retries(&self, code: i16) -> bool {
        code != 3 && is_retriable(code)
    }
}

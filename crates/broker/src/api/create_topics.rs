//! CreateTopics (19), versions 2 to 7: one replica, whatever the assignment says.

use std::collections::BTreeMap;

use kstreams_protocol::ResponseError;
use kstreams_protocol::messages::create_topics_request::CreatableTopic;
use kstreams_protocol::messages::create_topics_response::{
    CreatableTopicConfigs, CreatableTopicResult,
};
use kstreams_protocol::messages::{CreateTopicsRequest, CreateTopicsResponse};

use super::describe_configs::{DEFAULT_CONFIG, DYNAMIC_TOPIC_CONFIG};
use super::{Call, str_bytes};
use crate::error::Refusal;
use crate::node::Node;
use crate::topic_config::{KEYS, value_of};

pub(super) fn handle(
    node: &mut Node,
    _: &Call,
    request: CreateTopicsRequest,
) -> CreateTopicsResponse {
    let results = request.topics.iter().map(|topic| {
        let result = CreatableTopicResult::default().with_name(topic.name.clone());
        match create(node, topic, request.validate_only) {
            Ok((id, partitions, set)) => result
                .with_topic_id(id)
                .with_num_partitions(partitions)
                .with_replication_factor(1)
                .with_configs(Some(describe(&set))),
            Err(refusal) => result
                .with_error_code(refusal.code())
                .with_error_message(refusal.message.as_deref().map(str_bytes))
                .with_num_partitions(-1)
                .with_replication_factor(-1)
                .with_configs(Some(Vec::new())),
        }
    });
    CreateTopicsResponse::default().with_topics(results.collect())
}

type Created = (uuid::Uuid, i32, BTreeMap<String, String>);

fn create(
    node: &mut Node,
    topic: &CreatableTopic,
    validate_only: bool,
) -> Result<Created, Refusal> {
    let mut set = BTreeMap::new();
    for config in &topic.configs {
        let Some(value) = &config.value else {
            let message =
                format!("Null value not supported for topic configs: {}", config.name.as_str());
            return Err(Refusal::new(ResponseError::InvalidConfig, message));
        };
        set.insert(config.name.to_string(), value.to_string());
    }
    check_replication(i32::from(topic.replication_factor))?;
    let partitions = match (topic.assignments.len(), topic.num_partitions) {
        (0, -1) => node.config.num_partitions,
        (0, partitions) => partitions,
        (assigned, _) => i32::try_from(assigned).unwrap_or(i32::MAX),
    };
    node.topics.check_new(&topic.name, partitions, &set)?;
    if validate_only {
        return Ok((uuid::Uuid::nil(), partitions, set));
    }
    let pairs: Vec<(&str, &str)> = set.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    node.create_topic(&topic.name, partitions, &pairs)?;
    let id = node.topics.get(&topic.name).map(|topic| topic.id).unwrap_or_default();
    Ok((id, partitions, set))
}

/// There is one broker: a topic cannot have more replicas.
pub(crate) fn check_replication(factor: i32) -> Result<(), Refusal> {
    match factor {
        -1 | 1 => Ok(()),
        0 | ..-1 => {
            let message =
                "Replication factor must be larger than 0, or -1 to use the default value.";
            Err(Refusal::new(ResponseError::InvalidReplicationFactor, message))
        }
        _ => {
            let message = format!(
                "Unable to replicate the partition {factor} time(s): The target replication factor \
                 of {factor} cannot be reached because only 1 broker(s) are registered or some brokers \
                 have all their log directories cordoned."
            );
            Err(Refusal::new(ResponseError::InvalidReplicationFactor, message))
        }
    }
}

fn describe(set: &BTreeMap<String, String>) -> Vec<CreatableTopicConfigs> {
    let config = |key: &crate::topic_config::TopicKey| {
        let source = if set.contains_key(key.name) { DYNAMIC_TOPIC_CONFIG } else { DEFAULT_CONFIG };
        CreatableTopicConfigs::default()
            .with_name(str_bytes(key.name))
            .with_value(Some(str_bytes(value_of(set, key.name))))
            .with_config_source(source)
    };
    KEYS.iter().map(config).collect()
}

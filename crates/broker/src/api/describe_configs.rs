//! DescribeConfigs (32), versions 1 to 4: all settings of topics, and those of the broker and of
//! groups that tools look at. Nothing is documented, nothing is sensitive.

use kstreams_protocol::ResponseError;
use kstreams_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kstreams_protocol::messages::describe_configs_response::{
    DescribeConfigsResourceResult, DescribeConfigsResult, DescribeConfigsSynonym,
};
use kstreams_protocol::messages::{DescribeConfigsRequest, DescribeConfigsResponse};
use kstreams_protocol::protocol::StrBytes;

use super::{Call, str_bytes};
use crate::error::Refusal;
use crate::node::Node;
use crate::topic_config::{ConfigType, KEYS, TopicKey};

pub(super) const TOPIC: i8 = 2;
pub(super) const BROKER: i8 = 4;

pub(super) const DYNAMIC_TOPIC_CONFIG: i8 = 1;
const STATIC_BROKER_CONFIG: i8 = 4;
pub(super) const DEFAULT_CONFIG: i8 = 5;

pub(super) fn handle(
    node: &mut Node,
    _: &Call,
    request: DescribeConfigsRequest,
) -> DescribeConfigsResponse {
    let synonyms = request.include_synonyms;
    let results = request.resources.iter().map(|resource| {
        let result = DescribeConfigsResult::default()
            .with_resource_type(resource.resource_type)
            .with_resource_name(resource.resource_name.clone());
        match describe(node, resource, synonyms) {
            Ok(configs) => result.with_configs(configs),
            Err(refusal) => result
                .with_error_code(refusal.code())
                .with_error_message(refusal.message.as_deref().map(str_bytes)),
        }
    });
    DescribeConfigsResponse::default().with_results(results.collect())
}

fn describe(
    node: &Node,
    resource: &DescribeConfigsResource,
    synonyms: bool,
) -> Result<Vec<DescribeConfigsResourceResult>, Refusal> {
    let wanted = |name: &str| {
        let keys = resource.configuration_keys.as_ref();
        keys.is_none_or(|keys| keys.is_empty() || keys.iter().any(|key| key.as_str() == name))
    };
    match resource.resource_type {
        TOPIC => {
            let topic = node.topics.get(&resource.resource_name);
            let topic = topic.ok_or(ResponseError::UnknownTopicOrPartition)?;
            let keys = KEYS.iter().filter(|key| wanted(key.name));
            Ok(keys.map(|key| topic_config(key, topic.set.get(key.name), synonyms)).collect())
        }
        BROKER => {
            let mut configs = broker_configs(node);
            configs.retain(|config| wanted(&config.name));
            Ok(configs)
        }
        _ => Ok(Vec::new()),
    }
}

fn topic_config(
    key: &TopicKey,
    set: Option<&String>,
    synonyms: bool,
) -> DescribeConfigsResourceResult {
    let source = if set.is_some() { DYNAMIC_TOPIC_CONFIG } else { DEFAULT_CONFIG };
    let value: Option<StrBytes> = Some(str_bytes(set.map_or(key.default, String::as_str)));
    let synonym = |value: &Option<StrBytes>, source| {
        DescribeConfigsSynonym::default()
            .with_name(str_bytes(key.name))
            .with_value(value.clone())
            .with_source(source)
    };
    let mut all = Vec::new();
    if synonyms {
        if set.is_some() {
            all.push(synonym(&value, source));
        }
        all.push(synonym(&Some(str_bytes(key.default)), DEFAULT_CONFIG));
    }
    DescribeConfigsResourceResult::default()
        .with_name(str_bytes(key.name))
        .with_value(value)
        .with_config_source(source)
        .with_config_type(key.kind as i8)
        .with_synonyms(all)
}

fn broker_configs(node: &Node) -> Vec<DescribeConfigsResourceResult> {
    let config = &node.config;
    let number = |n: i64| n.to_string();
    let all: [(&str, String, ConfigType); 13] = [
        ("auto.create.topics.enable", config.auto_create_topics.to_string(), ConfigType::Boolean),
        ("default.replication.factor", "1".into(), ConfigType::Int),
        (
            "group.streams.heartbeat.interval.ms",
            number(config.streams_heartbeat_interval_ms.into()),
            ConfigType::Int,
        ),
        (
            "group.streams.initial.rebalance.delay.ms",
            number(config.streams_initial_rebalance_delay_ms),
            ConfigType::Int,
        ),
        (
            "group.streams.num.standby.replicas",
            config.streams_num_standby_replicas.to_string(),
            ConfigType::Int,
        ),
        (
            "group.streams.session.timeout.ms",
            number(config.streams_session_timeout_ms),
            ConfigType::Int,
        ),
        ("log.cleanup.policy", "delete".into(), ConfigType::List),
        ("message.max.bytes", "1048588".into(), ConfigType::Int),
        ("min.insync.replicas", "1".into(), ConfigType::Int),
        ("node.id", config.node_id.to_string(), ConfigType::Int),
        ("num.partitions", config.num_partitions.to_string(), ConfigType::Int),
        (
            "offset.metadata.max.bytes",
            config.offset_metadata_max_bytes.to_string(),
            ConfigType::Int,
        ),
        ("socket.request.max.bytes", config.socket_request_max_bytes.to_string(), ConfigType::Int),
    ];
    let entry = |(name, value, kind): (&str, String, ConfigType)| {
        DescribeConfigsResourceResult::default()
            .with_name(str_bytes(name))
            .with_value(Some(StrBytes::from_string(value)))
            .with_read_only(true)
            .with_config_source(STATIC_BROKER_CONFIG)
            .with_config_type(kind as i8)
    };
    all.into_iter().map(entry).collect()
}

//! IncrementalAlterConfigs (44), versions 0 to 1: settings of topics, one by one. The broker's own
//! do not change while it runs.

use kstreams_protocol::ResponseError;
use kstreams_protocol::messages::incremental_alter_configs_request::{
    AlterConfigsResource, AlterableConfig,
};
use kstreams_protocol::messages::incremental_alter_configs_response::AlterConfigsResourceResponse;
use kstreams_protocol::messages::{
    IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse,
};

use super::describe_configs::TOPIC;
use super::{Call, str_bytes};
use crate::error::Refusal;
use crate::node::Node;
use crate::topic_config::{ConfigType, TopicConfig, find, value_of};

const SET: i8 = 0;
const DELETE: i8 = 1;
const APPEND: i8 = 2;
const SUBTRACT: i8 = 3;

pub(super) fn handle(
    node: &mut Node,
    _: &Call,
    request: IncrementalAlterConfigsRequest,
) -> IncrementalAlterConfigsResponse {
    let responses = request.resources.into_iter().map(|resource| {
        let refusal = alter(node, &resource, request.validate_only).err();
        let message = refusal.as_ref().and_then(|refusal| refusal.message.as_deref());
        AlterConfigsResourceResponse::default()
            .with_resource_type(resource.resource_type)
            .with_resource_name(resource.resource_name)
            .with_error_code(refusal.as_ref().map_or(0, Refusal::code))
            .with_error_message(message.map(str_bytes))
    });
    IncrementalAlterConfigsResponse::default().with_responses(responses.collect())
}

fn alter(
    node: &mut Node,
    resource: &AlterConfigsResource,
    validate_only: bool,
) -> Result<(), Refusal> {
    if resource.resource_type != TOPIC {
        let message = "Only the settings of topics can be changed";
        return Err(Refusal::new(ResponseError::InvalidRequest, message));
    }
    let name = &resource.resource_name;
    let topic = node.topics.get(name).ok_or(ResponseError::UnknownTopicOrPartition)?;
    let mut set = topic.set.clone();
    for config in &resource.configs {
        match change(config, value_of(&set, &config.name))? {
            Some(value) => set.insert(config.name.to_string(), value),
            None => set.remove(config.name.as_str()),
        };
    }
    TopicConfig::new(&set)?;
    if validate_only {
        return Ok(());
    }
    node.topics.configure(name, set, &mut node.journal)
}

/// What the setting becomes; `None` takes it back.
fn change(config: &AlterableConfig, before: &str) -> Result<Option<String>, Refusal> {
    let invalid = |message: String| Refusal::new(ResponseError::InvalidConfig, message);
    let value = || {
        let missing = || invalid(format!("Null value not supported for: {}", config.name.as_str()));
        config.value.as_ref().map(kstreams_protocol::protocol::StrBytes::as_str).ok_or_else(missing)
    };
    let list = || match find(&config.name).map(|key| key.kind) {
        Some(ConfigType::List) => {
            Ok(before.split(',').filter(|element| !element.is_empty()).collect::<Vec<_>>())
        }
        _ => Err(invalid(format!("Config {} is not a list", config.name.as_str()))),
    };
    match config.config_operation {
        SET => Ok(Some(value()?.to_owned())),
        DELETE => Ok(None),
        APPEND => {
            let mut list = list()?;
            let more = value()?.split(',').filter(|element| !list.contains(element));
            let more: Vec<&str> = more.collect();
            list.extend(more);
            Ok(Some(list.join(",")))
        }
        SUBTRACT => {
            let mut list = list()?;
            let less: Vec<&str> = value()?.split(',').collect();
            list.retain(|element| !less.contains(element));
            Ok(Some(list.join(",")))
        }
        other => {
            let message = format!("Unknown operation type {other}");
            Err(Refusal::new(ResponseError::InvalidRequest, message))
        }
    }
}

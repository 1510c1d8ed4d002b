//! AlterConfigs (33), versions 0 to 2: all settings of a topic at once; those left out go back to
//! their defaults. Removed from newer tools in favour of the incremental request.

use kstreams_protocol::ResponseError;
use kstreams_protocol::messages::alter_configs_request::AlterConfigsResource;
use kstreams_protocol::messages::alter_configs_response::AlterConfigsResourceResponse;
use kstreams_protocol::messages::{AlterConfigsRequest, AlterConfigsResponse};

use super::describe_configs::TOPIC;
use super::{Call, str_bytes};
use crate::error::Refusal;
use crate::node::Node;
use crate::topic_config::TopicConfig;

pub(super) fn handle(
    node: &mut Node,
    _: &Call,
    request: AlterConfigsRequest,
) -> AlterConfigsResponse {
    let responses = request.resources.into_iter().map(|resource| {
        let refusal = alter(node, &resource, request.validate_only).err();
        let message = refusal.as_ref().and_then(|refusal| refusal.message.as_deref());
        AlterConfigsResourceResponse::default()
            .with_resource_type(resource.resource_type)
            .with_resource_name(resource.resource_name)
            .with_error_code(refusal.as_ref().map_or(0, Refusal::code))
            .with_error_message(message.map(str_bytes))
    });
    AlterConfigsResponse::default().with_responses(responses.collect())
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
    node.topics.get(name).ok_or(ResponseError::UnknownTopicOrPartition)?;
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let configs = resource.configs.iter();
    let set = configs.filter_map(|c| Some(pair(&c.name, c.value.as_ref()?.as_str()))).collect();
    TopicConfig::new(&set)?;
    if validate_only {
        return Ok(());
    }
    node.topics.configure(name, set, &mut node.journal)
}

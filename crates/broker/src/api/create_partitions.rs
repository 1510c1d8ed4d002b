//! CreatePartitions (37), versions 0 to 3: gives topics more partitions.

use kstreams_protocol::ResponseError;
use kstreams_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use kstreams_protocol::messages::create_partitions_response::CreatePartitionsTopicResult;
use kstreams_protocol::messages::{CreatePartitionsRequest, CreatePartitionsResponse};

use super::{Call, str_bytes};
use crate::error::Refusal;
use crate::node::Node;

pub(super) fn handle(
    node: &mut Node,
    _: &Call,
    request: CreatePartitionsRequest,
) -> CreatePartitionsResponse {
    let results = request.topics.into_iter().map(|topic| {
        let refusal = grow(node, &topic, request.validate_only).err();
        let message = refusal.as_ref().and_then(|refusal| refusal.message.as_deref());
        CreatePartitionsTopicResult::default()
            .with_name(topic.name)
            .with_error_code(refusal.as_ref().map_or(0, Refusal::code))
            .with_error_message(message.map(str_bytes))
    });
    CreatePartitionsResponse::default().with_results(results.collect())
}

fn grow(
    node: &mut Node,
    asked: &CreatePartitionsTopic,
    validate_only: bool,
) -> Result<(), Refusal> {
    let topic = node.topics.get(&asked.name).ok_or(ResponseError::UnknownTopicOrPartition)?;
    let has = i32::try_from(topic.partitions.len()).unwrap_or(i32::MAX);
    if asked.count <= has {
        let message = format!(
            "The topic {} currently has {has} partition(s); {} would not be an increase.",
            asked.name.as_str(),
            asked.count
        );
        return Err(Refusal::new(ResponseError::InvalidPartitions, message));
    }
    if validate_only {
        return Ok(());
    }
    node.topics.grow(&asked.name, asked.count, &mut node.journal, node.now)?;
    node.groups.topics_changed();
    Ok(())
}

//! DeleteTopics (20), versions 1 to 6: by name or (from 6) id; records and committed offsets go too.

use kstreams_protocol::ResponseError;
use kstreams_protocol::messages::delete_topics_request::DeleteTopicState;
use kstreams_protocol::messages::delete_topics_response::DeletableTopicResult;
use kstreams_protocol::messages::{DeleteTopicsRequest, DeleteTopicsResponse, TopicName};

use super::{Call, str_bytes};
use crate::error::Refusal;
use crate::node::Node;

pub(super) fn handle(
    node: &mut Node,
    _: &Call,
    request: DeleteTopicsRequest,
) -> DeleteTopicsResponse {
    let named = |name: TopicName| DeleteTopicState::default().with_name(Some(name));
    let mut states = request.topics;
    states.extend(request.topic_names.into_iter().map(named));
    let results = states.into_iter().map(|state| {
        let name = match &state.name {
            Some(name) => Ok(name.to_string()),
            None => node
                .topics
                .name_of(state.topic_id)
                .map(str::to_owned)
                .ok_or(Refusal::from(ResponseError::UnknownTopicId)),
        };
        let id = name.as_ref().ok().and_then(|name| node.topics.get(name)).map(|topic| topic.id);
        let deleted = name.clone().and_then(|name| node.delete_topic(&name));
        let refusal = deleted.err();
        let message = refusal.as_ref().and_then(|refusal| refusal.message.as_deref());
        DeletableTopicResult::default()
            .with_name(name.ok().map(|name| TopicName(str_bytes(&name))))
            .with_topic_id(id.unwrap_or(state.topic_id))
            .with_error_code(refusal.as_ref().map_or(0, Refusal::code))
            .with_error_message(message.map(str_bytes))
    });
    DeleteTopicsResponse::default().with_responses(results.collect())
}

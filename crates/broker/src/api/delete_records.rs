//! DeleteRecords (21), versions 0 to 2: moves the start of partitions forward.

use kstreams_protocol::ResponseError;
use kstreams_protocol::messages::delete_records_response::{
    DeleteRecordsPartitionResult, DeleteRecordsTopicResult,
};
use kstreams_protocol::messages::{DeleteRecordsRequest, DeleteRecordsResponse};

use super::Call;
use crate::node::Node;

pub(super) fn handle(
    node: &mut Node,
    _: &Call,
    request: DeleteRecordsRequest,
) -> DeleteRecordsResponse {
    let mut topics = Vec::with_capacity(request.topics.len());
    for topic in request.topics {
        let partitions = topic.partitions.iter().map(|asked| {
            let deleted = delete(node, &topic.name, asked.partition_index, asked.offset);
            DeleteRecordsPartitionResult::default()
                .with_partition_index(asked.partition_index)
                .with_low_watermark(deleted.unwrap_or(-1))
                .with_error_code(deleted.err().map_or(0, |error| error.code()))
        });
        let partitions = partitions.collect();
        topics.push(
            DeleteRecordsTopicResult::default().with_name(topic.name).with_partitions(partitions),
        );
    }
    DeleteRecordsResponse::default().with_topics(topics)
}

fn delete(node: &mut Node, name: &str, partition: i32, offset: i64) -> Result<i64, ResponseError> {
    let topic = node.topics.get_mut(name).ok_or(ResponseError::UnknownTopicOrPartition)?;
    if !topic.config.delete {
        return Err(ResponseError::PolicyViolation);
    }
    let log = node.topics.log_mut(name, partition).ok_or(ResponseError::UnknownTopicOrPartition)?;
    // -1 asks for all there is.
    let offset = if offset == -1 { log.end_offset() } else { offset };
    if offset < 0 || offset > log.end_offset() {
        return Err(ResponseError::OffsetOutOfRange);
    }
    log.delete_before(offset).map_err(|error| {
        tracing::error!(topic = name, partition, %error, "records could not be deleted");
        ResponseError::KafkaStorageError
    })?;
    let start = log.start_offset();
    node.record_start(name, partition);
    Ok(start)
}

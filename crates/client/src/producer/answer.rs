//! What the brokers said of the batches sent to them.

use super::coordination::SOON;
use super::{Context, ProducerMachine};
use crate::error::{ClientError, ErrorKind, is_retriable};
use crate::producer_handle::PartitionHandle;
use crate::requests::Response;
use crate::transaction::{Remedy, remedy};
use crate::types::{Topic, TopicPartition};
use kstreams_protocol::messages::produce_response::PartitionProduceResponse;
use std::sync::atomic::Ordering;

const MESSAGE_TOO_LARGE: i16 = 10;
const RECORD_LIST_TOO_LARGE: i16 = 18;
const OUT_OF_ORDER_SEQUENCE: i16 = 45;
const DUPLICATE_SEQUENCE: i16 = 46;
const INVALID_PRODUCER_EPOCH: i16 = 47;
const CONCURRENT_TRANSACTIONS: i16 = 51;
const UNKNOWN_PRODUCER_ID: i16 = 59;

impl ProducerMachine {
    pub(crate) fn on_answer(
        &mut self,
        id: u64,
        result: Result<Response, ClientError>,
        cx: &mut Context<'_>,
    ) {
        let answer = match result {
            Ok(Response::Produce(answer)) => answer,
            Ok(_) => {
                let error = ClientError::retriable("another answer than asked for");
                return self.on_lost(id, &error, cx);
            }
            Err(error) => return self.on_lost(id, &error, cx),
        };
        let Some(asked) = self.asked.remove(&id) else { return };
        for topic in &answer.responses {
            let name = match topic.name.is_empty() {
                true => asked.topics.get(&topic.topic_id).cloned(),
                false => Some(Topic::from(topic.name.as_str())),
            };
            let Some(name) = name else { continue };
            for partition in &topic.partition_responses {
                let name = TopicPartition::new(name.clone(), partition.index);
                let Some(handle) = self.by_name.get(&name).copied() else { continue };
                self.on_partition(id, handle, partition, cx);
            }
        }
        // What the answer leaves out is sent again.
        for handle in asked.partitions {
            let error = ClientError::retriable("the broker's answer leaves the partition out");
            self.retry(id, handle, &error, cx);
        }
        self.complete_flushes();
    }

    /// A request was lost: nobody knows whether its batches were written, so they are sent again
    /// with the same numbers.
    pub(super) fn on_lost(&mut self, id: u64, error: &ClientError, cx: &mut Context<'_>) {
        let Some(asked) = self.asked.remove(&id) else { return };
        tracing::debug!(%error, "a produce request was lost");
        cx.metadata.refresh();
        for handle in asked.partitions {
            self.retry(id, handle, error, cx);
        }
    }

    fn retry(&mut self, id: u64, handle: PartitionHandle, error: &ClientError, cx: &Context<'_>) {
        let queue = &mut self.partitions[handle.0 as usize];
        if let Some(at) = queue.in_request(id) {
            queue.retry(at, error.clone(), true);
            queue.not_before = cx.now + cx.retry_backoff;
        }
    }

    fn on_partition(
        &mut self,
        id: u64,
        handle: PartitionHandle,
        answer: &PartitionProduceResponse,
        cx: &mut Context<'_>,
    ) {
        let queue = &mut self.partitions[handle.0 as usize];
        let Some(at) = queue.in_request(id) else { return };
        let context = format!("write to {}", queue.name);
        let error =
            ClientError::broker(answer.error_code, context, answer.error_message.as_deref());
        match answer.error_code {
            0 => {
                let bytes = queue.acknowledge(at, answer.base_offset);
                self.reserved.fetch_sub(bytes, Ordering::Relaxed);
            }
            // The broker has it from an earlier try.
            DUPLICATE_SEQUENCE => {
                let bytes = queue.acknowledge(at, -1);
                self.reserved.fetch_sub(bytes, Ordering::Relaxed);
            }
            CONCURRENT_TRANSACTIONS if self.transactional.is_some() => {
                // The transaction before it is still being ended.
                queue.retry(at, error, false);
                queue.not_before = cx.now + SOON;
            }
            OUT_OF_ORDER_SEQUENCE if at > 0 => {
                // One before it has to be sent again first. An earlier try that was lost may still
                // lie with the broker and be written, once that one is.
                queue.retry(at, error, false);
            }
            code if self.transactional.is_some() && remedy(code) == Remedy::Init => {
                self.fence(error);
            }
            OUT_OF_ORDER_SEQUENCE | UNKNOWN_PRODUCER_ID if self.transactional.is_some() => {
                self.refuse(error.of_kind(ErrorKind::Abortable));
            }
            OUT_OF_ORDER_SEQUENCE | UNKNOWN_PRODUCER_ID | INVALID_PRODUCER_EPOCH => {
                // The broker lost the batches before it, or all it knew of the producer. This one
                // and all behind it were not written.
                tracing::warn!(%error, "the broker lost the producer's sequence");
                queue.retry_unwritten(at, error);
                queue.renumber = true;
                queue.not_before = cx.now + cx.retry_backoff;
            }
            MESSAGE_TOO_LARGE | RECORD_LIST_TOO_LARGE => match queue
                .split(at, self.transactional.is_some())
            {
                Ok(true) => tracing::info!(%error, "the batch is split"),
                Ok(false) => {
                    let advice = "Raise max.message.bytes of the topic, or write smaller records";
                    self.give_up(handle, at, error.advising(advice));
                }
                Err(broken) => self.give_up(handle, at, broken),
            },
            code if is_retriable(code) => {
                cx.metadata.refresh();
                // Some of these codes come after the leader wrote the batch.
                queue.retry(at, error, true);
                queue.not_before = cx.now + cx.retry_backoff;
            }
            _ => self.give_up(handle, at, error),
        }
    }

    fn give_up(&mut self, handle: PartitionHandle, at: usize, error: ClientError) {
        let queue = &mut self.partitions[handle.0 as usize];
        if let Some(bytes) = queue.give_up(at) {
            self.reserved.fetch_sub(bytes, Ordering::Relaxed);
            let error = error.about(&queue.name.topic);
            self.keep_failure(error);
        }
    }
}

//! Writes batches, idempotently: each record once and in order, whatever is lost on the way.
//!
//! A partition has a queue of batches in sequence order. A batch is
//!
//! ```text
//!          sent                 acknowledged
//! Waiting ------> In a request --------------> gone
//!    ^                 |   '--(refused for good)--> gone, error kept for the flush
//!    '---(may pass)----'
//! ```
//! The rules that keep order: a batch is sent only while all batches behind it wait, and a batch
//! keeps its sequence numbers however often it is sent, so that the broker recognises it. When
//! numbers are lost (a batch failed for good, or the broker lost its log's end), the partition lets
//! what is in flight come back, takes the next epoch and numbers what is left from 0 anew.

mod answer;
mod coordination;
mod queue;
mod transactional;

use crate::command::ReadyBatch;
use crate::config::ProducerConfig;
use crate::connection::Ticket;
use crate::connections::{Connections, Lane, Node};
use crate::coordinator::Coordinators;
use crate::error::{ClientError, ErrorKind};
use crate::metadata::{Metadata, any_node};
use crate::pending::Completer;
use crate::producer_handle::{Flushed, PartitionHandle};
use crate::requests::{Api, Request, Response};
use crate::transaction::{Event, Identity, ProducerIdentity};
use crate::types::{Now, Topic, TopicPartition};
use kstreams_protocol::Uuid;
use kstreams_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kstreams_protocol::messages::{InitProducerIdRequest, ProduceRequest, ProducerId, TopicName};
use kstreams_protocol::protocol::StrBytes;
use queue::{Batching, PartitionQueue};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use transactional::Transactional;

/// Requests in flight on a connection: the broker remembers as many batches of a partition.
const IN_FLIGHT_MAX: usize = 5;

/// What a producer works with.
pub(crate) struct Context<'a> {
    pub(crate) connections: &'a mut Connections,
    pub(crate) metadata: &'a mut Metadata,
    pub(crate) coordinators: &'a mut Coordinators,
    pub(crate) retry_backoff: Duration,
    pub(crate) operation_timeout: Duration,
    pub(crate) now: Now,
}

/// A request on its way: its batches by partition.
#[derive(Debug)]
struct Asked {
    partitions: Vec<PartitionHandle>,
    topics: BTreeMap<Uuid, Topic>,
}

/// A flush that waits for the batches before it.
#[derive(Debug)]
struct FlushWaiting {
    /// Batches with a number below this one must be gone.
    before: u64,
    completer: Completer<Flushed>,
}

/// The driver's half of a [`Producer`](crate::Producer).
#[derive(Debug)]
pub(crate) struct ProducerMachine {
    number: u32,
    config: ProducerConfig,
    reserved: Arc<AtomicUsize>,
    identity: Identity,
    transactional: Option<Transactional>,
    partitions: Vec<PartitionQueue>,
    by_name: BTreeMap<TopicPartition, PartitionHandle>,
    asked: BTreeMap<u64, Asked>,
    next_id: u64,
    /// Number of the next batch, counted over all partitions.
    next_batch: u64,
    flushes: Vec<FlushWaiting>,
    /// The first error since the flush before.
    failure: Option<ClientError>,
    closing: bool,
    rotation: usize,
    first: usize,
}

impl ProducerMachine {
    pub(crate) fn new(number: u32, config: ProducerConfig, reserved: Arc<AtomicUsize>) -> Self {
        Self {
            number,
            transactional: Transactional::new(&config),
            config,
            reserved,
            identity: Identity::Unset { not_before: Now::ZERO },
            partitions: Vec::new(),
            by_name: BTreeMap::new(),
            asked: BTreeMap::new(),
            next_id: 0,
            next_batch: 0,
            flushes: Vec::new(),
            failure: None,
            closing: false,
            rotation: 0,
            first: 0,
        }
    }

    pub(crate) fn add_partition(&mut self, handle: PartitionHandle, name: TopicPartition) {
        // Handles are given out in order, and commands keep it.
        debug_assert_eq!(handle.0 as usize, self.partitions.len());
        self.by_name.insert(name.clone(), handle);
        self.partitions.push(PartitionQueue::new(name));
    }

    pub(crate) fn produce(&mut self, batch: ReadyBatch, now: Now) {
        let number = self.next_batch;
        self.next_batch += 1;
        let deadline = now + self.config.delivery_timeout;
        if let Some(queue) = self.partitions.get_mut(batch.handle.0 as usize) {
            queue.push(number, batch.writer, batch.bytes, deadline);
        }
    }

    pub(crate) fn flush(&mut self, completer: Completer<Flushed>) {
        self.flushes.push(FlushWaiting { before: self.next_batch, completer });
        self.complete_flushes();
    }

    /// The stream thread dropped its half: what was handed over is still tried.
    pub(crate) fn close(&mut self) {
        self.closing = true;
    }

    pub(crate) fn is_done(&self) -> bool {
        let ended = self.transactional.as_ref().is_none_or(|t| t.orders.is_empty());
        self.closing && ended && self.partitions.iter().all(PartitionQueue::is_empty)
    }

    /// Sends what can be sent; gives when to look again.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Option<Now> {
        self.expire(cx.now);
        let mut due = self.advance(cx);
        let records = self.send_records(cx);
        if self.lost().is_some() {
            // Maybe only since then.
            due = self.advance(cx);
            self.complete_flushes();
        }
        due.into_iter().chain(records).min()
    }

    fn send_records(&mut self, cx: &mut Context<'_>) -> Option<Now> {
        if self.partitions.iter().all(PartitionQueue::is_empty) {
            self.complete_flushes();
            return None;
        }
        let deadline = self.partitions.iter().filter_map(PartitionQueue::deadline).min();
        let Some(identity) = self.identity(cx) else {
            let again = match self.identity {
                Identity::Unset { not_before } if not_before > cx.now => Some(not_before),
                _ => None,
            };
            return deadline.into_iter().chain(again).min();
        };
        self.renumber(identity);
        let mut next = deadline;
        let mut due: BTreeMap<Node, Vec<usize>> = BTreeMap::new();
        for index in self.in_turn() {
            let queue = &self.partitions[index];
            if !queue.can_send() || self.needs_adding(index) {
                continue;
            }
            if queue.not_before > cx.now {
                next = next.into_iter().chain([queue.not_before]).min();
                continue;
            }
            cx.metadata.watch(&queue.name.topic);
            match cx.metadata.leader(&queue.name) {
                Some(leader) => due.entry(Node::Broker(leader.broker)).or_default().push(index),
                None => self.on_no_leader(index, cx),
            }
        }
        for (node, mut indexes) in due {
            while !indexes.is_empty() && self.send(node, &indexes, identity, cx) {
                indexes.retain(|index| self.partitions[*index].can_send());
            }
        }
        self.first = self.first.wrapping_add(1);
        self.complete_flushes();
        next
    }

    /// The partitions, another one first each time.
    fn in_turn(&self) -> impl Iterator<Item = usize> + use<> {
        let count = self.partitions.len();
        let first = self.first;
        (0..count).map(move |at| (at + first) % count)
    }

    fn on_no_leader(&mut self, index: usize, cx: &mut Context<'_>) {
        let queue = &mut self.partitions[index];
        let name = queue.name.clone();
        let exists = cx.metadata.topic(&name.topic).map(|topic| topic.leaders.len() as i32);
        let refused = cx.metadata.failure(&name.topic).filter(|code| matches!(code, 17 | 29));
        if let Some(partitions) = exists.filter(|partitions| *partitions <= name.partition) {
            let message = format!("cannot write to {name}: the topic has {partitions} partitions");
            self.fail_all(index, &ClientError::new(ErrorKind::NotFound, message));
        } else if let Some(code) = refused {
            let context = format!("cannot write to {name}");
            self.fail_all(index, &ClientError::broker(code, context, None));
        } else {
            let missing = cx.metadata.failure(&name.topic);
            queue.why = missing
                .map(|code| ClientError::broker(code, format_args!("write to {name}"), None));
            queue.not_before = cx.now + cx.retry_backoff;
            cx.metadata.refresh();
        }
    }

    /// One request to `node` with one batch of each partition that is due, as far as the size
    /// allows. Gives whether something was sent.
    fn send(
        &mut self,
        node: Node,
        due: &[usize],
        identity: ProducerIdentity,
        cx: &mut Context<'_>,
    ) -> bool {
        if !cx.connections.is_ready(node, Lane::Produce, cx.now)
            || cx.connections.in_flight(node, Lane::Produce) >= IN_FLIGHT_MAX
        {
            return false;
        }
        let limit = self.produce_limit();
        let by_id = cx
            .connections
            .version(node, Lane::Produce, Api::Produce)
            .is_ok_and(|version| version.min(limit) >= 13);
        let batching = Batching {
            identity,
            transactional: self.transactional.is_some(),
            compression: self.config.compression,
            level: self.config.compression_level,
            request: self.next_id,
        };
        let mut asked = Asked { partitions: Vec::new(), topics: BTreeMap::new() };
        let mut topics: BTreeMap<Topic, TopicProduceData> = BTreeMap::new();
        let mut size = 0;
        for index in due {
            let queue = &mut self.partitions[*index];
            if size > 0 && size + queue.next_size() > self.config.max_request_size {
                continue;
            }
            let name = queue.name.clone();
            let id = cx.metadata.topic(&name.topic).map_or_else(Uuid::nil, |topic| topic.id);
            if by_id && id.is_nil() {
                continue;
            }
            let records = match queue.start(&batching) {
                Ok(records) => records,
                Err(error) => {
                    self.give_up_first(*index, error);
                    continue;
                }
            };
            size += records.len();
            asked.partitions.push(PartitionHandle(*index as u32));
            asked.topics.insert(id, name.topic.clone());
            let part = PartitionProduceData::default()
                .with_index(name.partition)
                .with_records(Some(records));
            let topic = topics.entry(name.topic.clone()).or_insert_with(|| {
                TopicProduceData::default()
                    .with_name(TopicName(StrBytes::from_string(name.topic.to_string())))
                    .with_topic_id(id)
            });
            topic.partition_data.push(part);
        }
        if asked.partitions.is_empty() {
            return false;
        }
        let topics = topics.into_values().collect();
        self.send_request(node, topics, asked, cx)
    }

    fn send_request(
        &mut self,
        node: Node,
        topics: Vec<TopicProduceData>,
        asked: Asked,
        cx: &mut Context<'_>,
    ) -> bool {
        let limit = self.produce_limit();
        let request: Request = ProduceRequest::default()
            .with_transactional_id(self.transactional.as_ref().map(Transactional::wire_id))
            .with_acks(-1)
            .with_timeout_ms(30_000)
            .with_topic_data(topics)
            .into();
        let id = self.next_id;
        self.next_id += 1;
        let ticket = Ticket::Produce { producer: self.number, id };
        let sent = cx.connections.send_up_to(limit, node, Lane::Produce, &request, ticket, cx.now);
        self.asked.insert(id, asked);
        if let Some(transactional) = &mut self.transactional {
            transactional.sent = true;
            transactional.on(Event::Sent);
        }
        match sent {
            Ok(()) => true,
            Err(error) => {
                self.on_lost(id, &error, cx);
                false
            }
        }
    }

    /// The newest version of the request that can be used.
    fn produce_limit(&self) -> i16 {
        self.transactional.as_ref().map_or(i16::MAX, |t| t.limit_of(coordination::V1_PRODUCE))
    }

    /// The identity to write under, asked for if there is none.
    fn identity(&mut self, cx: &mut Context<'_>) -> Option<ProducerIdentity> {
        match &self.identity {
            Identity::Known(identity) => return Some(*identity),
            // It is the coordinator's to give.
            _ if self.transactional.is_some() => return None,
            Identity::Asked => return None,
            Identity::Unset { not_before } if *not_before > cx.now => return None,
            Identity::Unset { .. } => {}
            Identity::Failed(error) => {
                let error = error.clone();
                for index in 0..self.partitions.len() {
                    self.fail_all(index, &error);
                }
                self.identity = Identity::Unset { not_before: Now::ZERO };
                return None;
            }
        }
        let node = any_node(cx.connections, &mut self.rotation, cx.now)?;
        let request = InitProducerIdRequest::default()
            .with_transactional_id(None)
            .with_transaction_timeout_ms(i32::MAX)
            .with_producer_id(ProducerId(-1))
            .with_producer_epoch(-1);
        let ticket = Ticket::ProducerId { producer: self.number };
        match cx.connections.send(node, Lane::Control, &request.into(), ticket, cx.now) {
            Ok(()) => self.identity = Identity::Asked,
            Err(error) if error.is_retriable() => {
                self.identity = Identity::Unset { not_before: cx.now + cx.retry_backoff };
            }
            Err(error) => self.identity = Identity::Failed(error),
        }
        None
    }

    pub(crate) fn on_identity(
        &mut self,
        result: Result<Response, ClientError>,
        cx: &mut Context<'_>,
    ) {
        if self.transactional.is_some() {
            return self.on_transactional_identity(result, cx);
        }
        let again = Identity::Unset { not_before: cx.now + cx.retry_backoff };
        self.identity = match result {
            Ok(Response::InitProducerId(answer)) => match answer.error_code {
                0 => Identity::Known(ProducerIdentity {
                    id: answer.producer_id.0,
                    epoch: answer.producer_epoch,
                }),
                code if crate::error::is_retriable(code) => again,
                code => Identity::Failed(ClientError::broker(code, "producer id", None)),
            },
            Ok(_) | Err(_) => again,
        };
    }

    /// Gives partitions whose numbers were lost the next epoch, once nothing is in flight.
    fn renumber(&mut self, identity: ProducerIdentity) {
        if self.transactional.is_some() {
            // Its epochs come from the coordinator.
            return;
        }
        for queue in &mut self.partitions {
            if !queue.renumber(identity) {
                // The epochs of this id are used up.
                self.identity = Identity::Unset { not_before: Now::ZERO };
            }
        }
    }

    fn expire(&mut self, now: Now) {
        for index in 0..self.partitions.len() {
            while let Some(why) = self.partitions[index].expired(now) {
                let name = &self.partitions[index].name;
                let timeout = self.config.delivery_timeout.as_millis();
                let late = format!("records for {name} were not written within {timeout} ms");
                let error = match why {
                    Some(why) => why.of_kind(ErrorKind::Retriable).within(late),
                    None => ClientError::retriable(late),
                };
                self.give_up_first(index, error);
            }
        }
    }

    /// Drops the first batch of a partition and keeps the error for the flush.
    fn give_up_first(&mut self, index: usize, error: ClientError) {
        let queue = &mut self.partitions[index];
        if let Some(bytes) = queue.give_up_first() {
            self.reserved.fetch_sub(bytes, Ordering::Relaxed);
            self.keep_failure(error);
        }
    }

    fn fail_all(&mut self, index: usize, error: &ClientError) {
        while !self.partitions[index].is_empty() {
            self.give_up_first(index, error.clone());
        }
    }

    fn keep_failure(&mut self, error: ClientError) {
        if self.transactional.is_some() {
            return self.refuse(error);
        }
        tracing::warn!(%error, "records are lost");
        self.failure.get_or_insert(error);
    }

    /// Why the transaction cannot be committed, if that is so.
    fn lost(&self) -> Option<ClientError> {
        let transactional = self.transactional.as_ref().filter(|t| t.state.is_lost())?;
        transactional.failure.clone()
    }

    fn take_end_offsets(&mut self) -> Vec<(PartitionHandle, i64)> {
        let mut end_offsets = Vec::new();
        for (index, queue) in self.partitions.iter_mut().enumerate() {
            if let Some(end) = queue.end_offset.take() {
                end_offsets.push((PartitionHandle(index as u32), end));
            }
        }
        end_offsets
    }

    fn complete_flushes(&mut self) {
        if self.flushes.is_empty() {
            return;
        }
        let oldest = self.partitions.iter().filter_map(PartitionQueue::oldest).min();
        let done = |flush: &FlushWaiting| oldest.is_none_or(|oldest| oldest >= flush.before);
        while self.flushes.first().is_some_and(done) {
            let flush = self.flushes.remove(0);
            let result = match self.lost().or_else(|| self.failure.take()) {
                Some(error) => Err(error),
                None => Ok(Flushed { end_offsets: self.take_end_offsets() }),
            };
            flush.completer.complete(result);
        }
    }
}

#[cfg(test)]
mod tests;

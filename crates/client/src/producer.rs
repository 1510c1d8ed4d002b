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
mod sending;
mod transactional;

use crate::command::ReadyBatch;
use crate::config::ProducerConfig;
use crate::connection::Ticket;
use crate::connections::{Connections, Lane};
use crate::coordinator::Coordinators;
use crate::error::{ClientError, ErrorKind};
use crate::metadata::{Metadata, any_node};
use crate::pending::Completer;
use crate::producer_handle::{Flushed, PartitionHandle};
use crate::requests::Response;
use crate::transaction::{Identity, ProducerIdentity};
use crate::types::{Now, Topic, TopicPartition};
use kstreams_protocol::Uuid;
use kstreams_protocol::messages::{InitProducerIdRequest, ProducerId};
use queue::PartitionQueue;
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
    /// Nothing is to be sent, as the records may be those of tasks that others have by now. A transaction is safe without it:
    /// the group refuses its offsets.
    held: bool,
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
            held: false,
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

    pub(crate) fn hold(&mut self, held: bool) {
        self.held = held && self.transactional.is_none();
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
            let error = error.about(&queue.name.topic);
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

#[cfg(test)]
mod model;

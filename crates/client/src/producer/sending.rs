//! Which batches go out now, and in which requests.

use super::coordination::V1_PRODUCE;
use super::queue::Batching;
use super::transactional::Transactional;
use super::{Asked, Context, IN_FLIGHT_MAX, PartitionHandle, PartitionQueue, ProducerMachine};
use crate::connection::Ticket;
use crate::connections::{Lane, Node};
use crate::error::{ClientError, ErrorKind};
use crate::requests::{Api, Request};
use crate::transaction::{Event, Identity, ProducerIdentity};
use crate::types::{Now, Topic};
use kstreams_protocol::Uuid;
use kstreams_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kstreams_protocol::messages::{ProduceRequest, TopicName};
use kstreams_protocol::protocol::StrBytes;
use std::collections::BTreeMap;

impl ProducerMachine {
    /// Sends the batches that are due; gives when to look again.
    pub(super) fn send_records(&mut self, cx: &mut Context<'_>) -> Option<Now> {
        if self.partitions.iter().all(PartitionQueue::is_empty) {
            self.complete_flushes();
            return None;
        }
        let deadline = self.partitions.iter().filter_map(PartitionQueue::deadline).min();
        if self.held {
            self.complete_flushes();
            return deadline;
        }
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
        self.transactional.as_ref().map_or(i16::MAX, |t| t.limit_of(V1_PRODUCE))
    }
}

//! Reads partitions ahead of the stream thread, within a budget.
//!
//! ```text
//!            fetch()           offset listed
//! (nothing) --------> Reset ----------------> At offset <--> in a request
//!                       ^------ out of range -----'
//! ```
//! A partition that is at an offset, not paused, not in a request and within its budget goes into
//! the next request to its leader. Requests have no session: what is in them is what is wanted.

mod answer;

use crate::admin::{Call, Calls, ListOffsets};
use crate::client::Results;
use crate::command::CommandSender;
use crate::config::FetchConfig;
use crate::connection::Ticket;
use crate::connections::{Connections, Lane, Node};
use crate::error::{ClientError, ErrorKind};
use crate::event::{Budget, Event};
use crate::metadata::Metadata;
use crate::pending::Pending;
use crate::requests::{Api, Request};
use crate::types::{
    Isolation, ListedOffset, Now, OffsetSpec, Reader, ResetPolicy, Start, Topic, TopicPartition,
};
use kstreams_protocol::Uuid;
use kstreams_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kstreams_protocol::messages::{BrokerId, FetchRequest, TopicName};
use kstreams_protocol::protocol::StrBytes;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Where a partition is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Position {
    /// Next offset, and epoch of the record before it.
    At { offset: i64, epoch: Option<i32> },
    /// To be found by the reset policy; it was at `from` before.
    Reset { from: Option<i64> },
    /// The offset was asked for.
    Listing { from: Option<i64> },
}

/// What the stream thread was told of a log last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Told {
    high_watermark: i64,
    last_stable_offset: i64,
    log_start_offset: i64,
}

#[derive(Debug)]
struct Partition {
    position: Position,
    reset: ResetPolicy,
    paused: bool,
    in_request: bool,
    /// Counts calls of `fetch`: answers to requests before the last are void.
    generation: u64,
    not_before: Now,
    buffered: Arc<AtomicUsize>,
    told: Option<Told>,
}

/// A request on its way.
#[derive(Debug)]
struct Asked {
    node: Node,
    slot: u8,
    partitions: BTreeMap<TopicPartition, (u64, i64)>,
    topics: BTreeMap<Uuid, Topic>,
}

/// Offsets that were asked for, with the generation of each partition then.
#[derive(Debug)]
struct Listing {
    generations: BTreeMap<TopicPartition, u64>,
    offsets: Pending<Results<TopicPartition, ListedOffset>>,
}

/// What a fetcher works with.
pub(crate) struct Context<'a> {
    pub(crate) connections: &'a mut Connections,
    pub(crate) metadata: &'a mut Metadata,
    pub(crate) calls: &'a mut Calls,
    pub(crate) events: &'a mut Vec<Event>,
    pub(crate) operation_timeout: Duration,
    pub(crate) now: Now,
}

/// The machine of one [`Reader`].
#[derive(Debug)]
pub(crate) struct Fetcher {
    reader: Reader,
    index: usize,
    config: FetchConfig,
    retry_backoff: Duration,
    commands: CommandSender,
    budget: Arc<Budget>,
    partitions: BTreeMap<TopicPartition, Partition>,
    asked: BTreeMap<u64, Asked>,
    next_id: u64,
    generation: u64,
    listing: Vec<Listing>,
    /// The partition that had its turn last at the head of a request.
    first: Option<TopicPartition>,
}

impl Fetcher {
    pub(crate) fn new(
        reader: Reader,
        config: FetchConfig,
        retry_backoff: Duration,
        commands: CommandSender,
    ) -> Self {
        Self {
            reader,
            index: match reader {
                Reader::Source => 0,
                Reader::Changelog => 1,
            },
            config,
            retry_backoff,
            budget: Budget::new(commands.clone()),
            commands,
            partitions: BTreeMap::new(),
            asked: BTreeMap::new(),
            next_id: 0,
            generation: 0,
            listing: Vec::new(),
            first: None,
        }
    }

    pub(crate) fn fetch(&mut self, partition: TopicPartition, start: Start, reset: ResetPolicy) {
        self.generation += 1;
        let position = match start {
            Start::Offset { offset, leader_epoch } => Position::At { offset, epoch: leader_epoch },
            Start::Reset => Position::Reset { from: None },
        };
        let buffered =
            self.partitions.get(&partition).map(|p| p.buffered.clone()).unwrap_or_default();
        let state = Partition {
            position,
            reset,
            paused: false,
            in_request: false,
            generation: self.generation,
            not_before: Now::ZERO,
            buffered,
            told: None,
        };
        self.partitions.insert(partition, state);
    }

    pub(crate) fn stop(&mut self, partition: &TopicPartition) {
        self.partitions.remove(partition);
    }

    pub(crate) fn pause(&mut self, partition: &TopicPartition, paused: bool) {
        if let Some(partition) = self.partitions.get_mut(partition) {
            partition.paused = paused;
        }
    }

    /// Sends what can be sent; gives when to look again.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Option<Now> {
        self.take_listed(cx);
        self.list(cx);
        let mut next: Option<Now> = None;
        let mut due: BTreeMap<Node, Vec<TopicPartition>> = BTreeMap::new();
        for (name, partition) in &self.partitions {
            let listing = matches!(partition.position, Position::Listing { .. });
            if partition.paused || partition.in_request || listing {
                continue;
            }
            if partition.not_before > cx.now {
                next = next.into_iter().chain([partition.not_before]).min();
                continue;
            }
            if !matches!(partition.position, Position::At { .. }) {
                continue;
            }
            if !self.has_room(partition) {
                // Credit that came back before this was said is seen by the second look.
                self.budget.ask_for_credit();
                if !self.has_room(partition) {
                    continue;
                }
            }
            cx.metadata.watch(&name.topic);
            match cx.metadata.leader(name) {
                Some(leader) => {
                    due.entry(Node::Broker(leader.broker)).or_default().push(name.clone());
                }
                None => cx.metadata.refresh(),
            }
        }
        for (node, partitions) in due {
            let used: Vec<u8> = self
                .asked
                .values()
                .filter(|asked| asked.node == node)
                .map(|asked| asked.slot)
                .collect();
            let Some(slot) = (0..2).find(|slot| !used.contains(slot)) else { continue };
            self.ask(node, slot, partitions, cx);
        }
        next
    }

    /// Whether a partition may be read ahead. One that has nothing is read on in any case, or all
    /// could wait for each other.
    fn has_room(&self, partition: &Partition) -> bool {
        let buffered = partition.buffered.load(Ordering::SeqCst);
        buffered == 0
            || buffered < self.config.partition_buffer_bytes
                && self.budget.used() < self.config.buffer_bytes
    }

    fn ask(&mut self, node: Node, slot: u8, mut due: Vec<TopicPartition>, cx: &mut Context<'_>) {
        let lane = Lane::Fetch { fetcher: self.index, slot };
        if !cx.connections.is_ready(node, lane, cx.now) {
            return;
        }
        // Another partition comes first each time: what is first always gets something.
        let first = self.first.as_ref();
        let turn = due.iter().position(|name| first.is_none_or(|first| name > first)).unwrap_or(0);
        due.rotate_left(turn);
        self.first = due.first().cloned();
        let by_id =
            cx.connections.version(node, lane, Api::Fetch).is_ok_and(|version| version >= 13);
        let mut asked = Asked { node, slot, partitions: BTreeMap::new(), topics: BTreeMap::new() };
        let mut topics: Vec<FetchTopic> = Vec::new();
        for name in &due {
            let Some(partition) = self.partitions.get(name) else { continue };
            let Position::At { offset, epoch } = partition.position else { continue };
            let Some(leader) = cx.metadata.leader(name) else { continue };
            let id = cx.metadata.topic(&name.topic).map_or_else(Uuid::nil, |topic| topic.id);
            if by_id && id.is_nil() {
                cx.metadata.refresh();
                continue;
            }
            asked.partitions.insert(name.clone(), (partition.generation, offset));
            asked.topics.insert(id, name.topic.clone());
            let part = FetchPartition::default()
                .with_partition(name.partition)
                .with_current_leader_epoch(leader.epoch)
                .with_fetch_offset(offset)
                .with_last_fetched_epoch(epoch.unwrap_or(-1))
                .with_log_start_offset(-1)
                .with_partition_max_bytes(self.config.max_partition_bytes);
            match topics.last_mut().filter(|topic| *topic.topic.0 == *name.topic) {
                Some(topic) => topic.partitions.push(part),
                None => topics.push(
                    FetchTopic::default()
                        .with_topic(TopicName(StrBytes::from_string(name.topic.to_string())))
                        .with_topic_id(id)
                        .with_partitions(vec![part]),
                ),
            }
        }
        if asked.partitions.is_empty() {
            return;
        }
        let request = self.request(topics);
        let ticket = Ticket::Fetch { fetcher: self.index, id: self.next_id };
        match cx.connections.send(node, lane, &request, ticket, cx.now) {
            Ok(()) => {
                for name in asked.partitions.keys() {
                    if let Some(partition) = self.partitions.get_mut(name) {
                        partition.in_request = true;
                    }
                }
                self.asked.insert(self.next_id, asked);
                self.next_id += 1;
            }
            Err(error) if error.is_retriable() => {}
            Err(error) => {
                for name in asked.partitions.keys() {
                    self.fail(name, error.clone(), cx.events);
                }
            }
        }
    }

    fn request(&self, topics: Vec<FetchTopic>) -> Request {
        FetchRequest::default()
            .with_replica_id(BrokerId(-1))
            .with_max_wait_ms(self.config.max_wait.as_millis() as i32)
            .with_min_bytes(self.config.min_bytes)
            .with_max_bytes(self.config.max_bytes)
            .with_isolation_level(i8::from(self.config.isolation == Isolation::ReadCommitted))
            .with_session_id(0)
            .with_session_epoch(-1)
            .with_topics(topics)
            .into()
    }

    /// Gives a partition up.
    fn fail(&mut self, name: &TopicPartition, error: ClientError, events: &mut Vec<Event>) {
        self.partitions.remove(name);
        tracing::warn!(partition = %name, reader = ?self.reader, %error, "fetching ended");
        events.push(Event::FetchFailed { reader: self.reader, partition: name.clone(), error });
    }

    /// Looks the offsets up that reset policies ask for.
    fn list(&mut self, cx: &mut Context<'_>) {
        let mut wanted = BTreeMap::new();
        let mut generations = BTreeMap::new();
        let mut nowhere = Vec::new();
        for (name, partition) in &mut self.partitions {
            let Position::Reset { from } = partition.position else { continue };
            if partition.not_before > cx.now {
                continue;
            }
            let spec = match partition.reset {
                ResetPolicy::Earliest => OffsetSpec::Earliest,
                ResetPolicy::Latest => OffsetSpec::Latest(self.config.isolation),
                ResetPolicy::Since(time) => OffsetSpec::Timestamp(time),
                ResetPolicy::None => {
                    nowhere.push((name.clone(), from));
                    continue;
                }
            };
            partition.position = Position::Listing { from };
            wanted.insert(name.clone(), spec);
            generations.insert(name.clone(), partition.generation);
        }
        for (name, from) in nowhere {
            let message = match from {
                Some(from) => format!(
                    "offset {from} of {name} is out of range and no reset policy is set: its records \
                     were deleted, or the topic was created anew. Reset the group's offsets, or set \
                     auto.offset.reset"
                ),
                None => format!(
                    "{name} has no committed offset and no reset policy is set. Set auto.offset.reset"
                ),
            };
            self.fail(&name, ClientError::new(ErrorKind::NotFound, message), cx.events);
        }
        if !wanted.is_empty() {
            let (pending, completer) = self.commands.pending();
            let call = Call::new(ListOffsets { partitions: wanted }, completer);
            cx.calls.start(call, cx.now + cx.operation_timeout);
            self.listing.push(Listing { generations, offsets: pending });
        }
    }

    fn take_listed(&mut self, cx: &mut Context<'_>) {
        let mut listed = Vec::new();
        self.listing.retain_mut(|Listing { generations, offsets }| match offsets.try_take() {
            None => true,
            Some(result) => {
                listed.push((std::mem::take(generations), result));
                false
            }
        });
        for (generations, results) in listed {
            let mut results = results.unwrap_or_default();
            for (name, generation) in generations {
                let result = results.remove(&name).unwrap_or_else(|| {
                    Err(ClientError::retriable(format!("the offset of {name} could not be listed")))
                });
                self.on_listed(&name, generation, result, cx);
            }
        }
    }

    fn on_listed(
        &mut self,
        name: &TopicPartition,
        generation: u64,
        result: Result<ListedOffset, ClientError>,
        cx: &mut Context<'_>,
    ) {
        let Some(partition) = self.partitions.get_mut(name) else { return };
        let Position::Listing { from } = partition.position else { return };
        if partition.generation != generation {
            return;
        }
        match result {
            // No record is that young: read from the end.
            Ok(listed) if listed.offset < 0 => {
                partition.reset = ResetPolicy::Latest;
                partition.position = Position::Reset { from };
            }
            Ok(listed) => {
                partition.position =
                    Position::At { offset: listed.offset, epoch: listed.leader_epoch };
                tracing::info!(partition = %name, from, to = listed.offset, "position reset");
                cx.events.push(Event::PositionReset {
                    reader: self.reader,
                    partition: name.clone(),
                    from,
                    to: listed.offset,
                });
            }
            Err(error) if error.is_retriable() => {
                partition.position = Position::Reset { from };
                partition.not_before = cx.now + self.retry_backoff;
                tracing::warn!(partition = %name, %error, "the position cannot be found yet");
            }
            Err(error) => self.fail(name, error, cx.events),
        }
    }
}

#[cfg(test)]
mod tests;

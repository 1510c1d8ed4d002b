//! The broker's one owner of all state. It is changed by one step at a time ([`Node::handle`] a
//! request, [`Node::tick`] the time) and does no I/O but on its own files; the fronts carry bytes
//! to it and its answers away. The same requests at the same times give the same answers.
//!
//! A connection's requests are handled one at a time: what comes while one still waits for its
//! answer is queued, as in Kafka.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use kstreams_protocol::ResponseError;

use crate::api::{self, Answer, Call};
use crate::broker::StoredRecord;
use crate::config::BrokerConfig;
use crate::error::{BrokerError, Refusal};
use crate::faults::{FaultAction, Faults};
use crate::fetch_session::FetchSessions;
use crate::group::Groups;
use crate::journal::{Journal, key};
use crate::mailbox::{Mailbox, Outgoing};
use crate::random::{Random, kafka_uuid};
use crate::topics::{Topics, text};
use crate::txn::Transactions;
use crate::waiting::{Held, PartitionId, Waiting};

/// Names a connection for as long as the node lives.
pub(crate) type ConnectionId = u64;

/// Something for a front to do.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) mailbox: Arc<Mailbox>,
    pub(crate) outgoing: Outgoing,
}

/// All state of the broker.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) config: BrokerConfig,
    pub(crate) topics: Topics,
    pub(crate) groups: Groups,
    pub(crate) transactions: Transactions,
    pub(crate) sessions: FetchSessions,
    pub(crate) waiting: Waiting,
    pub(crate) faults: Faults,
    pub(crate) journal: Journal,
    pub(crate) random: Random,
    pub(crate) cluster_id: String,
    pub(crate) address: Option<SocketAddr>,
    pub(crate) now: i64,
    next_retention: i64,
    next_transaction_sweep: i64,
    pub(crate) next_cleaning: i64,
    /// Partitions that the cleaning has still to look at.
    pub(crate) to_clean: VecDeque<(String, usize)>,
    connections: BTreeMap<ConnectionId, Connection>,
    next_connection: ConnectionId,
    /// Partitions that got records in this step.
    appended: BTreeSet<PartitionId>,
    /// Connections whose request was answered in this step and that have more.
    ready: VecDeque<ConnectionId>,
    outputs: Vec<Output>,
}

#[derive(Debug)]
struct Connection {
    mailbox: Arc<Mailbox>,
    peer: Arc<str>,
    queue: VecDeque<Bytes>,
    /// A request is being handled, or waits for its answer.
    busy: bool,
}

impl Node {
    pub(crate) fn open(
        config: BrokerConfig,
        directory: Option<PathBuf>,
        address: Option<SocketAddr>,
        now: i64,
    ) -> Result<Self, BrokerError> {
        // Ids need not be secret, only different from those of another start.
        let seed = config.seed.unwrap_or_else(|| {
            let port = u64::from(address.map_or(0, |address| address.port()));
            now.unsigned_abs() ^ (u64::from(std::process::id()) << 44) ^ (port << 28)
        });
        let mut random = Random::new(seed);
        let mut journal = match &directory {
            Some(directory) => Journal::open(directory)?,
            None => Journal::default(),
        };
        let known = journal.under("cluster").into_iter().next();
        let cluster_id = known.map_or_else(|| kafka_uuid(random.uuid()), |(_, id)| text(&id));
        journal.put(key(&["cluster", "id"]), Some(cluster_id.as_bytes()));
        let mut node = Self {
            topics: Topics::open(directory, &journal, now)?,
            groups: Groups::open(&journal, now + config.streams_session_timeout_ms),
            transactions: Transactions::open(&journal),
            sessions: FetchSessions::default(),
            waiting: Waiting::default(),
            faults: Faults::default(),
            next_retention: now + config.retention_check_interval_ms,
            next_transaction_sweep: now + config.transaction_sweep_interval_ms,
            next_cleaning: now + config.cleaner_interval_ms,
            config,
            journal,
            random,
            cluster_id,
            address,
            now,
            to_clean: VecDeque::new(),
            connections: BTreeMap::new(),
            next_connection: 1,
            appended: BTreeSet::new(),
            ready: VecDeque::new(),
            outputs: Vec::new(),
        };
        node.complete_prepared();
        Ok(node)
    }

    /// Where clients are told to connect.
    pub(crate) fn endpoint(&self) -> (String, u16) {
        match self.address {
            Some(address) => (address.ip().to_string(), address.port()),
            None => ("memory".to_owned(), 9092),
        }
    }

    pub(crate) fn connect(&mut self, peer: &str, mailbox: Arc<Mailbox>) -> ConnectionId {
        let id = self.next_connection;
        self.next_connection += 1;
        let connection =
            Connection { mailbox, peer: peer.into(), queue: VecDeque::new(), busy: false };
        self.connections.insert(id, connection);
        id
    }

    pub(crate) fn disconnect(&mut self, id: ConnectionId) {
        if self.connections.remove(&id).is_some() {
            self.waiting.drop_connection(id);
        }
    }

    pub(crate) fn cut_connections(&mut self) {
        let ids: Vec<ConnectionId> = self.connections.keys().copied().collect();
        for id in ids {
            self.close_connection(id);
        }
    }

    /// Answers nobody any more, and lets go of all files: connections may outlive the broker.
    pub(crate) fn close(&mut self) {
        self.cut_connections();
        self.topics = Topics::default();
        self.groups = Groups::default();
        self.transactions = Transactions::default();
        self.journal = Journal::default();
    }

    /// Moves the time; never back.
    pub(crate) fn set_time(&mut self, now: i64) {
        self.now = self.now.max(now);
    }

    /// Handles a request, a frame without its length.
    pub(crate) fn handle(&mut self, id: ConnectionId, request: Bytes) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if connection.busy {
            connection.queue.push_back(request);
            return;
        }
        self.serve(id, request);
        self.settle();
    }

    /// Does what the time has made due.
    pub(crate) fn tick(&mut self, now: i64) {
        self.set_time(now);
        while let Some(held) = self.waiting.take_due(self.now) {
            match held {
                Held::Fetch(call, plan) => {
                    let answer = api::fetch::complete(self, &call, plan);
                    self.finish(&call, answer);
                }
                Held::Delayed(call, outgoing) => self.put_out(call.connection, outgoing),
            }
        }
        api::group_timers(self);
        if self.next_transaction_sweep <= self.now {
            self.next_transaction_sweep = self.now + self.config.transaction_sweep_interval_ms;
            self.sweep_transactions();
        }
        if self.next_retention <= self.now {
            self.next_retention = self.now + self.config.retention_check_interval_ms;
            self.retain_all();
        }
        if self.next_cleaning <= self.now {
            self.clean_next();
        }
        self.settle();
    }

    /// When [`Node::tick`] is due.
    pub(crate) fn next_deadline(&self) -> Option<i64> {
        let groups = self.groups.next_deadline();
        let cleaning =
            (!self.topics.is_empty()).then(|| self.next_retention.min(self.next_cleaning));
        let timeout = self.transactions.next_timeout();
        let sweep = timeout.map(|timeout| timeout.max(self.next_transaction_sweep));
        [self.waiting.next_deadline(), groups, cleaning, sweep].into_iter().flatten().min()
    }

    pub(crate) fn take_outputs(&mut self) -> Vec<Output> {
        std::mem::take(&mut self.outputs)
    }

    /// Says that a partition has new records, or was deleted.
    pub(crate) fn note_appended(&mut self, partition: PartitionId) {
        self.appended.insert(partition);
    }

    /// The end of a step: what it made possible happens, until nothing more does.
    fn settle(&mut self) {
        loop {
            if let Some(partition) = self.appended.pop_first() {
                self.wake_fetches(partition);
            } else if let Some(id) = self.ready.pop_front() {
                let next = self.connections.get_mut(&id).and_then(|c| c.queue.pop_front());
                if let Some(request) = next {
                    self.serve(id, request);
                }
            } else {
                return;
            }
        }
    }

    fn wake_fetches(&mut self, partition: PartitionId) {
        for id in self.waiting.on(partition) {
            let Some(Held::Fetch(_, plan)) = self.waiting.get(id) else { continue };
            if !api::fetch::is_satisfied(self, plan) {
                continue;
            }
            if let Some(Held::Fetch(call, plan)) = self.waiting.take(id) {
                let answer = api::fetch::complete(self, &call, plan);
                self.finish(&call, answer);
            }
        }
    }

    fn serve(&mut self, id: ConnectionId, request: Bytes) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.busy = true;
        let peer = Arc::clone(&connection.peer);
        let Some((call, body)) = Call::read(id, peer, request) else {
            self.close_connection(id);
            return;
        };
        let fault = self.faults.next(call.api_key);
        let answer = match fault {
            Some(FaultAction::CutBefore) => Answer::Close,
            Some(FaultAction::Error(error)) => api::refuse(self, &call, body, error),
            _ => api::dispatch(self, &call, body),
        };
        let answer = match fault {
            Some(FaultAction::CutAfter) => Answer::Close,
            Some(FaultAction::Drop) => Answer::Later,
            Some(FaultAction::Delay(ms)) => {
                let until = self.now + i64::from(ms);
                match answer {
                    Answer::Now(frame) => {
                        let answer = Held::Delayed(call.clone(), Outgoing::Answer(frame));
                        self.waiting.hold(until, answer);
                        Answer::Later
                    }
                    other => other,
                }
            }
            _ => answer,
        };
        self.finish(&call, answer);
    }

    /// Sends a request's answer, now or (when it comes to that) after it waited.
    pub(crate) fn finish(&mut self, call: &Call, answer: Answer) {
        match answer {
            Answer::Now(frame) => self.put_out(call.connection, Outgoing::Answer(frame)),
            Answer::Nothing => self.put_out(call.connection, Outgoing::Nothing),
            Answer::Later => {}
            Answer::Close => self.close_connection(call.connection),
        }
    }

    fn put_out(&mut self, id: ConnectionId, outgoing: Outgoing) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.busy = false;
        self.outputs.push(Output { mailbox: Arc::clone(&connection.mailbox), outgoing });
        if !connection.queue.is_empty() {
            self.ready.push_back(id);
        }
    }

    fn close_connection(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.remove(&id) {
            self.waiting.drop_connection(id);
            let outgoing = Outgoing::Close;
            self.outputs.push(Output { mailbox: connection.mailbox, outgoing });
        }
    }

    pub(crate) fn create_topic(
        &mut self,
        name: &str,
        partitions: i32,
        configs: &[(&str, &str)],
    ) -> Result<(), Refusal> {
        let set = configs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let to = (&mut self.journal, &mut self.random, self.now);
        self.topics.create(name, partitions, set, to)?;
        self.groups.topics_changed();
        Ok(())
    }

    /// Deletes a topic, its records, and the offsets that groups committed for it.
    pub(crate) fn delete_topic(&mut self, name: &str) -> Result<(), Refusal> {
        let topic = self.topics.delete(name, &mut self.journal)?;
        for partition in 0..topic.partitions.len() {
            self.note_appended((topic.id, i32::try_from(partition).unwrap_or(i32::MAX)));
        }
        self.topics.remove_files(topic);
        self.groups.delete_topic(name, &mut self.journal);
        self.transactions.topic_deleted(name, &mut self.journal);
        self.groups.topics_changed();
        tracing::info!(topic = name, "topic deleted");
        Ok(())
    }

    /// Remembers where a partition begins.
    pub(crate) fn record_start(&mut self, topic: &str, partition: i32) {
        if let Some(log) = self.topics.log(topic, partition) {
            let start = log.start_offset().to_string();
            let key = key(&["start", topic, &partition.to_string()]);
            self.journal.put(key, Some(start.as_bytes()));
        }
    }

    pub(crate) fn stored_records(&mut self, name: &str) -> Result<Vec<StoredRecord>, BrokerError> {
        let unknown = Refusal::new(ResponseError::UnknownTopicOrPartition, name);
        let topic = self.topics.get_mut(name).ok_or(unknown)?;
        let mut all = Vec::new();
        for (partition, log) in (0..).zip(&mut topic.partitions) {
            read_all(partition, log, &mut all)
                .map_err(|source| BrokerError::Storage { path: name.into(), source })?;
        }
        Ok(all)
    }

    pub(crate) fn committed_offset(&self, group: &str, topic: &str, partition: i32) -> Option<i64> {
        self.groups.get(group)?.offsets.get(topic, partition).map(|committed| committed.offset)
    }

    pub(crate) fn log_offsets(&self, topic: &str, partition: i32) -> Option<(i64, i64)> {
        let log = self.topics.log(topic, partition)?;
        Some((log.start_offset(), log.end_offset()))
    }
}

fn read_all(
    partition: i32,
    log: &mut crate::log::PartitionLog,
    all: &mut Vec<StoredRecord>,
) -> std::io::Result<()> {
    let (start, stable) = (log.start_offset(), log.last_stable_offset());
    let aborted = log.aborted(start, log.end_offset());
    for batch in log.all_batches()? {
        if batch.is_control() {
            continue;
        }
        let (producer, first) = (batch.producer_id(), batch.base_offset());
        let is_aborted = batch.is_transactional()
            && aborted.iter().any(|aborted| {
                aborted.producer_id == producer
                    && (aborted.first_offset..=aborted.last_offset).contains(&first)
            });
        let mut records = batch.into_records().map_err(std::io::Error::other)?;
        while let Some(record) = records.next_record().map_err(std::io::Error::other)? {
            if record.offset < start {
                continue;
            }
            let header = |(key, value): (&[u8], Option<&[u8]>)| {
                (text(key), value.map(Bytes::copy_from_slice))
            };
            all.push(StoredRecord {
                partition,
                offset: record.offset,
                timestamp: record.timestamp,
                key: record.key.map(Bytes::copy_from_slice),
                value: record.value.map(Bytes::copy_from_slice),
                headers: record.headers.iter().map(header).collect(),
                committed: record.offset < stable && !is_aborted,
            });
        }
    }
    Ok(())
}

//! Fills the global tables of a process and keeps them up to date: all partitions of their topics, from the beginning. Records are
//! copied, or go through the user's processor ([`StreamTask::build_global`]).
//!
//! A step never blocks. Tasks wait until each partition was read to where it ended at the start; a partition that a topic gets
//! later is read as well.

use super::clock::{Clock, SystemClock};
use super::task_slot::client_error;
use crate::error::{Error, ErrorKind, Result};
use crate::handlers::{BadRecord, ErrorContext};
use crate::processor::TaskId;
use crate::record::RecordMetadata;
use crate::state::{GlobalRecord, GlobalStores, Unreadable};
use crate::task::{StreamTask, TaskPlan, read_headers};
use kstreams_client::{
    Client, Event, Fetched, Isolation, ListedOffset, OffsetSpec, Pending, Reader, ResetPolicy,
    Results, Start, TopicPartition,
};
use kstreams_protocol::batch::RecordRef;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Records that a processor takes at once.
const RECORDS_A_TURN: usize = 1000;

type Listing = Pending<Results<TopicPartition, ListedOffset>>;

/// How far a partition is read, and how far it has to be before tasks may run.
struct Reading {
    position: i64,
    end: i64,
    /// What makes of the records what is stored, unless they are copied.
    task: Option<StreamTask>,
}

pub(super) struct GlobalReader {
    client: Client,
    plan: TaskPlan,
    clock: SystemClock,
    reading: BTreeMap<TopicPartition, Reading>,
    listing: Option<(Listing, Listing)>,
    dropped: u64,
}

impl GlobalReader {
    pub(super) fn new(mut client: Client, plan: TaskPlan) -> Self {
        client.watch(plan.globals.topics().cloned().collect());
        let (clock, reading) = (SystemClock::default(), BTreeMap::new());
        GlobalReader { client, plan, clock, reading, listing: None, dropped: 0 }
    }

    fn globals(&self) -> &Arc<GlobalStores> {
        &self.plan.globals
    }

    pub(super) fn client(&mut self) -> &mut Client {
        &mut self.client
    }

    /// Takes what the client has, and looks for partitions that are not read yet.
    pub(super) fn run_once(&mut self) -> Result<()> {
        while let Some(event) = self.client.next_event() {
            match event {
                Event::Fetched(fetched) => self.on_fetched(fetched)?,
                Event::FetchFailed { partition, error, .. } => {
                    let error = client_error(error).context(format!("reading {partition}"));
                    return Err(error.context("a global table"));
                }
                Event::Unreachable { error } => {
                    tracing::warn!("no broker can be reached: {error}");
                }
                _ => {}
            }
        }
        self.find_partitions()?;
        let all_known =
            self.globals().topics().all(|topic| self.client.partitions(topic).is_some());
        let is_filled = self.reading.values().all(|reading| reading.position >= reading.end);
        if all_known && self.listing.is_none() && is_filled && !self.globals().are_filled() {
            tracing::info!("global tables are filled");
            self.globals().become_filled();
        }
        Ok(())
    }

    /// Begins to read partitions that are new: at first all of them.
    fn find_partitions(&mut self) -> Result<()> {
        if let Some((begins, ends)) = &mut self.listing {
            if !(begins.is_done() && ends.is_done()) {
                return Ok(());
            }
            let (begins, ends) = (begins.try_take(), ends.try_take());
            self.listing = None;
            let begins = listed(begins)?;
            for (partition, end) in listed(ends)? {
                let position = begins.get(&partition).copied().unwrap_or(0);
                let task = self.task_of(&partition)?;
                self.reading.insert(partition.clone(), Reading { position, end, task });
                let start = Start::at(position);
                self.client.fetch(Reader::Changelog, partition, start, ResetPolicy::None);
            }
        }
        let client = &self.client;
        let partitions = self.globals().topics().flat_map(|topic| {
            let count = client.partitions(topic).unwrap_or(0);
            (0..count).map(|partition| TopicPartition::new(topic.clone(), partition))
        });
        let new: Vec<TopicPartition> =
            partitions.filter(|partition| !self.reading.contains_key(partition)).collect();
        if !new.is_empty() {
            let list = |spec| new.iter().map(|partition| (partition.clone(), spec)).collect();
            let begins = self.client.list_offsets(list(OffsetSpec::Earliest));
            let spec = OffsetSpec::Latest(Isolation::ReadCommitted);
            self.listing = Some((begins, self.client.list_offsets(list(spec))));
        }
        Ok(())
    }

    /// The task that processes a partition, unless its records are copied.
    fn task_of(&self, partition: &TopicPartition) -> Result<Option<StreamTask>> {
        let graph = self.plan.topology.graph();
        let mut processed = graph.with_global_processors();
        let reads = |&number: &u32| graph.source_topics(number).contains(&partition.topic);
        let Some(subtopology) = processed.find(reads) else { return Ok(None) };
        let id = TaskId { subtopology, partition: partition.partition };
        StreamTask::build_global(&self.plan, id, self.clock.now().wall).map(Some)
    }

    fn on_fetched(&mut self, fetched: Fetched) -> Result<()> {
        let Fetched { partition, position, batches, next_offset, .. } = fetched;
        let Some(reading) = self.reading.get_mut(&partition) else { return Ok(()) };
        if reading.position != position {
            return Ok(());
        }
        if let Some(task) = &mut reading.task {
            let now = self.clock.now().wall;
            task.set_wall_clock(now);
            task.add(&partition.topic, partition.partition, batches, next_offset)?;
            while task.process(RECORDS_A_TURN, now)? > 0 {}
            reading.position = next_offset;
            return Ok(());
        }
        for mut batch in batches {
            loop {
                let record = batch.next_record().map_err(|error| {
                    Error::new(ErrorKind::Broker, "a fetched batch is damaged")
                        .with_source(error)
                        .context(partition.to_string())
                })?;
                let Some(record) = record else { break };
                self.apply(&partition, &record)?;
            }
        }
        if let Some(reading) = self.reading.get_mut(&partition) {
            reading.position = next_offset;
        }
        Ok(())
    }

    fn apply(&mut self, partition: &TopicPartition, record: &RecordRef<'_>) -> Result<()> {
        let (key, value, timestamp) = (record.key, record.value, record.timestamp);
        let headers = read_headers(&record.headers);
        let read = GlobalRecord { key, value, timestamp, headers: &headers };
        let TopicPartition { topic, partition } = partition;
        let why = match self.globals().apply(topic, &read) {
            Ok(true) => return Ok(()),
            Ok(false) => "its key is null".to_string(),
            Err(Unreadable { is_key, error }) => {
                let task = TaskId { subtopology: 0, partition: *partition };
                let (topic, offset) = ((**topic).into(), record.offset);
                let context = ErrorContext {
                    task,
                    operator: "",
                    metadata: Some(RecordMetadata { topic, partition: *partition, offset }),
                    timestamp,
                    headers: &headers,
                    key,
                    value,
                    // There is no producer and no transaction here.
                    dead_letters: None,
                    kind: ErrorKind::BadRecord,
                };
                let why = error.to_string();
                let bad = BadRecord { context, is_key };
                let letters =
                    self.plan.errors.unreadable(bad, error).map_err(|(error, _)| error)?;
                if !letters.is_empty() {
                    tracing::warn!("dead letters of global tables are not written");
                }
                why
            }
        };
        self.dropped += 1;
        if self.dropped.is_power_of_two() {
            let (dropped, offset) = (self.dropped, record.offset);
            tracing::warn!(
                dropped,
                topic = &**topic,
                partition,
                offset,
                "record of a global table dropped: {why}"
            );
        }
        Ok(())
    }
}

/// The offsets that were asked for.
fn listed(
    answer: Option<
        std::result::Result<Results<TopicPartition, ListedOffset>, kstreams_client::ClientError>,
    >,
) -> Result<BTreeMap<TopicPartition, i64>> {
    let Some(answer) = answer else { return Ok(BTreeMap::new()) };
    let mut offsets = BTreeMap::new();
    for (partition, listed) in answer.map_err(client_error)? {
        let failed = |error| client_error(error).context(format!("reading {partition}"));
        offsets.insert(partition.clone(), listed.map_err(failed)?.offset);
    }
    Ok(offsets)
}

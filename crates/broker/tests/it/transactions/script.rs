//! Scripts of transactions: a request a line, and what came of it behind it. They run on the
//! embedded broker and, where there is one (`KSTREAMS_TEST_BOOTSTRAP`), on the real Kafka: what is
//! expected is what that answers.
//!
//! `P0/3` is epoch 3 of the first producer id that was met. A verb that ends in 1 speaks as clients
//! of transaction version 1 do, in 2 as those of version 2.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use kstreams_broker::{Broker, BrokerBuilder, BrokerConfig, ManualClock};
use kstreams_protocol::batch::{BatchHead, ControlType, batches};
use kstreams_protocol::error_code;
use kstreams_protocol::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
use kstreams_protocol::messages::create_topics_request::CreatableTopic;
use kstreams_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kstreams_protocol::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopics,
};
use kstreams_protocol::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use kstreams_protocol::messages::*;

use crate::raw::{Raw, batch_with, fetch_request, produce_request, text, topic};

/// A broker to play on, and what was met there.
pub(crate) struct Stage {
    raw: Raw,
    /// Behind the names of this run: a real broker has seen others.
    suffix: String,
    ids: Vec<i64>,
    clock: Option<Arc<ManualClock>>,
    broker: Option<Broker>,
}

/// Runs a script on all brokers that there are.
pub(crate) fn check(script: &str) {
    let expected: Vec<&str> = script.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
    let told = Stage::embedded(BrokerConfig::quick()).run(&expected);
    assert_eq!(told, expected, "the embedded broker");
    if let Ok(bootstrap) = std::env::var("KSTREAMS_TEST_BOOTSTRAP") {
        let told = Stage::real(&bootstrap).run(&expected);
        assert_eq!(told, expected, "Kafka");
    }
}

impl Stage {
    pub(crate) fn embedded(config: BrokerConfig) -> Self {
        Self::built(Broker::builder().config(config))
    }

    /// A broker that keeps what happens in a directory.
    pub(crate) fn in_directory(path: &Path) -> Self {
        Self::built(Broker::builder().config(BrokerConfig::quick()).directory(path))
    }

    fn built(builder: BrokerBuilder) -> Self {
        let clock = Arc::new(ManualClock::new(1_000_000));
        let broker = builder.without_tcp().clock(clock.clone()).start().unwrap();
        let raw = Raw::memory(&broker);
        Self {
            raw,
            suffix: String::new(),
            ids: Vec::new(),
            clock: Some(clock),
            broker: Some(broker),
        }
    }

    fn real(bootstrap: &str) -> Self {
        let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos();
        let raw = Raw::tcp(bootstrap.split(',').next().unwrap());
        Self { raw, suffix: format!("-{now}"), ids: Vec::new(), clock: None, broker: None }
    }

    /// The embedded broker.
    pub(crate) fn broker(&self) -> &Broker {
        self.broker.as_ref().unwrap()
    }

    /// Runs a script that must come to what it says.
    pub(crate) fn must(&mut self, script: &str) {
        let expected: Vec<&str> = script.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
        assert_eq!(self.run(&expected), expected);
    }

    /// The same, at a broker that came back.
    pub(crate) fn go_on(self, path: &Path) -> Self {
        let ids = self.ids.clone();
        drop(self);
        Self { ids, ..Self::in_directory(path) }
    }

    /// Each line with what it came to behind ` = `; what stands there already is not looked at.
    fn run(&mut self, script: &[&str]) -> Vec<String> {
        let mut told = Vec::new();
        for line in script {
            let line = line.split(" = ").next().unwrap_or_default();
            let words: Vec<&str> = line.split_whitespace().collect();
            told.push(format!("{line} = {}", self.play(words[0], &words[1..])));
        }
        told
    }

    fn play(&mut self, verb: &str, words: &[&str]) -> String {
        match verb {
            "topic" => self.create_topic(words[0], words[1].parse().unwrap()),
            "init" => self.init(words),
            "add" => self.add(words),
            "group" => self.add_group(words),
            "produce1" => self.produce(9, words),
            "produce2" => self.produce(12, words),
            "plain" => self.plain(words),
            "offsets1" => self.offsets(4, words),
            "offsets2" => self.offsets(5, words),
            "commit" => self.commit(words),
            "fetched" => self.fetched(true, words),
            "fetched-any" => self.fetched(false, words),
            "end1" => self.end(4, words),
            "end2" => self.end(5, words),
            "state" => self.state(words[0]),
            "log" => self.log(words[0]),
            "read" => self.read(words[0]),
            "until" => self.until(words),
            other => panic!("no verb {other}"),
        }
    }

    fn named(&self, name: &str) -> String {
        format!("{name}{}", self.suffix)
    }

    fn partition(&self, at: &str) -> (String, i32) {
        let (name, partition) = at.rsplit_once('-').unwrap();
        (self.named(name), partition.parse().unwrap())
    }

    fn producer(&self, text: &str) -> (i64, i16) {
        let (id, epoch) = text.split_once('/').unwrap();
        let at = id.strip_prefix('P').map(|at| at.parse::<usize>().unwrap());
        let id = at.map_or_else(|| id.parse().unwrap(), |at| self.ids[at]);
        (id, epoch.parse().unwrap())
    }

    fn show(&mut self, id: i64, epoch: i16) -> String {
        if id < 0 {
            return format!("{id}/{epoch}");
        }
        let at = self.ids.iter().position(|known| *known == id).unwrap_or_else(|| {
            self.ids.push(id);
            self.ids.len() - 1
        });
        format!("P{at}/{epoch}")
    }

    /// Asks until the answer is none of those that pass.
    fn ask<T>(&mut self, mut once: impl FnMut(&mut Self) -> (i16, T)) -> (i16, T) {
        for _ in 0..600 {
            let (error, answer) = once(self);
            if ![14, 15, 16, 51].contains(&error) {
                return (error, answer);
            }
            self.pause();
        }
        panic!("a broker that never comes to an end")
    }

    /// Lets the broker do what it has begun.
    fn pause(&mut self) {
        if let (Some(clock), Some(broker)) = (&self.clock, &self.broker) {
            clock.advance(100);
            broker.tick();
            return;
        }
        // Somebody who asks for a coordinator gets it started.
        for key_type in [0, 1] {
            let request = FindCoordinatorRequest::default()
                .with_key_type(key_type)
                .with_coordinator_keys(vec![text("any")]);
            self.raw.call(4, &request);
        }
        std::thread::park_timeout(std::time::Duration::from_millis(20));
    }

    fn create_topic(&mut self, name: &str, partitions: i32) -> String {
        let name = self.named(name);
        let new = CreatableTopic::default()
            .with_name(topic(&name))
            .with_num_partitions(partitions)
            .with_replication_factor(1);
        let request = CreateTopicsRequest::default().with_timeout_ms(5000).with_topics(vec![new]);
        let error = self.raw.call(5, &request).topics[0].error_code;
        for partition in 0..partitions {
            self.ask(|stage| {
                let request = fetch_request(&name, partition, 0, 0);
                let answer = stage.raw.call(12, &request);
                let found = answer.responses[0].partitions[0].error_code == 0;
                (if found { 0 } else { 14 }, ())
            });
        }
        error_code::name(error).to_owned()
    }

    fn init(&mut self, words: &[&str]) -> String {
        let mut request = InitProducerIdRequest::default()
            .with_transactional_id(Some(TransactionalId(text(&self.named(words[0])))))
            .with_transaction_timeout_ms(60_000)
            .with_producer_id((-1).into())
            .with_producer_epoch(-1);
        for word in &words[1..] {
            if let Some(ms) = word.strip_suffix("ms") {
                request.transaction_timeout_ms = ms.parse().unwrap();
            } else {
                let (id, epoch) = self.producer(word);
                request = request.with_producer_id(id.into()).with_producer_epoch(epoch);
            }
        }
        let (error, (id, epoch)) = self.ask(|stage| {
            let answer = stage.raw.call(4, &request);
            (answer.error_code, (answer.producer_id.0, answer.producer_epoch))
        });
        if error == 0 { self.show(id, epoch) } else { error_code::name(error).to_owned() }
    }

    fn add(&mut self, words: &[&str]) -> String {
        let (id, epoch) = self.producer(words[1]);
        let topics = words[2..].iter().map(|at| {
            let (name, partition) = self.partition(at);
            AddPartitionsToTxnTopic::default()
                .with_name(topic(&name))
                .with_partitions(vec![partition])
        });
        let request = AddPartitionsToTxnRequest::default()
            .with_v3_and_below_transactional_id(TransactionalId(text(&self.named(words[0]))))
            .with_v3_and_below_producer_id(id.into())
            .with_v3_and_below_producer_epoch(epoch)
            .with_v3_and_below_topics(topics.collect());
        let (_, errors) = self.ask(|stage| {
            let answer = stage.raw.call(3, &request);
            let results = answer.results_by_topic_v3_and_below.iter();
            let errors: Vec<i16> = results
                .flat_map(|topic| &topic.results_by_partition)
                .map(|partition| partition.partition_error_code)
                .collect();
            (errors[0], errors)
        });
        let mut names: Vec<&str> = errors.iter().map(|error| error_code::name(*error)).collect();
        // Kafka's order is that of a hash map.
        names.sort_unstable();
        names.join(", ")
    }

    fn add_group(&mut self, words: &[&str]) -> String {
        let (id, epoch) = self.producer(words[1]);
        let request = AddOffsetsToTxnRequest::default()
            .with_transactional_id(TransactionalId(text(&self.named(words[0]))))
            .with_producer_id(id.into())
            .with_producer_epoch(epoch)
            .with_group_id(GroupId(text(&self.named(words[2]))));
        let (error, ()) = self.ask(|stage| (stage.raw.call(3, &request).error_code, ()));
        error_code::name(error).to_owned()
    }

    fn batch(&self, producer: &str, sequence: &str, values: &[&str], transactional: bool) -> Bytes {
        let (id, epoch) = self.producer(producer);
        let head = BatchHead {
            producer_id: id,
            producer_epoch: epoch,
            base_sequence: sequence.parse().unwrap(),
            transactional,
            ..BatchHead::default()
        };
        let records: Vec<(&str, &str)> = values.iter().map(|value| ("k", *value)).collect();
        let now = match &self.clock {
            Some(_) => 1_000_000,
            None => std::time::UNIX_EPOCH.elapsed().unwrap().as_millis() as i64,
        };
        batch_with(now, &records, &head)
    }

    fn send(&mut self, version: i16, id: Option<&str>, at: &str, batch: &Bytes) -> String {
        let (name, partition) = self.partition(at);
        let request = produce_request(&name, partition, batch.clone(), -1)
            .with_transactional_id(id.map(|id| TransactionalId(text(&self.named(id)))));
        let (error, offset) = self.ask(|stage| {
            let answer = stage.raw.call(version, &request);
            let part = &answer.responses[0].partition_responses[0];
            (part.error_code, part.base_offset)
        });
        if error == 0 { offset.to_string() } else { error_code::name(error).to_owned() }
    }

    /// `ID PRODUCER SEQUENCE PARTITION VALUE...`
    fn produce(&mut self, version: i16, words: &[&str]) -> String {
        let batch = self.batch(words[1], words[2], &words[4..], true);
        self.send(version, Some(words[0]).filter(|id| *id != "-"), words[3], &batch)
    }

    /// `PRODUCER SEQUENCE PARTITION VALUE...`, outside of transactions.
    fn plain(&mut self, words: &[&str]) -> String {
        if let Some(id) = words[0].strip_prefix("new:") {
            let request = InitProducerIdRequest::default().with_transactional_id(None);
            let given = self.raw.call(4, &request);
            assert_eq!(self.show(given.producer_id.0, 0), format!("{id}/0"));
            return self.plain(&[&[&*format!("{id}/0")], &words[1..]].concat());
        }
        let batch = self.batch(words[0], words[1], &words[3..], false);
        self.send(9, None, words[2], &batch)
    }

    /// `ID PRODUCER GROUP[@MEMBER:EPOCH] PARTITION=OFFSET`
    fn offsets(&mut self, version: i16, words: &[&str]) -> String {
        let (id, epoch) = self.producer(words[1]);
        let (group, member) = words[2].split_once('@').unwrap_or((words[2], ":-1"));
        let (member, generation) = member.rsplit_once(':').unwrap();
        let (at, offset) = words[3].split_once('=').unwrap();
        let (name, partition) = self.partition(at);
        let partition = TxnOffsetCommitRequestPartition::default()
            .with_partition_index(partition)
            .with_committed_offset(offset.parse().unwrap())
            .with_committed_leader_epoch(-1)
            .with_committed_metadata(Some(text("m")));
        let topics = TxnOffsetCommitRequestTopic::default()
            .with_name(topic(&name))
            .with_partitions(vec![partition]);
        let request = TxnOffsetCommitRequest::default()
            .with_transactional_id(TransactionalId(text(&self.named(words[0]))))
            .with_group_id(GroupId(text(&self.named(group))))
            .with_producer_id(id.into())
            .with_producer_epoch(epoch)
            .with_generation_id(generation.parse().unwrap())
            .with_member_id(text(member))
            .with_topics(vec![topics]);
        let (error, ()) = self.ask(|stage| {
            (stage.raw.call(version, &request).topics[0].partitions[0].error_code, ())
        });
        error_code::name(error).to_owned()
    }

    /// `GROUP PARTITION=OFFSET`, outside of transactions.
    fn commit(&mut self, words: &[&str]) -> String {
        let (at, offset) = words[1].split_once('=').unwrap();
        let (name, partition) = self.partition(at);
        let partition = OffsetCommitRequestPartition::default()
            .with_partition_index(partition)
            .with_committed_offset(offset.parse().unwrap());
        let topics = OffsetCommitRequestTopic::default()
            .with_name(topic(&name))
            .with_partitions(vec![partition]);
        let request = OffsetCommitRequest::default()
            .with_group_id(GroupId(text(&self.named(words[0]))))
            .with_generation_id_or_member_epoch(-1)
            .with_topics(vec![topics]);
        let (error, ()) =
            self.ask(|stage| (stage.raw.call(8, &request).topics[0].partitions[0].error_code, ()));
        error_code::name(error).to_owned()
    }

    /// `GROUP [PARTITION]`: the committed offset, or all.
    fn fetched(&mut self, stable: bool, words: &[&str]) -> String {
        let topics = words.get(1).map(|at| {
            let (name, partition) = self.partition(at);
            let asked = OffsetFetchRequestTopics::default()
                .with_name(topic(&name))
                .with_partition_indexes(vec![partition]);
            vec![asked]
        });
        let group = OffsetFetchRequestGroup::default()
            .with_group_id(GroupId(text(&self.named(words[0]))))
            .with_topics(topics);
        let request =
            OffsetFetchRequest::default().with_require_stable(stable).with_groups(vec![group]);
        let (error, found) = self.ask(|stage| {
            let group = stage.raw.call(8, &request).groups.remove(0);
            (group.error_code, group.topics)
        });
        let mut all = Vec::new();
        for part in found.iter().flat_map(|topic| &topic.partitions) {
            let metadata = part.metadata.as_ref().map_or("-", |text| text.as_str());
            let offset = part.committed_offset;
            all.push(match part.error_code {
                0 => format!("{}:{offset}{metadata}", part.partition_index),
                code => format!(
                    "{}:{offset}{metadata} {}",
                    part.partition_index,
                    error_code::name(code)
                ),
            });
        }
        all.sort();
        if all.is_empty() {
            all.push("nothing".to_owned());
        }
        if error == 0 { all.join(", ") } else { error_code::name(error).to_owned() }
    }

    /// `ID PRODUCER commit|abort`; waits for the markers.
    fn end(&mut self, version: i16, words: &[&str]) -> String {
        let (id, epoch) = self.producer(words[1]);
        let request = EndTxnRequest::default()
            .with_transactional_id(TransactionalId(text(&self.named(words[0]))))
            .with_producer_id(id.into())
            .with_producer_epoch(epoch)
            .with_committed(words[2] == "commit");
        let (error, (id, epoch)) = self.ask(|stage| {
            let answer = stage.raw.call(version, &request);
            (answer.error_code, (answer.producer_id.0, answer.producer_epoch))
        });
        self.settled(words[0]);
        match (error, version) {
            (0, 5) => self.show(id, epoch),
            _ => error_code::name(error).to_owned(),
        }
    }

    fn describe(&mut self, id: &str) -> describe_transactions_response::TransactionState {
        let ids = vec![TransactionalId(text(&self.named(id)))];
        let request = DescribeTransactionsRequest::default().with_transactional_ids(ids);
        let (_, state) = self.ask(|stage| {
            let state = stage.raw.call(0, &request).transaction_states.remove(0);
            (state.error_code, state)
        });
        state
    }

    /// Waits until the markers are written.
    fn settled(&mut self, id: &str) -> describe_transactions_response::TransactionState {
        let (_, state) = self.ask(|stage| {
            let state = stage.describe(id);
            (if state.transaction_state.starts_with("Prepare") { 51 } else { 0 }, state)
        });
        state
    }

    fn state(&mut self, id: &str) -> String {
        let state = self.settled(id);
        if state.error_code != 0 {
            return error_code::name(state.error_code).to_owned();
        }
        let mut all = vec![
            state.transaction_state.to_string(),
            self.show(state.producer_id.0, state.producer_epoch),
        ];
        let mut partitions: Vec<String> = state
            .topics
            .iter()
            .flat_map(|topic| topic.partitions.iter().map(move |p| (topic.topic.as_str(), p)))
            .filter_map(|(topic, p)| Some(format!("{}-{p}", topic.strip_suffix(&self.suffix)?)))
            .collect();
        partitions.sort();
        all.extend(partitions);
        all.join(" ")
    }

    fn data(&mut self, at: &str, isolation: i8) -> fetch_response::PartitionData {
        let (name, partition) = self.partition(at);
        let request = fetch_request(&name, partition, 0, 0).with_isolation_level(isolation);
        self.raw.call(12, &request).responses.remove(0).partitions.remove(0)
    }

    /// All batches: values and markers, with what they were written under.
    fn log(&mut self, at: &str) -> String {
        let records = self.data(at, 0).records.unwrap_or_default();
        let mut all = Vec::new();
        for batch in batches(&records) {
            let batch = batch.unwrap();
            let producer = self.show(batch.producer_id(), batch.producer_epoch());
            let control = batch.is_control();
            let mut records = batch.into_records().unwrap();
            let mut values = Vec::new();
            while let Some(record) = records.next_record().unwrap() {
                values.push(match control {
                    true => format!("{:?}", ControlType::from_key(record.key.unwrap()).unwrap()),
                    false => String::from_utf8_lossy(record.value.unwrap()).into_owned(),
                });
            }
            all.push(format!("{producer} {}", values.join(" ")));
        }
        all.join(", ")
    }

    /// What a reader of committed records is told.
    fn read(&mut self, at: &str) -> String {
        let data = self.data(at, 1);
        let aborted = data.aborted_transactions.unwrap_or_default();
        let mut all: Vec<String> = Vec::new();
        for aborted in aborted {
            let producer = self.show(aborted.producer_id.0, 0);
            let id = producer.split('/').next().unwrap();
            all.push(format!("{id} aborted from {}", aborted.first_offset));
        }
        let held: usize =
            batches(&data.records.unwrap_or_default()).map(|b| b.unwrap().count() as usize).sum();
        let bounds = (data.last_stable_offset, data.high_watermark);
        all.push(format!("{held} records, stable {} of {}", bounds.0, bounds.1));
        all.join(", ")
    }

    /// `ID STATE`: waits for it.
    fn until(&mut self, words: &[&str]) -> String {
        self.ask(|stage| {
            let state = stage.describe(words[0]).transaction_state;
            (if state.as_str() == words[1] { 0 } else { 51 }, ())
        });
        self.state(words[0])
    }
}

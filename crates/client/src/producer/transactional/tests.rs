//! Transactions against the model: whatever is refused, cut, lost or given up, the records of each
//! committed transaction are there once and in order, those of others never.

use crate::config::ProducerConfig;
use crate::error::{ClientError, ErrorKind};
use crate::pending::Pending;
use crate::producer_handle::{Committed, PartitionHandle, Producer};
use crate::testing::World;
use crate::types::{CommittedOffset, GroupMetadata, TopicPartition};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

const ID: &str = "app-process-1";

fn config(seed: u64) -> ProducerConfig {
    ProducerConfig {
        batch_size: 100 + (seed % 7) as usize * 60,
        max_request_size: 2_000,
        linger: Duration::ZERO,
        delivery_timeout: Duration::from_secs(36_000),
        transactional_id: Some(ID.to_owned()),
        ..Default::default()
    }
}

fn member(member_epoch: i32) -> Option<GroupMetadata> {
    Some(GroupMetadata { group_id: "g".into(), member_id: "m".to_owned(), member_epoch })
}

fn offsets(offset: i64) -> BTreeMap<TopicPartition, CommittedOffset> {
    BTreeMap::from([(TopicPartition::new("in", 0), CommittedOffset::new(offset))])
}

/// A world with a producer, and what should be in its broker.
struct Model {
    world: World,
    producer: Producer,
    handles: [PartitionHandle; 3],
    next: usize,
    expected: [Vec<String>; 3],
    expected_offset: Option<i64>,
    /// What was asked for, oldest first, with the records that belong to it.
    waiting: VecDeque<Waiting>,
    appended: Vec<(usize, String)>,
}

enum Waiting {
    Commit(Pending<Committed>, Vec<(usize, String)>, Option<i64>),
    Abort(Pending<()>),
    Init(Pending<()>),
}

impl Model {
    fn new(seed: u64, level: i16) -> Self {
        Self::on(false, seed, level)
    }

    /// On one node, or on three that move, end, and come back.
    fn on(several: bool, seed: u64, level: i16) -> Self {
        let mut world = World::new(seed, |config| {
            // A slow coordinator is waited for.
            config.operation_timeout = Duration::from_secs(36_000);
            if several {
                let ports = [9092, 9093, 9094];
                config.bootstrap = ports.map(|port| format!("broker:{port}")).to_vec();
                config.request_timeout = Duration::from_millis(500 + seed % 1_000);
            }
        });
        if several {
            world.broker.cluster.nodes = 3;
            world.moves = seed % 40;
            // With version 1 what comes late can end the next transaction: see KIP-890.
            world.late = level == 2;
            world.halts = if world.late { (seed % 15, 3_000) } else { (0, 1) };
        }
        world.broker.transactions.level = level;
        let mut producer = world.client.producer(config(seed));
        let handles = [0, 1, 2].map(|p| producer.partition(&TopicPartition::new("t", p)));
        Self {
            world,
            producer,
            handles,
            next: 0,
            expected: Default::default(),
            expected_offset: None,
            waiting: VecDeque::new(),
            appended: Vec::new(),
        }
    }

    fn append(&mut self, partition: usize) {
        let value = self.next.to_string();
        self.next += 1;
        let handle = self.handles[partition];
        if self.producer.append(handle, 0, None, Some(value.as_bytes()), &[]).is_ok() {
            self.appended.push((partition, value));
        }
    }

    fn commit(&mut self, offset: Option<i64>) {
        let records = std::mem::take(&mut self.appended);
        let offsets = offset.map(offsets).unwrap_or_default();
        let pending = self.producer.commit(offsets, member(1));
        self.waiting.push_back(Waiting::Commit(pending, records, offset));
    }

    fn abort(&mut self) {
        self.appended.clear();
        let pending = self.producer.abort();
        self.waiting.push_back(Waiting::Abort(pending));
    }

    fn init(&mut self) {
        self.appended.clear();
        let pending = self.producer.init();
        self.waiting.push_back(Waiting::Init(pending));
    }

    /// Takes the results that are there; gives the first error.
    fn results(&mut self) -> Result<(), ClientError> {
        while let Some(first) = self.waiting.front_mut() {
            let result = match first {
                Waiting::Commit(pending, records, offset) => match pending.try_take() {
                    None => return Ok(()),
                    Some(Ok(_)) => {
                        for (partition, value) in records.drain(..) {
                            self.expected[partition].push(value);
                        }
                        self.expected_offset = offset.or(self.expected_offset);
                        Ok(())
                    }
                    Some(Err(error)) => Err(error),
                },
                Waiting::Abort(pending) | Waiting::Init(pending) => match pending.try_take() {
                    None => return Ok(()),
                    Some(result) => result,
                },
            };
            self.waiting.pop_front();
            result?;
        }
        Ok(())
    }

    /// Steps until all results are there.
    fn settle(&mut self, seed: u64) -> Result<(), ClientError> {
        for step in 0.. {
            self.results()?;
            if self.waiting.is_empty() {
                return Ok(());
            }
            self.world.step();
            if step == 3_000 {
                self.world.calm(true);
            }
            assert!(step < 100_000, "seed {seed} does not end: {:?}", self.world.broker);
        }
        Ok(())
    }

    /// Goes the way that the error says, until the producer can be used again.
    fn recover(&mut self, mut error: ClientError, seed: u64) {
        for _ in 0..10 {
            let fenced = error.kind() == ErrorKind::ProducerFenced;
            // What was asked for in between has the same fate.
            while let Some(first) = self.waiting.pop_front() {
                self.waiting.push_front(first);
                if self.settle(seed).is_ok() {
                    break;
                }
            }
            if fenced {
                self.init();
            } else {
                self.abort();
            }
            match self.settle(seed) {
                Ok(()) => return,
                Err(again) => error = again,
            }
        }
        panic!("seed {seed} does not recover: {error}");
    }

    fn check(&self, seed: u64) {
        for (partition, expected) in self.expected.iter().enumerate() {
            let log = self.world.broker.logs.get(&(partition as i32));
            let committed = log.map_or(Vec::new(), crate::testing::Log::committed);
            assert_eq!(&committed, expected, "partition {partition} of seed {seed}");
        }
        let transactions = &self.world.broker.transactions;
        assert_eq!(transactions.violations, Vec::<String>::new(), "seed {seed}");
        assert_eq!(transactions.offsets.get(&0).copied(), self.expected_offset, "seed {seed}");
    }
}

#[test]
fn committed_records_are_there_once_and_in_order_and_aborted_ones_never() {
    let mut disorder = 0;
    let mut ended = [0; 2];
    let mut recovered = BTreeMap::new();
    let mut refusals = 0;
    // As many again on three nodes; KSTREAMS_MODEL_SEEDS has more of those.
    let most = std::env::var("KSTREAMS_MODEL_SEEDS").ok().and_then(|most| most.parse().ok());
    for seed in 0..most.unwrap_or(300) {
        let mut model = Model::on(seed >= 200, seed, 1 + (seed % 2) as i16);
        model.world.faults = seed % 30;
        if (seed / 2).is_multiple_of(3) {
            model.world.broker.transactions.epoch_max = 3;
        }
        if (seed / 2).is_multiple_of(5) {
            model.world.broker.records_max = 2 + seed as u32 % 5;
        }
        for transaction in 0..12 {
            for _ in 0..model.world.random.next() % 60 {
                let partition = model.world.random.next() as usize % 3;
                model.append(partition);
                if model.world.random.next().is_multiple_of(5) {
                    model.producer.poll(model.world.now);
                    model.world.step();
                }
            }
            match model.world.random.next() % 20 {
                0 => model.world.broker.time_out(ID),
                1 => {
                    refusals += 1;
                    model.world.broker.abortable = Some(model.world.random.next() as u32 % 3);
                }
                _ => {}
            }
            if model.world.random.next().is_multiple_of(5) {
                model.abort();
            } else {
                let offset = (!model.world.random.next().is_multiple_of(4)).then_some(transaction);
                model.commit(offset);
            }
            // Often the next transaction begins before this one has ended.
            let result = match model.world.random.next() % 3 {
                0 => model.results(),
                _ => model.settle(seed),
            };
            if let Err(error) = result {
                *recovered.entry(format!("{:?}", error.kind())).or_insert(0) += 1;
                model.recover(error, seed);
            }
        }
        while let Err(error) = model.settle(seed) {
            model.recover(error, seed);
        }
        model.check(seed);
        assert_eq!(model.producer.buffered_bytes(), 0, "seed {seed}");
        disorder += model.world.broker.disorder;
        ended[0] += model.world.broker.transactions.ended[0];
        ended[1] += model.world.broker.transactions.ended[1];
    }
    // The runs really met what they are about.
    assert!(disorder > 10 && ended[0] > 1_000 && ended[1] > 300, "{disorder} {ended:?}");
    assert!(recovered["Abortable"] <= refusals, "{recovered:?} {refusals}");
    assert!(recovered["Abortable"] > 20 && recovered["ProducerFenced"] > 20, "{recovered:?}");
}

/// Steps until the result is there.
fn result<T>(world: &mut World, pending: &mut Pending<T>) -> Result<T, ClientError> {
    for _ in 0..20_000 {
        world.step();
        if let Some(result) = pending.try_take() {
            return result;
        }
    }
    panic!("no result: {:?}", world.broker);
}

#[test]
fn a_stale_member_epoch_leaves_the_transaction_as_it_is() {
    for level in [1, 2] {
        let mut model = Model::new(7, level);
        model.world.broker.transactions.member_epoch = 4;
        model.append(0);
        let mut stale = model.producer.commit(offsets(3), member(3));
        let error = result(&mut model.world, &mut stale).unwrap_err();
        assert_eq!((error.kind(), error.code()), (ErrorKind::StaleMemberEpoch, Some(22)));
        assert!(
            error.to_string().contains("in-0 for group g in the transaction of app-"),
            "{error}"
        );
        assert_eq!(model.world.broker.logs[&0].committed(), Vec::<String>::new());
        // What is appended in between belongs to it.
        model.append(0);
        let mut again = model.producer.commit(offsets(3), member(4));
        let committed = result(&mut model.world, &mut again).unwrap();
        assert_eq!(committed.end_offsets, [(model.handles[0], 2)]);
        assert_eq!(model.world.broker.logs[&0].committed(), ["0", "1"]);
        assert_eq!(model.world.broker.transactions.offsets[&0], 3);
    }
}

/// One record is written; then its commit is asked for, and from here on all answers are lost.
fn commit_without_answers(level: i16) -> (Model, Pending<Committed>) {
    let mut model = Model::new(3, level);
    model.append(0);
    let mut flushed = model.producer.flush();
    result(&mut model.world, &mut flushed).unwrap();
    model.world.lose_answers = true;
    let commit = model.producer.commit(BTreeMap::new(), None);
    (model, commit)
}

#[test]
fn a_commit_whose_answer_is_lost_is_asked_for_until_there_is_one() {
    for level in [1, 2] {
        let (mut model, mut commit) = commit_without_answers(level);
        for _ in 0..2_000 {
            model.world.step();
            assert!(commit.try_take().is_none());
        }
        // It is committed, but nobody knows.
        assert_eq!(model.world.broker.transactions.ended, [1, 0]);
        model.world.lose_answers = false;
        result(&mut model.world, &mut commit).unwrap();
        assert_eq!(model.world.broker.transactions.ended, [1, 0]);
        assert_eq!(model.world.broker.logs[&0].committed(), ["0"]);
    }
}

#[test]
fn an_outcome_that_cannot_be_known_is_not_called_a_failed_commit() {
    let (mut model, mut commit) = commit_without_answers(2);
    for _ in 0..2_000 {
        model.world.step();
    }
    assert_eq!(model.world.broker.transactions.ended, [1, 0]);
    model.world.lose_answers = false;
    // Another one takes the transactional id before the answer is there.
    let mut other = World::new(4, |_| {});
    std::mem::swap(&mut other.broker, &mut model.world.broker);
    let mut second = other.client.producer(config(0));
    let mut init = second.init();
    result(&mut other, &mut init).unwrap();
    std::mem::swap(&mut other.broker, &mut model.world.broker);
    let error = result(&mut model.world, &mut commit).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ProducerFenced, "{error}");
    assert_eq!(model.world.broker.logs[&0].committed(), ["0"]);
    let mut init = model.producer.init();
    result(&mut model.world, &mut init).unwrap();
}

#[test]
fn a_lost_transaction_gives_its_memory_back_and_drops_what_is_appended_to_it() {
    let mut model = Model::new(1, 2);
    model.world.broker.abortable = Some(0);
    model.append(0);
    let mut flushed = model.producer.flush();
    let error = result(&mut model.world, &mut flushed).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Abortable, "{error}");
    for _ in 0..100 {
        model.append(1);
    }
    let mut flushed = model.producer.flush();
    assert_eq!(result(&mut model.world, &mut flushed).unwrap_err(), error);
    assert_eq!(model.producer.buffered_bytes(), 0);
    let mut commit = model.producer.commit(BTreeMap::new(), None);
    assert_eq!(result(&mut model.world, &mut commit).unwrap_err(), error);
    let mut abort = model.producer.abort();
    result(&mut model.world, &mut abort).unwrap();
    model.append(1);
    let mut commit = model.producer.commit(BTreeMap::new(), None);
    result(&mut model.world, &mut commit).unwrap();
    assert_eq!(model.world.broker.logs[&1].committed(), ["101"]);
}

#[test]
fn offsets_are_given_up_when_their_coordinator_is_out_of_reach() {
    let mut model = Model::new(2, 2);
    let mut world = World::new(2, |config| {
        config.operation_timeout = Duration::from_secs(5);
        config.request_timeout = Duration::from_millis(300);
    });
    std::mem::swap(&mut world, &mut model.world);
    let mut producer = model.world.client.producer(config(2));
    let mut init = producer.init();
    result(&mut model.world, &mut init).unwrap();
    *model.world.up.lock().unwrap() = false;
    model.world.cut();
    let mut commit = producer.commit(offsets(1), member(1));
    let error = result(&mut model.world, &mut commit).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Retriable, "{error}");
    assert!(error.to_string().contains(ID), "{error}");
    // The abort goes through once it is back.
    let mut abort = producer.abort();
    for _ in 0..1_000 {
        model.world.step();
    }
    *model.world.up.lock().unwrap() = true;
    result(&mut model.world, &mut abort).unwrap();
    let mut commit = producer.commit(offsets(1), member(1));
    result(&mut model.world, &mut commit).unwrap();
    assert_eq!(model.world.broker.transactions.offsets[&0], 1);
}

#[test]
fn a_producer_out_of_reach_says_so_and_keeps_trying() {
    let mut world = World::new(5, |config| config.operation_timeout = Duration::from_secs(5));
    *world.up.lock().unwrap() = false;
    let mut producer = world.client.producer(config(0));
    let mut init = producer.init();
    assert_eq!(result(&mut world, &mut init).unwrap_err().kind(), ErrorKind::Retriable);
    *world.up.lock().unwrap() = true;
    let mut init = producer.init();
    result(&mut world, &mut init).unwrap();
}

#[test]
fn a_driver_that_waits_for_a_coordinator_does_not_spin() {
    for level in [1, 2] {
        let mut model = Model::new(11, level);
        for _ in 0..3 {
            model.append(0);
            model.commit(Some(1));
            model.append(1);
            model.abort();
        }
        for _ in 0..5_000 {
            model.world.step();
            model.results().unwrap();
            if model.waiting.is_empty() {
                break;
            }
            model.world.step_driver();
            model.world.step_driver();
            let next = model.world.step_driver();
            assert!(next.is_none_or(|next| next > model.world.now), "{next:?}");
        }
        assert!(model.waiting.is_empty());
    }
}

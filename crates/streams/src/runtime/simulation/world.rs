//! The broker, the instances, what goes wrong, and what has to be right afterwards.

use super::instance::Process;
use super::random::Random;
use super::writer::{Writer, has_windows};
use crate::config::{Settings, StreamsConfig};
use crate::prelude::{
    Consumed, Grouped, JoinWindows, Materialized, Produced, StreamJoined, StreamsBuilder,
    TimeWindows, hours, millis,
};
use crate::runtime::clock::Now;
use crate::runtime::cluster::{Cluster, Limits, Networks};
use crate::runtime::embedded::network;
use crate::topology::Topology;
use kstreams_broker::{Broker, BrokerConfig, Fault, FaultAction, ManualClock, MemoryConnection};
use kstreams_protocol::ResponseError;
use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use uuid::Uuid;

pub(super) const PARTITIONS: i32 = 3;
/// What the application reads and writes.
const TOPICS: [&str; 5] = ["in", "pair", "out", "windows", "pairs"];
/// The size of the windows, in ms.
pub(super) const WINDOW: u64 = 500;
const INSTANCES: usize = 2;
const KEYS: u64 = 20;
/// The wall clock at the start, in ms since 1970.
const BEGIN: u64 = 1_750_000_000_000;
/// How long things go wrong, and how long they may take to be right again, in ms.
const TROUBLE: u64 = 15_000;
const PATIENCE: u64 = 60_000;
const SESSION: u64 = 1_500;
const TRANSACTION_TIMEOUT: Duration = Duration::from_millis(700);

/// The requests of an application, by Kafka's numbers: what is written and read, offsets, coordinators, transactions, the group.
const REQUESTS: [i16; 13] = [0, 1, 2, 3, 8, 9, 10, 22, 24, 25, 26, 28, 88];

type Connect = Box<dyn Fn() -> MemoryConnection + Send>;

pub(super) struct World {
    seed: u64,
    random: Random,
    clock: Arc<ManualClock>,
    /// Milliseconds since the start.
    time: u64,
    broker: Option<Broker>,
    /// How the broker of the moment is reached.
    connect: Arc<Mutex<Option<Connect>>>,
    cluster: Vec<Cluster>,
    topology: Topology,
    exactly_once: bool,
    processes: Vec<Option<Process>>,
    writer: Writer,
    /// What happened, for a failure's message.
    story: VecDeque<String>,
    dir: tempfile::TempDir,
}

fn topology(seed: u64) -> Topology {
    let counts = Materialized::named("counts");
    let counts = if seed % 3 == 2 { counts.in_memory() } else { counts };
    let builder = StreamsBuilder::new();
    let stream = |topic| builder.stream(topic, Consumed::<String, String>::new());
    let input = stream("in");
    let grouped = input.group_by(|_, value| value.clone(), Grouped::named("by-value"));
    grouped.count(counts).to_stream().to("out", Produced::new());
    if !has_windows(seed) {
        return builder.build().expect("builds");
    }
    // So late that nothing is: the results do not depend on what comes first.
    let windows = TimeWindows::of(millis(WINDOW)).grace(hours(1));
    grouped
        .windowed_by(windows)
        .count(Materialized::named("windows"))
        .to_stream_with_key(|key, _| key.to_string())
        .to("windows", Produced::new());
    let near = JoinWindows::of(millis(100)).grace(hours(1));
    let pairs = StreamJoined::named("pairs");
    let pairs = if seed % 3 == 1 { pairs.in_memory() } else { pairs };
    input
        .left_join(&stream("pair"), |_, right| i64::from(right.is_some()), near, pairs)
        .to("pairs", Produced::new());
    builder.build().expect("builds")
}

/// Another `ids` at each start: they are the seed of new topics' ids.
fn broker_config(seed: u64, ids: u64) -> BrokerConfig {
    let mut config = BrokerConfig::quick();
    config.seed = Some(ids);
    config.transaction_version = if seed % 4 == 3 { 1 } else { 2 };
    config.streams_session_timeout_ms = SESSION as i64;
    config
}

impl World {
    pub(super) fn new(seed: u64, guarantee: &'static str) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let clock = Arc::new(ManualClock::new(BEGIN as i64));
        let connect = Arc::new(Mutex::new(None::<Connect>));
        let connecting = connect.clone();
        let networks: Networks = Arc::new(move || {
            let connecting = connecting.clone();
            network(move || {
                let connect = connecting.lock().expect("the way to the broker");
                connect.as_ref().map(|connect| connect())
            })
        });
        let cluster: Vec<Cluster> = (0..INSTANCES)
            .map(|index| {
                let state = dir.path().join(format!("state-{index}"));
                let settings = Arc::new(settings(seed, guarantee, &state));
                Cluster { settings, networks: networks.clone() }
            })
            .collect();
        let mut world = World {
            seed,
            random: Random::new(seed),
            clock,
            time: 0,
            broker: None,
            connect,
            writer: Writer::new(&cluster[0], seed),
            cluster,
            topology: topology(seed),
            exactly_once: guarantee == "exactly_once_v2",
            processes: (0..INSTANCES).map(|_| None).collect(),
            story: VecDeque::new(),
            dir,
        };
        world.start_broker();
        for topic in TOPICS {
            world.broker().create_topic(topic, PARTITIONS).expect("created");
        }
        world
    }

    fn broker(&self) -> &Broker {
        self.broker.as_ref().expect("a broker")
    }

    fn start_broker(&mut self) {
        let broker = Broker::builder()
            .directory(self.dir.path().join("broker"))
            .without_tcp()
            .config(broker_config(self.seed, self.random.next()))
            .clock(self.clock.clone())
            .start()
            .expect("a broker");
        let connector = broker.connector();
        *self.connect.lock().expect("the way to the broker") = Some(Box::new(connector));
        self.broker = Some(broker);
    }

    fn now(&self) -> Now {
        Now { monotonic: Duration::from_millis(self.time), wall: (BEGIN + self.time) as i64 }
    }

    fn note(&mut self, what: String) {
        if self.story.len() == 60 {
            self.story.pop_front();
        }
        self.story.push_back(format!("{:>6} {what}", self.time));
    }

    fn failure(&self, why: &str) -> String {
        let mut text = format!("seed {}: {why}\n", self.seed);
        for line in &self.story {
            let _ = writeln!(text, "{line}");
        }
        text
    }

    /// Everybody's turn.
    fn step(&mut self) {
        let passed = self.random.between(1, 12);
        self.time += passed;
        self.clock.advance(passed as u32);
        self.broker().tick();
        self.writer.driver.step(self.now().monotonic);
        while self.writer.client.next_event().is_some() {}
        for index in 0..INSTANCES {
            let now = self.now();
            let Some(process) = &mut self.processes[index] else { continue };
            if self.time < process.stopped_until {
                continue;
            }
            match process.step(now) {
                Ok(true) => {}
                Ok(false) => {
                    self.processes[index] = None;
                    self.note(format!("instance {index} has closed"));
                }
                // It was silent for too long: what it had is someone else's, and it says so.
                Err(error)
                    if process.is_closing() && error.to_string().contains("while closing") =>
                {
                    self.processes[index] = None;
                    self.note(format!("instance {index} has closed without its last commit"));
                }
                Err(error) => panic!("{}", self.failure(&format!("instance {index}: {error}"))),
            }
        }
    }

    fn start(&mut self, index: usize) {
        let cluster = &self.cluster[index];
        let process = Uuid::from_u128(u128::from(self.random.next()));
        let session = Some(Duration::from_millis(SESSION));
        let limits =
            Limits { session, transaction: self.exactly_once.then_some(TRANSACTION_TIMEOUT) };
        let seed = self.random.next();
        let started = Process::start(cluster, &self.topology, process, limits, seed, self.now());
        self.processes[index] = Some(started);
        self.note(format!("instance {index} starts"));
    }

    pub(super) fn go_wrong(&mut self) {
        while self.time < TROUBLE {
            self.write();
            self.trouble();
            self.step();
        }
    }

    fn write(&mut self) {
        let count = if self.random.once_in(4) { self.random.below(30) } else { 0 };
        for _ in 0..count {
            let value = format!("value-{}", self.random.below(KEYS));
            let key = self.random.next().to_string();
            let time = self.now().wall;
            if has_windows(self.seed) && self.random.once_in(4) {
                self.writer.write_pair(&key, time + self.random.between(0, 100) as i64);
            }
            self.writer.write(&key, value, time);
        }
        self.writer.producer.poll(self.now().monotonic);
    }

    /// Something goes wrong, now and then.
    fn trouble(&mut self) {
        for index in 0..INSTANCES {
            match &self.processes[index] {
                None if self.random.once_in(60) => self.start(index),
                Some(process) if !process.is_closing() && self.random.once_in(400) => {
                    self.harm(index);
                }
                _ => {}
            }
        }
        if self.random.once_in(25) {
            let fault = self.fault();
            self.note(format!("{fault:?}"));
            self.broker().inject(fault);
        }
        if self.random.once_in(300) {
            self.note("connections are cut".into());
            self.broker().cut_connections();
        }
        if self.random.once_in(700) {
            self.note("the broker restarts".into());
            *self.connect.lock().expect("the way to the broker") = None;
            self.broker = None;
            self.start_broker();
        }
    }

    fn harm(&mut self, index: usize) {
        let now = self.now();
        let Some(process) = &mut self.processes[index] else { return };
        match self.random.below(5) {
            0 | 1 => {
                let tasks = process.tasks();
                self.processes[index] = None;
                self.note(format!("instance {index} is killed, it had {tasks:?}"));
            }
            2 | 3 => {
                let pause = self.random.between(50, 3 * SESSION);
                process.stopped_until = self.time + pause;
                self.note(format!("instance {index} stops for {pause} ms"));
            }
            _ => {
                process.close(now);
                self.note(format!("instance {index} closes"));
            }
        }
    }

    fn fault(&mut self) -> Fault {
        use ResponseError::*;
        let api = self.random.one_of(&REQUESTS);
        let error = match api {
            0..=2 => self.random.one_of(&[NotLeaderOrFollower, UnknownTopicOrPartition]),
            24 | 25 | 26 | 28 => self.random.one_of(&[
                CoordinatorLoadInProgress,
                NotCoordinator,
                ConcurrentTransactions,
            ]),
            _ => self.random.one_of(&[CoordinatorLoadInProgress, NotCoordinator]),
        };
        let action = match self.random.below(6) {
            0 => FaultAction::CutBefore,
            1 => FaultAction::CutAfter,
            2 => FaultAction::Drop,
            3 | 4 => FaultAction::Delay(self.random.between(1, 1200) as u32),
            _ => FaultAction::Error(error),
        };
        Fault::on(api, action).after(self.random.below(20) as u32)
    }

    /// All is well again until the output is complete.
    pub(super) fn recover(&mut self) {
        self.broker().clear_faults();
        self.note("all is well".into());
        let end = self.time + PATIENCE;
        let mut flush = self.writer.producer.flush();
        let mut flushed = false;
        while self.time < end {
            for index in 0..INSTANCES {
                match &mut self.processes[index] {
                    None => self.start(index),
                    Some(process) => process.stopped_until = 0,
                }
            }
            self.step();
            flushed |= match flush.try_take() {
                Some(result) => result.map(|_| true).expect("the input is written"),
                None => false,
            };
            // All records are read for it.
            if flushed && self.random.once_in(20) && self.is_complete() {
                return;
            }
        }
        panic!("{}", self.failure(&self.missing(flushed)));
    }

    /// What the output lacks, and where everybody is.
    fn missing(&self, flushed: bool) -> String {
        let mut why = format!("not complete after {PATIENCE} ms, input written: {flushed}");
        for (topic, written) in self.writer.expected() {
            let counted = self.counted(topic);
            for (key, count) in written {
                let last = counted.get(key).and_then(|counts| counts.last()).copied().unwrap_or(0);
                if last < *count {
                    let _ = write!(why, ", {topic} {key}: {last} of {count}");
                }
            }
        }
        for (index, process) in self.processes.iter().enumerate() {
            for thread in process.iter().flat_map(Process::describe) {
                let _ = write!(why, "\n       instance {index}: {thread}");
            }
        }
        for topic in ["in", "pair", "simulated-by-value-repartition"] {
            for partition in 0..PARTITIONS {
                let offsets = self.broker().offsets(topic, partition);
                let committed = self.broker().committed("simulated", topic, partition);
                let _ = write!(why, "\n       {topic}-{partition} {offsets:?} {committed:?}");
            }
        }
        why
    }

    /// Whether all input is processed and committed.
    fn is_complete(&self) -> bool {
        let last = |(key, count): (&String, &i64), counted: &BTreeMap<String, Vec<i64>>| {
            counted.get(key).and_then(|counts| counts.last()).is_some_and(|last| last >= count)
        };
        self.writer.expected().iter().all(|(topic, written)| {
            let counted = self.counted(topic);
            written.iter().all(|entry| last(entry, &counted))
        })
    }

    /// The counts of each key, in order, as a reader of committed records sees them.
    fn counted(&self, topic: &str) -> BTreeMap<String, Vec<i64>> {
        let mut counted: BTreeMap<String, Vec<i64>> = BTreeMap::new();
        for record in self.broker().records(topic).expect("readable") {
            if record.committed {
                let key = String::from_utf8_lossy(record.key.as_deref().expect("a key")).into();
                let count = record.value.as_deref().expect("a count").try_into().expect("8 bytes");
                counted.entry(key).or_default().push(i64::from_be_bytes(count));
            }
        }
        counted
    }

    pub(super) fn check(&self) {
        assert!(self.writer.written.len() as u64 == KEYS, "too little was written");
        for (topic, written) in self.writer.expected() {
            for (key, counts) in self.counted(topic) {
                let Some(&count) = written.get(&key) else {
                    panic!("{}", self.failure(&format!("{topic} {key}: {counts:?}, not written")));
                };
                let exact = match is_cached(self.seed) {
                    true => counts.is_sorted_by(|a, b| a < b) && counts.last() == Some(&count),
                    false => counts.iter().copied().eq(1..=count),
                };
                if self.exactly_once && !exact {
                    let why = format!("{topic} {key}: {counts:?}, not 1 to {count}");
                    panic!("{}", self.failure(&why));
                }
            }
        }
    }
}

/// Whether a record cache holds back some results.
fn is_cached(seed: u64) -> bool {
    seed % 5 == 4
}

/// Another cache, number of threads for other seeds.
fn settings(seed: u64, guarantee: &str, state: &std::path::Path) -> Settings {
    let config = StreamsConfig::new("simulated", "memory:9092")
        .stream_threads(1 + (seed % 2) as usize)
        .commit_interval(Duration::from_millis(50))
        .cache_max_bytes(if is_cached(seed) { 1 << 20 } else { 0 })
        .state_dir(state);
    let more = [
        ("processing.guarantee", guarantee),
        ("request.timeout.ms", "400"),
        ("linger.ms", "5"),
        ("fetch.max.wait.ms", "100"),
        ("metadata.max.age.ms", "1000"),
    ];
    let config = more
        .into_iter()
        .fold(config, |config, (key, value)| config.set(key, value).expect("a setting"));
    config.resolve().expect("settings")
}

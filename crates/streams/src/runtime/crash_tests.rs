//! A stream thread that stops for good at each step of the commit protocol (P73; P68's kill points), and another that goes on
//! with what it left: the directory, the topics, the offsets.

use super::clock::{Clock, SystemClock};
use super::cluster::{Cluster, Instance};
use super::embedded::EmbeddedBroker;
use super::queries::Queries;
use super::thread::{StreamThread, Turn};
use super::thread_commit::Commit;
use crate::config::StreamsConfig;
use crate::prelude::{Consumed, Grouped, Materialized, Produced, StreamsBuilder};
use crate::record::Record;
use crate::state::{GlobalStores, StateDirectory};
use crate::task::StreamTask;
use crate::topology::Topology;
use kstreams_broker::{BrokerConfig, Fault, FaultAction};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

const KEYS: usize = 7;
const PATIENCE: Duration = Duration::from_secs(120);

/// Where the first thread stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Point {
    /// Records are processed, nothing of a commit has begun.
    Processed,
    /// The records are on their way.
    Flushing,
    /// The records are written, the offsets are on their way.
    Offsets,
    /// The transaction's end is on its way.
    Transaction,
    /// Kafka has everything, the engine nothing of it.
    BeforeEngine,
    /// The engine has it as well.
    Committed,
}

impl Point {
    /// The request on whose answer the thread waits at this point, by Kafka's number of it. Its answer comes late, so that no
    /// turn misses the point, however busy the machine is.
    fn held_request(self, exactly_once: bool) -> Option<i16> {
        const PRODUCE: i16 = 0;
        const OFFSET_COMMIT: i16 = 8;
        const END_TXN: i16 = 26;
        match self {
            Point::Flushing => Some(PRODUCE),
            Point::Offsets => Some(OFFSET_COMMIT),
            Point::Transaction | Point::BeforeEngine if exactly_once => Some(END_TXN),
            Point::Transaction | Point::BeforeEngine => Some(OFFSET_COMMIT),
            Point::Processed | Point::Committed => None,
        }
    }

    fn is_reached(self, thread: &StreamThread, processed: bool) -> bool {
        match self {
            Point::Processed => processed && thread.commit.is_idle(),
            Point::Flushing => matches!(thread.commit, Commit::Flushing { .. }),
            Point::Offsets => matches!(thread.commit, Commit::Offsets { .. }),
            Point::Transaction | Point::BeforeEngine => {
                matches!(thread.commit, Commit::Transaction { .. } | Commit::Offsets { .. })
            }
            Point::Committed => false,
        }
    }
}

/// Counts, and collects the values of each key.
fn topology() -> Topology {
    let builder = StreamsBuilder::new();
    let records = builder.stream("in", Consumed::<String, String>::new());
    let grouped = records.group_by_key(Grouped::new());
    grouped.count(Materialized::named("counts")).to_stream().to("counts", Produced::new());
    grouped
        .aggregate(
            String::new,
            |_, all: String, value| {
                let mut ids: BTreeSet<&str> = all.split(' ').filter(|id| !id.is_empty()).collect();
                ids.insert(&value);
                Some(ids.into_iter().collect::<Vec<_>>().join(" "))
            },
            Materialized::<String, String>::named("sets"),
        )
        .to_stream()
        .to("sets", Produced::new());
    builder.build().expect("builds")
}

struct Run {
    broker: EmbeddedBroker,
    config: StreamsConfig,
    clock: SystemClock,
    topology: Topology,
}

impl Run {
    fn new(guarantee: &str, state: &Path) -> Self {
        let mut config = BrokerConfig::quick();
        config.streams_session_timeout_ms = 700;
        let broker = EmbeddedBroker::with_config(config).expect("starts");
        for topic in ["in", "counts", "sets"] {
            broker.create_topic(topic, 1).expect("created");
        }
        let config = StreamsConfig::new("crash", broker.bootstrap())
            .commit_interval(Duration::from_millis(1))
            .cache_max_bytes(0)
            .state_dir(state)
            .set("processing.guarantee", guarantee)
            .expect("a setting");
        Run { broker, config, clock: SystemClock::default(), topology: topology() }
    }

    fn write(&self, numbers: std::ops::Range<usize>) {
        let records = numbers.map(|number| {
            Record::new(format!("key-{}", number % KEYS), number.to_string(), number as i64)
        });
        self.broker.write("in", records).expect("written");
    }

    fn thread(&self) -> StreamThread {
        let settings = Arc::new(self.config.resolve().expect("settings"));
        let directory =
            StateDirectory::open(&settings.state_dir, &settings.application.id, Uuid::new_v4());
        let directory = Some(Arc::new(directory.expect("the directory")));
        let process = directory.as_ref().map_or_else(Uuid::new_v4, |dir| dir.process_id());
        let cluster = Cluster { settings, networks: self.broker.networks() };
        let limits = cluster.find(&self.topology).expect("the cluster");
        let topology = self.topology.clone();
        let globals = Arc::new(GlobalStores::new(&topology.graph().globals));
        let queries = Queries::new(
            topology.clone(),
            cluster.settings.application.id.clone(),
            cluster.settings.stream_threads,
        );
        let instance = Instance { topology, directory, process, limits, globals, queries };
        let client = cluster.client("crash").expect("a client");
        StreamThread::new(
            cluster.thread_parts(&instance, 0, client, Arc::new(SystemClock::default())),
            self.clock.now(),
        )
    }

    /// Turns until `stop` says so; it is told whether anything was processed.
    fn turn_until(
        &self,
        thread: &mut StreamThread,
        mut stop: impl FnMut(&StreamThread, bool) -> bool,
    ) {
        let end = self.clock.now().monotonic + PATIENCE;
        let mut processed = false;
        loop {
            let now = self.clock.now();
            assert!(now.monotonic < end, "not reached");
            let turn = thread.run_once(now).expect("a turn");
            processed |= thread
                .slots
                .values()
                .any(|slot| slot.running().is_some_and(StreamTask::needs_commit));
            if stop(thread, processed) {
                return;
            }
            if let Turn::Wait(timeout) = turn {
                thread.wait(timeout);
            }
        }
    }

    /// The offset of the input up to which the thread has committed.
    fn turn_until_committed(&self, thread: &mut StreamThread, records: usize) {
        self.turn_until(thread, |thread, _| {
            let position = thread.slots.values().find_map(|slot| {
                let offsets = slot.running()?.offsets();
                offsets.first().map(|input| input.offset)
            });
            thread.commit.is_idle()
                && position == Some(records as i64)
                && thread
                    .slots
                    .values()
                    .all(|slot| slot.running().is_some_and(|task| !task.needs_commit()))
        });
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a directory");
    for entry in std::fs::read_dir(from).expect("a directory") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        match entry.file_type().expect("a type").is_dir() {
            true => copy(&entry.path(), &target),
            false => {
                std::fs::copy(entry.path(), target).expect("copied");
            }
        }
    }
}

/// Commits 50 records, stops at `point` with the next 20, goes on from there with 30 more.
fn crash_at(point: Point, guarantee: &str) -> Run {
    let dir = tempfile::tempdir().expect("a directory");
    let state = dir.path().join("state");
    let mut run = Run::new(guarantee, &state);
    run.write(0..50);
    let mut thread = run.thread();
    run.turn_until_committed(&mut thread, 50);
    if point == Point::Processed {
        thread.last_commit += Duration::from_secs(3600);
    }
    run.write(50..70);
    if let Some(request) = point.held_request(guarantee == "exactly_once_v2") {
        run.broker.inject(Fault::on(request, FaultAction::Delay(2000)));
    }
    match point {
        Point::Committed => run.turn_until_committed(&mut thread, 70),
        _ => run.turn_until(&mut thread, |thread, processed| point.is_reached(thread, processed)),
    }
    if point == Point::BeforeEngine {
        let before = dir.path().join("before");
        copy(&state, &before);
        run.turn_until_committed(&mut thread, 70);
        run.config = run.config.state_dir(&before);
    }
    thread.drop_tasks();
    drop(thread);
    run.write(70..100);
    let mut thread = run.thread();
    run.turn_until_committed(&mut thread, 100);
    run
}

fn counts(run: &Run) -> BTreeMap<String, Vec<i64>> {
    let mut counts: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    for record in run.broker.read::<String, i64>("counts").expect("readable") {
        let (key, count) = (record.key, record.value);
        counts.entry(key).or_default().push(count);
    }
    counts
}

/// For an aggregate that does not mind repeats: nothing is lost, nothing is foreign.
fn check_sets(run: &Run) {
    let mut last: BTreeMap<String, String> = BTreeMap::new();
    for record in run.broker.read::<String, String>("sets").expect("readable") {
        last.insert(record.key, record.value);
    }
    let all: BTreeSet<usize> = last
        .values()
        .flat_map(|set| set.split(' ').map(|id| id.parse().expect("a number")))
        .collect();
    assert_eq!(all, (0..100).collect());
}

fn expected(key: &str) -> i64 {
    (0..100).filter(|number| format!("key-{}", number % KEYS) == key).count() as i64
}

#[test]
fn p73_at_least_once_loses_nothing_wherever_it_stops() {
    use Point::*;
    for point in [Processed, Flushing, Offsets, BeforeEngine, Committed] {
        let run = crash_at(point, "at_least_once");
        check_sets(&run);
        for (key, counts) in counts(&run) {
            let last = counts.last().copied().unwrap_or_default();
            assert!(last >= expected(&key), "{point:?}: {key} {counts:?}");
            if matches!(point, BeforeEngine | Committed) {
                assert_eq!(last, expected(&key), "{point:?}: {key} {counts:?}");
            }
        }
    }
}

/// P68: restored and repeated to the last record, and each result is there once.
#[test]
fn p68_exactly_once_is_exact_wherever_it_stops() {
    use Point::*;
    for point in [Processed, Transaction, BeforeEngine, Committed] {
        let run = crash_at(point, "exactly_once_v2");
        check_sets(&run);
        let counts = counts(&run);
        assert_eq!(counts.len(), KEYS);
        for (key, counts) in counts {
            let exact: Vec<i64> = (1..=expected(&key)).collect();
            assert_eq!(counts, exact, "{point:?}: {key}");
        }
    }
}

/// Writes the numbers among its records; what is no number becomes a dead letter.
fn parsing() -> Topology {
    let builder = StreamsBuilder::new();
    builder
        .stream("in", Consumed::<String, String>::new())
        .try_map_values(|text| Ok(text.parse::<i64>()?))
        .to("counts", Produced::new());
    builder.build().expect("builds")
}

/// P97: `good, bad, good`, and a crash behind the dead letter: one of it is visible to committed readers, whenever it comes.
#[test]
fn p97_a_dead_letter_is_in_the_transaction_of_its_record() {
    use Point::*;
    for point in [Processed, Transaction, BeforeEngine, Committed] {
        let dir = tempfile::tempdir().expect("a directory");
        let mut run = Run::new("exactly_once_v2", dir.path());
        run.topology = parsing();
        run.broker.create_topic("dead", 1).expect("created");
        let skip = run.config.set("processing.exception.handler", "log-and-continue");
        run.config = skip.expect("a setting").dead_letter_topic("dead");
        let write = |run: &Run, values: &[&str]| {
            let records = values.iter().map(|v| Record::new("a".to_string(), v.to_string(), 5));
            run.broker.write("in", records).expect("written");
        };
        write(&run, &["1"]);
        let mut thread = run.thread();
        run.turn_until_committed(&mut thread, 1);
        if point == Processed {
            thread.last_commit += Duration::from_secs(3600);
        }
        if let Some(request) = point.held_request(true) {
            run.broker.inject(Fault::on(request, FaultAction::Delay(2000)));
        }
        write(&run, &["2", "bad", "3"]);
        match point {
            Committed => run.turn_until_committed(&mut thread, 4),
            _ => run.turn_until(&mut thread, |thread, done| point.is_reached(thread, done)),
        }
        thread.drop_tasks();
        drop(thread);
        let mut thread = run.thread();
        run.turn_until_committed(&mut thread, 4);
        let letters = run.broker.read::<String, String>("dead").expect("readable");
        let offset = letters[0].headers.last("__streams.errors.offset").map(<[u8]>::to_vec);
        assert_eq!(offset.as_deref(), Some(&b"2"[..]), "{point:?}");
        let letters: Vec<(String, i64)> =
            letters.into_iter().map(|letter| (letter.value, letter.timestamp)).collect();
        assert_eq!(letters, [("bad".into(), 5)], "{point:?}");
        let numbers = run.broker.read::<String, i64>("counts").expect("readable");
        let numbers: Vec<i64> = numbers.into_iter().map(|record| record.value).collect();
        assert_eq!(numbers, [1, 2, 3], "{point:?}");
    }
}

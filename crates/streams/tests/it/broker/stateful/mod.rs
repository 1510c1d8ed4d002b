//! Every stateful operator on a broker, with several partitions and threads, in a process that is killed twice: the results
//! are those of one uninterrupted run.

mod input;
mod topologies;

use self::input::{Given, PARTITIONS, RECORDS, Results, expected, records};
use self::topologies::{CASES, Case, Site};
use super::app::{AppProcess, config};
use crate::kafka::{Kafka, PATIENCE, Written, unique, wall_clock};
use kstreams::prelude::*;
use kstreams_client::{Clock, SystemClock};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const SEED: u64 = 0x5eed_0fa1_1b0b;
const PROCESS: &str = "broker::stateful::the_stateful_process";
/// The line of the log that says that every application is in the middle.
const MIDDLE: &str = "all are in the middle";

/// Stops each application of the process at a record in the middle, until it is killed.
struct Barrier {
    /// Of a hundred records, those that are read before; `None`: all are.
    percent: Option<usize>,
    waiting: AtomicUsize,
}

impl Barrier {
    /// Counts the records of one application. Each takes so long that a task's share of a turn is a hundred of them at most, and the
    /// first commit is behind every thread before the middle.
    fn tap(self: &Arc<Self>, case: &Case) -> Arc<dyn Fn() + Send + Sync> {
        let (barrier, read) = (self.clone(), AtomicUsize::new(0));
        let middle = self.percent.map(|percent| RECORDS * case.inputs * percent / 100);
        Arc::new(move || {
            let number = read.fetch_add(1, Ordering::Relaxed) + 1;
            std::thread::park_timeout(Duration::from_millis(2));
            let Some(middle) = middle else { return };
            if number == middle && barrier.waiting.fetch_add(1, Ordering::AcqRel) + 1 == CASES.len()
            {
                tracing::info!("{MIDDLE}");
            }
            if number >= middle {
                loop {
                    std::thread::park();
                }
            }
        })
    }
}

fn output(run: &str, case: &Case) -> String {
    format!("{run}-{}", case.name)
}

fn application(run: &str, case: &Case) -> String {
    format!("{run}-{}-app", case.name)
}

/// Not a test: the program of the child processes, which run it by name.
#[test]
#[ignore = "run by another test as a process of its own"]
fn the_stateful_process() {
    tracing_subscriber::fmt()
        .with_ansi(false)
        .with_thread_names(true)
        .with_writer(std::io::stdout)
        .init();
    let var = |name: &str| std::env::var(name).expect(name);
    let (run, bootstrap, state) = (var("RUN"), var("BOOTSTRAP"), var("STATE"));
    let barrier = Barrier { percent: var("PERCENT").parse().ok(), waiting: AtomicUsize::new(0) };
    let barrier = Arc::new(barrier);
    let mut running: Vec<KafkaStreams> = CASES
        .iter()
        .map(|case| {
            let (a, b) = (format!("{run}-a"), format!("{run}-b"));
            let site = Site { a, b, out: output(&run, case), tap: barrier.tap(case) };
            let topology = (case.build)(&site).expect("builds");
            let config = config(&application(&run, case), &bootstrap, Path::new(&state))
                .exactly_once()
                .stream_threads(2)
                .commit_interval(Duration::from_millis(20))
                .cache_max_bytes(if case.cached { 1 << 20 } else { 0 })
                .set("transaction.timeout.ms", "3000")
                .expect("a setting");
            KafkaStreams::start(topology, config).expect("starts")
        })
        .collect();
    let last = running.pop().expect("an application");
    last.run_until_signal().expect("no error");
    for app in running {
        app.close(PATIENCE).expect("closes");
    }
}

/// One run of all applications, over the deaths of their process.
struct Run {
    kafka: Kafka,
    name: String,
    state: tempfile::TempDir,
    a: Vec<Given>,
    b: Vec<Given>,
}

impl Run {
    /// With its topics, and all input in them.
    fn new() -> Self {
        let mut kafka = Kafka::shared();
        let name = unique("stateful");
        let base = wall_clock() / 100_000 * 100_000 - 1_000_000;
        let (a, b) = (records(SEED, base, 0), records(SEED + 8, base, 1));
        let outputs = CASES.iter().map(|case| output(&name, case));
        let topics = outputs.chain(["a", "b"].map(|topic| format!("{name}-{topic}")));
        let topics: Vec<String> = topics.collect();
        kafka.make_topics(&topics.iter().map(String::as_str).collect::<Vec<_>>(), PARTITIONS);
        for (topic, given) in [("a", &a), ("b", &b)] {
            let written = given.iter().map(|given| Written {
                partition: given.partition,
                time: given.time,
                key: &given.key,
                value: given.value.as_deref(),
            });
            kafka.write_records(&format!("{name}-{topic}"), written);
        }
        Run { kafka, name, state: tempfile::tempdir().expect("a directory"), a, b }
    }

    fn start(&self, percent: &str) -> AppProcess {
        let state = self.state.path().to_str().expect("a path that is text");
        AppProcess::spawn(
            PROCESS,
            &[
                ("BOOTSTRAP", self.kafka.bootstrap.as_str()),
                ("RUN", self.name.as_str()),
                ("STATE", state),
                ("PERCENT", percent),
            ],
        )
    }

    /// Starts the process and kills it when each application has read a part of its input.
    fn killed_in_the_middle(&self) -> Vec<String> {
        let process = self.start("35");
        process.wait_log("middle", |log| log.iter().any(|line| line.contains(MIDDLE)));
        process.kill()
    }

    /// How many records of the input are committed.
    fn committed(&mut self, case: &Case) -> i64 {
        let committed = self.kafka.committed(&application(&self.name, case));
        let inputs = ["a", "b"].map(|topic| format!("{}-{topic}", self.name));
        let of_input =
            committed.iter().filter(|(place, _)| inputs.contains(&place.topic.to_string()));
        of_input.map(|(_, offset)| offset).sum()
    }

    /// How many there are.
    fn all(case: &Case) -> i64 {
        (case.inputs * (RECORDS + PARTITIONS as usize)) as i64
    }

    /// The results of a topology, once they are as expected; or after a while what is there.
    fn results(
        &self,
        case: &Case,
        deadline: Duration,
        is_expected: impl Fn(&Results) -> bool,
    ) -> Results {
        let clock = SystemClock::new();
        let (mut results, mut seen) = (Results::new(), 0);
        self.kafka.read_until(&output(&self.name, case), PARTITIONS, |read| {
            for record in &read[seen..] {
                let value = record.value.clone();
                let value = value.map(|value| String::from_utf8(value).expect("text"));
                results.entry(record.key.clone()).or_default().push(value);
            }
            let is_new = read.len() > seen || seen == 0;
            seen = read.len();
            (is_new && is_expected(&results)) || clock.now() > deadline
        });
        results
    }
}

/// The table that results are: the last of each key, without those that were deleted.
fn table(results: &Results) -> BTreeMap<&str, &str> {
    let rows = results.iter();
    rows.filter_map(|(key, values)| Some((key.as_str(), values.last()?.as_deref()?))).collect()
}

/// All results of each key.
fn sequences(results: &Results) -> BTreeMap<&str, &[Option<String>]> {
    results.iter().map(|(key, values)| (key.as_str(), values.as_slice())).collect()
}

/// The first keys that differ, for a failure's message.
fn difference<V: PartialEq + Debug>(
    expected: &BTreeMap<&str, V>,
    found: &BTreeMap<&str, V>,
) -> Vec<String> {
    let keys: BTreeSet<&str> = expected.keys().chain(found.keys()).copied().collect();
    let differs = keys.into_iter().filter(|key| expected.get(key) != found.get(key));
    let lines = differs.map(|key| {
        format!("\n  {key}: expected {:?}, found {:?}", expected.get(key), found.get(key))
    });
    lines.take(10).collect()
}

/// What differs between results; nothing if they are as they must be.
fn differences(case: &Case, expected: &Results, found: &Results) -> Vec<String> {
    if case.is_exact() {
        difference(&sequences(expected), &sequences(found))
    } else {
        difference(&table(expected), &table(found))
    }
}

/// Killed twice in the middle; started again with the state directory, and without it. Without a record cache and behind no
/// repartition topic, each key has to have the very same results in the same order, each once.
#[test]
fn killed_applications_give_the_results_of_uninterrupted_ones() {
    let mut run = Run::new();
    let log = run.killed_in_the_middle();
    for case in &CASES {
        let committed = run.committed(case);
        assert!(
            0 < committed && committed < Run::all(case),
            "{}: {committed}\n{}",
            case.name,
            log.join("\n")
        );
    }
    run.killed_in_the_middle();
    for case in &CASES {
        let committed = run.committed(case);
        assert!(committed < Run::all(case), "{}: {committed}", case.name);
    }
    // Nothing is left but the topics.
    run.state = tempfile::tempdir().expect("a directory");
    let process = run.start("");
    let mut wrong = String::new();
    let deadline = SystemClock::new().now() + Duration::from_secs(60);
    for case in &CASES {
        let expected = expected(case, &run.a, &run.b);
        assert!(expected.len() > 20, "{}: {} keys", case.name, expected.len());
        let found =
            run.results(case, deadline, |found| differences(case, &expected, found).is_empty());
        let differences = differences(case, &expected, &found);
        if !differences.is_empty() {
            wrong += &format!("\n{}:{}", case.name, differences.concat());
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    process.stop();
}

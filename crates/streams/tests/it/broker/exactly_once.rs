//! Exactly once: whatever is killed, stopped, fenced or late, the committed output is that of a run without faults.

use super::app::{Counting, config, start};
use super::counts;
use super::moves::owned;
use crate::kafka::{Kafka, PATIENCE, Read, unique};
use kstreams::prelude::*;
use kstreams_client::ProducerConfig;
use kstreams_test_programs::Brokers;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const PARTITIONS: i32 = 8;
const KEYS: usize = 5000;

fn records(from: usize, to: usize) -> impl Iterator<Item = (String, String)> {
    (from..to).map(|number| (format!("key-{}", number % KEYS), number.to_string()))
}

/// Each key was counted 1, 2, 3 and so on, `total` records altogether.
pub(super) fn check_counts(read: &[Read], total: usize) {
    let mut last: BTreeMap<&str, i64> = BTreeMap::new();
    for record in read {
        let count = last.entry(&record.key).or_default();
        *count += 1;
        assert_eq!(record.count(), *count, "{} of partition {}", record.key, record.partition);
    }
    assert_eq!(read.len(), total);
}

/// What a directory must hold of a store of each task, as far as the logs of the processes that had it tell.
type Held = BTreeMap<String, i64>;

/// Checks from the log of a process what it restored: no more than lies beyond what its directory had, and that is at least what
/// it was seen to have before.
fn check_restored(log: &[String], held: &mut Held) {
    let field = |line: &str, name: &str| -> Option<String> {
        let rest = line.split_once(&format!(" {name}="))?.1;
        Some(rest.split(' ').next()?.to_string())
    };
    let number = |line: &str, name: &str| -> i64 {
        field(line, name).and_then(|n| n.parse().ok()).unwrap_or_else(|| panic!("{line}"))
    };
    let mut restoring: BTreeMap<String, (i64, i64)> = BTreeMap::new();
    for line in log {
        let Some(task) = field(line, "task") else { continue };
        if line.contains("restoring a store") {
            let (position, end) = (number(line, "position"), number(line, "end"));
            let before = held.get(&task).copied().unwrap_or(0);
            assert!(position >= before, "the directory had offset {before}: {line}");
            restoring.insert(task, (position, end));
        } else if line.contains("task restored")
            && let Some((position, end)) = restoring.remove(&task)
        {
            assert!(number(line, "restored") <= end - position, "{line}");
            held.insert(task, end);
        }
    }
}

/// Two processes of two threads; one is killed `kills` times at random moments, restoring and committing among them.
fn killed_again_and_again(kafka: &mut Kafka, kills: usize, round: usize, longest: u64) {
    let counting = Counting::new(kafka, PARTITIONS, "exactly_once_v2");
    let Counting { input, output, .. } = &counting;
    kafka.write(input, PARTITIONS, records(0, round));
    let stays = counting.start("stays");
    let mut goes = counting.start("goes");
    let mut held = Held::new();
    for kill in 1..=kills {
        // While it restores, as it gets its tasks, or in the middle of its work.
        if kill % 4 != 0 {
            goes.wait_log("tasks", |log| owned(log).len() >= PARTITIONS as usize / 2);
        }
        let moment = uuid::Uuid::new_v4().as_u64_pair().0 % longest;
        kafka.pause(Duration::from_millis(moment));
        let log = goes.kill();
        check_restored(&log, &mut held);
        kafka.write(input, PARTITIONS, records(kill * round, (kill + 1) * round));
        goes = counting.start("goes");
    }
    let total = (kills + 1) * round;
    let read = kafka.read_until(output, PARTITIONS, |read| read.len() >= total);
    check_counts(&read, total);
    goes.wait_log("tasks", |log| owned(log).len() == PARTITIONS as usize / 2);
    check_restored(&goes.log(), &mut held);
    assert!(!held.is_empty(), "nothing was ever restored");
    goes.stop();
    stays.stop();
    check_counts(&kafka.read_until(output, PARTITIONS, |read| read.len() >= total), total);
}

/// P68, P69: ten kills in a million records, each time restoring no more than lies beyond the directory's offset.
#[test]
fn p68_p69_a_process_is_killed_ten_times() {
    killed_again_and_again(&mut Kafka::shared(), 10, 1_000_000 / 11, 1500);
}

/// Kafka's own values for what `tests/java/run` shortens.
const DEFAULTS: &str = "\
transaction.abort.timed.out.transaction.cleanup.interval.ms=10000
group.streams.initial.rebalance.delay.ms=3000
group.streams.min.session.timeout.ms=45000
group.streams.session.timeout.ms=45000
group.streams.min.heartbeat.interval.ms=5000
group.streams.heartbeat.interval.ms=5000
group.streams.assignment.interval.ms=1000";

/// The same once with the sessions, heartbeats and sweeps that a broker has by default.
#[test]
fn p68_a_process_is_killed_under_default_timeouts() {
    let broker = Brokers::start(1, DEFAULTS);
    killed_again_and_again(&mut Kafka::at(broker.bootstrap()), 1, 100_000, 3000);
}

/// A process that stops without a word for longer than its session wakes up and finds its tasks with another (P72 d): nothing of
/// what it had is visible, and it takes part again.
#[test]
fn p72_a_stopped_process_wakes_up_as_nobody() {
    let mut kafka = Kafka::shared();
    let counting = Counting::new(&mut kafka, PARTITIONS, "exactly_once_v2");
    let Counting { input, output, .. } = &counting;
    let half = PARTITIONS as usize / 2;
    let (stays, stops) = (counting.start("stays"), counting.start("stops"));
    for process in [&stays, &stops] {
        process.wait_log("half of the tasks", |log| owned(log).len() == half);
    }
    kafka.write(input, PARTITIONS, records(0, 200_000));
    kafka.read_until(output, PARTITIONS, |read| read.len() > 20_000);
    stops.signal("-STOP");
    kafka.write(input, PARTITIONS, records(200_000, 220_000));
    stays.wait_log("all tasks", |log| owned(log).len() == PARTITIONS as usize);
    let read = kafka.read_until(output, PARTITIONS, |read| read.len() >= 220_000);
    check_counts(&read, 220_000);
    stops.signal("-CONT");
    let lost = |log: &[String]| log.iter().position(|line| line.contains("all tasks are lost"));
    stops.wait_log("its tasks again", |log| {
        lost(log).is_some_and(|lost| owned(&log[lost..]).len() == half)
    });
    kafka.write(input, PARTITIONS, records(220_000, 240_000));
    let read = kafka.read_until(output, PARTITIONS, |read| read.len() >= 240_000);
    check_counts(&read, 240_000);
    stops.stop();
    stays.stop();
    check_counts(&kafka.read_until(output, PARTITIONS, |read| read.len() >= 240_000), 240_000);
}

/// A broker that restarts while a transaction is open.
#[test]
fn a_broker_restarts_in_the_middle_of_a_transaction() {
    let broker = Brokers::start(1, "");
    let mut kafka = Kafka::at(broker.bootstrap());
    let (input, output) = (kafka.topic("in", PARTITIONS), kafka.topic("out", PARTITIONS));
    let dir = tempfile::tempdir().expect("a directory");
    let settings = config(&unique("restart"), &kafka.bootstrap, dir.path()).exactly_once();
    let settings = settings.commit_interval(Duration::from_millis(2500));
    let running = start(counts(&input, &output), settings);
    for round in 0..3 {
        kafka.write(&input, PARTITIONS, records(round * 20_000, (round + 1) * 20_000));
        // Written, and not committed: readers of committed records see the round before at most.
        kafka.written_until(&output, PARTITIONS, |written| written > round * 20_000);
        broker.restart();
        kafka = Kafka::at(broker.bootstrap());
    }
    let read = kafka.read_until(&output, PARTITIONS, |read| read.len() >= 60_000);
    check_counts(&read, 60_000);
    running.close(PATIENCE).expect("closes");
    check_counts(&kafka.read_until(&output, PARTITIONS, |read| read.len() >= 60_000), 60_000);
}

/// Passes records on; a value `slow` takes `slowness`, and `calls` counts how often that happened.
fn passing(input: &str, output: &str, slowness: Duration, calls: &Arc<AtomicUsize>) -> Topology {
    let (builder, calls) = (StreamsBuilder::new(), calls.clone());
    builder
        .stream(input, Consumed::<String, String>::new())
        .map_values(move |value| {
            if value == "slow" {
                calls.fetch_add(1, Ordering::Relaxed);
                std::thread::park_timeout(slowness);
            }
            value
        })
        .to(output, Produced::new());
    builder.build().expect("builds")
}

fn values(read: &[Read]) -> Vec<String> {
    let text = |record: &Read| String::from_utf8(record.value.clone().expect("a value"));
    read.iter().map(|record| text(record).expect("text")).collect()
}

/// P72 a: one record takes longer than the transaction may. The transaction is given up, and its records come again in smaller
/// ones.
#[test]
fn p72_a_record_takes_longer_than_a_transaction() {
    let mut kafka = Kafka::shared();
    let (input, output) = (kafka.topic("in", 1), kafka.topic("out", 1));
    let dir = tempfile::tempdir().expect("a directory");
    let settings = config(&unique("slow"), &kafka.bootstrap, dir.path()).exactly_once();
    let settings = settings.commit_interval(Duration::from_millis(1900));
    let settings = settings.set("transaction.timeout.ms", "2000").expect("a setting");
    let calls = Arc::new(AtomicUsize::new(0));
    let slow = passing(&input, &output, Duration::from_secs(5), &calls);
    let running = start(slow, settings);
    kafka.write(&input, 1, [("a", "first")]);
    // Its transaction is open when the slow record comes.
    kafka.written_until(&output, 1, |written| written > 0);
    let rest = (0..100).map(|number| ("a", number.to_string()));
    kafka.write(&input, 1, [("a", "slow".to_string())].into_iter().chain(rest));
    let read = kafka.read_until(&output, 1, |read| read.len() >= 102);
    running.close(PATIENCE).expect("closes");
    let expected: Vec<String> = ["first".into(), "slow".into()]
        .into_iter()
        .chain((0..100).map(|number| number.to_string()))
        .collect();
    assert_eq!(values(&read), expected);
    assert_eq!(kafka.read_until(&output, 1, |read| read.len() >= 102).len(), 102);
    assert_eq!(calls.load(Ordering::Relaxed), 2, "once too late, once alone");
}

/// P72 b: another producer takes the transactional id. The application goes on, and nothing is there twice.
#[test]
fn p72_a_producer_is_fenced_on_purpose() {
    let mut kafka = Kafka::shared();
    let (input, output) = (kafka.topic("in", PARTITIONS), kafka.topic("out", PARTITIONS));
    let application = unique("fenced");
    let dir = tempfile::tempdir().expect("a directory");
    let settings = config(&application, &kafka.bootstrap, dir.path()).exactly_once();
    let running = start(counts(&input, &output), settings);
    for round in 0..3 {
        kafka.write(&input, PARTITIONS, records(round * 50_000, (round + 1) * 50_000));
        kafka.read_until(&output, PARTITIONS, |read| read.len() > round * 50_000);
        fence(&mut kafka, &application, &dir.path().join(&application));
    }
    let read = kafka.read_until(&output, PARTITIONS, |read| read.len() >= 150_000);
    check_counts(&read, 150_000);
    assert_eq!(running.state(), State::Running);
    running.close(PATIENCE).expect("closes");
}

/// Takes the transactional id of an application's first thread, whose state directory this is.
pub(super) fn fence(kafka: &mut Kafka, application: &str, directory: &Path) {
    let process = process_id(directory);
    let config = ProducerConfig {
        transactional_id: Some(format!("{application}-{process}-1")),
        ..ProducerConfig::default()
    };
    kafka.client().producer(config).init().wait(PATIENCE).expect("fences");
}

/// The process id that the state directory keeps, in Java's file.
fn process_id(directory: &Path) -> String {
    let path = directory.join("kafka-streams-process-metadata");
    let text = std::fs::read_to_string(&path).expect("the process file");
    let id = text.split('"').find(|part| uuid::Uuid::parse_str(part).is_ok());
    id.unwrap_or_else(|| panic!("{text}")).to_string()
}

/// A transaction timeout that cannot be right is refused at the start, with both numbers.
#[test]
fn transaction_timeouts_that_cannot_be_are_refused() {
    let mut kafka = Kafka::shared();
    let (input, output) = (kafka.topic("in", 1), kafka.topic("out", 1));
    let dir = tempfile::tempdir().expect("a directory");
    let refusal = |timeout: &str| {
        let settings = config(&unique("refused"), &kafka.bootstrap, dir.path()).exactly_once();
        let settings = settings.set("transaction.timeout.ms", timeout).expect("a setting");
        KafkaStreams::start(counts(&input, &output), settings).expect_err("refused").to_string()
    };
    let error = refusal("6000");
    assert!(error.contains("less than the session timeout of the group, 6000 ms"), "{error}");
    let error = refusal("100");
    assert!(error.contains("more than commit.interval.ms=100"), "{error}");
}

/// A topic that is deleted while the application writes to it is named soon, and nothing is committed beyond what was written.
#[test]
fn an_output_topic_that_is_deleted_is_named() {
    let mut kafka = Kafka::shared();
    let (input, output) = (kafka.topic("in", 1), kafka.topic("out", 1));
    let application = unique("deleted");
    let dir = tempfile::tempdir().expect("a directory");
    let settings = config(&application, &kafka.bootstrap, dir.path()).exactly_once();
    let settings = settings.set("metadata.max.age.ms", "500").expect("a setting");
    let topology = passing(&input, &output, Duration::ZERO, &Arc::default());
    let running = start(topology, settings);
    kafka.write(&input, 1, [("a", "1")]);
    kafka.read_until(&output, 1, |read| !read.is_empty());
    kafka.committed_until(&application, |committed| committed.values().any(|offset| *offset == 1));
    kafka.client().delete_topics(vec![output.as_str().into()]).wait(PATIENCE).expect("deleted");
    // The application hears of it within a second; what it writes then waits for the topic to come back.
    kafka.pause(Duration::from_millis(2500));
    kafka.write(&input, 1, [("a", "2")]);
    let state = running.wait_for(PATIENCE, State::is_terminal);
    let error = running.close(PATIENCE).expect_err("no topic").to_string();
    assert!(error.contains(&format!("cannot write to topic {output}")), "{state} {error}");
    assert_eq!(kafka.committed(&application).values().copied().collect::<Vec<_>>(), [1]);
}

/// User code that is slow with every record does not keep a close waiting for a thousand of them.
#[test]
fn closing_does_not_wait_for_many_slow_records() {
    let mut kafka = Kafka::shared();
    let (input, output) = (kafka.topic("in", 1), kafka.topic("out", 1));
    let dir = tempfile::tempdir().expect("a directory");
    let settings = config(&unique("slowly"), &kafka.bootstrap, dir.path()).exactly_once();
    let slow = passing(&input, &output, Duration::from_millis(100), &Arc::default());
    let running = start(slow, settings);
    kafka.write(&input, 1, (0..1000).map(|_| ("a", "slow")));
    kafka.read_until(&output, 1, |read| !read.is_empty());
    // All of them would take 100 s.
    running.close(Duration::from_secs(30)).expect("closes");
}

/// A task whose records are slow takes no turn away from its neighbour on the same thread.
#[test]
fn slow_tasks_of_one_thread_have_their_turns() {
    let mut kafka = Kafka::shared();
    let (input, output) = (kafka.topic("in", 2), kafka.topic("out", 2));
    let dir = tempfile::tempdir().expect("a directory");
    let settings = config(&unique("turns"), &kafka.bootstrap, dir.path()).exactly_once();
    let slow = passing(&input, &output, Duration::from_millis(150), &Arc::default());
    kafka.write(&input, 2, (0..200).map(|number| (number.to_string(), "slow")));
    let running = start(slow, settings);
    // In the order in which they came: one partition alone would take ten seconds and more.
    let read = kafka.read_until(&output, 2, |read| read.len() >= 20);
    running.close(PATIENCE).expect("closes");
    let of = |partition| read.iter().filter(|record| record.partition == partition).count();
    assert!(of(0) >= 5 && of(1) >= 5, "{} and {}", of(0), of(1));
}

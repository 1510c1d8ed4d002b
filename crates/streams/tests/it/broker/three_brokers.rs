//! Three brokers with every record three times, one of which is killed and comes back, again and again, under load.

use super::app::{config, start};
use super::counts;
use super::exactly_once::check_counts;
use crate::kafka::{Kafka, PATIENCE, SetAtEnd, unique};
use kstreams::prelude::*;
use kstreams_client::{Clock, Event, Reader, ResetPolicy, Start, SystemClock, TopicPartition};
use kstreams_test_programs::{Brokers, JavaProducer};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const PARTITIONS: i32 = 6;
const KEYS: usize = 5000;
/// Records in one go of the writer, which then rests for `REST`.
const CHUNK: usize = 1000;
const REST: Duration = Duration::from_millis(80);

/// Counts `records` records with exactly-once, while each `period` a broker is killed that comes back after a third of it.
fn brokers_die(records: usize, period: Duration) {
    let cluster = Brokers::start(3, "");
    let mut kafka = Kafka::at(cluster.bootstrap());
    let (input, output) = (kafka.topic("in", PARTITIONS), kafka.topic("out", PARTITIONS));
    let dir = tempfile::tempdir().expect("a directory");
    let settings = config(&unique("three"), cluster.bootstrap(), dir.path()).exactly_once();
    let running = start(counts(&input, &output), settings.stream_threads(2));
    let java =
        JavaProducer::start(cluster.bootstrap(), &kafka.topic("java", PARTITIONS), PARTITIONS);
    let ended = AtomicBool::new(false);
    let (written, gap) = std::thread::scope(|scope| {
        let end = SetAtEnd(&ended);
        let watching = scope.spawn(|| longest_gap(cluster.bootstrap(), &output, &ended));
        let writing = scope.spawn(|| {
            let mut writer = Kafka::at(cluster.bootstrap());
            for from in (0..records).step_by(CHUNK) {
                let numbers = from..(from + CHUNK).min(records);
                let chunk = numbers.map(|n| (format!("key-{}", n % KEYS), n.to_string()));
                writer.write(&input, PARTITIONS, chunk);
                writer.pause(REST);
            }
            writer
                .ends(&input, PARTITIONS)
                .values()
                .map(|(begin, end)| (end - begin) as usize)
                .sum::<usize>()
        });
        // The controller is in the first one: without it no leader moves, so that one stays.
        for node in [2, 3].into_iter().cycle() {
            kafka.pause(period * 2 / 3);
            if writing.is_finished() {
                break;
            }
            cluster.kill(node);
            kafka.pause(period / 3);
            cluster.bring_back(node);
        }
        let written = writing.join().expect("written");
        drop(end);
        (written, watching.join().expect("watched"))
    });
    let (javas, _) = java.end().stalls[0];
    let read = kafka.read_until(&output, PARTITIONS, |read| read.len() >= written);
    check_counts(&read, records);
    assert_eq!(running.state(), State::Running);
    running.close(PATIENCE).expect("closes");
    check_counts(&kafka.read_until(&output, PARTITIONS, |read| read.len() >= records), records);
    assert!(
        gap <= javas.mul_f64(1.5),
        "no output for {gap:?}, a Java producer stalled for {javas:?}"
    );
}

/// The longest time without committed output, once there was some.
fn longest_gap(bootstrap: &str, output: &str, ended: &AtomicBool) -> Duration {
    let clock = SystemClock::new();
    let mut kafka = Kafka::at(bootstrap);
    let reader = kafka.client();
    for partition in 0..PARTITIONS {
        let partition = TopicPartition::new(output, partition);
        reader.fetch(Reader::Source, partition, Start::Reset, ResetPolicy::Earliest);
    }
    let (mut longest, mut last) = (Duration::ZERO, None);
    while !ended.load(Ordering::Relaxed) {
        reader.wait(Duration::from_millis(20));
        while let Some(event) = reader.next_event() {
            if matches!(&event, Event::Fetched(fetched) if !fetched.batches.is_empty()) {
                let now = clock.now();
                longest = longest.max(now - last.replace(now).unwrap_or(now));
            }
        }
    }
    longest
}

#[test]
fn brokers_die_under_load() {
    brokers_die(150_000, Duration::from_secs(9));
}

/// The long run: two million records, a kill every 30 s.
#[test]
#[ignore = "takes minutes: cargo test -p kstreams --test it -- --ignored two_million"]
fn brokers_die_under_two_million_records() {
    brokers_die(2_000_000, Duration::from_secs(30));
}

//! Three brokers with every record three times, one of which is killed and comes back, again and again, under load.

use super::app::{config, start};
use super::counts;
use super::exactly_once::check_counts;
use super::own_broker::OwnCluster;
use crate::kafka::{Kafka, PATIENCE, unique};
use kstreams::prelude::*;
use std::time::Duration;

const PARTITIONS: i32 = 6;
const KEYS: usize = 5000;
/// Records in one go of the writer, which then rests for `REST`.
const CHUNK: usize = 1000;
const REST: Duration = Duration::from_millis(80);

/// Counts `records` records with exactly-once, while each `period` a broker is killed that comes back after a third of it.
fn brokers_die(records: usize, period: Duration) {
    let cluster = OwnCluster::start();
    let mut kafka = Kafka::at(&cluster.bootstrap);
    let (input, output) = (kafka.topic("in", PARTITIONS), kafka.topic("out", PARTITIONS));
    let dir = tempfile::tempdir().expect("a directory");
    let settings = config(&unique("three"), &cluster.bootstrap, dir.path()).exactly_once();
    let running = start(counts(&input, &output), settings.stream_threads(2));
    let written = std::thread::scope(|scope| {
        let writing = scope.spawn(|| {
            let mut writer = Kafka::at(&cluster.bootstrap);
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
            cluster.start_node(node);
        }
        writing.join().expect("written")
    });
    let read = kafka.read_until(&output, PARTITIONS, |read| read.len() >= written);
    check_counts(&read, records);
    assert_eq!(running.state(), State::Running);
    running.close(PATIENCE).expect("closes");
    check_counts(&kafka.read_until(&output, PARTITIONS, |read| read.len() >= records), records);
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

//! A broker that restarts under load: nothing lost, order kept, no duplicate from a retry.

use super::app::{config, start};
use crate::kafka::{Kafka, PATIENCE, unique};
use kstreams::prelude::*;
use kstreams_test_programs::Brokers;
use std::collections::BTreeMap;

const PARTITIONS: i32 = 4;
const RECORDS: usize = 200_000;

#[test]
fn a_broker_that_restarts_twice_under_load_costs_nothing() {
    let broker = Brokers::start(1, "");
    let mut kafka = Kafka::at(broker.bootstrap());
    let (input, output) = (kafka.topic("in", PARTITIONS), kafka.topic("out", PARTITIONS));
    let builder = StreamsBuilder::new();
    builder
        .stream(input.as_str(), Consumed::<String, String>::new())
        .map_values(|value| value + "!")
        .to(output.as_str(), Produced::new());
    let dir = tempfile::tempdir().expect("a directory");
    let settings = config(&unique("restarts"), &kafka.bootstrap, dir.path());
    let numbered =
        |from, to| (from..to).map(|n: usize| (format!("key-{}", n % 100), n.to_string()));
    let running = start(builder.build().expect("builds"), settings);
    let half = RECORDS / 2;
    for round in 0..2 {
        let mut writer = Kafka::at(broker.bootstrap());
        let topic = input.clone();
        let writing = std::thread::spawn(move || {
            writer.write(&topic, PARTITIONS, numbered(round * half, (round + 1) * half));
        });
        kafka.read_until(&output, PARTITIONS, |read| read.len() > round * half + half / 10);
        broker.restart();
        writing.join().expect("written");
    }
    let read = kafka.read_until(&output, PARTITIONS, |read| read.len() >= RECORDS);
    running.close(PATIENCE).expect("closes");
    let written = kafka.read_all(&input, PARTITIONS).len();
    let results = kafka.read_all(&output, PARTITIONS);
    let mut seen: BTreeMap<&[u8], usize> = BTreeMap::new();
    for (place, record) in results.iter().enumerate() {
        let value = record.value.as_deref().expect("a value");
        if let Some(before) = seen.insert(value, place) {
            let text = String::from_utf8_lossy(value);
            panic!(
                "{text} was written twice, as records {before} and {place} of {}",
                results.len()
            );
        }
    }
    assert_eq!((written, results.len()), (RECORDS, RECORDS));
    let mut last: BTreeMap<String, usize> = BTreeMap::new();
    for record in read {
        let value = record.value.expect("a value");
        let text = String::from_utf8(value).expect("text");
        let number: usize = text.trim_end_matches('!').parse().expect("a number");
        let before = last.insert(record.key.clone(), number);
        assert!(
            before.is_none_or(|before| before < number),
            "{}: {number} after {before:?}",
            record.key
        );
    }
    assert_eq!(last.len(), 100);
}

/// Closing does not wait for a broker that is gone, and says what that means.
#[test]
fn closing_while_the_broker_is_away_ends() {
    let broker = Brokers::start(1, "");
    let mut kafka = Kafka::at(broker.bootstrap());
    let (input, output) = (kafka.topic("in", 1), kafka.topic("out", 1));
    let dir = tempfile::tempdir().expect("a directory");
    let settings = config(&unique("away"), &kafka.bootstrap, dir.path());
    let settings = settings.commit_interval(std::time::Duration::from_secs(600));
    kafka.write(&input, 1, [("a", "1")]);
    let running = start(super::counts(&input, &output), settings);
    kafka.read_until(&output, 1, |read| !read.is_empty());
    broker.stop();
    let error = running.close(PATIENCE).expect_err("nothing was committed").to_string();
    assert!(error.contains("did not confirm the last commit"), "{error}");
}

//! A Java application and ours with the same name take turns on the same topics and in the same state directory: the counts of
//! one go on with those of the other.

use crate::kafka::{Kafka, PATIENCE, unique};
use kstreams::prelude::*;
use kstreams_client::NewTopic;
use kstreams_test_programs::{java, run};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

const PARTITIONS: i32 = 4;
const RECORDS: usize = 10_000;
const KEYS: usize = 300;

/// The count of `Bench`, with the record cache off.
fn counting(input: &str, output: &str) -> Topology {
    let builder = StreamsBuilder::new();
    builder
        .stream(input, Consumed::<String, Vec<u8>>::new())
        .peek(|_, _| {})
        .group_by_key(Grouped::new())
        .count(Materialized::named("counts"))
        .to_stream()
        .to(output, Produced::new());
    builder.build().expect("builds")
}

fn take_turns(guarantee: &str) {
    let mut kafka = Kafka::shared();
    let (input, application) = (kafka.topic("in", PARTITIONS), unique("turns"));
    let output = format!("{application}-out");
    let made = kafka.client().create_topics(vec![NewTopic::new(output.as_str(), PARTITIONS)]);
    made.wait(PATIENCE).expect("created");
    let dir = tempfile::tempdir().expect("a directory");
    let mut last: BTreeMap<String, i64> = BTreeMap::new();
    for turn in 0..6 {
        let records = (turn * RECORDS..(turn + 1) * RECORDS)
            .map(|number| (format!("key-{}", number % KEYS), number.to_string()));
        kafka.write(&input, PARTITIONS, records);
        let total = (turn + 1) * RECORDS;
        if turn % 2 == 0 {
            let state = dir.path().to_str().expect("text");
            let (bootstrap, count) = (kafka.bootstrap.clone(), RECORDS.to_string());
            let bench = ["Bench", &bootstrap, "count-nocache", guarantee, &count, "1", state];
            let answer = run(java(&[&bench[..], &[&application, &input]].concat()), b"");
            let answer = String::from_utf8(answer).expect("text");
            assert!(answer.contains(&format!("\"records\":{RECORDS},")), "{answer}");
        } else {
            ours(&mut kafka, guarantee, &application, &input, &output, dir.path(), total);
        }
        let read = kafka.read_until(&output, PARTITIONS, |read| read.len() >= total);
        last.clear();
        for record in &read {
            let count = last.entry(record.key.clone()).or_default();
            *count += 1;
            let who = if turn % 2 == 0 { "Java" } else { "ours" };
            assert_eq!(record.count(), *count, "{} after turn {turn} of {who}", record.key);
        }
        assert_eq!(read.len(), total);
    }
    assert_eq!(last.len(), KEYS);
    assert!(last.values().all(|count| *count == (6 * RECORDS / KEYS) as i64), "{last:?}");
}

fn ours(
    kafka: &mut Kafka,
    guarantee: &str,
    application: &str,
    input: &str,
    output: &str,
    state: &Path,
    total: usize,
) {
    let config = StreamsConfig::new(application, &*kafka.bootstrap)
        .commit_interval(Duration::from_millis(200))
        .cache_max_bytes(0)
        .state_dir(state)
        .set("processing.guarantee", guarantee)
        .expect("a setting");
    let app = KafkaStreams::start(counting(input, output), config).expect("starts");
    kafka.read_until(output, PARTITIONS, |read| read.len() >= total);
    app.close(PATIENCE).expect("closes");
}

#[test]
fn java_and_ours_take_turns_at_least_once() {
    take_turns("at_least_once");
}

#[test]
fn java_and_ours_take_turns_exactly_once() {
    take_turns("exactly_once_v2");
}

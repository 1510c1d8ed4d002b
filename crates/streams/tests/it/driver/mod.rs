//! Tests on the test driver: the real tasks, one partition, a manual clock.

mod decide;
mod dsl;
mod errors;
mod kit;
mod lint;
mod mistakes;
mod poison;
mod processors;
mod punctuators;
mod single;
mod stores;
mod stream_joins;
mod table_joins;
mod table_joins_model;
mod tables;
mod topic_stores;
mod windows;
mod wrappers;

use kstreams::prelude::*;
use kstreams::testing::ProducedRecord;

/// Runs a script and compares it, line by line, with what comes out.
///
/// A line is `topic (key,value)@time {header=value} -> topic (key,value)@time {…}; …` with what the record leads to behind the
/// arrow, topics in name order; `null` is null, `-` is nothing. Values of eight bytes that are no text are shown as numbers.
fn check(topology: Topology, script: &str) {
    check_with(topology, StreamsConfig::new("app", "unused:1"), script);
}

fn check_with(topology: Topology, config: StreamsConfig, script: &str) {
    check_topics(topology, config, script, |_| true);
}

/// As [`check`], without the application's own topics.
fn check_results(topology: Topology, script: &str) {
    let config = StreamsConfig::new("app", "unused:1");
    check_topics(topology, config, script, |topic| !topic.starts_with("app-"));
}

fn check_topics(
    topology: Topology,
    config: StreamsConfig,
    script: &str,
    counts: impl Fn(&str) -> bool,
) {
    let mut driver = TopologyTestDriver::with_config(topology, &config).expect("a driver");
    let mut actual = String::new();
    let mut expected = String::new();
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (input, _) = line.split_once("->").unwrap_or((line, ""));
        let results = pipe(&mut driver, input.trim(), &counts);
        actual += &format!("{} -> {results}\n", input.trim());
        expected += &format!("{line}\n");
    }
    assert_eq!(actual, expected);
}

fn pipe(driver: &mut TopologyTestDriver, input: &str, counts: &impl Fn(&str) -> bool) -> String {
    let (topic, rest) = input.split_once(" (").expect("topic (key,value)@time");
    let (pair, rest) = rest.split_once(")@").expect(")@time");
    let (key, value) = pair.split_once(',').expect("key,value");
    let (time, headers) = rest.split_once(' ').unwrap_or((rest, ""));
    let parse = |text: &str| (text != "null").then(|| text.as_bytes().to_vec());
    let mut given = Headers::new();
    for header in headers.trim_matches(['{', '}']).split(' ').filter(|header| !header.is_empty()) {
        let (name, value) = header.split_once('=').expect("name=value");
        given.add(name, value);
    }
    let (key, value) = (parse(key), parse(value));
    let time = time.parse().expect("a time");
    match driver.pipe_bytes(topic, key.as_deref(), value.as_deref(), time, &given) {
        Ok(()) => results(driver, counts),
        Err(error) => format!("error: {error}"),
    }
}

fn results(driver: &mut TopologyTestDriver, counts: &impl Fn(&str) -> bool) -> String {
    let topics: Vec<String> = driver.produced_topics().map(str::to_string).collect();
    let topics = topics.iter().filter(|topic| counts(topic));
    let records = topics.flat_map(|topic| driver.take_records(topic));
    let shown: Vec<String> = records.map(|record| show(&record)).collect();
    if shown.is_empty() { "-".into() } else { shown.join("; ") }
}

fn show(record: &ProducedRecord) -> String {
    let text = |bytes: &Option<bytes::Bytes>| match bytes.as_deref() {
        None => "null".to_string(),
        Some(bytes) => match <[u8; 8]>::try_from(bytes) {
            Ok(number) if number[0] == 0 => i64::from_be_bytes(number).to_string(),
            _ => String::from_utf8_lossy(bytes).into_owned(),
        },
    };
    let mut shown = format!(
        "{} ({},{})@{}",
        record.topic,
        text(&record.key),
        text(&record.value),
        record.timestamp
    );
    if !record.headers.is_empty() {
        let headers = record.headers.iter().map(|header| {
            let value = header.value.as_deref().unwrap_or(b"null");
            format!("{}={}", header.name, String::from_utf8_lossy(value))
        });
        shown += &format!(" {{{}}}", headers.collect::<Vec<_>>().join(" "));
    }
    shown
}

//! Local state, its loss, and its return from the changelog.

use super::app::{config, start};
use super::{counts, counts_of_values};
use crate::kafka::{Kafka, PATIENCE, unique};
use kstreams::prelude::*;

const PARTITIONS: i32 = 2;

fn words(from: usize, to: usize) -> impl Iterator<Item = (String, String)> {
    (from..to).map(|number| (format!("key-{}", number % 10), format!("value-{number}")))
}

/// Counts go on where they were: with the state directory, and without it (P75: also when the application itself would start
/// at the end of its topics).
#[test]
fn p75_state_comes_back_from_the_directory_or_the_changelog() {
    let mut kafka = Kafka::shared();
    let (input, output) = (kafka.topic("in", PARTITIONS), kafka.topic("out", PARTITIONS));
    let app = unique("restore");
    let dir = tempfile::tempdir().expect("a directory");
    let settings = |dir: &std::path::Path| {
        let config = config(&app, &kafka_bootstrap(), dir);
        config.set("auto.offset.reset", "latest").expect("a setting")
    };
    let earliest = config(&app, &kafka.bootstrap, dir.path());
    kafka.write(&input, PARTITIONS, words(0, 100));
    let running = start(counts(&input, &output), earliest);
    kafka.counts_adding_up_to(&output, PARTITIONS, 100);
    running.close(PATIENCE).expect("closes");

    kafka.write(&input, PARTITIONS, words(100, 200));
    let running = start(counts(&input, &output), settings(dir.path()));
    kafka.counts_adding_up_to(&output, PARTITIONS, 200);
    running.close(PATIENCE).expect("closes");

    let elsewhere = tempfile::tempdir().expect("a directory");
    kafka.write(&input, PARTITIONS, words(200, 300));
    let running = start(counts(&input, &output), settings(elsewhere.path()));
    let counted = kafka.counts_adding_up_to(&output, PARTITIONS, 300);
    running.close(PATIENCE).expect("closes");
    assert_eq!(counted.len(), 10);
    assert!(counted.values().all(|count| *count == 30), "{counted:?}");
}

fn kafka_bootstrap() -> String {
    Kafka::shared().bootstrap
}

/// What was deleted is a tombstone in the changelog and does not come back.
#[test]
fn deletions_survive_the_loss_of_the_directory() {
    let mut kafka = Kafka::shared();
    let (input, output) = (kafka.topic("in", 1), kafka.topic("out", 1));
    let app = unique("deletions");
    let topology = || {
        let builder = StreamsBuilder::new();
        builder
            .stream(input.as_str(), Consumed::<String, String>::new())
            .group_by_key(Grouped::new())
            .aggregate(
                String::new,
                |_, all, value| (value != "delete").then(|| all + &value),
                Materialized::<String, String>::named("all"),
            )
            .to_stream()
            .to(output.as_str(), Produced::new());
        builder.build().expect("builds")
    };
    let round = |kafka: &mut Kafka, values: &[&str], results: usize| {
        let dir = tempfile::tempdir().expect("a directory");
        kafka.write(&input, 1, values.iter().map(|value| ("a", *value)));
        let running = start(topology(), config(&app, &kafka.bootstrap, dir.path()));
        let read = kafka.read_until(&output, 1, |read| read.len() >= results);
        running.close(PATIENCE).expect("closes");
        let shown = read.into_iter().map(|read| match read.value {
            Some(value) => String::from_utf8(value).expect("text"),
            None => "null".into(),
        });
        shown.collect::<Vec<String>>().join(" ")
    };
    assert_eq!(round(&mut kafka, &["x", "y", "delete"], 3), "x xy null");
    assert_eq!(round(&mut kafka, &["z"], 4), "x xy null z");
}

/// P46: state belongs to the task, wherever a key would hash to: the changelog's partition is the input's, and so a key that
/// another producer put on an odd partition finds its state again.
#[test]
fn p46_a_key_on_an_odd_partition_finds_its_state_again() {
    let mut kafka = Kafka::shared();
    let (input, output) = (kafka.topic("in", 3), kafka.topic("out", 3));
    let app = unique("odd");
    // Java's hash puts "a" on partition 1 of 3.
    for round in 1..=2 {
        kafka.write_to(&input, 0, "a", "x");
        let dir = tempfile::tempdir().expect("a directory");
        let running = start(counts(&input, &output), config(&app, &kafka.bootstrap, dir.path()));
        let counted = kafka.counts_adding_up_to(&output, 3, round);
        running.close(PATIENCE).expect("closes");
        assert_eq!(counted["a"], round);
        let changelog = kafka.ends(&format!("{app}-counts-changelog"), 3);
        let written: Vec<i64> = changelog.values().map(|(_, end)| *end).collect();
        assert_eq!(written, [round, 0, 0]);
    }
}

/// A store in memory is read from its changelog at each start.
#[test]
fn a_store_in_memory_comes_back_from_its_changelog() {
    let mut kafka = Kafka::shared();
    let (input, output) = (kafka.topic("in", PARTITIONS), kafka.topic("out", PARTITIONS));
    let app = unique("memory");
    let topology = || {
        let builder = StreamsBuilder::new();
        builder
            .stream(input.as_str(), Consumed::<String, String>::new())
            .group_by_key(Grouped::new())
            .count(Materialized::named("counts").in_memory())
            .to_stream()
            .to(output.as_str(), Produced::new());
        builder.build().expect("builds")
    };
    let dir = tempfile::tempdir().expect("a directory");
    for round in 1..=2 {
        kafka.write(&input, PARTITIONS, words(0, 100));
        let running = start(topology(), config(&app, &kafka.bootstrap, dir.path()));
        let counted = kafka.counts_adding_up_to(&output, PARTITIONS, round * 100);
        running.close(PATIENCE).expect("closes");
        assert!(counted.values().all(|count| *count == round * 10), "{counted:?}");
    }
}

/// With a record cache a commit gives the last count of each key, and no count is missing in the end.
#[test]
fn a_record_cache_gives_one_result_a_key_and_commit() {
    let mut kafka = Kafka::shared();
    let (input, output) = (kafka.topic("in", 1), kafka.topic("out", 1));
    kafka.write(&input, 1, words(0, 10_000));
    let dir = tempfile::tempdir().expect("a directory");
    let settings = config(&unique("cache"), &kafka.bootstrap, dir.path());
    let settings =
        settings.cache_max_bytes(10 << 20).commit_interval(std::time::Duration::from_millis(500));
    let running = start(counts(&input, &output), settings);
    let counted = kafka.counts_adding_up_to(&output, 1, 10_000);
    running.close(PATIENCE).expect("closes");
    assert!(counted.values().all(|count| *count == 1000), "{counted:?}");
    let results = kafka.read_all(&output, 1).len();
    assert!(results < 5_000, "{results} results: the cache holds nothing back");
}

/// Records whose values are their times, through a processor.
fn timed_by_value<P>(input: &str, output: &str, supplier: fn() -> P) -> Topology
where
    P: Processor<In = (String, String), Out = (String, String)>,
{
    let consumed = Consumed::<String, String>::new();
    let consumed = consumed.timestamps(|record| record.value.parse().unwrap_or(-1));
    let builder = StreamsBuilder::new();
    builder
        .stream(input, consumed)
        .process(move |_| Ok(supplier()), Processed::new())
        .to(output, Produced::new());
    builder.build().expect("builds")
}

/// Forwards the stream time.
struct TellTime;

impl Processor for TellTime {
    type In = (String, String);
    type Out = (String, String);

    fn process(
        &mut self,
        record: Record<String, String>,
        ctx: &mut Context<Self>,
    ) -> ProcessResult {
        let time = ctx.stream_time().to_string();
        ctx.forward(record.with_value(time))
    }
}

/// The time that was reached is committed with the offsets: a late record stays late after a restart.
#[test]
fn stream_time_survives_a_restart() {
    let mut kafka = Kafka::shared();
    let (input, output) = (kafka.topic("in", 1), kafka.topic("out", 1));
    let app = unique("time");
    let topology = || timed_by_value(&input, &output, || TellTime);
    let dir = tempfile::tempdir().expect("a directory");
    let mut told = Vec::new();
    for (round, time) in ["1000", "900"].into_iter().enumerate() {
        kafka.write(&input, 1, [("a", time)]);
        let running = start(topology(), config(&app, &kafka.bootstrap, dir.path()));
        told = kafka.read_until(&output, 1, |read| read.len() > round);
        running.close(PATIENCE).expect("closes");
    }
    let told: Vec<&[u8]> = told.iter().filter_map(|record| record.value.as_deref()).collect();
    assert_eq!(told, [b"1000", b"1000"]);
}

/// Says when it fires by stream time, and which time each record finds.
struct Firing;

impl Processor for Firing {
    type In = (String, String);
    type Out = (String, String);

    fn init(&mut self, ctx: &mut Context<Self>) -> ProcessResult {
        ctx.schedule(millis(100), PunctuationType::StreamTime, |_, now, ctx| {
            ctx.forward(Record::new("timer".to_string(), format!("fired {now}"), now))
        });
        Ok(())
    }

    fn process(
        &mut self,
        record: Record<String, String>,
        ctx: &mut Context<Self>,
    ) -> ProcessResult {
        let told = format!("{} at {}", record.value, ctx.stream_time());
        ctx.forward(record.with_value(told))
    }
}

/// P54: a punctuator goes by the time that the task had reached before the restart.
#[test]
fn p54_punctuators_go_on_by_the_time_of_before() {
    let mut kafka = Kafka::shared();
    let (input, output) = (kafka.topic("in", 1), kafka.topic("out", 1));
    let app = unique("firing");
    let topology = || timed_by_value(&input, &output, || Firing);
    let dir = tempfile::tempdir().expect("a directory");
    let expected = [
        ["1000 at 1000", "fired 1000", "1050 at 1050"].as_slice(),
        &["fired 1050", "900 at 1050", "1100 at 1100", "fired 1100"],
    ];
    let mut all: Vec<&str> = Vec::new();
    for (times, expected) in [["1000", "1050"], ["900", "1100"]].into_iter().zip(expected) {
        kafka.write(&input, 1, times.map(|time| ("a", time)));
        let running = start(topology(), config(&app, &kafka.bootstrap, dir.path()));
        all.extend(expected);
        let told = kafka.read_until(&output, 1, |read| read.len() >= all.len());
        running.close(PATIENCE).expect("closes");
        let told = told.iter().filter_map(|record| record.value.as_deref());
        assert!(told.eq(all.iter().map(|text| text.as_bytes())), "{all:?}");
    }
}

/// P48: a repartition topic is purged up to what is committed and never further.
#[test]
fn p48_repartition_topics_are_purged_behind_the_commit() {
    let mut kafka = Kafka::shared();
    let (input, output) = (kafka.topic("in", PARTITIONS), kafka.topic("out", PARTITIONS));
    let app = unique("purge");
    let dir = tempfile::tempdir().expect("a directory");
    let settings = config(&app, &kafka.bootstrap, dir.path());
    let settings = settings.set("repartition.purge.interval.ms", "200").expect("a setting");
    let running = start(counts_of_values(&input, &output), settings);
    let repartition = format!("{app}-by-value-repartition");
    let mut total = 0;
    let mut purged = 0;
    while purged < 500 {
        kafka.write(&input, PARTITIONS, words(0, 500));
        total += 500;
        kafka.counts_adding_up_to(&output, PARTITIONS, total);
        // The log start is read first: it must not be ahead of what was committed by then.
        let ends = kafka.ends(&repartition, PARTITIONS);
        let committed = kafka.committed(&app);
        for (partition, (begin, _)) in &ends {
            let committed = committed.get(partition).copied().unwrap_or(0);
            assert!(*begin <= committed, "{partition}: purged to {begin}, committed {committed}");
        }
        purged = ends.values().map(|(begin, _)| *begin).sum();
        assert!(total < 100_000, "nothing is ever purged");
    }
    running.close(PATIENCE).expect("closes");
}

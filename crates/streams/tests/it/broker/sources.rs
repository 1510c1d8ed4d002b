//! Where and how sources read.

use super::app::{config, start};
use crate::kafka::{Kafka, PATIENCE, Written, unique, wall_clock};
use kstreams::prelude::*;
use kstreams::runtime::TaskWaiting;

/// Records of a certain age are where reading begins when there is no offset.
#[test]
fn a_source_may_begin_with_records_of_a_certain_age() {
    let mut kafka = Kafka::shared();
    let (input, output) = (kafka.topic("in", 1), kafka.topic("out", 1));
    let now = wall_clock();
    let ages = [("old", 7_200_000), ("young", 1_800_000), ("new", 0)];
    kafka.write_records(
        &input,
        ages.map(|(key, age)| Written { partition: 0, time: now - age, key, value: Some("v") }),
    );
    let builder = StreamsBuilder::new();
    let reset = AutoOffsetReset::ByDuration(hours(1));
    builder
        .stream(input.as_str(), Consumed::<String, String>::new().auto_offset_reset(reset))
        .to(output.as_str(), Produced::new());
    let dir = tempfile::tempdir().expect("a directory");
    let settings = config(&unique("young"), &kafka.bootstrap, dir.path());
    let app = start(builder.build().expect("builds"), settings);
    let read = kafka.read_until(&output, 1, |read| read.len() >= 2);
    app.close(PATIENCE).expect("closes");
    let keys: Vec<&str> = read.iter().map(|record| record.key.as_str()).collect();
    assert_eq!(keys, ["young", "new"]);
}

/// P52: what is there on all inputs of a task is taken in the order of its times, however the topics are fetched.
#[test]
fn p52_inputs_are_taken_in_the_order_of_their_times() {
    let mut kafka = Kafka::shared();
    for _ in 0..3 {
        let (stream, table) = (kafka.topic("s", 1), kafka.topic("t", 1));
        let output = kafka.topic("out", 1);
        let record = |(value, time)| Written { partition: 0, time, key: "a", value: Some(value) };
        kafka.write_records(&stream, [("s10", 10), ("s30", 30)].map(record));
        kafka.write_records(&table, [("t5", 5), ("t20", 20)].map(record));
        let builder = StreamsBuilder::new();
        let prices = builder.table(
            table.as_str(),
            Consumed::<String, String>::new(),
            Materialized::named("table"),
        );
        builder
            .stream(stream.as_str(), Consumed::<String, String>::new())
            .left_join_table(
                &prices,
                |value, price: Option<&String>| {
                    format!("{value}+{}", price.map_or("nothing", String::as_str))
                },
                Joined::new(),
            )
            .to(output.as_str(), Produced::new());
        let dir = tempfile::tempdir().expect("a directory");
        let settings = config(&unique("order"), &kafka.bootstrap, dir.path());
        let app = start(builder.build().expect("builds"), settings);
        let read = kafka.read_until(&output, 1, |read| read.len() >= 2);
        app.close(PATIENCE).expect("closes");
        let joined = read.iter().filter_map(|record| record.value.as_deref());
        assert!(joined.eq([b"s10+t5".as_slice(), b"s30+t20"]), "{read:?}");
    }
}

/// A task whose other input is empty waits as long as the setting says, tells why, and goes on when something comes.
#[test]
fn a_task_tells_why_it_waits() {
    let mut kafka = Kafka::shared();
    let (stream, table) = (kafka.topic("s", 1), kafka.topic("t", 1));
    let output = kafka.topic("out", 1);
    let builder = StreamsBuilder::new();
    let read = |topic: &str| builder.stream(topic, Consumed::<String, String>::new());
    read(&stream).merge(&read(&table)).to(output.as_str(), Produced::new());
    let dir = tempfile::tempdir().expect("a directory");
    let settings = config(&unique("waits"), &kafka.bootstrap, dir.path());
    let settings = settings.set("max.task.idle.ms", "3600000").expect("a setting");
    let app = start(builder.build().expect("builds"), settings);
    let waiting = || app.thread_metadata()[0].tasks.first().and_then(|task| task.waiting.clone());
    kafka.write(&stream, 1, [("a", "1")]);
    let mut waited = None;
    for _ in 0..1000 {
        waited = waiting();
        if matches!(waited, Some(TaskWaiting::Idle { .. })) {
            break;
        }
        kafka.pause(std::time::Duration::from_millis(20));
    }
    let Some(TaskWaiting::Idle { inputs, since }) = waited else { panic!("{waited:?}") };
    assert_eq!(inputs, [(table.clone(), 0)]);
    assert!((1..=wall_clock()).contains(&since));
    kafka.write(&table, 1, [("b", "2")]);
    let read = kafka.read_until(&output, 1, |read| !read.is_empty());
    assert_eq!(read[0].key, "a");
    app.close(PATIENCE).expect("closes");
}

/// One that has waited long enough goes on with what there is.
#[test]
fn a_task_waits_no_longer_than_it_is_told() {
    let mut kafka = Kafka::shared();
    let (stream, table) = (kafka.topic("s", 1), kafka.topic("t", 1));
    let output = kafka.topic("out", 1);
    let builder = StreamsBuilder::new();
    let read = |topic: &str| builder.stream(topic, Consumed::<String, String>::new());
    read(&stream).merge(&read(&table)).to(output.as_str(), Produced::new());
    let dir = tempfile::tempdir().expect("a directory");
    let settings = config(&unique("waits"), &kafka.bootstrap, dir.path());
    let settings = settings.set("max.task.idle.ms", "50").expect("a setting");
    let app = start(builder.build().expect("builds"), settings);
    kafka.write(&stream, 1, [("a", "1"), ("b", "2")]);
    let read = kafka.read_until(&output, 1, |read| read.len() >= 2);
    assert!(read.iter().map(|record| record.key.as_str()).eq(["a", "b"]));
    app.close(PATIENCE).expect("closes");
}

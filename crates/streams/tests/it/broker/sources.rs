//! Where and how sources read.

use super::app::{config, start};
use crate::kafka::{Kafka, PATIENCE, Written, unique, wall_clock};
use kstreams::prelude::*;

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

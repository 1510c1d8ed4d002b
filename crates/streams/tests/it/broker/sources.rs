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

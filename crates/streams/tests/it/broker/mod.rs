//! Tests on a real Apache Kafka: `cargo xtask test` starts one and sets `KSTREAMS_TEST_BOOTSTRAP`.

mod app;
mod closing;
mod errors;
mod exactly_once;
mod faults;
mod group;
mod moves;
mod queries;
mod restarts;
mod restore;
mod scenarios;
mod sources;
mod stateful;
mod store_writers;
mod tables;
mod three_brokers;
mod topic_stores;
mod windows;

use kstreams::prelude::*;

/// Counts the records of each key, one result a record.
fn counts(input: &str, output: &str) -> Topology {
    let builder = StreamsBuilder::new();
    builder
        .stream(input, Consumed::<String, String>::new())
        .group_by_key(Grouped::new())
        .count(Materialized::named("counts"))
        .to_stream()
        .to(output, Produced::new());
    builder.build().expect("builds")
}

/// Counts the records of each value, behind a repartition topic.
fn counts_of_values(input: &str, output: &str) -> Topology {
    let builder = StreamsBuilder::new();
    builder
        .stream(input, Consumed::<String, String>::new())
        .group_by(|_, value| value.clone(), Grouped::named("by-value"))
        .count(Materialized::named("counts"))
        .to_stream()
        .to(output, Produced::new());
    builder.build().expect("builds")
}

//! Bad input and wrong use: what the user is told, and how soon.

use super::app::{config, start};
use super::{counts, counts_of_values};
use crate::kafka::{Kafka, PATIENCE, unique};
use kstreams::prelude::*;
use std::time::Duration;

/// What stops an application that was started.
fn error_of(topology: Topology, config: StreamsConfig) -> String {
    let app = KafkaStreams::start(topology, config).expect("starts");
    let state = app.wait_for(PATIENCE, State::is_terminal);
    assert_eq!(state, State::Error);
    app.close(PATIENCE).expect_err("an error").to_string()
}

#[test]
fn topics_that_do_not_exist_are_named() {
    let kafka = Kafka::shared();
    let (input, output) = (unique("no-input"), unique("no-output"));
    let dir = tempfile::tempdir().expect("a directory");
    let config = config(&unique("missing"), &kafka.bootstrap, dir.path());
    let error = KafkaStreams::start(counts(&input, &output), config).expect_err("refused");
    let text = error.to_string();
    assert_eq!(error.kind(), ErrorKind::Broker);
    assert!(text.contains(&format!("does not have {input}, {output}: create")), "{text}");
}

#[test]
fn a_broker_that_is_not_there_is_named() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = free.local_addr().expect("its address").to_string();
    drop(free);
    let dir = tempfile::tempdir().expect("a directory");
    let config = config("nobody", &address, dir.path());
    let error = KafkaStreams::start(counts("in", "out"), config).expect_err("refused").to_string();
    assert!(
        error.contains(&format!("no broker of bootstrap.servers={address} can be reached")),
        "{error}"
    );
}

#[test]
fn a_second_process_on_a_state_directory_is_refused() {
    let mut kafka = Kafka::shared();
    let (input, output) = (kafka.topic("in", 1), kafka.topic("out", 1));
    let dir = tempfile::tempdir().expect("a directory");
    let settings = config(&unique("locked"), &kafka.bootstrap, dir.path());
    let running = start(counts(&input, &output), settings.clone());
    let error = KafkaStreams::start(counts(&input, &output), settings.clone());
    let error = error.expect_err("refused").to_string();
    assert!(error.contains(&format!("in use by process {}", std::process::id())), "{error}");
    let error = KafkaStreams::clean_up(&settings).expect_err("refused").to_string();
    assert!(error.contains("in use by process"), "{error}");
    running.close(PATIENCE).expect("closes");
    KafkaStreams::clean_up(&settings).expect("cleans up");
}

#[test]
fn a_group_that_holds_another_topology_is_an_error_that_says_so() {
    let mut kafka = Kafka::shared();
    let (input, output) = (kafka.topic("in", 1), kafka.topic("out", 1));
    let app = unique("changed");
    let dir = tempfile::tempdir().expect("a directory");
    let settings = config(&app, &kafka.bootstrap, dir.path());
    start(counts(&input, &output), settings.clone()).close(PATIENCE).expect("closes");
    let error = error_of(counts_of_values(&input, &output), settings);
    assert!(error.contains(&app) && error.to_lowercase().contains("topology"), "{error}");
}

#[test]
fn p93_a_poison_record_is_named_and_nothing_before_it_is_lost() {
    let mut kafka = Kafka::shared();
    let (input, output) = (kafka.topic("in", 1), kafka.topic("out", 1));
    let app = unique("poison");
    kafka.write(&input, 1, [("a", &b"x"[..]), ("a", b"\xff\xfe"), ("a", b"y")]);
    let dir = tempfile::tempdir().expect("a directory");
    let settings = config(&app, &kafka.bootstrap, dir.path());
    let error = error_of(counts(&input, &output), settings.clone());
    let place = format!("topic {input}, partition 0, offset 1");
    assert!(
        error.contains("cannot read the value of a record") && error.contains(&place),
        "{error}"
    );
    // With the other policy the application goes on behind it.
    let skip = settings.set("deserialization.exception.handler", "log-and-continue");
    let running = start(counts(&input, &output), skip.expect("a setting"));
    let counted = kafka.counts_adding_up_to(&output, 1, 2);
    assert_eq!(counted["a"], 2);
    running.close(PATIENCE).expect("closes");
}

/// P93: on a partition with nothing but poison the committed offset reaches the end.
#[test]
fn p93_skipped_records_move_the_committed_offset() {
    let mut kafka = Kafka::shared();
    let (input, output) = (kafka.topic("in", 1), kafka.topic("out", 1));
    let app = unique("only-poison");
    kafka.write(&input, 1, (0..5).map(|_| ("a", b"\xff")));
    let dir = tempfile::tempdir().expect("a directory");
    let settings = config(&app, &kafka.bootstrap, dir.path());
    let skip = settings.set("deserialization.exception.handler", "log-and-continue");
    let running = start(counts(&input, &output), skip.expect("a setting"));
    kafka.committed_until(&app, |committed| committed.values().sum::<i64>() == 5);
    running.close(PATIENCE).expect("closes");
}

#[test]
fn user_code_that_fails_names_operator_and_record() {
    let mut kafka = Kafka::shared();
    let (input, output) = (kafka.topic("in", 1), kafka.topic("out", 1));
    kafka.write(&input, 1, [("a", "1"), ("a", "one")]);
    let builder = StreamsBuilder::new();
    builder
        .stream(input.as_str(), Consumed::<String, String>::new())
        .try_map_values(|value| Ok(value.parse::<i64>()?))
        .named("parse")
        .to(output.as_str(), Produced::new());
    let dir = tempfile::tempdir().expect("a directory");
    let settings = config(&unique("parse"), &kafka.bootstrap, dir.path());
    let error = error_of(builder.build().expect("builds"), settings);
    let place = format!("topic {input}, partition 0, offset 1");
    assert!(
        error.starts_with("operator parse failed: invalid digit") && error.contains(&place),
        "{error}"
    );
}

/// A processor that cannot be closed.
struct Stubborn;

impl Processor for Stubborn {
    type In = (String, String);
    type Out = (String, String);

    fn process(
        &mut self,
        record: Record<String, String>,
        ctx: &mut Context<Self>,
    ) -> ProcessResult {
        ctx.forward(record)
    }

    fn close(&mut self) {
        panic!("not now")
    }
}

#[test]
fn a_processor_that_panics_while_closing_does_not_keep_the_application() {
    let mut kafka = Kafka::shared();
    let (input, output) = (kafka.topic("in", 1), kafka.topic("out", 1));
    kafka.write(&input, 1, [("a", "1")]);
    let builder = StreamsBuilder::new();
    builder
        .stream(input.as_str(), Consumed::<String, String>::new())
        .process(|_| Ok(Stubborn), Processed::new())
        .to(output.as_str(), Produced::new());
    let dir = tempfile::tempdir().expect("a directory");
    let settings = config(&unique("stubborn"), &kafka.bootstrap, dir.path());
    let running = start(builder.build().expect("builds"), settings);
    kafka.read_until(&output, 1, |read| !read.is_empty());
    running.close(PATIENCE).expect("closes");
    assert_eq!(running.state(), State::NotRunning);
}

#[test]
fn closing_twice_and_closing_at_once_are_fine() {
    let mut kafka = Kafka::shared();
    let (input, output) = (kafka.topic("in", 1), kafka.topic("out", 1));
    let dir = tempfile::tempdir().expect("a directory");
    let settings = config(&unique("close"), &kafka.bootstrap, dir.path());
    let app = KafkaStreams::start(counts(&input, &output), settings).expect("starts");
    app.close(PATIENCE).expect("closes");
    assert_eq!(app.state(), State::NotRunning);
    app.close(Duration::ZERO).expect("closed already");
}

//! Closing: from handlers, listeners and signals, whatever user code does meanwhile.

use super::app::{AppProcess, config, log_to_parent, start};
use crate::kafka::{Kafka, PATIENCE, unique};
use kstreams::prelude::*;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Fails at each record.
fn failing(input: &str) -> Topology {
    let builder = StreamsBuilder::new();
    let fail = |_, _| Err("as it is told".into());
    builder.stream(input, Consumed::<String, String>::new()).try_for_each(fail);
    builder.build().expect("builds")
}

/// Does not get beyond a record as long as `file` is not there.
fn held_up(input: &str, output: &str, file: String) -> Topology {
    let builder = StreamsBuilder::new();
    builder
        .stream(input, Consumed::<String, String>::new())
        .peek(move |key, _| {
            tracing::info!("holding {key}");
            while !Path::new(&file).exists() {
                std::thread::park_timeout(Duration::from_millis(20));
            }
        })
        .to(output, Produced::new());
    builder.build().expect("builds")
}

const CHILD: &str = "broker::closing::the_held_up_process";

/// Not a test: the program of the child processes, which run it by name.
#[test]
#[ignore = "run by other tests as a process of its own"]
fn the_held_up_process() {
    log_to_parent();
    let var = |name: &str| std::env::var(name).expect(name);
    let config = config(&var("APP"), &var("BOOTSTRAP"), Path::new(&var("STATE")));
    let topology = held_up(&var("INPUT"), &var("OUTPUT"), var("FILE"));
    let app = KafkaStreams::start(topology, config).expect("starts");
    app.run_until_signal().expect("no error");
}

/// P83: a signal while a record is in hand. The record is finished and committed, and the process ends well; a second signal ends it
/// at once.
#[test]
fn p83_a_signal_lets_the_record_in_hand_finish_and_a_second_one_does_not() {
    let mut kafka = Kafka::shared();
    for signals in [1, 2] {
        let (input, output) = (kafka.topic("in", 1), kafka.topic("out", 1));
        kafka.write(&input, 1, [("a", "1"), ("b", "2")]);
        let dir = tempfile::tempdir().expect("a directory");
        let (state, file) = (dir.path().join("state"), dir.path().join("go-on"));
        let text = |path: &Path| path.to_str().expect("a path that is text").to_string();
        let environment = [
            ("APP", unique("held-up")),
            ("BOOTSTRAP", kafka.bootstrap.clone()),
            ("STATE", text(&state)),
            ("INPUT", input),
            ("OUTPUT", output.clone()),
            ("FILE", text(&file)),
        ];
        let environment = environment.each_ref().map(|(name, value)| (*name, value.as_str()));
        let mut process = AppProcess::spawn(CHILD, &environment);
        process.wait_log("record", |log| log.iter().any(|line| line.contains("holding a")));
        process.signal("-TERM");
        if signals == 2 {
            // Only when the first one was taken: two at once are one.
            process
                .wait_log("closing", |log| log.iter().any(|line| line.contains("PendingShutdown")));
            process.signal("-TERM");
            assert!(!process.end().success());
            continue;
        }
        std::fs::write(&file, "").expect("written");
        let status = process.end();
        assert!(status.success(), "{status}");
        let read = kafka.read_until(&output, 1, |read| !read.is_empty());
        assert_eq!(read[0].key, "a");
        let committed = kafka.committed(environment[0].1);
        assert!(committed.values().all(|offset| *offset == read.len() as i64), "{committed:?}");
    }
}

/// P83: closing from the handler of uncaught errors and from a listener returns, and the application closes.
#[test]
fn p83_closing_from_handlers_and_listeners_returns() {
    let mut kafka = Kafka::shared();
    let input = kafka.topic("in", 1);
    let dir = tempfile::tempdir().expect("a directory");
    let settings = config(&unique("close-within"), &kafka.bootstrap, dir.path());
    let handle: Arc<OnceLock<KafkaStreams>> = Arc::default();
    let closed = Arc::new(AtomicUsize::new(0));
    let close = {
        let (handle, closed) = (handle.clone(), closed.clone());
        move || {
            if let Some(app) = handle.get() {
                let _ = app.close(Duration::from_secs(60));
                closed.fetch_add(1, Ordering::SeqCst);
            }
        }
    };
    let close_too = close.clone();
    let app = KafkaStreams::builder(failing(&input), settings)
        .on_uncaught(move |_| {
            close();
            ThreadResponse::ShutdownClient
        })
        .on_state_change(move |state, _| {
            if state != State::Running && state != State::Rebalancing {
                close_too();
            }
        })
        .start()
        .expect("starts");
    assert!(handle.set(app).is_ok());
    let app = handle.get().expect("set");
    assert_eq!(app.wait_for(PATIENCE, |state| state == State::Running), State::Running);
    kafka.write_to(&input, 0, "a", "bad");
    assert!(app.wait_for(Duration::from_secs(20), State::is_terminal).is_terminal());
    app.close(PATIENCE).expect_err("the error");
    assert!(closed.load(Ordering::SeqCst) >= 2);
}

/// P83: user code that takes its time does not hold up whoever closes.
#[test]
fn p83_closing_returns_within_its_timeout_while_a_record_takes_its_time() {
    let mut kafka = Kafka::shared();
    let (input, output) = (kafka.topic("in", 1), kafka.topic("out", 1));
    let builder = StreamsBuilder::new();
    let (begun, goes_on) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (begins, waits) = (begun.clone(), goes_on.clone());
    builder
        .stream(input.as_str(), Consumed::<String, String>::new())
        .map_values(move |value| {
            begins.store(true, Ordering::SeqCst);
            while !waits.load(Ordering::SeqCst) {
                std::thread::park_timeout(Duration::from_millis(20));
            }
            value
        })
        .to(output.as_str(), Produced::new());
    let dir = tempfile::tempdir().expect("a directory");
    let settings = config(&unique("busy"), &kafka.bootstrap, dir.path());
    let running = start(builder.build().expect("builds"), settings);
    kafka.write(&input, 1, [("a", "1")]);
    while !begun.load(Ordering::SeqCst) {
        kafka.pause(Duration::from_millis(10));
    }
    let error = running.close(Duration::from_millis(300)).expect_err("too early");
    assert_eq!(error.kind(), ErrorKind::Timeout);
    goes_on.store(true, Ordering::SeqCst);
    running.close(PATIENCE).expect("closes");
    // The record in hand was finished.
    assert_eq!(kafka.read_until(&output, 1, |read| !read.is_empty()).len(), 1);
}

/// A listener that panics is heard of in the log, and changes nothing.
#[test]
fn a_listener_that_panics_stops_nothing() {
    let mut kafka = Kafka::shared();
    let (input, output) = (kafka.topic("in", 1), kafka.topic("out", 1));
    let dir = tempfile::tempdir().expect("a directory");
    let settings = config(&unique("listened"), &kafka.bootstrap, dir.path());
    let app = KafkaStreams::builder(super::counts(&input, &output), settings)
        .on_state_change(|state, _| panic!("I do not like {state}"))
        .start()
        .expect("starts");
    assert_eq!(app.wait_for(PATIENCE, |state| state == State::Running), State::Running);
    kafka.write(&input, 1, [("a", "1")]);
    kafka.read_until(&output, 1, |read| !read.is_empty());
    app.close(PATIENCE).expect("closes");
    assert_eq!(app.state(), State::NotRunning);
}

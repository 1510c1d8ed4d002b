//! The scenarios of the examples, as they are there, with 100,000 records: in several processes that are killed and replaced in the
//! middle, exactly once.

mod ledger;
mod outside;
mod rooms;
mod sweep;

use super::app::{AppProcess, config};
use crate::kafka::{Kafka, unique};
use kstreams::prelude::*;
use std::path::Path;

const PROCESS: &str = "broker::scenarios::the_scenario_process";
const PARTITIONS: i32 = 4;
const RECORDS: usize = 100_000;

/// Not a test: the program of the child processes.
#[test]
#[ignore = "run by other tests as a process of its own"]
fn the_scenario_process() {
    tracing_subscriber::fmt()
        .with_ansi(false)
        .with_max_level(tracing_subscriber::filter::LevelFilter::WARN)
        .with_writer(std::io::stdout)
        .init();
    let var = |name: &str| std::env::var(name).expect(name);
    let topics = var("TOPICS");
    let topics: Vec<&str> = topics.split(' ').collect();
    let topology = match (var("SCENARIO").as_str(), &topics[..]) {
        ("rooms", [joins, leaves, rooms]) => rooms::topology(joins, leaves, rooms),
        ("ledger", [commands, events, rejections]) => {
            ledger::topology(commands, events, rejections)
        }
        ("outside", [points, bonus_updates]) => outside::topology(points, bonus_updates),
        ("sweep", [messages]) => sweep::topology(messages, &var("ARGUMENT")),
        other => panic!("no scenario {other:?}"),
    };
    let config = config(&var("APP"), &var("BOOTSTRAP"), Path::new(&var("STATE")))
        .exactly_once()
        .stream_threads(2);
    let app = KafkaStreams::start(topology.expect("builds"), config).expect("starts");
    app.run_until_signal().expect("no error");
}

/// A scenario on the cluster.
struct Scenario {
    kafka: Kafka,
    name: &'static str,
    application: String,
    topics: Vec<String>,
    /// What else the topology wants to know.
    argument: String,
    dir: tempfile::TempDir,
}

impl Scenario {
    /// With its topics.
    fn new(name: &'static str, topics: &[&str]) -> Self {
        let mut kafka = Kafka::shared();
        let topics = topics.iter().map(|topic| kafka.topic(topic, PARTITIONS)).collect();
        let (application, dir) = (unique(name), tempfile::tempdir().expect("a directory"));
        Scenario { kafka, name, application, topics, argument: String::new(), dir }
    }

    /// A process with the state that the last one of that name left.
    fn start(&self, state: &str) -> AppProcess {
        let state = self.dir.path().join(state);
        AppProcess::spawn(
            PROCESS,
            &[
                ("SCENARIO", self.name),
                ("BOOTSTRAP", &self.kafka.bootstrap),
                ("APP", &self.application),
                ("TOPICS", &self.topics.join(" ")),
                ("ARGUMENT", &self.argument),
                ("STATE", state.to_str().expect("a path that is text")),
            ],
        )
    }

    /// How many records of the input topics are committed.
    fn committed_until(&mut self, inputs: usize, enough: usize) {
        let inputs = self.topics[..inputs].to_vec();
        self.kafka.committed_until(&self.application, |committed| {
            let of_inputs =
                committed.iter().filter(|(place, _)| inputs.contains(&place.topic.to_string()));
            of_inputs.map(|(_, offset)| *offset as usize).sum::<usize>() >= enough
        });
    }

    /// Two processes; each is killed in the middle and replaced, once with its state and once without, so that every task is moved
    /// and restored. Ends when all of the first `inputs` topics is committed.
    fn run_with_faults(&mut self, inputs: usize, total: usize) -> (AppProcess, AppProcess) {
        let (first, second) = (self.start("first"), self.start("second"));
        self.committed_until(inputs, total / 10);
        first.kill();
        let third = self.start("first");
        self.committed_until(inputs, total / 2);
        second.kill();
        let fourth = self.start("new");
        self.committed_until(inputs, total);
        (third, fourth)
    }
}

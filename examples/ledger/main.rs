//! Event sourcing: commands are checked against the latest snapshot and become events with versions 0, 1, 2, …
//!
//! ```text
//! cargo run --release --example ledger                                   a few commands, on the embedded broker
//! cargo run --release --example ledger -- --bootstrap localhost:9092     on a Kafka cluster, until Ctrl-C; topics commands, events,
//!                                                                        rejections
//! ```
//!
//! **The trap.** The obvious way is to fold the events into a table and to join the commands with it. But an event reaches the table
//! through its topic, and after the next command: three quick commands for a user of version 0 all see version 0, and give the
//! versions 1, 1, 1. No timestamp extractor and no commit interval helps, as the way through the topic is what takes the time.
//!
//! **The way out.** Deciding and applying belong into one step. `decide` hands each command the snapshot that the events of all
//! commands before it have made, and commits events, snapshot and the command's offset in one transaction.

mod ledger;

use kstreams::prelude::*;
use kstreams::runtime::EmbeddedBroker;
use kstreams_examples::{bootstrap, config, scratch, show, start_log};
use ledger::{Command, Event, classic_topology, topology};
use std::time::Duration;

const COMMANDS: [&str; 6] = [
    "rename Ann before she is registered",
    "register Ann",
    "rename Anna",
    "rename Annie",
    "rename Anne",
    "register Ann again",
];

fn main() -> Result<()> {
    start_log();
    let topology = topology("commands", "events", "rejections")?;
    if let Some(bootstrap) = bootstrap()? {
        return KafkaStreams::start(topology, config("ledger", &bootstrap))?.run_until_signal();
    }
    let (broker, state) = (EmbeddedBroker::start()?, scratch()?);
    for topic in ["commands", "events", "rejections", "classic-events"] {
        broker.create_topic(topic, 2)?;
    }
    let commands: Vec<Record<String, Command>> = COMMANDS
        .iter()
        .map(|command| Ok(Record::new("ann@example.org".to_string(), command.parse()?, 1)))
        .collect::<Result<_, BoxError>>()
        .map_err(|error| Error::new(ErrorKind::BadRecord, "no command").with_source(error))?;
    broker.write("commands", commands)?;

    let app =
        broker.run(topology, config("ledger", &broker.bootstrap()).state_dir(state.path()))?;
    let events = events(&broker, "events", &app, 4)?;
    app.close(Duration::from_secs(10))?;
    let rejections = broker.read::<String, String>("rejections")?;
    show("events", events)?;
    show("rejections", rejections.iter().map(|record| (&record.key, &record.value)))?;

    // Ann is registered, and then the same commands come.
    let registered = Event::Registered { version: 0, name: "Ann".into() };
    let registered = Record::new("ann@example.org".to_string(), registered, 0);
    broker.write("classic-events", [registered])?;
    let classic = classic_topology("commands", "classic-events")?;
    let findings = classic.lint();
    let app = broker
        .run(classic, config("classic-ledger", &broker.bootstrap()).state_dir(state.path()))?;
    let events = self::events(&broker, "classic-events", &app, 5)?;
    app.close(Duration::from_secs(10))?;
    show(
        "the classic way: commands that come before the first event is back are lost or have equal versions",
        events,
    )?;
    show("what the topology check says", (1..).zip(findings))
}

/// The events of a topic, once there are so many.
fn events(
    broker: &EmbeddedBroker,
    topic: &str,
    app: &KafkaStreams,
    count: usize,
) -> Result<Vec<(String, Event)>> {
    loop {
        let records = broker.read::<String, Event>(topic)?;
        let stopped = app.wait_for(Duration::from_millis(20), State::is_terminal).is_terminal();
        if records.len() >= count || stopped {
            return Ok(records.into_iter().map(|record| (record.key, record.value)).collect());
        }
    }
}

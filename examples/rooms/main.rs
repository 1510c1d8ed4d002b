//! Room membership from two topics.
//!
//! ```text
//! cargo run --release --example rooms                                   a few users, on the embedded broker
//! cargo run --release --example rooms -- --bootstrap localhost:9092     on a Kafka cluster, until Ctrl-C; topics joins, leaves, rooms
//! ```
//!
//! **The trap.** Two users leave a room at the same moment. Code that looks the room up in a `GlobalKTable` or in a table joined
//! from elsewhere, takes one user out and writes the room back reads for both the room as it was before: each writes a room that
//! still has the other one, who is never taken out. The same happens when the changes of one room are processed by several tasks.
//!
//! **The way out.** All changes of a room go to one task, by a repartition; there one processor reads, changes and writes its own
//! store, one record after the other. The result, the store and the position in the input are committed together, so that a crash
//! repeats nothing and forgets nothing.

mod rooms;

use kstreams::prelude::*;
use kstreams::runtime::EmbeddedBroker;
use kstreams::state::StoreUsage;
use kstreams_examples::{bootstrap, config, scratch, show, start_log};
use rooms::{Room, topology, wrong_topology};
use std::collections::BTreeMap;
use std::time::Duration;

const JOINS: [(&str, &str); 5] =
    [("ann", "red"), ("bob", "red"), ("cat", "blue"), ("dan", "blue"), ("eve", "blue")];
const LEAVES: [(&str, &str); 4] =
    [("ann", "red"), ("bob", "red"), ("zoe", "blue"), ("dan", "blue")];

fn main() -> Result<()> {
    start_log();
    let topology = topology("joins", "leaves", "rooms")?;
    if let Some(bootstrap) = bootstrap()? {
        return KafkaStreams::start(topology, config("rooms", &bootstrap))?.run_until_signal();
    }
    let (broker, state) = (EmbeddedBroker::start()?, scratch()?);
    for topic in ["joins", "leaves", "rooms"] {
        broker.create_topic(topic, 4)?;
    }
    let app = broker.run(topology, config("rooms", &broker.bootstrap()).state_dir(state.path()))?;
    let records = |pairs: &[(&str, &str)], time| {
        let records: Vec<_> = pairs
            .iter()
            .map(|(user, room)| Record::new(user.to_string(), room.to_string(), time))
            .collect();
        records
    };
    broker.write("joins", records(&JOINS, 1))?;
    // Ann and Bob leave at the same moment, and Zoe was never there.
    broker.write("leaves", records(&LEAVES, 2))?;
    let expected = BTreeMap::from([("blue".to_string(), "cat eve".to_string())]);
    let rooms = loop {
        let mut rooms = BTreeMap::new();
        for Record { key, value, .. } in broker.read::<String, Option<Room>>("rooms")? {
            match value {
                Some(room) => rooms.insert(key, room.to_string()),
                None => rooms.remove(&key),
            };
        }
        let stopped = app.wait_for(Duration::from_millis(20), State::is_terminal).is_terminal();
        if rooms == expected || stopped {
            break rooms;
        }
    };
    let tasks = app.thread_metadata().into_iter().flat_map(|thread| thread.tasks);
    let used = tasks.filter_map(|task| {
        let StoreUsage { entries, reads, writes } = *task.stores.get("rooms")?;
        let text = format!("about {entries} rooms, {reads} reads, {writes} writes");
        (reads > 0).then_some((task.id, text))
    });
    let used: Vec<_> = used.collect();
    app.close(Duration::from_secs(10))?;
    show("rooms", &rooms)?;
    show("how the tasks have used their stores", used)?;

    let findings = wrong_topology("joins", "leaves", "rooms")?.lint();
    show("what the topology check says without the repartition", (1..).zip(findings))
}

//! Commands become events with versions 0, 1, 2, … and never 1, 1, 1.

#[path = "../../../../../../examples/ledger/ledger.rs"]
mod example;

use self::example::{Command, Event, User, classic_topology};
use super::super::app::{config, start};
use super::{PARTITIONS, RECORDS, Scenario};
use crate::kafka::{Kafka, PATIENCE, Read, unique};
use crate::random::Random;
use std::collections::BTreeMap;

pub(super) use self::example::topology;

const USERS: u64 = 1_000;

/// Per user, what is written in order.
type Texts = BTreeMap<String, Vec<String>>;

fn texts(read: &[Read]) -> Texts {
    let mut texts = Texts::new();
    for record in read {
        let text = record.value.clone().expect("a value");
        let text = String::from_utf8(text).expect("text");
        texts.entry(record.key.clone()).or_default().push(text);
    }
    texts
}

fn commands() -> Vec<(String, Command)> {
    let mut random = Random(0x1ed_6e4);
    (0..RECORDS)
        .map(|number| {
            let user = format!("user{}", random.below(USERS));
            let name = format!("name{}", random.below(5));
            match random.below(10) {
                0 => (user, Command::Register(format!("{name}-{number}"))),
                _ => (user, Command::ChangeName(name)),
            }
        })
        .collect()
}

/// The events and rejections of commands, one after the other.
fn model(commands: &[(String, Command)]) -> (Texts, Texts) {
    let mut users: BTreeMap<&str, User> = BTreeMap::new();
    let (mut events, mut rejections) = (Texts::new(), Texts::new());
    for (user, command) in commands {
        match command.handle(users.get(user.as_str())) {
            Ok(made) => {
                for event in made {
                    let before = users.remove(user.as_str());
                    users.extend(User::apply(before, &event).map(|after| (user.as_str(), after)));
                    events.entry(user.clone()).or_default().push(event.to_string());
                }
            }
            Err(why) => rejections.entry(user.clone()).or_default().push(why),
        }
    }
    (events, rejections)
}

#[test]
fn versions_have_no_gap_and_no_repeat() {
    let mut scenario = Scenario::new("ledger", &["commands", "events", "rejections"]);
    let commands = commands();
    let (events, rejections) = model(&commands);
    let written = commands.iter().map(|(user, command)| (user, command.to_string()));
    let topics = scenario.topics.clone();
    scenario.kafka.write(&topics[0], PARTITIONS, written);
    let (third, fourth) = scenario.run_with_faults(1, RECORDS);
    third.stop();
    fourth.stop();
    let count = |texts: &Texts| texts.values().map(Vec::len).sum::<usize>();
    for (topic, expected) in [(&topics[1], &events), (&topics[2], &rejections)] {
        let all = count(expected);
        let read = scenario.kafka.read_until(topic, PARTITIONS, |read| read.len() >= all);
        assert_eq!(texts(&read), *expected);
    }
    for events in events.values() {
        let versions = events.iter().map(|event| match event.parse().expect("an event") {
            Event::Registered { version, .. } | Event::NameChanged { version, .. } => version,
        });
        assert!(versions.eq(0..events.len() as u64));
    }
}

/// The classic way runs and does what it does on Java: commands that come faster than events go round have equal versions.
#[test]
fn the_classic_way_repeats_versions() {
    let mut kafka = Kafka::shared();
    let (commands, events) = (kafka.topic("commands", 1), kafka.topic("events", 1));
    kafka.write(&events, 1, [("ann", "registered 0 Ann")]);
    kafka.write(&commands, 1, ["A", "B", "C"].map(|name| ("ann", format!("rename {name}"))));
    let topology = classic_topology(&commands, &events).expect("builds");
    assert_eq!(topology.lint()[0].rule, "stale-table-in-a-loop");
    let dir = tempfile::tempdir().expect("a directory");
    let settings = config(&unique("classic"), &kafka.bootstrap, dir.path()).exactly_once();
    let app = start(topology, settings);
    let read = kafka.read_until(&events, 1, |read| read.len() >= 4);
    app.close(PATIENCE).expect("closes");
    let expected = ["registered 0 Ann", "renamed 1 A", "renamed 1 B", "renamed 1 C"];
    assert_eq!(texts(&read)["ann"], expected);
}

//! What an outbox has deleted stays deleted.

#[path = "../../../../../../examples/sweep/outbox.rs"]
mod outbox;
#[path = "../../../../../../examples/sweep/service.rs"]
mod service;

use self::service::{Service, deliver_to};
use super::{PARTITIONS, RECORDS, Scenario};
use crate::kafka::PATIENCE;
use kstreams::prelude::*;
use kstreams_client::{Clock, SystemClock};
use std::collections::BTreeMap;
use std::time::Duration;

/// The outbox of a child process.
pub(super) fn topology(messages: &str, service: &str) -> Result<Topology> {
    let every = Duration::from_millis(100);
    outbox::topology(messages, outbox::waiting(), every, deliver_to(service))
}

#[test]
fn what_was_taken_is_never_sent_again() {
    let service = Service::start().expect("a service");
    let mut scenario = Scenario::new("sweep", &["messages"]);
    scenario.argument = service.address();
    let topic = scenario.topics[0].clone();
    let ids = || (0..RECORDS).map(|number| format!("m{number}"));
    scenario.kafka.write(&topic, PARTITIONS, ids().map(|id| (id, "a message")));
    let (third, fourth) = scenario.run_with_faults(1, RECORDS);
    wait_until_taken(&mut scenario, &service, RECORDS);
    third.stop();
    fourth.stop();
    // Only what was sent and not committed when a process was killed: a chunk of each of its tasks, and as much again for each
    // commit that failed on a busy machine.
    let offers = service.offers();
    let again = offers.values().filter(|(_, taken)| *taken > 1).count();
    assert!(again <= RECORDS / 20, "{again} messages were taken more than once");

    // The changelog ends with tombstones, and a process that restores from it has nothing to send.
    let changelog = format!("{}-waiting-changelog", scenario.application);
    let (mut seen, mut waiting) = (0, BTreeMap::new());
    let logged = scenario.kafka.read_until(&changelog, PARTITIONS, |read| {
        for record in &read[seen..] {
            match &record.value {
                Some(value) => waiting.insert(record.key.clone(), value.clone()),
                None => waiting.remove(&record.key),
            };
        }
        seen = read.len();
        seen > 0 && waiting.is_empty() && read.iter().any(|record| record.value.is_none())
    });
    assert!(!logged.is_empty());
    let fifth = scenario.start("elsewhere");
    // It sweeps every partition: it has these.
    for partition in 0..PARTITIONS {
        scenario.kafka.write_to(&topic, partition, &format!("new{partition}"), "a message");
    }
    wait_until_taken(&mut scenario, &service, RECORDS + PARTITIONS as usize);
    fifth.stop();
    let mut all = service.offers();
    all.retain(|id, _| !id.starts_with("new"));
    assert_eq!(all, offers);
}

fn wait_until_taken(scenario: &mut Scenario, service: &Service, count: usize) {
    let clock = SystemClock::new();
    let deadline = clock.now() + PATIENCE;
    loop {
        let taken = service.offers().values().filter(|(_, taken)| *taken > 0).count();
        if taken == count {
            return;
        }
        assert!(clock.now() < deadline, "{taken} of {count} messages are taken");
        scenario.kafka.pause(Duration::from_millis(100));
    }
}

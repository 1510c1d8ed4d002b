//! Room membership is that of a sequential model, whatever happens.

#[path = "../../../../../../examples/rooms/rooms.rs"]
mod example;

use self::example::{Room, wrong_topology};
use super::{PARTITIONS, RECORDS, Scenario};
use crate::kafka::{Read, Written, wall_clock};
use crate::random::Random;
use kstreams::topology::partition_for_key;
use std::collections::BTreeMap;

pub(super) use self::example::topology;

const USERS: u64 = 2_000;
const ROOMS: u64 = 1_000;

/// A join or a leave, one a millisecond; the last ones all at the same moment.
struct Step {
    user: String,
    room: String,
    joins: bool,
    time: i64,
}

fn steps() -> Vec<Step> {
    let (mut random, begin) = (Random(0x4004), wall_clock() - RECORDS as i64);
    let mut steps: Vec<Step> = (0..RECORDS as i64)
        .map(|number| {
            let user = format!("user{}", random.below(USERS));
            let room = format!("room{}", random.below(ROOMS));
            Step { user, room, joins: random.below(3) > 0, time: begin + number }
        })
        .collect();
    // All leave the rooms with an even number at the same moment, and so does somebody who was never there.
    let time = begin + RECORDS as i64;
    for (room, Room(users)) in model(&steps).iter().filter(|(room, _)| is_emptied(room)) {
        let users = users.iter().cloned().chain(["nobody".to_string()]);
        steps.extend(users.map(|user| Step { user, room: room.clone(), joins: false, time }));
    }
    steps
}

fn is_emptied(room: &str) -> bool {
    room.ends_with(['0', '2', '4', '6', '8'])
}

/// The rooms after all steps, one after the other. Rooms that nobody is in are not there.
fn model(steps: &[Step]) -> BTreeMap<String, Room> {
    let mut rooms: BTreeMap<String, Room> = BTreeMap::new();
    for Step { user, room, joins, .. } in steps {
        let members = &mut rooms.entry(room.clone()).or_default().0;
        if *joins {
            members.insert(user.clone())
        } else {
            members.remove(user)
        };
    }
    rooms.retain(|_, room| !room.0.is_empty());
    rooms
}

/// The room of a record; an empty one for null.
fn room(record: &Read) -> Room {
    let room = record
        .value
        .as_deref()
        .map(|value| std::str::from_utf8(value).expect("text").parse().expect("a room"));
    room.unwrap_or_default()
}

/// Reads a topic until its last words about all rooms are as expected.
fn read_until_last(
    scenario: &Scenario,
    topic: &str,
    expected: &BTreeMap<String, Room>,
) -> Vec<Read> {
    let (mut seen, mut last) = (0, BTreeMap::new());
    scenario.kafka.read_until(topic, PARTITIONS, |read| {
        for record in &read[seen..] {
            match room(record) {
                Room(users) if users.is_empty() => last.remove(&record.key),
                room => last.insert(record.key.clone(), room),
            };
        }
        seen = read.len();
        last == *expected
    })
}

#[test]
fn membership_is_that_of_a_sequential_model() {
    let mut scenario = Scenario::new("rooms", &["joins", "leaves", "rooms"]);
    let topics = scenario.topics.clone();
    let steps = steps();
    for (topic, joins) in [(&topics[0], true), (&topics[1], false)] {
        let of_topic = steps.iter().filter(|step| step.joins == joins);
        let written = of_topic.map(|step| Written {
            partition: partition_for_key(step.user.as_bytes(), PARTITIONS),
            time: step.time,
            key: &step.user,
            value: Some(&step.room),
        });
        scenario.kafka.write_records(topic, written);
    }
    let expected = model(&steps);
    let (third, fourth) = scenario.run_with_faults(2, steps.len());
    let read = read_until_last(&scenario, &topics[2], &expected);
    third.stop();
    fourth.stop();
    // Each result changes the one before it by one user: nothing is repeated, nothing is left out.
    let mut rooms: BTreeMap<&str, Room> = BTreeMap::new();
    for record in &read {
        let (before, after) = (rooms.entry(&record.key).or_default(), room(record));
        let changed = before.0.symmetric_difference(&after.0).count();
        assert_eq!(changed, 1, "{}: {before} and then {after}", record.key);
        *before = after;
    }
    // Empty rooms are gone from the store as well: the last that its changelog has of them is a tombstone.
    let changelog = format!("{}-rooms-changelog", scenario.application);
    read_until_last(&scenario, &changelog, &expected);
    assert!(rooms.values().filter(|room| room.0.is_empty()).count() > 300);
    assert!(expected.len() > 300);
}

#[test]
fn the_wrong_way_is_found() {
    let findings = wrong_topology("joins", "leaves", "rooms").expect("builds").lint();
    assert_eq!(findings[0].rule, "state-by-a-changed-key");
    let right = topology("joins", "leaves", "rooms").expect("builds").lint();
    assert!(right.is_empty(), "{right:?}");
}

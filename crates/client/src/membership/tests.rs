//! The member's states, pair by pair, against scripted answers.

use crate::config::{GroupConfig, GroupTopology, Subtopology};
use crate::error::ErrorKind;
use crate::event::Event;
use crate::testing::World;
use crate::types::{Task, Tasks};
use kstreams_protocol::protocol::StrBytes;
use kstreams_protocol::streams_group::{StreamsGroupHeartbeatResponse, TaskIds};
use std::time::Duration;

fn joined(seed: u64, answers: Vec<StreamsGroupHeartbeatResponse>) -> World {
    let mut world = World::new(seed, |_| {});
    world.broker.heartbeats = answers.into();
    world.client.join(GroupConfig::new("group", "process", topology()));
    world
}

fn topology() -> GroupTopology {
    let subtopology = Subtopology {
        id: "0".to_owned(),
        source_topics: vec!["t".to_owned()],
        ..Default::default()
    };
    GroupTopology { epoch: 0, subtopologies: vec![subtopology] }
}

fn answer(epoch: i32, active: Option<&[i32]>) -> StreamsGroupHeartbeatResponse {
    let ids = |partitions: &[i32]| {
        vec![TaskIds {
            subtopology_id: StrBytes::from_static_str("0"),
            partitions: partitions.to_vec(),
        }]
    };
    StreamsGroupHeartbeatResponse {
        member_epoch: epoch,
        heartbeat_interval_ms: 100,
        active_tasks: active.map(ids),
        standby_tasks: active.map(|_| Vec::new()),
        warmup_tasks: active.map(|_| Vec::new()),
        ..Default::default()
    }
}

fn error(code: i16) -> StreamsGroupHeartbeatResponse {
    StreamsGroupHeartbeatResponse { error_code: code, ..Default::default() }
}

fn tasks(active: &[i32]) -> Tasks {
    Tasks { active: active.iter().map(|p| Task::new("0", *p)).collect(), ..Default::default() }
}

fn assigned(world: &mut World) -> (i32, Tasks) {
    match world.until(2_000, |event| matches!(event, Event::Assigned { .. })) {
        Event::Assigned { epoch, tasks } => (epoch, tasks),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_first_heartbeat_brings_everything_and_later_ones_what_changed() {
    let mut world = joined(1, vec![answer(1, Some(&[0, 1]))]);
    assert_eq!(assigned(&mut world), (1, tasks(&[0, 1])));
    world.client.acknowledge(tasks(&[0, 1]), 1);
    for _ in 0..300 {
        world.step();
    }
    let beats = &world.broker.beats;
    assert_eq!((beats[0].member_epoch, beats[0].rebalance_timeout_ms), (0, 300_000));
    assert!(beats[0].topology.is_some() && beats[0].process_id.is_some());
    assert_eq!(beats[0].active_tasks, Some(Vec::new()));
    assert_eq!(beats[0].member_id.len(), 22);
    // Each list of tasks is told once, and all three together.
    let told: Vec<_> = beats[1..].iter().filter(|beat| beat.active_tasks.is_some()).collect();
    assert_eq!(told.len(), 1, "{beats:?}");
    assert_eq!(told[0].active_tasks.as_ref().unwrap()[0].partitions, [0, 1]);
    assert_eq!(told[0].standby_tasks, Some(Vec::new()));
    assert!(beats.len() > 5);
    assert!(beats[1..].iter().all(|beat| beat.member_epoch == 1 && beat.topology.is_none()));
}

#[test]
fn a_revocation_is_confirmed_by_the_stream_thread_only() {
    let mut world = joined(2, vec![answer(1, Some(&[0, 1]))]);
    assigned(&mut world);
    world.client.acknowledge(tasks(&[0, 1]), 1);
    for _ in 0..50 {
        world.step();
    }
    world.broker.heartbeats.push_back(answer(1, Some(&[0])));
    assert_eq!(assigned(&mut world), (1, tasks(&[0])));
    // User code takes its time: heartbeats go on and say nothing of tasks.
    let before = world.broker.beats.len();
    for _ in 0..300 {
        world.step();
    }
    assert!(world.broker.beats.len() > before + 5);
    assert!(world.broker.beats[before..].iter().all(|beat| beat.active_tasks.is_none()));
    let before = world.broker.beats.len();
    world.client.acknowledge(tasks(&[0]), 1);
    for _ in 0..20 {
        world.step();
    }
    let told = world.broker.beats[before..].iter().find_map(|beat| beat.active_tasks.clone());
    assert_eq!(told.unwrap()[0].partitions, [0]);
}

#[test]
fn what_is_acknowledged_while_a_heartbeat_is_on_its_way_is_told_after_it() {
    let mut world = joined(12, vec![answer(1, Some(&[0, 1]))]);
    assigned(&mut world);
    world.client.acknowledge(tasks(&[0, 1]), 1);
    world.step_driver();
    world.client.acknowledge(tasks(&[0]), 1);
    world.client.shut_down_application();
    for _ in 0..100 {
        world.step();
    }
    let beats = &world.broker.beats;
    let told: Vec<_> = beats[1..].iter().filter_map(|beat| beat.active_tasks.clone()).collect();
    assert_eq!(told.last().unwrap()[0].partitions, [0]);
    assert_eq!(beats.iter().filter(|beat| beat.shutdown_application).count(), 1);
}

#[test]
fn a_new_epoch_alone_is_an_assignment_too() {
    let mut world = joined(3, vec![answer(1, Some(&[0])), answer(4, None)]);
    assert_eq!(assigned(&mut world), (1, tasks(&[0])));
    assert_eq!(assigned(&mut world), (4, tasks(&[0])));
    for _ in 0..100 {
        world.step();
    }
    assert_eq!(world.broker.beats.last().unwrap().member_epoch, 4);
}

#[test]
fn what_may_pass_is_tried_again() {
    for code in [14, 15, 16] {
        let mut world = joined(code as u64, vec![error(code), error(code), answer(1, Some(&[2]))]);
        assert_eq!(assigned(&mut world), (1, tasks(&[2])), "{code}");
        // Nothing was lost of what a first heartbeat has to say.
        assert!(world.broker.beats.iter().take(3).all(|beat| beat.topology.is_some()));
    }
}

#[test]
fn a_fenced_member_joins_again_once_its_tasks_are_closed() {
    for code in [25, 110, 69] {
        let mut world = joined(code as u64, vec![answer(1, Some(&[0]))]);
        assigned(&mut world);
        world.client.acknowledge(tasks(&[0]), 1);
        for _ in 0..50 {
            world.step();
        }
        world.broker.heartbeats.push_back(error(code));
        let lost = world.until(2_000, |event| matches!(event, Event::Lost { .. }));
        assert!(
            matches!(lost, Event::Lost { error } if error.kind() == ErrorKind::Fenced),
            "{code}"
        );
        let before = world.broker.beats.len();
        for _ in 0..200 {
            world.step();
        }
        assert_eq!(world.broker.beats.len(), before, "no heartbeat before the tasks are closed");
        world.broker.heartbeats.push_back(answer(9, Some(&[1])));
        world.client.acknowledge(Tasks::default(), 0);
        assert_eq!(assigned(&mut world), (9, tasks(&[1])));
        let again = &world.broker.beats[before];
        assert_eq!((again.member_epoch, again.topology.is_some()), (0, true));
        assert_eq!(again.member_id, world.broker.beats[0].member_id);
    }
}

#[test]
fn what_cannot_be_healed_ends_the_membership() {
    for code in [30, 35, 42, 81, 130, 131, 132] {
        let mut world = joined(code as u64, vec![error(code)]);
        let failed = world.until(2_000, |event| matches!(event, Event::GroupFailed { .. }));
        let Event::GroupFailed { error } = failed else { panic!() };
        assert_eq!(error.code(), Some(code));
        assert!(error.to_string().contains("group"), "{error}");
        let before = world.broker.beats.len();
        for _ in 0..200 {
            world.step();
        }
        assert_eq!(world.broker.beats.len(), before, "{code}");
        let mut left = world.client.leave();
        world.step();
        assert_eq!(left.try_take(), Some(Ok(())));
    }
}

#[test]
fn leaving_is_told_at_once() {
    let mut world = joined(4, vec![answer(1, Some(&[0]))]);
    assigned(&mut world);
    world.client.acknowledge(tasks(&[0]), 1);
    let mut left = world.client.leave();
    let result = loop {
        world.step();
        if let Some(result) = left.try_take() {
            break result;
        }
    };
    assert_eq!(result, Ok(()));
    assert_eq!(world.broker.beats.last().unwrap().member_epoch, -1);
    let before = world.broker.beats.len();
    for _ in 0..200 {
        world.step();
    }
    assert_eq!(world.broker.beats.len(), before);
}

#[test]
fn a_coordinator_that_left_the_cluster_is_looked_for_again() {
    let mut world = World::new(8, |config| config.metadata_max_age = Duration::from_secs(1));
    // Metadata does not know the broker that coordinates: as when it stops.
    world.broker.coordinator = 2;
    world.broker.heartbeats = vec![answer(1, Some(&[0]))].into();
    world.client.join(GroupConfig::new("group", "process", topology()));
    for _ in 0..400 {
        world.step();
    }
    world.broker.coordinator = 1;
    for _ in 0..400 {
        world.step();
    }
    let before = world.broker.beats.len();
    for _ in 0..400 {
        world.step();
    }
    assert!(world.broker.beats.len() > before + 20, "{before} {}", world.broker.beats.len());
}

#[test]
fn an_assignment_whose_answer_was_lost_is_found_out() {
    let mut world = joined(6, vec![answer(1, Some(&[0]))]);
    assigned(&mut world);
    world.client.acknowledge(tasks(&[0]), 1);
    for _ in 0..50 {
        world.step();
    }
    // The broker assigns another task, the answer is lost, and later ones say "unchanged".
    world.broker.assigned =
        vec![TaskIds { subtopology_id: StrBytes::from_static_str("0"), partitions: vec![0, 1] }];
    world.broker.heartbeats.push_back(answer(1, Some(&[0, 1])));
    let before = world.broker.beats.len();
    while world.broker.beats.len() == before {
        world.lose_answers = true;
        world.step();
    }
    world.lose_answers = false;
    assert_eq!(assigned(&mut world), (1, tasks(&[0, 1])));
    // The heartbeat after the loss says what is owned.
    assert_eq!(world.broker.beats[before + 1].active_tasks.as_ref().unwrap()[0].partitions, [0]);
}

#[test]
fn a_member_lives_through_cuts_and_noise() {
    for seed in 100..150 {
        let mut world = joined(seed, vec![answer(1, Some(&[0, 2]))]);
        world.faults = seed % 30;
        // The answer with the assignment can be lost: then the broker gives it again, as Kafka does
        // to a member that joins.
        let assigned = loop {
            world.step();
            if world.broker.heartbeats.is_empty()
                && world.broker.beats.last().is_some_and(|b| b.member_epoch == 0)
            {
                world.broker.heartbeats.push_back(answer(1, Some(&[0, 2])));
            }
            match world.client.next_event() {
                Some(Event::Assigned { tasks, .. }) => break tasks,
                Some(Event::GroupFailed { error } | Event::Lost { error }) => panic!("{error}"),
                _ => {}
            }
        };
        assert_eq!(assigned, tasks(&[0, 2]));
        world.client.acknowledge(assigned, 1);
        let told = |world: &World| {
            world
                .broker
                .beats
                .iter()
                .any(|beat| beat.active_tasks.as_ref().is_some_and(|tasks| !tasks.is_empty()))
        };
        while !told(&world) {
            world.step();
        }
    }
}

#[test]
fn a_task_that_came_and_went_unseen_is_given_back() {
    let mut world = joined(13, vec![answer(1, Some(&[0]))]);
    assigned(&mut world);
    world.client.acknowledge(tasks(&[0]), 1);
    for _ in 0..50 {
        world.step();
    }
    world.broker.heartbeats.extend([answer(2, Some(&[0, 1])), answer(2, Some(&[0]))]);
    assert_eq!(assigned(&mut world), (2, tasks(&[0, 1])));
    assert_eq!(assigned(&mut world), (2, tasks(&[0])));
    // The stream thread was busy, and still has what it had before.
    let before = world.broker.beats.len();
    world.client.acknowledge(tasks(&[0]), 2);
    for _ in 0..20 {
        world.step();
    }
    let told = world.broker.beats[before..].iter().find_map(|beat| beat.active_tasks.clone());
    assert_eq!(told.expect("told")[0].partitions, [0]);
}

/// A record is written, then the member stops for longer than its session; gives what was written by then.
fn written_after_a_stop(heartbeat: StreamsGroupHeartbeatResponse) -> (World, Vec<String>) {
    let mut world = World::new(14, |_| {});
    world.broker.heartbeats = vec![answer(1, Some(&[0]))].into();
    let session_timeout = Some(Duration::from_secs(2));
    let config = GroupConfig::new("group", "process", topology());
    world.client.join(GroupConfig { session_timeout, ..config });
    assigned(&mut world);
    world.client.acknowledge(tasks(&[0]), 1);
    let mut producer = world.client.producer(crate::config::ProducerConfig::default());
    let handle = producer.partition(&crate::types::TopicPartition::new("t", 0));
    producer.append(handle, 0, None, Some(b"before"), &[]).expect("appended");
    drop(producer.flush());
    for _ in 0..50 {
        world.step();
    }
    producer.append(handle, 0, None, Some(b"after"), &[]).expect("appended");
    drop(producer.flush());
    world.broker.heartbeats.push_back(heartbeat);
    world.now += Duration::from_secs(3);
    for _ in 0..50 {
        world.step();
    }
    let written = world.broker.logs.get(&0).map_or(Vec::new(), crate::testing::Log::values);
    (world, written)
}

#[test]
fn a_member_that_stopped_for_its_session_writes_once_the_group_has_heard_of_it() {
    let (_, written) = written_after_a_stop(answer(1, None));
    assert_eq!(written, ["before", "after"]);
    let (mut world, written) = written_after_a_stop(error(25));
    assert_eq!(written, ["before"]);
    world.until(200, |event| matches!(event, Event::Lost { .. }));
}

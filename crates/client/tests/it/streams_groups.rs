//! Membership of a streams group, and what its members may commit: Kafka 4.2 and later.

use crate::support::*;
use crate::transactions::{append, commit, eventually_committed, transactional};
use kstreams_client::{
    Client, CommittedOffset, ErrorKind, Event, GroupConfig, GroupMetadata, GroupStatusKind,
    GroupTopology, InternalTopic, Subtopology, Task, Tasks, Topic, TopicPartition,
};
use std::collections::BTreeMap;

fn topology(group: &str, source: &str) -> GroupTopology {
    let configs = BTreeMap::from([
        ("cleanup.policy".to_owned(), "compact".to_owned()),
        ("message.timestamp.type".to_owned(), "CreateTime".to_owned()),
    ]);
    let changelog = InternalTopic {
        name: format!("{group}-store-changelog"),
        partitions: 0,
        replication_factor: -1,
        configs,
    };
    let subtopology = Subtopology {
        id: "0".to_owned(),
        source_topics: vec![source.to_owned()],
        changelog_topics: vec![changelog],
        ..Default::default()
    };
    GroupTopology { epoch: 0, subtopologies: vec![subtopology] }
}

pub(crate) fn join(client: &mut Client, group: &str, source: &str) {
    let topology = topology(group, source);
    client.join(GroupConfig::new(group, unique("process"), topology));
}

/// Takes assignments and acknowledges them until there are `count` active tasks.
pub(crate) fn assigned(client: &mut Client, count: usize) -> (Vec<Task>, i32) {
    loop {
        let mut found = None;
        events_until(client, |event| match event {
            Event::Assigned { epoch, tasks } => {
                found = Some((tasks, epoch));
                true
            }
            Event::GroupFailed { error } | Event::Lost { error } => panic!("{error}"),
            _ => false,
        });
        let (tasks, epoch) = found.unwrap();
        client.acknowledge(tasks.clone(), epoch);
        if tasks.active.len() == count {
            return (tasks.active, epoch);
        }
    }
}

#[test]
fn one_member_gets_all_tasks_commits_and_leaves() {
    let mut client = client();
    let source = topic(&mut client, 3);
    let group = unique("solo");
    join(&mut client, &group, &source);
    let (tasks, _) = assigned(&mut client, 3);
    assert_eq!(tasks, (0..3).map(|p| Task::new("0", p)).collect::<Vec<_>>());
    // The broker made the changelog.
    let changelog = Topic::from(format!("{group}-store-changelog"));
    eventually(&mut client, |client| {
        let described = done(client.describe_topics(vec![changelog.clone()]));
        described[&changelog].as_ref().is_ok_and(|topic| topic.partitions == 3)
    });
    let partition = TopicPartition::new(source, 1);
    let results = done(client.commit_offsets(one(partition.clone(), CommittedOffset::new(9))));
    results[&partition].as_ref().unwrap();
    let found = done(client.committed(vec![partition.clone()]));
    assert_eq!(found[&partition].as_ref().unwrap().as_ref().unwrap().offset, 9);
    let name = Topic::from(group.as_str());
    let described =
        done(client.describe_groups(vec![name.clone()])).remove(&name).unwrap().unwrap();
    assert_eq!(described.members.len(), 1);
    assert_eq!(described.members[0].tasks.active.len(), 3);
    done(client.leave());
    let described =
        done(client.describe_groups(vec![name.clone()])).remove(&name).unwrap().unwrap();
    assert_eq!((described.state.as_str(), described.members.len()), ("Empty", 0));
}

#[test]
fn tasks_move_to_a_second_member_and_back() {
    let (mut first, mut second) = (client(), client());
    let source = topic(&mut first, 4);
    let group = unique("two");
    join(&mut first, &group, &source);
    assigned(&mut first, 4);
    join(&mut second, &group, &source);
    let (kept, _) = assigned(&mut first, 2);
    let (moved, _) = assigned(&mut second, 2);
    let mut all: Vec<Task> = kept.into_iter().chain(moved).collect();
    all.sort();
    assert_eq!(all, (0..4).map(|p| Task::new("0", p)).collect::<Vec<_>>());
    done(second.leave());
    assigned(&mut first, 4);
    done(first.leave());
}

#[test]
fn a_commit_under_a_wrong_epoch_is_told_apart() {
    let mut client = client();
    let source = topic(&mut client, 1);
    let group = unique("stale");
    join(&mut client, &group, &source);
    let (tasks, epoch) = assigned(&mut client, 1);
    let partition = TopicPartition::new(source, 0);
    let offsets = one(partition.clone(), CommittedOffset::new(1));
    client.acknowledge(Tasks { active: tasks, ..Default::default() }, epoch + 5);
    let newer = done(client.commit_offsets(offsets.clone()));
    let error = newer[&partition].as_ref().unwrap_err();
    assert_eq!((error.kind(), error.code()), (ErrorKind::StaleMemberEpoch, Some(113)));
    done(client.leave());
    join(&mut client, &group, "other-topic");
    let unknown = done(client.commit_offsets(offsets));
    assert!(unknown[&partition].is_err());
}

#[test]
fn a_missing_source_topic_is_a_status_and_heals() {
    let mut client = client();
    let source = unique("missing");
    let group = unique("status");
    join(&mut client, &group, &source);
    events_until(&mut client, |event| match event {
        Event::GroupStatus(status) => {
            assert_eq!(status[0].kind, GroupStatusKind::MissingSourceTopics);
            assert!(status[0].detail.contains(&source), "{status:?}");
            true
        }
        Event::GroupFailed { error } => panic!("{error}"),
        _ => false,
    });
    let topic = kstreams_client::NewTopic::new(source.as_str(), 2);
    done(client.create_topics(vec![topic])).remove(source.as_str()).unwrap().unwrap();
    assigned(&mut client, 2);
    done(client.leave());
}

#[test]
fn another_topology_is_refused_with_what_to_do() {
    let mut client = client();
    let (source, other) = (topic(&mut client, 1), topic(&mut client, 1));
    let group = unique("other");
    join(&mut client, &group, &source);
    assigned(&mut client, 1);
    let mut intruder = crate::support::client();
    join(&mut intruder, &group, &other);
    events_until(&mut intruder, |event| match event {
        Event::GroupFailed { error } => {
            assert_eq!((error.kind(), error.code()), (ErrorKind::Invalid, Some(42)));
            let message = error.to_string();
            assert!(message.contains(&group) && message.contains("application.id"), "{message}");
            true
        }
        _ => false,
    });
    done(client.leave());
}

#[test]
fn a_member_that_slept_through_its_session_loses_its_tasks_and_joins_again() {
    let (mut client, mut driver) = {
        use kstreams_client::driver::tcp::TcpNetwork;
        Client::new(config(), Box::new(TcpNetwork::new().unwrap()))
    };
    // Stepped by hand, so that it can sleep.
    let clock = kstreams_client::SystemClock::new();
    let mut step = |client: &mut Client| {
        use kstreams_client::Clock;
        driver.step(clock.now());
        client.wait(std::time::Duration::from_millis(5));
        client.next_event()
    };
    let source = topic(&mut crate::support::client(), 1);
    let group = unique("asleep");
    join(&mut client, &group, &source);
    let mut until = |client: &mut Client, wanted: fn(&Event) -> bool| {
        for _ in 0..6_000 {
            let Some(event) = step(client) else { continue };
            if let Event::Assigned { epoch, tasks } = &event {
                client.acknowledge(tasks.clone(), *epoch);
            }
            if wanted(&event) {
                return;
            }
        }
        panic!("it did not happen in time");
    };
    let has_task =
        |event: &Event| matches!(event, Event::Assigned { tasks, .. } if tasks.active.len() == 1);
    until(&mut client, has_task);
    let mut other = crate::support::client();
    let name = Topic::from(group.as_str());
    // The session of the test broker is 6 s.
    loop {
        let group = done(other.describe_groups(vec![name.clone()])).remove(&name).unwrap().unwrap();
        if group.members.is_empty() {
            break;
        }
        other.wait(std::time::Duration::from_millis(200));
    }
    until(
        &mut client,
        |event| matches!(event, Event::Lost { error } if error.kind() == ErrorKind::Fenced),
    );
    client.acknowledge(Tasks::default(), 0);
    until(&mut client, has_task);
}

#[test]
fn a_stale_member_epoch_is_refused_and_the_transaction_goes_on() {
    let mut client = client();
    let source = topic(&mut client, 1);
    let input = TopicPartition::new(source.clone(), 0);
    let output = TopicPartition::new(topic(&mut client, 1), 0);
    let group = unique("stale");
    join(&mut client, &group, &source);
    let (tasks, epoch) = assigned(&mut client, 1);
    let tasks = Tasks { active: tasks, ..Default::default() };
    let offsets = |offset| one(input.clone(), CommittedOffset::new(offset));
    let mut producer = transactional(&mut client);
    append(&mut producer, &output, &["a"]);
    client.acknowledge(tasks.clone(), epoch + 5);
    let newer = client.group_metadata();
    let error = producer.commit(offsets(3), newer).wait(LONG).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StaleMemberEpoch, "{error}");
    // The records are still there for the commit under the right epoch.
    client.acknowledge(tasks.clone(), epoch);
    let right = client.group_metadata();
    let ends = done(producer.commit(offsets(3), right)).end_offsets;
    assert_eq!(ends[0].1, 1);
    eventually_committed(&mut client, &output, &["a"]);
    let found = done(client.committed(vec![input.clone()]));
    assert_eq!(found[&input].as_ref().unwrap().as_ref().unwrap().offset, 3);
    // Or it is aborted.
    append(&mut producer, &output, &["b"]);
    client.acknowledge(tasks.clone(), epoch + 5);
    let newer = client.group_metadata();
    let error = producer.commit(offsets(4), newer).wait(LONG).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StaleMemberEpoch, "{error}");
    done(producer.abort());
    // A member that the group does not know can only abort.
    let stranger = GroupMetadata {
        group_id: group.as_str().into(),
        member_id: "stranger".to_owned(),
        member_epoch: epoch,
    };
    append(&mut producer, &output, &["c"]);
    let error = producer.commit(offsets(5), Some(stranger)).wait(LONG).unwrap_err();
    assert_eq!((error.kind(), error.code()), (ErrorKind::Fenced, Some(25)), "{error}");
    let again = producer.commit(BTreeMap::new(), None).wait(LONG).unwrap_err();
    assert_eq!(again, error);
    done(producer.abort());
    append(&mut producer, &output, &["d"]);
    commit(&mut producer);
    eventually_committed(&mut client, &output, &["a", "d"]);
    client.acknowledge(tasks, epoch);
    let found = done(client.committed(vec![input.clone()]));
    assert_eq!(found[&input].as_ref().unwrap().as_ref().unwrap().offset, 3);
    done(client.leave());
}

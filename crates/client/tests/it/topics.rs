//! Topics, configs, log offsets.

use crate::support::*;
use kstreams_client::{
    ErrorKind, Isolation, ListedOffset, NewTopic, OffsetSpec, ProducerConfig, TopicPartition,
    TopicState,
};
use std::collections::BTreeMap;

#[test]
fn topics_are_created_described_and_deleted() {
    let mut client = client();
    let name = topic_with(&mut client, 3, &[("cleanup.policy", "compact")]);
    // Brokers learn from the controller, a little later.
    eventually(&mut client, |client| {
        let described = done(client.describe_topics(vec![name.clone()])).remove(&name).unwrap();
        described.is_ok_and(|topic| (topic.partitions, topic.replication_factor) == (3, 1))
    });
    let mut described = done(client.describe_topics(vec!["none-such".into()]));
    let missing = described.remove("none-such").unwrap().unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);
    assert!(missing.to_string().contains("none-such"), "{missing}");
    let again = done(client.create_topics(vec![NewTopic::new(name.clone(), 3)]));
    assert_eq!(again[&name].as_ref().unwrap_err().kind(), ErrorKind::Exists);
    let altered = one(name.clone(), one("retention.ms".to_owned(), "1000".to_owned()));
    done(client.alter_configs(altered)).remove(&name).unwrap().unwrap();
    eventually(&mut client, |client| {
        let configs = done(client.describe_configs(vec![name.clone()])).remove(&name);
        let configs = configs.unwrap().unwrap();
        assert_eq!(configs["cleanup.policy"].as_deref(), Some("compact"));
        configs["retention.ms"].as_deref() == Some("1000")
    });
    done(client.delete_topics(vec![name.clone()])).remove(&name).unwrap().unwrap();
    eventually(&mut client, |client| {
        let gone = done(client.describe_topics(vec![name.clone()])).remove(&name).unwrap();
        gone.is_err_and(|error| error.kind() == ErrorKind::NotFound)
    });
}

#[test]
fn watched_topics_show_up_when_they_are_created() {
    let mut client = client();
    let name = unique("later");
    client.watch(vec![name.as_str().into()]);
    let topic = name.as_str();
    events_until(&mut client, |event| {
        matches!(event, kstreams_client::Event::MetadataChanged(changed)
            if changed.get(topic) == Some(&TopicState::Missing))
    });
    assert_eq!(client.topic_state(topic), Some(TopicState::Missing));
    assert_eq!(client.partitions(topic), None);
    done(client.create_topics(vec![NewTopic::new(topic, 4)])).remove(topic).unwrap().unwrap();
    events_until(&mut client, |event| {
        matches!(event, kstreams_client::Event::MetadataChanged(changed)
            if changed.get(topic) == Some(&TopicState::Exists { partitions: 4 }))
    });
    assert_eq!(client.partitions(topic), Some(4));
}

#[test]
fn offsets_are_listed_and_records_deleted() {
    let mut client = client();
    let partition = TopicPartition::new(topic(&mut client, 1), 0);
    let mut producer = client.producer(ProducerConfig::default());
    write(&mut producer, &partition, &[("a", "1"), ("b", "2"), ("c", "3")]);
    let mut offset = |spec| -> ListedOffset {
        done(client.list_offsets(one(partition.clone(), spec))).remove(&partition).unwrap().unwrap()
    };
    assert_eq!(offset(OffsetSpec::Earliest).offset, 0);
    assert_eq!(offset(OffsetSpec::Latest(Isolation::ReadUncommitted)).offset, 3);
    assert_eq!(offset(OffsetSpec::Latest(Isolation::ReadCommitted)).offset, 3);
    let found = offset(OffsetSpec::Timestamp(1_001));
    assert_eq!((found.offset, found.timestamp), (1, 1_001));
    assert_eq!(offset(OffsetSpec::Timestamp(1_003)).offset, -1);
    let low = done(client.delete_records(one(partition.clone(), 2))).remove(&partition).unwrap();
    assert_eq!(low.unwrap(), 2);
    let earliest = done(client.list_offsets(one(partition.clone(), OffsetSpec::Earliest)));
    assert_eq!(earliest[&partition].as_ref().unwrap().offset, 2);
}

#[test]
fn a_partition_that_does_not_exist_is_an_error_at_once() {
    let mut client = client();
    let partition = TopicPartition::new(topic(&mut client, 1), 7);
    let listed = done(client.list_offsets(one(partition.clone(), OffsetSpec::Earliest)));
    let error = listed[&partition].as_ref().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains(&partition.to_string()), "{error}");
    let none: BTreeMap<TopicPartition, OffsetSpec> = BTreeMap::new();
    assert!(done(client.list_offsets(none)).is_empty());
}

#[test]
fn the_blocking_admin_waits_for_each_answer() {
    let mut admin = kstreams_client::Admin::connect(&bootstrap(), 77).unwrap();
    let name = unique("admin");
    admin.create_topics(vec![NewTopic::new(name.as_str(), 2)]).unwrap();
    assert_eq!(admin.describe_topic(&name).unwrap().partitions, 2);
    let partition = TopicPartition::new(name.as_str(), 1);
    let offsets = admin.list_offsets(one(partition.clone(), OffsetSpec::Earliest)).unwrap();
    assert_eq!(offsets[&partition].offset, 0);
    let again = admin.create_topics(vec![NewTopic::new(name.as_str(), 2)]).unwrap_err();
    assert_eq!(again.kind(), ErrorKind::Exists);
    admin.delete_topics(vec![name.as_str().into()]).unwrap();
    eventually(admin.client(), |client| {
        let gone = done(client.describe_topics(vec![name.as_str().into()]));
        gone[name.as_str()].is_err()
    });
}

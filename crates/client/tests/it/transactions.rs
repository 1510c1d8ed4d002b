//! Transactions.

use crate::support::*;
use kstreams_client::{
    Client, ClientError, CommittedOffset, ErrorKind, Event, GroupMetadata, Isolation, OffsetSpec,
    Producer, ProducerConfig, Reader, ResetPolicy, Start, TopicPartition,
};
use std::collections::BTreeMap;
use std::time::Duration;

fn config(id: &str) -> ProducerConfig {
    ProducerConfig { transactional_id: Some(id.to_owned()), ..Default::default() }
}

pub(crate) fn transactional(client: &mut Client) -> Producer {
    client.producer(config(&unique("txn")))
}

pub(crate) fn append(producer: &mut Producer, partition: &TopicPartition, values: &[&str]) {
    let handle = producer.partition(partition);
    // What is older than the topic's retention can go at any time.
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_millis() as i64;
    for value in values {
        producer.append(handle, now, Some(b"k"), Some(value.as_bytes()), &[]).unwrap();
    }
}

pub(crate) fn commit(producer: &mut Producer) -> i64 {
    let committed = done(producer.commit(BTreeMap::new(), None));
    committed.end_offsets.first().map_or(-1, |(_, end)| *end)
}

/// The values of all committed records, up to the end of the log.
pub(crate) fn committed(client: &mut Client, partition: &TopicPartition) -> Vec<String> {
    let latest = OffsetSpec::Latest(Isolation::ReadCommitted);
    let ends = done(client.list_offsets(one(partition.clone(), latest)));
    let end = ends[partition].as_ref().unwrap().offset;
    client.fetch(Reader::Source, partition.clone(), Start::at(0), ResetPolicy::None);
    let (mut all, mut next) = (Vec::new(), 0);
    if end > 0 {
        events_until(client, |event| {
            if let Event::Fetched(fetched) = &event {
                next = fetched.next_offset;
            }
            collect(event, &mut all);
            next >= end
        });
    }
    client.stop_fetching(Reader::Source, partition.clone());
    all.into_iter().map(|(_, _, value)| value).collect()
}

pub(crate) fn eventually_committed(
    client: &mut Client,
    partition: &TopicPartition,
    expected: &[&str],
) {
    eventually(client, |client| committed(client, partition) == expected);
}

#[test]
fn committed_records_are_seen_and_aborted_ones_are_not() {
    let (mut client, mut reader) = (client(), client());
    let name = topic(&mut client, 2);
    let [first, second] = [0, 1].map(|p| TopicPartition::new(name.clone(), p));
    let mut producer = transactional(&mut client);
    append(&mut producer, &first, &["a", "b"]);
    append(&mut producer, &second, &["x"]);
    done(producer.flush());
    assert_eq!(committed(&mut reader, &first), Vec::<String>::new());
    commit(&mut producer);
    eventually_committed(&mut reader, &first, &["a", "b"]);
    eventually_committed(&mut reader, &second, &["x"]);
    append(&mut producer, &first, &["no", "never"]);
    done(producer.flush());
    append(&mut producer, &second, &["not even sent"]);
    done(producer.abort());
    append(&mut producer, &first, &["c"]);
    // A marker stands behind each transaction.
    assert_eq!(commit(&mut producer), 3 + 3 + 1);
    eventually_committed(&mut reader, &first, &["a", "b", "c"]);
    assert_eq!(committed(&mut reader, &second), ["x"]);
    assert_eq!(producer.buffered_bytes(), 0);
}

#[test]
fn transactions_follow_each_other_without_waiting() {
    let (mut client, mut reader) = (client(), client());
    let partition = TopicPartition::new(topic(&mut client, 1), 0);
    let mut producer = transactional(&mut client);
    let mut expected = Vec::new();
    let mut pending = Vec::new();
    for at in 0..50 {
        let value = at.to_string();
        append(&mut producer, &partition, &[&value]);
        if at % 7 == 3 {
            drop(producer.abort());
        } else {
            expected.push(value);
            pending.push(producer.commit(BTreeMap::new(), None));
        }
    }
    pending.into_iter().for_each(|pending| drop(done(pending)));
    let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
    eventually_committed(&mut reader, &partition, &expected);
}

#[test]
fn what_has_nothing_to_end_is_done_at_once() {
    let mut client = client();
    let mut producer = transactional(&mut client);
    done(producer.init());
    assert_eq!(done(producer.commit(BTreeMap::new(), None)).end_offsets, []);
    done(producer.abort());
    done(producer.init());
    let mut plain = client.producer(ProducerConfig::default());
    assert_eq!(plain.abort().wait(LONG).unwrap_err().kind(), ErrorKind::Invalid);
}

#[test]
fn a_second_producer_with_the_same_id_fences_the_first() {
    let (mut client, mut other) = (client(), client());
    let partition = TopicPartition::new(topic(&mut client, 1), 0);
    let id = unique("txn");
    let mut first = client.producer(config(&id));
    append(&mut first, &partition, &["kept"]);
    commit(&mut first);
    append(&mut first, &partition, &["lost"]);
    done(first.flush());
    let mut second = other.producer(config(&id));
    append(&mut second, &partition, &["second"]);
    commit(&mut second);
    append(&mut first, &partition, &["late"]);
    let error = first.commit(BTreeMap::new(), None).wait(LONG).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ProducerFenced, "{error}");
    assert!(error.to_string().contains(&id) || error.to_string().contains("write to"), "{error}");
    // Neither a commit nor an abort helps.
    append(&mut first, &partition, &["later"]);
    let error = first.commit(BTreeMap::new(), None).wait(LONG).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ProducerFenced);
    assert_eq!(first.abort().wait(LONG).unwrap_err().kind(), ErrorKind::ProducerFenced);
    assert_eq!(first.buffered_bytes(), 0);
    done(first.init());
    append(&mut first, &partition, &["again"]);
    commit(&mut first);
    eventually_committed(&mut other, &partition, &["kept", "second", "again"]);
    let error = second.commit(BTreeMap::new(), None);
    assert_eq!(done(error).end_offsets, []);
    append(&mut second, &partition, &["fenced in turn"]);
    let error = second.commit(BTreeMap::new(), None).wait(LONG).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ProducerFenced, "{error}");
}

#[test]
fn offsets_are_seen_after_the_commit_only() {
    let mut client = client();
    let partition = TopicPartition::new(topic(&mut client, 1), 0);
    let input = TopicPartition::new(topic(&mut client, 1), 0);
    let group = unique("group");
    let outside = || Some(GroupMetadata::outside(group.as_str()));
    let position = |client: &mut Client| {
        let found = done(client.group_offsets(&group, vec![input.clone()]));
        found[&input].as_ref().unwrap().clone()
    };
    let offset = |offset: i64| {
        let metadata = "AQAAAA==".to_owned();
        one(input.clone(), CommittedOffset { offset, leader_epoch: Some(0), metadata })
    };
    let mut producer = transactional(&mut client);
    append(&mut producer, &partition, &["a"]);
    done(producer.commit(offset(5), outside()));
    assert_eq!(position(&mut client), Some(offset(5)[&input].clone()));
    append(&mut producer, &partition, &["b"]);
    drop(producer.flush());
    done(producer.abort());
    assert_eq!(position(&mut client).unwrap().offset, 5);
    // Offsets alone are a transaction too.
    done(producer.commit(offset(7), outside()));
    assert_eq!(position(&mut client).unwrap().offset, 7);
    eventually_committed(&mut client, &partition, &["a"]);
}

#[test]
fn a_transaction_that_takes_too_long_is_given_up() {
    let (mut client, mut reader) = (client(), client());
    let partition = TopicPartition::new(topic(&mut client, 1), 0);
    let config = ProducerConfig {
        transaction_timeout: Duration::from_millis(500),
        ..config(&unique("slow"))
    };
    let mut producer = client.producer(config);
    append(&mut producer, &partition, &["slow"]);
    done(producer.flush());
    // A reader of committed records waits for its end.
    let mut plain = client.producer(ProducerConfig::default());
    write(&mut plain, &partition, &[("k", "plain")]);
    eventually_committed(&mut reader, &partition, &["plain"]);
    // The coordinator knows of the abort,
    let error = producer.commit(BTreeMap::new(), None).wait(LONG).unwrap_err();
    recover(&mut producer, &error);
    append(&mut producer, &partition, &["fast"]);
    commit(&mut producer);
    eventually_committed(&mut reader, &partition, &["plain", "fast"]);
    // and so does the leader of a partition.
    append(&mut producer, &partition, &["slow again"]);
    done(producer.flush());
    write(&mut plain, &partition, &[("k", "more")]);
    eventually_committed(&mut reader, &partition, &["plain", "fast", "more"]);
    append(&mut producer, &partition, &["late"]);
    let error = producer.commit(BTreeMap::new(), None).wait(LONG).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ProducerFenced, "{error}");
    recover(&mut producer, &error);
    append(&mut producer, &partition, &["end"]);
    commit(&mut producer);
    eventually_committed(&mut reader, &partition, &["plain", "fast", "more", "end"]);
}

/// Does what the error says.
pub(crate) fn recover(producer: &mut Producer, error: &ClientError) {
    match error.kind() {
        ErrorKind::ProducerFenced => done(producer.init()),
        ErrorKind::Abortable => done(producer.abort()),
        other => panic!("{other:?}: {error}"),
    }
}

#[test]
fn a_producer_that_is_dropped_leaves_no_transaction_open() {
    let (mut client, mut reader) = (client(), client());
    let partition = TopicPartition::new(topic(&mut client, 1), 0);
    let mut producer = transactional(&mut client);
    append(&mut producer, &partition, &["open"]);
    done(producer.flush());
    drop(producer);
    let mut plain = client.producer(ProducerConfig::default());
    write(&mut plain, &partition, &[("k", "plain")]);
    // Long before the timeout of a minute.
    eventually_committed(&mut reader, &partition, &["plain"]);
}

#[test]
fn a_timeout_above_the_brokers_is_refused() {
    let mut client = client();
    let config = ProducerConfig {
        transaction_timeout: Duration::from_secs(3_600),
        ..config(&unique("long"))
    };
    let mut producer = client.producer(config);
    let error = producer.init().wait(LONG).unwrap_err();
    assert_eq!((error.kind(), error.code()), (ErrorKind::Invalid, Some(50)), "{error}");
    assert_eq!(producer.init().wait(LONG).unwrap_err().code(), Some(50));
}

#[test]
fn a_record_that_is_too_large_fails_its_transaction_only() {
    let mut client = client();
    let name = topic_with(&mut client, 1, &[("max.message.bytes", "2000")]);
    let partition = TopicPartition::new(name, 0);
    let mut producer = transactional(&mut client);
    let long = "v".repeat(50);
    let many = vec![long.as_str(); 500];
    append(&mut producer, &partition, &many);
    commit(&mut producer);
    append(&mut producer, &partition, &["small", &"v".repeat(3_000)]);
    let error = producer.commit(BTreeMap::new(), None).wait(LONG).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge, "{error}");
    done(producer.abort());
    append(&mut producer, &partition, &["after"]);
    commit(&mut producer);
    let expected: Vec<&str> = many.into_iter().chain(["after"]).collect();
    eventually_committed(&mut client, &partition, &expected);
}

//! Reading.

use crate::support::*;
use kstreams_client::{
    ErrorKind, Event, ProducerConfig, Reader, ResetPolicy, Start, TopicPartition,
};
use std::time::Duration;

#[test]
fn positions_are_reset_as_the_policy_says() {
    let mut client = client();
    let partition = TopicPartition::new(topic(&mut client, 1), 0);
    let mut producer = client.producer(ProducerConfig::default());
    write(&mut producer, &partition, &[("a", "1"), ("b", "2"), ("c", "3")]);
    for (policy, start, expected) in [
        (ResetPolicy::Earliest, Start::Reset, 0),
        (ResetPolicy::Latest, Start::Reset, 3),
        (ResetPolicy::Since(1_001), Start::Reset, 1),
        (ResetPolicy::Since(5_000), Start::Reset, 3),
        (ResetPolicy::Earliest, Start::at(77), 0),
    ] {
        client.fetch(Reader::Source, partition.clone(), start, policy);
        events_until(&mut client, |event| match event {
            Event::PositionReset { from, to, .. } => {
                let was = matches!(start, Start::Offset { .. }).then_some(77);
                assert_eq!((from, to), (was, expected), "{policy:?}");
                true
            }
            _ => false,
        });
    }
    client.fetch(Reader::Source, partition.clone(), Start::at(77), ResetPolicy::None);
    events_until(&mut client, |event| match event {
        Event::FetchFailed { error, partition: failed, .. } => {
            assert_eq!((error.kind(), &failed), (ErrorKind::NotFound, &partition));
            assert!(error.to_string().contains("auto.offset.reset"), "{error}");
            true
        }
        _ => false,
    });
}

#[test]
fn records_come_as_they_are_written_and_only_from_the_position() {
    let mut client = client();
    let partition = TopicPartition::new(topic(&mut client, 1), 0);
    let mut producer = client.producer(ProducerConfig::default());
    write(&mut producer, &partition, &[("a", "1"), ("b", "2"), ("c", "3")]);
    client.fetch(Reader::Source, partition.clone(), Start::at(2), ResetPolicy::None);
    let mut all = Vec::new();
    events_until(&mut client, |event| {
        if let Event::Fetched(fetched) = &event {
            assert_eq!((fetched.high_watermark, fetched.log_start_offset), (3, 0));
            assert_eq!(fetched.next_offset, 3);
        }
        collect(event, &mut all);
        all.len() == 1
    });
    assert_eq!(all[0].0, 2);
    write(&mut producer, &partition, &[("d", "4")]);
    events_until(&mut client, |event| {
        collect(event, &mut all);
        all.len() == 2
    });
    assert_eq!(all[1], (3, "d".to_owned(), "4".to_owned()));
}

#[test]
fn paused_partitions_wait_and_others_do_not() {
    let mut client = client();
    let topic = topic(&mut client, 2);
    let [one, two] = [0, 1].map(|p| TopicPartition::new(topic.clone(), p));
    let mut producer = client.producer(ProducerConfig::default());
    client.fetch(Reader::Source, one.clone(), Start::at(0), ResetPolicy::None);
    client.pause(Reader::Source, one.clone());
    client.fetch(Reader::Source, two.clone(), Start::at(0), ResetPolicy::None);
    write(&mut producer, &one, &[("a", "1")]);
    write(&mut producer, &two, &[("b", "2")]);
    let mut all = Vec::new();
    events_until(&mut client, |event| {
        collect(event, &mut all);
        !all.is_empty()
    });
    assert_eq!(all[0].1, "b");
    client.resume(Reader::Source, one);
    events_until(&mut client, |event| {
        collect(event, &mut all);
        all.len() == 2
    });
}

#[test]
fn reading_ahead_stops_at_the_budget_and_goes_on_with_the_credit() {
    let mut config = config();
    config.source.buffer_bytes = 200_000;
    config.source.partition_buffer_bytes = 100_000;
    config.source.max_partition_bytes = 50_000;
    let mut client = client_with(config);
    let partition = TopicPartition::new(topic(&mut client, 1), 0);
    let config = ProducerConfig { batch_size: 10_000, ..Default::default() };
    let mut producer = client.producer(config);
    let handle = producer.partition(&partition);
    for _ in 0..1_000 {
        producer.append(handle, 0, None, Some(&[0; 1_000]), &[]).unwrap();
    }
    done(producer.flush());
    client.fetch(Reader::Source, partition, Start::at(0), ResetPolicy::None);
    let mut held = Vec::new();
    let mut bytes = 0;
    events_until(&mut client, |event| {
        if let Event::Fetched(fetched) = event {
            bytes += fetched.credit.bytes();
            held.push(fetched);
        }
        bytes >= 100_000
    });
    // Nothing more comes while all of it is held.
    client.wait(Duration::from_millis(700));
    while let Some(event) = client.next_event() {
        assert!(!matches!(event, Event::Fetched(_)));
    }
    let mut count: u64 = held.iter().flat_map(|f| &f.batches).map(|b| b.remaining() as u64).sum();
    held.clear();
    events_until(&mut client, |event| {
        if let Event::Fetched(fetched) = event {
            count += fetched.batches.iter().map(|b| b.remaining() as u64).sum::<u64>();
        }
        count == 1_000
    });
}

#[test]
fn both_readers_can_read_one_partition() {
    let mut client = client();
    let partition = TopicPartition::new(topic(&mut client, 1), 0);
    let mut producer = client.producer(ProducerConfig::default());
    write(&mut producer, &partition, &[("a", "1")]);
    client.fetch(Reader::Source, partition.clone(), Start::at(0), ResetPolicy::None);
    client.fetch(Reader::Changelog, partition, Start::at(0), ResetPolicy::None);
    let mut readers = Vec::new();
    events_until(&mut client, |event| {
        if let Event::Fetched(fetched) = event
            && !fetched.batches.is_empty()
        {
            readers.push(fetched.reader);
        }
        readers.len() == 2
    });
    readers.sort();
    assert_eq!(readers, [Reader::Source, Reader::Changelog]);
}

#[test]
fn a_topic_can_be_fetched_before_it_exists() {
    let mut client = client();
    let name = unique("early");
    let partition = TopicPartition::new(name.as_str(), 0);
    client.fetch(Reader::Source, partition.clone(), Start::Reset, ResetPolicy::Earliest);
    let mut other = crate::support::client();
    let topic = kstreams_client::NewTopic::new(name.as_str(), 1);
    done(other.create_topics(vec![topic])).remove(name.as_str()).unwrap().unwrap();
    let mut producer = other.producer(ProducerConfig::default());
    write(&mut producer, &partition, &[("a", "1")]);
    let mut all = Vec::new();
    events_until(&mut client, |event| {
        collect(event, &mut all);
        all.len() == 1
    });
}

//! Fetchers through cuts, noise and resets, and what a fetch may show.

use super::answer::ready;
use crate::error::ErrorKind;
use crate::event::Event;
use crate::testing::World;
use crate::types::{Reader, ResetPolicy, Start, TopicPartition};
use bytes::Bytes;
use kstreams_protocol::batch::{BatchHead, BatchWriter, Compression, ControlType};
use kstreams_protocol::messages::ProducerId;
use kstreams_protocol::messages::fetch_response::AbortedTransaction;
use std::time::Duration;

fn partition(number: i32) -> TopicPartition {
    TopicPartition::new("t", number)
}

/// Writes values to a partition of the world's broker, without faults.
fn fill(world: &mut World, number: i32, count: usize) {
    let config = crate::config::ProducerConfig { batch_size: 300, ..Default::default() };
    let mut producer = world.client.producer(config);
    let handle = producer.partition(&partition(number));
    for at in 0..count {
        producer.append(handle, 0, None, Some(at.to_string().as_bytes()), &[]).unwrap();
    }
    let mut flushed = producer.flush();
    while flushed.try_take().is_none() {
        world.step();
    }
}

#[test]
fn every_record_comes_once_and_in_order_through_cuts_and_noise() {
    for seed in 0..60 {
        let mut world = World::new(seed, |config| config.source.partition_buffer_bytes = 2_000);
        fill(&mut world, 0, 200);
        fill(&mut world, 1, 100);
        world.faults = seed % 40;
        for number in [0, 1] {
            let start = if seed % 2 == 0 { Start::at(0) } else { Start::Reset };
            world.client.fetch(Reader::Source, partition(number), start, ResetPolicy::Earliest);
        }
        let mut seen = [Vec::new(), Vec::new()];
        for step in 0.. {
            assert!(step < 100_000, "seed {seed}");
            world.step();
            while let Some(event) = world.client.next_event() {
                match event {
                    Event::Fetched(fetched) => {
                        let seen = &mut seen[fetched.partition.partition as usize];
                        for mut batch in fetched.batches {
                            while let Some(record) = batch.next_record().unwrap() {
                                assert_eq!(record.offset, seen.len() as i64, "seed {seed}");
                                seen.push(
                                    String::from_utf8(record.value.unwrap().to_vec()).unwrap(),
                                );
                            }
                        }
                        assert_eq!(fetched.next_offset, seen.len() as i64);
                    }
                    Event::FetchFailed { error, .. } => panic!("{error}"),
                    _ => {}
                }
            }
            if seen[0].len() == 200 && seen[1].len() == 100 {
                break;
            }
        }
        assert!(seen[0].iter().enumerate().all(|(at, value)| *value == at.to_string()));
    }
}

#[test]
fn a_position_moved_by_the_stream_thread_voids_what_is_on_its_way() {
    let mut world = World::new(1, |_| {});
    fill(&mut world, 0, 50);
    world.client.fetch(Reader::Source, partition(0), Start::at(0), ResetPolicy::None);
    for _ in 0..3 {
        world.step();
    }
    world.client.fetch(Reader::Source, partition(0), Start::at(40), ResetPolicy::None);
    // What was handed over before may still come; after the first record at the new position,
    // nothing else does.
    let mut offsets = Vec::new();
    for _ in 0..300 {
        world.step();
        while let Some(event) = world.client.next_event() {
            if let Event::Fetched(fetched) = event {
                for mut batch in fetched.batches {
                    while let Some(record) = batch.next_record().unwrap() {
                        offsets.push(record.offset);
                    }
                }
            }
        }
    }
    let moved = offsets.iter().rposition(|offset| *offset == 40).unwrap();
    assert_eq!(offsets[moved..], (40..50).collect::<Vec<_>>());
}

#[test]
fn brokers_out_of_reach_are_told_and_come_back() {
    let mut world = World::new(2, |config| config.unreachable_after = Duration::from_secs(5));
    *world.up.lock().unwrap() = false;
    let event = world.until(20_000, |event| matches!(event, Event::Unreachable { .. }));
    let Event::Unreachable { error } = event else { panic!() };
    let message = error.to_string();
    assert!(message.contains("broker:9092") && message.contains("refused"), "{message}");
    assert!(world.now < Duration::from_secs(8), "{:?}", world.now);
    *world.up.lock().unwrap() = true;
    fill(&mut world, 0, 1);
}

#[test]
fn a_topic_that_is_not_there_is_told_as_missing() {
    let mut world = World::new(3, |_| {});
    world.client.watch(vec!["none".into()]);
    world.until(1_000, |event| {
        matches!(event, Event::MetadataChanged(changed)
        if changed.contains_key("none"))
    });
    assert_eq!(world.client.topic_state("none"), Some(crate::event::TopicState::Missing));
}

#[test]
fn out_of_range_without_a_policy_names_the_remedy() {
    let mut world = World::new(4, |_| {});
    fill(&mut world, 2, 3);
    world.client.fetch(Reader::Changelog, partition(2), Start::at(9), ResetPolicy::None);
    let event = world.until(1_000, |event| matches!(event, Event::FetchFailed { .. }));
    let Event::FetchFailed { error, reader, .. } = event else { panic!() };
    assert_eq!((reader, error.kind()), (Reader::Changelog, ErrorKind::NotFound));
    assert!(error.to_string().contains("offset 9 of t-2"), "{error}");
}

/// A batch of the producer at an offset: a value, or the end of its transaction.
fn batch(offset: i64, producer: i64, content: Result<&str, ControlType>) -> Bytes {
    let mut writer = BatchWriter::new();
    match content {
        Ok(value) => writer.append(0, None, Some(value.as_bytes()), &[]),
        Err(end) => writer.append(0, Some(&end.key()), Some(&ControlType::value(0)), &[]),
    }
    let head = BatchHead {
        producer_id: producer,
        producer_epoch: 0,
        transactional: producer >= 0,
        control: content.is_err(),
        base_offset: offset,
        leader_epoch: 3,
        compression: if offset % 2 == 0 { Compression::Lz4 } else { Compression::None },
        ..BatchHead::default()
    };
    writer.seal(&head).unwrap()
}

fn values(bytes: &Bytes, from: i64, aborted: &[(i64, i64)]) -> (Vec<String>, Option<i64>) {
    let aborted = aborted.iter().map(|(producer, first)| {
        AbortedTransaction::default()
            .with_producer_id(ProducerId(*producer))
            .with_first_offset(*first)
    });
    let ready = ready(bytes, from, aborted.collect()).unwrap();
    let mut values = Vec::new();
    for mut batch in ready.batches {
        while let Some(record) = batch.next_record().unwrap() {
            values.push(String::from_utf8(record.value.unwrap().to_vec()).unwrap());
        }
    }
    (values, ready.next_offset)
}

#[test]
fn aborted_records_and_control_records_are_taken_out() {
    let log: Vec<Bytes> = vec![
        batch(0, 1, Ok("a1")),
        batch(1, 2, Ok("b1")),
        batch(2, -1, Ok("plain")),
        batch(3, 1, Err(ControlType::Abort)),
        batch(4, 1, Ok("a2")),
        batch(5, 2, Ok("b2")),
        batch(6, 2, Err(ControlType::Commit)),
        batch(7, 1, Err(ControlType::Commit)),
        batch(8, 2, Ok("b3")),
        batch(9, 2, Err(ControlType::Abort)),
    ];
    let all: Bytes = log.concat().into();
    let aborted = [(2, 8), (1, 0)];
    let expected = ["b1", "plain", "a2", "b2"];
    assert_eq!(values(&all, 0, &aborted), (expected.map(String::from).to_vec(), Some(10)));
    // Uncommitted readers are given no list of aborted transactions.
    assert_eq!(values(&all, 0, &[]).0.len(), 6);
    // All taken out: the position moves on all the same.
    let end: Bytes = log[8..].concat().into();
    assert_eq!(values(&end, 8, &aborted[..1]), (Vec::new(), Some(10)));
    // From the middle, and with an end that is cut off.
    let cut = all.slice(..all.len() - 3);
    assert_eq!(values(&cut, 4, &[(2, 8)]).1, Some(9));
    assert_eq!(values(&all.slice(..20), 0, &[]), (Vec::new(), None));
}

#[test]
fn a_damaged_batch_names_its_offset() {
    let mut bytes = [batch(0, -1, Ok("x")), batch(1, -1, Ok("y"))].concat();
    let last = bytes.len() - 2;
    bytes[last] ^= 1;
    let (at, error) = ready(&bytes.into(), 0, Vec::new()).unwrap_err();
    assert_eq!(at, 1);
    assert!(error.to_string().contains("checksum"), "{error}");
}

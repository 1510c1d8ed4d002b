//! Producers against the model: whatever is refused, cut or lost, each record is written once and
//! in order.

use crate::config::ProducerConfig;
use crate::error::ErrorKind;
use crate::producer_handle::Producer;
use crate::testing::{Log, World};
use crate::types::TopicPartition;
use std::time::Duration;

pub(super) fn config(seed: u64) -> ProducerConfig {
    ProducerConfig {
        batch_size: 100 + (seed % 7) as usize * 60,
        max_request_size: 2_000,
        linger: Duration::ZERO,
        delivery_timeout: Duration::from_secs(3_600),
        ..Default::default()
    }
}

/// Appends records with rising numbers to random partitions; gives how many each one has.
pub(super) fn write(world: &mut World, producer: &mut Producer, count: usize) -> [usize; 3] {
    let handles = [0, 1, 2].map(|p| producer.partition(&TopicPartition::new("t", p)));
    let mut written = [0; 3];
    for _ in 0..count {
        let at = world.random.next() as usize % 3;
        let value = written[at].to_string();
        if producer.append(handles[at], 0, None, Some(value.as_bytes()), &[]).is_ok() {
            written[at] += 1;
        }
        if world.random.next().is_multiple_of(5) {
            producer.poll(world.now);
            world.step();
        }
    }
    written
}

/// Steps until everything is written, `most` times; `disturb` is told how many steps there were.
pub(super) fn flush(
    world: &mut World,
    producer: &mut Producer,
    seed: u64,
    most: usize,
    mut disturb: impl FnMut(&mut World, usize),
) {
    let mut flushed = producer.flush();
    for step in 0.. {
        world.step();
        if let Some(result) = flushed.try_take() {
            return drop(result.unwrap());
        }
        disturb(world, step);
        assert!(step < most, "seed {seed} does not end: {:?}", world.broker);
    }
}

pub(super) fn check_logs(world: &World, written: [usize; 3], seed: u64) {
    for (partition, count) in written.iter().enumerate() {
        let values = world.broker.logs.get(&(partition as i32)).map_or(Vec::new(), Log::values);
        let expected: Vec<String> = (0..*count).map(|at| at.to_string()).collect();
        assert_eq!(values, expected, "partition {partition} of seed {seed}");
    }
}

#[test]
fn each_record_is_written_once_and_in_order_whatever_happens() {
    let mut disorder = 0;
    for seed in 0..300 {
        let mut world = World::new(seed, |_| {});
        world.faults = seed % 40;
        if seed.is_multiple_of(3) {
            world.broker.records_max = 2 + seed as u32 % 5;
        }
        let mut producer = world.client.producer(config(seed));
        let written = write(&mut world, &mut producer, 300);
        flush(&mut world, &mut producer, seed, 200_000, |world, step| {
            if step == 3_000 {
                world.faults = 0;
            }
        });
        check_logs(&world, written, seed);
        assert_eq!(producer.buffered_bytes(), 0, "seed {seed}");
        disorder += world.broker.disorder;
    }
    // The runs really met what they are about.
    assert!(disorder > 50, "{disorder}");
}

#[test]
fn a_log_that_loses_its_end_gets_a_new_epoch_and_no_duplicates() {
    let mut world = World::new(5, |_| {});
    let mut producer = world.client.producer(config(0));
    let handle = producer.partition(&TopicPartition::new("t", 0));
    let mut flush = |world: &mut World, value: &str| {
        producer.append(handle, 0, None, Some(value.as_bytes()), &[]).unwrap();
        let mut flushed = producer.flush();
        for _ in 0..10_000 {
            world.step();
            if let Some(result) = flushed.try_take() {
                return result;
            }
        }
        panic!("the flush does not end");
    };
    flush(&mut world, "a").unwrap();
    flush(&mut world, "lost").unwrap();
    world.broker.logs.get_mut(&0).unwrap().lose_last();
    assert_eq!(flush(&mut world, "b").unwrap().end_offsets, [(handle, 2)]);
    flush(&mut world, "c").unwrap();
    assert_eq!(world.broker.logs[&0].values(), ["a", "b", "c"]);
    assert_eq!(world.broker.disorder, 1);
}

#[test]
fn what_cannot_be_written_in_time_fails_and_what_follows_goes_on() {
    let mut world = World::new(9, |config| config.request_timeout = Duration::from_millis(300));
    let mut producer = world
        .client
        .producer(ProducerConfig { delivery_timeout: Duration::from_secs(2), ..config(0) });
    let handle = producer.partition(&TopicPartition::new("t", 0));
    producer.append(handle, 0, None, Some(b"early"), &[]).unwrap();
    let mut flushed = producer.flush();
    while flushed.try_take().is_none() {
        world.step();
    }
    *world.up.lock().unwrap() = false;
    world.cut();
    producer.append(handle, 0, None, Some(b"too late"), &[]).unwrap();
    let mut flushed = producer.flush();
    let error = loop {
        world.step();
        if let Some(result) = flushed.try_take() {
            break result.unwrap_err();
        }
    };
    assert_eq!(error.kind(), ErrorKind::Retriable);
    assert!(error.to_string().contains("t-0 were not written within 2000 ms"), "{error}");
    *world.up.lock().unwrap() = true;
    producer.append(handle, 0, None, Some(b"after"), &[]).unwrap();
    let mut flushed = producer.flush();
    let result = loop {
        world.step();
        if let Some(result) = flushed.try_take() {
            break result;
        }
    };
    result.unwrap();
    assert_eq!(world.broker.logs[&0].values(), ["early", "after"]);
}

#[test]
fn a_driver_that_waits_does_not_spin() {
    let mut world = World::new(11, |_| {});
    let mut producer = world
        .client
        .producer(ProducerConfig { delivery_timeout: Duration::from_millis(1), ..config(0) });
    let handle = producer.partition(&TopicPartition::new("t", 0));
    producer.append(handle, 0, None, Some(b"a"), &[]).unwrap();
    let mut flushed = producer.flush();
    // Whatever it waits for: a connection, versions, metadata, an id, an answer past its deadline.
    for _ in 0..5_000 {
        world.step();
        if flushed.try_take().is_some() {
            break;
        }
        // What came in between is dealt with; then nothing is left to do now.
        world.step_driver();
        world.step_driver();
        let next = world.step_driver();
        assert!(next.is_none_or(|next| next > world.now), "{next:?} {:?}", world.now);
    }
}

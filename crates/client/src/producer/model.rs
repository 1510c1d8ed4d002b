//! A producer against three nodes of which nothing can be relied on: leaders move, nodes end and come
//! back and hear of each other late, connections are cut, refuse, or come to a halt past the
//! request's timeout (and what they held is handled afterwards). Everything comes from a seed.
//!
//! 1,000 seeds; `KSTREAMS_MODEL_SEEDS=10000 cargo test --release -p kstreams-client model` runs more,
//! `KSTREAMS_MODEL_SEED=4711` a single one.

use super::tests::{check_logs, config, flush, write};
use crate::testing::World;
use std::time::Duration;

/// Steps, of 10 ms each, after which the world calms down.
const CALM_AFTER: usize = 1_000;
/// Steps after which a run hangs: long before metadata is asked for without a reason.
const STEPS_MAX: usize = 10_000;

/// What the runs met.
#[derive(Debug, Default)]
struct Met {
    /// Batches that came to another than the leader.
    elsewhere: usize,
    /// Batches that overtook another.
    disorder: usize,
}

fn run(seed: u64, met: &mut Met) {
    let mut world = World::new(seed, |config| {
        config.bootstrap = [9092, 9093, 9094].map(|port| format!("broker:{port}")).to_vec();
        config.request_timeout = Duration::from_millis(300 + seed % 1_000);
    });
    world.faults = seed % 30;
    world.moves = seed % 50;
    world.halts = (seed % 20, 2_000);
    world.late = true;
    world.broker.cluster.nodes = 3;
    if seed.is_multiple_of(5) {
        world.broker.records_max = 2 + seed as u32 % 5;
    }
    let mut producer = world.client.producer(config(seed));
    let written = write(&mut world, &mut producer, 40 + seed as usize % 80);
    flush(&mut world, &mut producer, seed, STEPS_MAX, |world, step| {
        if step == CALM_AFTER {
            world.calm(!seed.is_multiple_of(3));
        }
    });
    // What halted connections still hold must not be written once more.
    for _ in 0..200 {
        world.step();
    }
    check_logs(&world, written, seed);
    assert_eq!(producer.buffered_bytes(), 0, "seed {seed}");
    met.elsewhere += world.broker.cluster.refused;
    met.disorder += world.broker.disorder;
}

#[test]
fn each_record_is_written_once_and_in_order_while_leaders_move() {
    let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
    let mut met = Met::default();
    if let Some(seed) = number("KSTREAMS_MODEL_SEED") {
        return run(seed, &mut met);
    }
    let seeds = number("KSTREAMS_MODEL_SEEDS").unwrap_or(1_000);
    for seed in 0..seeds {
        run(seed, &mut met);
    }
    // They really met what they are about.
    let least = seeds as usize / 20;
    assert!(met.elsewhere > least && met.disorder > least, "{met:?}");
}

#[test]
fn a_broker_that_hangs_costs_one_request_timeout() {
    for seed in 0..20 {
        let mut world = World::new(seed, |config| {
            config.bootstrap = [9092, 9093].map(|port| format!("broker:{port}")).to_vec();
        });
        world.broker.cluster.nodes = 2;
        let mut producer = world.client.producer(config(seed));
        assert_eq!(write(&mut world, &mut producer, 30).iter().sum::<usize>(), 30);
        let mut flushed = producer.flush();
        while flushed.try_take().is_none() {
            world.step();
        }
        // The first node leads all, and hangs; the other leads from now on, and knows it.
        world.hang(1);
        let cluster = &mut world.broker.cluster;
        cluster.kill(1, 2);
        cluster.learn(2);
        let from = world.now;
        let handle = producer.partition(&crate::types::TopicPartition::new("t", 0));
        producer.append(handle, 0, None, Some(b"after"), &[]).unwrap();
        let mut flushed = producer.flush();
        while flushed.try_take().is_none() {
            world.step();
            // The request's timeout of 30 s, and no other one.
            assert!(world.now - from < Duration::from_secs(40), "seed {seed}");
        }
    }
}

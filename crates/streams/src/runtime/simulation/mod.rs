//! Several instances, a broker and their faults on one thread and one seed: the whole runtime and the whole client, stepped by hand
//! under a clock that is moved by hand.
//!
//! Each step moves the clock by some milliseconds, lets something go wrong now and then, and gives every thread and every driver
//! its turn. What goes wrong: requests and answers are lost or late, connections are cut, brokers answer with errors and restart,
//! instances are killed, stopped for longer than their session, or closed, and come back. Afterwards all is well for as long as
//! it takes; then the committed output has to be that of a run without faults.
//!
//! `KSTREAMS_SIMULATION_SEEDS=FROM..TO` runs other seeds. A failure names its seed, and what happened.

mod instance;
mod random;
mod world;
mod writer;

use self::world::World;

/// Runs seeds and says which one failed.
fn run(guarantee: &'static str, default: std::ops::Range<u64>) {
    if std::env::var_os("KSTREAMS_TEST_LOG").is_some() {
        let log = tracing_subscriber::fmt().with_ansi(false).with_writer(std::io::stderr);
        let _ = log.with_max_level(tracing::Level::DEBUG).without_time().try_init();
    }
    let seeds = std::env::var("KSTREAMS_SIMULATION_SEEDS").ok();
    let seeds = seeds.map_or(default, |text| {
        let (from, to) = text.split_once("..").expect("FROM..TO");
        from.parse().expect("a number")..to.parse().expect("a number")
    });
    for seed in seeds {
        let mut world = World::new(seed, guarantee);
        world.go_wrong();
        world.recover();
        world.check();
    }
}

#[test]
fn exactly_once_is_exact_whatever_goes_wrong() {
    run("exactly_once_v2", 0..8);
}

#[test]
fn at_least_once_loses_nothing_whatever_goes_wrong() {
    run("at_least_once", 0..4);
}

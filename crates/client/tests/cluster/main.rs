//! Three brokers, all topics on all of them, and each of them killed in turn while transactions are
//! written and read: what was committed is there once and in order, and nobody waited longer than a
//! plain Java producer beside it. `cargo xtask test cluster` runs it.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a test that cannot go on fails")]

mod brokers;
mod load;
#[path = "../it/support.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod support;

use brokers::Cluster;
use kstreams_test_programs::JavaProducer;
use load::{Load, Reading, Told};
use std::time::Duration;

const PARTITIONS: i32 = 6;

#[test]
fn each_broker_is_killed_under_load() {
    let cluster = Cluster::start();
    for topic in ["java", "plain", "committed"] {
        cluster.create_topic(topic, PARTITIONS);
    }
    let java = JavaProducer::start(cluster.bootstrap(), "java", PARTITIONS);
    let plain = Load::plain(&cluster, "plain");
    let committing = Load::transactions(&cluster, "committed");
    let reading = Reading::start(&cluster, "committed");
    for node in 1..=3 {
        committing.progress(20);
        plain.progress(20);
        cluster.kill(node);
        // Leaders have moved when there is progress again; those on the two others never stop.
        committing.progress(20);
        cluster.bring_back(node);
        cluster.wait_in_sync();
    }
    committing.progress(50);
    plain.progress(50);
    let (java, plain, committing) = (Told::from(java.end()), plain.end(), committing.end());
    println!("java  {java}\nplain {plain}\ntransactions {committing}");
    reading.end(&committing.written);
    let bound = java.longest().max(Duration::from_secs(1)).mul_f64(1.5);
    assert!(plain.longest() <= bound, "the plain producer stalled for longer: {plain} and {java}");
    assert!(
        committing.longest() <= bound,
        "transactions stalled for longer: {committing} and {java}"
    );
}

//! Tasks that move between processes: clean stops, crashes, and what must not be lost or counted twice.

use super::app::{AppProcess, Counting};
use crate::kafka::Kafka;
use kstreams_client::{Clock, SystemClock};
use std::collections::BTreeSet;
use std::time::Duration;

const PARTITIONS: i32 = 8;
const KEYS: usize = 1000;

fn records(from: usize, to: usize) -> impl Iterator<Item = (String, String)> {
    (from..to).map(|number| (format!("key-{}", number % KEYS), number.to_string()))
}

/// The tasks that a log line of this kind names, in order.
fn tasks(log: &[String], event: &str) -> Vec<String> {
    let lines = log.iter().filter(|line| line.contains(event));
    lines
        .filter_map(|line| line.split_once("task=")?.1.split(' ').next().map(str::to_string))
        .collect()
}

/// The tasks that a process has now.
pub(super) fn owned(log: &[String]) -> BTreeSet<String> {
    let mut owned = BTreeSet::new();
    for line in log {
        let Some(task) = line.split_once("task=").and_then(|(_, rest)| rest.split(' ').next())
        else {
            continue;
        };
        if line.contains("task running") {
            owned.insert(task.to_string());
        } else if line.contains("task closed") {
            owned.remove(task);
        }
    }
    owned
}

/// Two processes of two threads: one stops cleanly and comes back, then crashes and comes back.
#[test]
fn processes_come_and_go() {
    let mut kafka = Kafka::shared();
    let counting = Counting::new(&mut kafka, PARTITIONS, "at_least_once");
    let Counting { input, output, .. } = &counting;
    let balanced = |process: &AppProcess| {
        process.wait_log("half of the tasks", |log| owned(log).len() == PARTITIONS as usize / 2);
    };
    kafka.write(input, PARTITIONS, records(0, 50_000));
    let (stays, goes) = (counting.start("first"), counting.start("second"));
    balanced(&goes);
    balanced(&stays);
    kafka.counts_adding_up_to(output, PARTITIONS, 50_000);

    // A clean stop: what stays is not disturbed, what goes is taken over, nothing is counted twice.
    let before = owned(&stays.log());
    goes.stop();
    let clock = SystemClock::new();
    let stopped = clock.now();
    stays.wait_log("all tasks", |log| owned(log).len() == PARTITIONS as usize);
    // A heartbeat and an assignment interval are half a second here; the session that a crash would cost is six.
    let handed_over = clock.now() - stopped;
    assert!(handed_over < Duration::from_secs(4), "the hand-over took {handed_over:?}");
    let closed = tasks(&stays.log(), "task closed");
    assert!(before.iter().all(|task| !closed.contains(task)), "{before:?} stay, closed {closed:?}");
    kafka.write(input, PARTITIONS, records(50_000, 100_000));
    let counted = kafka.counts_adding_up_to(output, PARTITIONS, 100_000);
    assert_eq!(
        counted.values().sum::<i64>(),
        100_000,
        "after a clean stop nothing is counted twice"
    );

    // It comes back: its tasks return to the state that it still has.
    let goes = counting.start("second");
    balanced(&goes);
    balanced(&stays);
    kafka.write(input, PARTITIONS, records(100_000, 150_000));
    let counted = kafka.counts_adding_up_to(output, PARTITIONS, 150_000);
    assert_eq!(counted.values().sum::<i64>(), 150_000, "a move counts nothing twice");

    // A crash in the middle of work, and the return from it: nothing is lost.
    kafka.write(input, PARTITIONS, records(150_000, 175_000));
    goes.kill();
    kafka.write(input, PARTITIONS, records(175_000, 200_000));
    stays.wait_log("all tasks", |log| owned(log).len() == PARTITIONS as usize);
    let goes = counting.start("second");
    balanced(&goes);
    let counted = kafka.counts_adding_up_to(output, PARTITIONS, 200_000);
    assert_eq!(counted.len(), KEYS);
    let short: Vec<_> = counted.iter().filter(|(_, count)| **count < 200).collect();
    assert!(short.is_empty(), "lost: {short:?}");
    goes.stop();
    stays.stop();
}

//! The yardstick: the least work a map or a count over Kafka can be, with nothing a real library needs around it.
//!
//! `limit BOOTSTRAP map|count IN PARTITIONS RECORDS OUT CHANGELOG DIR` reads RECORDS records of IN, writes one output a record to OUT
//! and, for count, once a second one changelog record a changed key and one atomic engine batch; then prints one JSON line with the
//! fields of the Java benchmark. The topics exist, have PARTITIONS partitions on one broker, hold no headers and are not compressed.
//! No idempotence, no retries: any error is a panic.
//!
//! A yardstick must not get longer or shorter by accident: it shares no code with kstreams, is built alone with its own features of
//! its dependencies, and is changed only on purpose, with the figures before and after in the commit.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a measuring loop: any error is a panic, it measures real time, and its result goes to standard output"
)]

mod batch;
mod wire;

use batch::{BatchWriter, records};
use std::collections::HashMap;
use std::time::{Duration, Instant};
use wire::{Fetcher, Producer};

const OUTPUT_BATCH: usize = 256 * 1024;

struct Count {
    value: i64,
    timestamp: i64,
    partition: i32,
    dirty: bool,
}

/// One open batch a partition of one topic; full ones go to the producer.
struct Sink<'a> {
    topic: &'a str,
    open: Vec<BatchWriter>,
}

impl<'a> Sink<'a> {
    fn new(topic: &'a str, partitions: i32) -> Self {
        Sink { topic, open: (0..partitions).map(|_| BatchWriter::new()).collect() }
    }
    fn append(
        &mut self,
        producer: &Producer,
        partition: i32,
        timestamp: i64,
        key: &[u8],
        value: &[u8],
    ) {
        let open = &mut self.open[partition as usize];
        open.append(timestamp, key, value);
        if open.len() > OUTPUT_BATCH {
            let full = std::mem::replace(open, BatchWriter::new());
            producer.send(self.topic, partition, full.seal());
        }
    }
    fn flush(&mut self, producer: &Producer) {
        for (partition, open) in self.open.iter_mut().enumerate() {
            if !open.is_empty() {
                let full = std::mem::replace(open, BatchWriter::new());
                producer.send(self.topic, partition as i32, full.seal());
            }
        }
    }
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [bootstrap, work, input, partitions, count, output, changelog, dir] = &args[..] else {
        panic!("limit BOOTSTRAP map|count IN PARTITIONS RECORDS OUT CHANGELOG DIR")
    };
    let (partitions, wanted) =
        (partitions.parse::<i32>().unwrap(), count.parse::<usize>().unwrap());
    let _ = std::fs::remove_dir_all(dir);
    let db = fjall::Database::builder(dir).open().unwrap();
    let store = db.keyspace("counts", fjall::KeyspaceCreateOptions::default).unwrap();
    let producer = Producer::start(bootstrap);
    let fetcher = Fetcher::start(bootstrap, input, partitions);
    let mut out = Sink::new(output, partitions);
    let mut log = Sink::new(changelog, partitions);
    let mut counts: HashMap<Box<[u8]>, Count, ahash::RandomState> = HashMap::default();
    let mut dirty: Vec<Box<[u8]>> = Vec::new();
    let mut scratch = Vec::new();
    let (mut seen, begin) = (0usize, Instant::now());
    let mut committed = begin;
    while seen < wanted {
        let answer = fetcher.next();
        for (partition, bytes) in answer.partitions() {
            for record in records(bytes) {
                seen += 1;
                if work == "map" {
                    scratch.clear();
                    scratch.extend_from_slice(record.value);
                    scratch[0] ^= 1;
                    out.append(&producer, partition, record.timestamp, record.key, &scratch);
                    continue;
                }
                if !counts.contains_key(record.key) {
                    let value = store
                        .get(record.key)
                        .unwrap()
                        .map_or(0, |b| i64::from_be_bytes(b[8..16].try_into().unwrap()));
                    counts.insert(
                        record.key.into(),
                        Count { value, timestamp: 0, partition, dirty: false },
                    );
                }
                let count = counts.get_mut(record.key).unwrap();
                count.value += 1;
                count.timestamp = count.timestamp.max(record.timestamp);
                if !count.dirty {
                    count.dirty = true;
                    dirty.push(record.key.into());
                }
                let value = count.value.to_be_bytes();
                out.append(&producer, partition, record.timestamp, record.key, &value);
            }
        }
        if committed.elapsed() > Duration::from_secs(1) || seen >= wanted {
            dirty.sort_unstable();
            for key in &dirty {
                let count = &counts[key];
                log.append(
                    &producer,
                    count.partition,
                    count.timestamp,
                    key,
                    &count.value.to_be_bytes(),
                );
            }
            out.flush(&producer);
            log.flush(&producer);
            producer.wait_acknowledged();
            let mut batch = db.batch();
            for key in dirty.drain(..) {
                let count = counts.get_mut(&key).unwrap();
                count.dirty = false;
                let mut value = [0u8; 16];
                value[..8].copy_from_slice(&count.timestamp.to_be_bytes());
                value[8..].copy_from_slice(&count.value.to_be_bytes());
                batch.insert(&store, &key[..], value);
            }
            batch.insert(&store, "offset", (seen as u64).to_be_bytes());
            batch.commit().unwrap();
            committed = Instant::now();
        }
    }
    let (secs, cpu) = (begin.elapsed().as_secs_f64(), cpu_seconds());
    println!(
        "{{\"engine\":\"limit\",\"workload\":\"{work}\",\"records\":{seen},\"secs\":{secs:.2},\"rec_per_s\":{:.0},\"cpu_s\":{cpu:.2},\"cpu_us_per_rec\":{:.3},\"rss_mb\":{}}}",
        seen as f64 / secs,
        cpu * 1e6 / seen as f64,
        peak_resident_mb()
    );
}

/// User and system time of the process (Linux, 100 ticks a second).
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    (fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap()) / 100.0
}

fn peak_resident_mb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with("VmHWM")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
}

//! The engine without Kafka: fetched batches through a real task, in CPU time of the whole process.
//!
//! `cargo xtask bench engine`. Records have the form of the other benchmarks: 16-byte keys, 100-byte values. The topologies
//! read and write a topic; between them are 1, 5 or 20 stateless operators, or a count of 100,000 keys on disk, without a
//! record cache, with a commit every 100,000 records.

use criterion::measurement::{Measurement, ValueFormatter};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use kstreams::prelude::*;
use kstreams::testing::TaskDriver;
use kstreams_protocol::batch::{BatchHead, BatchWriter, RecordReader, batches};
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

const RECORDS: u64 = 100_000;
const KEYS: u64 = 100_000;
const RECORDS_A_BATCH: u64 = 2000;

/// CPU time of the process: it does not hear other programs.
struct CpuTime;

/// Nanoseconds.
fn cpu_time() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

impl Measurement for CpuTime {
    type Intermediate = f64;
    type Value = f64;

    fn start(&self) -> f64 {
        cpu_time()
    }

    fn end(&self, start: f64) -> f64 {
        cpu_time() - start
    }

    fn add(&self, one: &f64, other: &f64) -> f64 {
        one + other
    }

    fn zero(&self) -> f64 {
        0.0
    }

    fn to_f64(&self, value: &f64) -> f64 {
        *value
    }

    fn formatter(&self) -> &dyn ValueFormatter {
        &Shown
    }
}

struct Shown;

impl ValueFormatter for Shown {
    fn scale_values(&self, _: f64, values: &mut [f64]) -> &'static str {
        values.iter_mut().for_each(|value| *value /= 1e6);
        "ms CPU"
    }

    fn scale_throughputs(&self, _: f64, through: &Throughput, values: &mut [f64]) -> &'static str {
        let (Throughput::Elements(count) | Throughput::Bytes(count)) = *through else {
            return "?";
        };
        values.iter_mut().for_each(|value| *value = count as f64 / *value * 1e3);
        "M records/s"
    }

    fn scale_for_machines(&self, _: &mut [f64]) -> &'static str {
        "ns CPU"
    }
}

/// Fetched batches; every key is a random one of `KEYS`, the same in every run.
fn input() -> Vec<RecordReader> {
    let mut random = 42u64;
    let mut found = Vec::new();
    for batch in 0..RECORDS / RECORDS_A_BATCH {
        let mut writer = BatchWriter::new();
        for record in 0..RECORDS_A_BATCH {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let key = format!("key-{:012}", (random >> 33) % KEYS);
            let time = (batch * RECORDS_A_BATCH + record) as i64;
            writer.append(time, Some(key.as_bytes()), Some(&[b'x'; 100]), &[]);
        }
        let bytes = writer.seal(&BatchHead::default()).expect("a batch");
        let read = batches(&bytes).next().expect("a batch").expect("a good batch");
        found.push(read.into_records().expect("records"));
    }
    found
}

fn config() -> StreamsConfig {
    StreamsConfig::new("bench", "unused:1").cache_max_bytes(0)
}

/// Half of the operators look at records, half change them.
fn stateless(operators: usize) -> Topology {
    let builder = StreamsBuilder::new();
    let mut records = builder.stream("in", Consumed::<String, Vec<u8>>::new());
    for number in 0..operators {
        records = match number % 2 {
            0 => records.map_values(|mut value| {
                value[0] ^= 1;
                value
            }),
            _ => records.filter(|key, value| key.len() < value.len()),
        };
    }
    records.to("out", Produced::new());
    builder.build().expect("a topology")
}

fn count() -> Topology {
    let builder = StreamsBuilder::new();
    builder
        .stream("in", Consumed::<String, Vec<u8>>::new())
        .group_by_key(Grouped::new())
        .count(Materialized::named("counts"))
        .to_stream()
        .to("out", Produced::new());
    builder.build().expect("a topology")
}

fn run(driver: &mut TaskDriver, batches: Vec<RecordReader>) {
    let before = driver.written();
    // The offsets do not matter: nobody fetches again.
    let processed = driver.process("in", batches, i64::MAX).expect("processes");
    assert_eq!((processed as u64, driver.written() - before), (RECORDS, RECORDS));
}

fn engine(criterion: &mut Criterion<CpuTime>) {
    let batches = input();
    let mut group = criterion.benchmark_group("engine");
    group.throughput(Throughput::Elements(RECORDS)).sample_size(20);
    group.measurement_time(Duration::from_secs(5));
    for operators in [1, 5, 20] {
        let mut driver = TaskDriver::new(stateless(operators), &config()).expect("a task");
        group.bench_function(format!("{operators} stateless"), |bencher| {
            let input = || batches.clone();
            bencher.iter_batched(input, |input| run(&mut driver, input), BatchSize::PerIteration);
        });
    }
    let dir = std::env::temp_dir().join(format!("kstreams-engine-{}", std::process::id()));
    let on_disk = config().state_dir(&dir);
    let mut driver = TaskDriver::new(count(), &on_disk).expect("a task");
    group.bench_function("count", |bencher| {
        let count = |input| {
            run(&mut driver, input);
            driver.commit().expect("commits");
        };
        bencher.iter_batched(|| batches.clone(), count, BatchSize::PerIteration);
    });
    drop(driver);
    let _ = std::fs::remove_dir_all(dir);
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().with_measurement(CpuTime);
    targets = engine
}
criterion_main!(benches);

//! The input of the stateful topologies, from one seed, and what comes of it without a failure.

use super::topologies::{Case, Feed, Site};
use crate::random::Random;
use kstreams::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;

pub(super) const PARTITIONS: i32 = 4;
/// Records of a topic.
pub(super) const RECORDS: usize = 3000;
const KEYS: u64 = 24;
/// Milliseconds by which a record may be late.
const LATENESS: u64 = 120;

/// A record of the input.
#[derive(Debug, Clone)]
pub(super) struct Given {
    pub(super) partition: i32,
    pub(super) key: String,
    pub(super) value: Option<String>,
    pub(super) time: i64,
}

/// A topic whose times have the rest `rest` when divided by two: no two records of the two topics have the same.
pub(super) fn records(seed: u64, base: i64, rest: u64) -> Vec<Given> {
    let mut random = Random(seed | 1);
    let mut now = LATENESS;
    let mut given = Vec::with_capacity(RECORDS + PARTITIONS as usize);
    for number in 0..RECORDS {
        now += random.below(5);
        let late = if random.below(3) == 0 { random.below(LATENESS) } else { 0 };
        let key = format!("k{}", random.below(KEYS));
        let value = (random.below(20) != 0).then(|| format!("k{}|{number}", random.below(KEYS)));
        let time = base + ((now - late) / 2 * 2 + rest) as i64;
        let partition = kstreams::topology::partition_for_key(key.as_bytes(), PARTITIONS);
        given.push(Given { partition, key, value, time });
    }
    // The end of all windows.
    let end = base + 60_000 + rest as i64;
    given.extend((0..PARTITIONS).map(|partition| Given {
        partition,
        key: format!("end{partition}"),
        value: Some("end|0".into()),
        time: end,
    }));
    given
}

/// The results of a key, in order.
pub(super) type Results = BTreeMap<String, Vec<Option<String>>>;

/// What the topology makes of the input when nothing goes wrong.
pub(super) fn expected(case: &Case, a: &[Given], b: &[Given]) -> Results {
    let mut results = Results::new();
    match case.feed {
        Feed::ByPartition => {
            for partition in 0..PARTITIONS {
                let of = |topic: &[Given]| -> Vec<Given> {
                    topic.iter().filter(|given| given.partition == partition).cloned().collect()
                };
                drive(case, &by_time(of(a), of(b)), &mut results);
            }
        }
        Feed::Together => drive(case, &by_time(a.to_vec(), b.to_vec()), &mut results),
        Feed::TableFirst => {
            let b = b.iter().map(|given| ("b", given.clone()));
            let all: Vec<_> = b.chain(a.iter().map(|given| ("a", given.clone()))).collect();
            drive(case, &all, &mut results);
        }
    }
    results
}

/// The order in which a task takes the records of two partitions: always the earlier head.
fn by_time(a: Vec<Given>, b: Vec<Given>) -> Vec<(&'static str, Given)> {
    let (mut a, mut b) = (a.into_iter().peekable(), b.into_iter().peekable());
    let mut order = Vec::new();
    loop {
        let first = match (a.peek(), b.peek()) {
            (None, None) => return order,
            (Some(a), Some(b)) => a.time < b.time,
            (one, _) => one.is_some(),
        };
        let next = if first { a.next() } else { b.next() };
        order.extend(next.map(|given| (if first { "a" } else { "b" }, given)));
    }
}

fn drive(case: &Case, input: &[(&str, Given)], results: &mut Results) {
    let (a, b, out) = ("a".into(), "b".into(), "out".into());
    let topology = (case.build)(&Site { a, b, out, tap: Arc::new(|| {}) });
    let topology = topology.unwrap_or_else(|error| panic!("{}: {error}", case.name));
    let config = StreamsConfig::new("driven", "unused:1").cache_max_bytes(0);
    let mut driver = TopologyTestDriver::with_config(topology, &config).expect("a driver");
    let reads_b = case.inputs == 2 || case.feed == Feed::TableFirst;
    for (topic, given) in input.iter().filter(|(topic, _)| *topic == "a" || reads_b) {
        let value = given.value.as_deref().map(str::as_bytes);
        let key = Some(given.key.as_bytes());
        let piped = driver.pipe_bytes(topic, key, value, given.time, &Headers::new());
        piped.unwrap_or_else(|error| panic!("{}: {error}", case.name));
    }
    for record in driver.take_records("out") {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text");
        let key = text(record.key.as_deref().unwrap_or_default());
        results.entry(key).or_default().push(record.value.as_deref().map(text));
    }
}

//! Writes the input, and knows what has to come of it.

use super::world::{PARTITIONS, WINDOW};
use crate::runtime::cluster::Cluster;
use crate::topology::partition_for_key;
use kstreams_client::driver::Driver;
use kstreams_client::{Client, PartitionHandle, Producer, ProducerConfig, TopicPartition};
use std::collections::BTreeMap;
use std::time::Duration;

/// Writes the input.
pub(super) struct Writer {
    seed: u64,
    pub(super) client: Client,
    pub(super) driver: Driver,
    pub(super) producer: Producer,
    partitions: Vec<PartitionHandle>,
    /// Those of the other side of the join.
    pair: Vec<PartitionHandle>,
    pub(super) written: BTreeMap<String, i64>,
    /// By value and window.
    windows: BTreeMap<String, i64>,
    /// The keys that are on both sides.
    pairs: BTreeMap<String, i64>,
}

/// Whether there are a windowed aggregation and a join of two streams as well.
pub(super) fn has_windows(seed: u64) -> bool {
    seed % 2 == 1
}

impl Writer {
    pub(super) fn new(cluster: &Cluster, seed: u64) -> Self {
        let (mut client, driver) = cluster.stepped_client("writer", !seed).expect("a client");
        let config = ProducerConfig {
            linger: Duration::from_millis(5),
            buffer_memory: usize::MAX,
            ..ProducerConfig::default()
        };
        let mut producer = client.producer(config);
        let mut partitions = |topic| -> Vec<PartitionHandle> {
            (0..PARTITIONS)
                .map(|partition| producer.partition(&TopicPartition::new(topic, partition)))
                .collect()
        };
        let (partitions, pair) = (partitions("in"), partitions("pair"));
        let (written, windows) = (BTreeMap::new(), BTreeMap::new());
        let pairs = BTreeMap::new();
        Writer { seed, client, driver, producer, partitions, pair, written, windows, pairs }
    }

    /// What the counts of each output have to become.
    pub(super) fn expected(&self) -> Vec<(&'static str, &BTreeMap<String, i64>)> {
        let mut expected = vec![("out", &self.written)];
        if has_windows(self.seed) {
            expected.extend([("windows", &self.windows), ("pairs", &self.pairs)]);
        }
        expected
    }

    pub(super) fn write(&mut self, key: &str, value: String, time: i64) {
        let partition = self.partitions[partition_for_key(key.as_bytes(), PARTITIONS) as usize];
        let (key, bytes) = (Some(key.as_bytes()), Some(value.as_bytes()));
        self.producer.append(partition, time, key, bytes, &[]).expect("appended");
        let start = time / WINDOW as i64 * WINDOW as i64;
        let window = format!("[{value}@{start}/{}]", start + WINDOW as i64);
        *self.windows.entry(window).or_default() += 1;
        *self.written.entry(value).or_default() += 1;
    }

    /// A record for the other side of the join.
    pub(super) fn write_pair(&mut self, key: &str, time: i64) {
        let partition = self.pair[partition_for_key(key.as_bytes(), PARTITIONS) as usize];
        let bytes = (Some(key.as_bytes()), Some(&b"pair"[..]));
        self.producer.append(partition, time, bytes.0, bytes.1, &[]).expect("appended");
        self.pairs.insert(key.into(), 1);
    }
}

//! What the tests do to Kafka: make topics, write, read, look at offsets.

use kstreams_client::driver::tcp::TcpNetwork;
use kstreams_client::{
    Client, ClientConfig, Event, Isolation, NewTopic, OffsetSpec, ProducerConfig, Reader,
    ResetPolicy, Start, SystemClock, TopicPartition,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

/// How long anything may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// A cluster and a client of it.
pub(crate) struct Kafka {
    pub(crate) bootstrap: String,
    client: Client,
}

/// A record as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Read {
    pub(crate) partition: i32,
    pub(crate) key: String,
    pub(crate) value: Option<Vec<u8>>,
}

/// A record to write, with everything said.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Written<'a> {
    pub(crate) partition: i32,
    pub(crate) time: i64,
    pub(crate) key: &'a str,
    pub(crate) value: Option<&'a str>,
}

impl Read {
    pub(crate) fn count(&self) -> i64 {
        let value = self.value.as_deref().expect("a count");
        i64::from_be_bytes(value.try_into().expect("eight bytes"))
    }
}

/// The wall clock in milliseconds. Kafka forgets a producer at a restart when its records are a day old by their own time, and with
/// it what a retry had written already.
#[expect(clippy::disallowed_methods, reason = "a real broker has a real clock")]
pub(crate) fn wall_clock() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.expect("after 1970").as_millis() as i64
}

/// A name that no other test and no earlier run has.
pub(crate) fn unique(name: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let nonce = uuid::Uuid::new_v4().as_u128() as u32;
    format!("{name}-{nonce:08x}-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

impl Kafka {
    /// The cluster that `cargo xtask test` started.
    pub(crate) fn shared() -> Self {
        let bootstrap = std::env::var("KSTREAMS_TEST_BOOTSTRAP").expect(
            "KSTREAMS_TEST_BOOTSTRAP is not set: run `cargo xtask test`, which starts a broker, \
             or set it to the address of a cluster for tests",
        );
        Kafka::at(&bootstrap)
    }

    pub(crate) fn at(bootstrap: &str) -> Self {
        let network = TcpNetwork::new().expect("a network");
        let (client, driver) = Client::new(ClientConfig::new(bootstrap), Box::new(network));
        driver.spawn("test-client", Arc::new(SystemClock::new())).expect("a thread");
        Kafka { bootstrap: bootstrap.into(), client }
    }

    /// The client, for what is not below.
    pub(crate) fn client(&mut self) -> &mut Client {
        &mut self.client
    }

    /// Makes a topic with a new name.
    pub(crate) fn topic(&mut self, name: &str, partitions: i32) -> String {
        let name = unique(name);
        self.make_topics(&[&name], partitions);
        name
    }

    /// Makes topics, and waits until the cluster knows them.
    pub(crate) fn make_topics(&mut self, names: &[&str], partitions: i32) {
        // Tests write times of long ago, and brokers look for old records at any time.
        let topic = |name: &&str| NewTopic::new(*name, partitions).config("retention.ms", "-1");
        let topics = names.iter().map(topic).collect();
        for (topic, made) in self.client.create_topics(topics).wait(PATIENCE).expect("created") {
            made.unwrap_or_else(|error| panic!("{topic}: {error}"));
        }
        let clock = SystemClock::new();
        let deadline = kstreams_client::Clock::now(&clock) + PATIENCE;
        loop {
            let topics = names.iter().map(|name| (*name).into()).collect();
            let known = self.client.describe_topics(topics).wait(PATIENCE).expect("described");
            if known.values().all(Result::is_ok) {
                return;
            }
            assert!(kstreams_client::Clock::now(&clock) < deadline, "{known:?}");
            self.client.wait(Duration::from_millis(20));
        }
    }

    /// Writes records with text keys and values, each to the partition of its key.
    pub(crate) fn write<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &mut self,
        topic: &str,
        partitions: i32,
        records: impl IntoIterator<Item = (K, V)>,
    ) {
        let config = ProducerConfig { buffer_memory: usize::MAX, ..ProducerConfig::default() };
        let mut producer = self.client.producer(config);
        let handles: Vec<_> = (0..partitions)
            .map(|partition| producer.partition(&TopicPartition::new(topic, partition)))
            .collect();
        let time = wall_clock();
        for (key, value) in records {
            let (key, value) = (key.as_ref(), value.as_ref());
            let partition = kstreams::topology::partition_for_key(key, partitions);
            let handle = handles[partition as usize];
            producer.append(handle, time, Some(key), Some(value), &[]).expect("appended");
        }
        producer.flush().wait(PATIENCE).expect("written");
    }

    /// Writes one record to a partition, whatever its key.
    pub(crate) fn write_to(&mut self, topic: &str, partition: i32, key: &str, value: &str) {
        let mut producer = self.client.producer(ProducerConfig::default());
        let handle = producer.partition(&TopicPartition::new(topic, partition));
        let (key, value) = (key.as_bytes(), value.as_bytes());
        producer.append(handle, wall_clock(), Some(key), Some(value), &[]).expect("appended");
        producer.flush().wait(PATIENCE).expect("written");
    }

    /// Writes records, each to its partition.
    pub(crate) fn write_records<'a>(
        &mut self,
        topic: &str,
        records: impl IntoIterator<Item = Written<'a>>,
    ) {
        let config = ProducerConfig { buffer_memory: usize::MAX, ..ProducerConfig::default() };
        let mut producer = self.client.producer(config);
        for Written { partition, time, key, value } in records {
            let handle = producer.partition(&TopicPartition::new(topic, partition));
            let (key, value) = (Some(key.as_bytes()), value.map(str::as_bytes));
            producer.append(handle, time, key, value, &[]).expect("appended");
        }
        producer.flush().wait(PATIENCE).expect("written");
    }

    /// First and last offset of each partition.
    pub(crate) fn ends(
        &mut self,
        topic: &str,
        partitions: i32,
    ) -> BTreeMap<TopicPartition, (i64, i64)> {
        let all = || (0..partitions).map(|partition| TopicPartition::new(topic, partition));
        let begins = self.client.list_offsets(all().map(|p| (p, OffsetSpec::Earliest)).collect());
        let latest = OffsetSpec::Latest(Isolation::ReadUncommitted);
        let ends = self.client.list_offsets(all().map(|p| (p, latest)).collect());
        let begins = begins.wait(PATIENCE).expect("offsets");
        let ends = ends.wait(PATIENCE).expect("offsets");
        let offset = |listed: &Result<kstreams_client::ListedOffset, _>| {
            listed.as_ref().expect("an offset").offset
        };
        ends.iter().map(|(p, end)| (p.clone(), (offset(&begins[p]), offset(end)))).collect()
    }

    /// Lets time pass.
    pub(crate) fn pause(&mut self, time: Duration) {
        let clock = SystemClock::new();
        let end = kstreams_client::Clock::now(&clock) + time;
        loop {
            let left = end.saturating_sub(kstreams_client::Clock::now(&clock));
            if left.is_zero() {
                return;
            }
            self.client.wait(left);
            while self.client.next_event().is_some() {}
        }
    }

    /// Waits until `enough` likes the number of offsets that a topic has used, of transactions that are open as well.
    pub(crate) fn written_until(
        &mut self,
        topic: &str,
        partitions: i32,
        enough: impl Fn(usize) -> bool,
    ) {
        let clock = SystemClock::new();
        let deadline = kstreams_client::Clock::now(&clock) + PATIENCE;
        loop {
            let ends = self.ends(topic, partitions);
            let written = ends.values().map(|(begin, end)| (end - begin) as usize).sum();
            if enough(written) {
                return;
            }
            let now = kstreams_client::Clock::now(&clock);
            assert!(now < deadline, "{topic}: {written} offsets after {PATIENCE:?}");
            self.client.wait(Duration::from_millis(20));
        }
    }

    /// Reads a topic from its beginning until `enough` likes what was read.
    pub(crate) fn read_until(
        &self,
        topic: &str,
        partitions: i32,
        mut enough: impl FnMut(&[Read]) -> bool,
    ) -> Vec<Read> {
        let clock = SystemClock::new();
        let deadline = kstreams_client::Clock::now(&clock) + PATIENCE;
        // A client of its own: one that read before may still have records of then.
        let mut reader = Kafka::at(&self.bootstrap).client;
        for partition in 0..partitions {
            let partition = TopicPartition::new(topic, partition);
            reader.fetch(Reader::Source, partition, Start::Reset, ResetPolicy::Earliest);
        }
        let mut read = Vec::new();
        while !enough(&read) {
            let now = kstreams_client::Clock::now(&clock);
            assert!(now < deadline, "{topic}: only {} records after {PATIENCE:?}", read.len());
            reader.wait(Duration::from_millis(100));
            while let Some(event) = reader.next_event() {
                let Event::Fetched(fetched) = event else { continue };
                for mut batch in fetched.batches {
                    while let Some(record) = batch.next_record().expect("a record") {
                        read.push(Read {
                            partition: fetched.partition.partition,
                            key: String::from_utf8_lossy(record.key.unwrap_or_default()).into(),
                            value: record.value.map(<[u8]>::to_vec),
                        });
                    }
                }
            }
        }
        read
    }

    /// Reads all that a topic has now.
    pub(crate) fn read_all(&mut self, topic: &str, partitions: i32) -> Vec<Read> {
        let total: i64 =
            self.ends(topic, partitions).values().map(|(begin, end)| end - begin).sum();
        self.read_until(topic, partitions, |read| read.len() as i64 >= total)
    }

    /// Waits until the counts in a topic of counts add up to `total`; gives the last count of each key.
    pub(crate) fn counts_adding_up_to(
        &mut self,
        topic: &str,
        partitions: i32,
        total: i64,
    ) -> BTreeMap<String, i64> {
        let mut last = BTreeMap::new();
        let (mut seen, mut sum) = (0, 0);
        self.read_until(topic, partitions, |read| {
            for record in &read[seen..] {
                let count = record.count();
                sum += count - last.insert(record.key.clone(), count).unwrap_or(0);
            }
            seen = read.len();
            sum >= total
        });
        last
    }

    /// The committed offsets of a group.
    pub(crate) fn committed(&mut self, group: &str) -> BTreeMap<TopicPartition, i64> {
        let committed =
            self.client.group_offsets(group, Vec::new()).wait(PATIENCE).expect("offsets");
        committed
            .into_iter()
            .filter_map(|(partition, offset)| Some((partition, offset.expect("an offset")?.offset)))
            .collect()
    }

    /// Waits until `check` likes the committed offsets of a group.
    pub(crate) fn committed_until(
        &mut self,
        group: &str,
        check: impl Fn(&BTreeMap<TopicPartition, i64>) -> bool,
    ) -> BTreeMap<TopicPartition, i64> {
        let clock = SystemClock::new();
        let deadline = kstreams_client::Clock::now(&clock) + PATIENCE;
        loop {
            let committed = self.committed(group);
            if check(&committed) {
                return committed;
            }
            let now = kstreams_client::Clock::now(&clock);
            assert!(now < deadline, "{group}: {committed:?} after {PATIENCE:?}");
            self.client.wait(Duration::from_millis(50));
        }
    }
}

/// Tells threads of a scope to end, also when the test fails: the scope waits for them.
pub(crate) struct SetAtEnd<'a>(pub(crate) &'a AtomicBool);

impl Drop for SetAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

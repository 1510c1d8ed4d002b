//! A client on a real broker, and waiting for what it has to say.

use kstreams_broker::{Broker, BrokerConfig};
use kstreams_client::driver::tcp::TcpNetwork;
use kstreams_client::{
    Client, ClientConfig, Event, NewTopic, Pending, Producer, Reader, ResetPolicy, Start,
    SystemClock, Topic, TopicPartition,
};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Time after which a test gives up.
pub(crate) const LONG: Duration = Duration::from_secs(30);

static NAMES: AtomicU64 = AtomicU64::new(0);

/// A name that no other test uses, nor a run before on the same broker.
pub(crate) fn unique(name: &str) -> String {
    let process = std::process::id();
    let count = NAMES.fetch_add(1, Ordering::Relaxed);
    let since = std::time::UNIX_EPOCH.elapsed().unwrap().as_millis();
    format!("{name}-{since}-{process}-{count}")
}

pub(crate) fn bootstrap() -> String {
    let named = std::env::var("KSTREAMS_TEST_BOOTSTRAP").expect(
        "KSTREAMS_TEST_BOOTSTRAP names no broker: run `cargo xtask test`, which starts one",
    );
    match named.as_str() {
        "embedded" => embedded(2).bootstrap(),
        "embedded-v1" => embedded(1).bootstrap(),
        _ => named,
    }
}

/// The one of this process, with this version of transactions; it ends with the process.
fn embedded(transaction_version: i16) -> &'static Broker {
    static BROKER: OnceLock<Broker> = OnceLock::new();
    BROKER.get_or_init(|| {
        let mut config = BrokerConfig::quick();
        config.transaction_version = transaction_version;
        Broker::builder().in_memory().config(config).start().unwrap()
    })
}

pub(crate) fn config() -> ClientConfig {
    let mut config = ClientConfig::new(&bootstrap());
    config.seed = std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64
        ^ NAMES.fetch_add(1, Ordering::Relaxed) << 48;
    config
}

pub(crate) fn client() -> Client {
    client_with(config())
}

pub(crate) fn client_with(config: ClientConfig) -> Client {
    let (client, driver) = Client::new(config, Box::new(TcpNetwork::new().unwrap()));
    driver.spawn("test-driver", Arc::new(SystemClock::new())).unwrap();
    client
}

pub(crate) fn done<T>(pending: Pending<T>) -> T {
    pending.wait(LONG).unwrap()
}

pub(crate) fn topic(client: &mut Client, partitions: i32) -> Topic {
    topic_with(client, partitions, &[])
}

pub(crate) fn topic_with(client: &mut Client, partitions: i32, configs: &[(&str, &str)]) -> Topic {
    let mut topic = NewTopic::new(unique("it"), partitions);
    topic.replication_factor = 1;
    // Tests write times of long ago, and brokers look for old records at any time.
    topic = topic.config("retention.ms", "-1");
    for (key, value) in configs {
        topic = topic.config(*key, *value);
    }
    let name = topic.name.clone();
    done(client.create_topics(vec![topic])).remove(&name).unwrap().unwrap();
    name
}

/// Waits for events until `done` says so.
pub(crate) fn events_until(client: &mut Client, mut done: impl FnMut(Event) -> bool) {
    let end = std::time::UNIX_EPOCH.elapsed().unwrap() + LONG;
    while std::time::UNIX_EPOCH.elapsed().unwrap() < end {
        while let Some(event) = client.next_event() {
            if done(event) {
                return;
            }
        }
        client.wait(Duration::from_millis(100));
    }
    panic!("it did not happen in time");
}

/// Writes `(key, value)` and flushes.
pub(crate) fn write(producer: &mut Producer, partition: &TopicPartition, records: &[(&str, &str)]) {
    let handle = producer.partition(partition);
    for (at, (key, value)) in records.iter().enumerate() {
        producer
            .append(handle, 1_000 + at as i64, Some(key.as_bytes()), Some(value.as_bytes()), &[])
            .unwrap();
    }
    done(producer.flush());
}

/// A record with its offset, key and value as text.
pub(crate) type Text = (i64, String, String);

/// Reads `count` records of a partition from its start.
pub(crate) fn read(client: &mut Client, partition: &TopicPartition, count: usize) -> Vec<Text> {
    client.fetch(Reader::Source, partition.clone(), Start::at(0), ResetPolicy::None);
    let mut all = Vec::new();
    if count > 0 {
        events_until(client, |event| {
            collect(event, &mut all);
            all.len() >= count
        });
    }
    client.stop_fetching(Reader::Source, partition.clone());
    all
}

pub(crate) fn collect(event: Event, all: &mut Vec<Text>) {
    match event {
        Event::Fetched(fetched) => {
            for mut batch in fetched.batches {
                while let Some(record) = batch.next_record().unwrap() {
                    let text = |bytes: Option<&[u8]>| {
                        String::from_utf8(bytes.unwrap_or(b"(null)").to_vec()).unwrap()
                    };
                    all.push((record.offset, text(record.key), text(record.value)));
                }
            }
        }
        Event::FetchFailed { error, .. } => panic!("{error}"),
        _ => {}
    }
}

pub(crate) fn one<K: Ord, V>(key: K, value: V) -> BTreeMap<K, V> {
    BTreeMap::from([(key, value)])
}

/// Tries until it holds.
pub(crate) fn eventually(client: &mut Client, mut holds: impl FnMut(&mut Client) -> bool) {
    let end = std::time::UNIX_EPOCH.elapsed().unwrap() + LONG;
    while !holds(client) {
        assert!(std::time::UNIX_EPOCH.elapsed().unwrap() < end, "it did not happen in time");
        client.wait(Duration::from_millis(20));
    }
}

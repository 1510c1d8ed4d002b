//! Updates of a store from other threads.

use super::app::{config, start};
use crate::kafka::{Kafka, PATIENCE, Read, unique};
use kstreams::prelude::*;

/// Answers each record with what the store has under its key.
struct Answering {
    prices: KeyValueStore<String, i64>,
}

impl Processor for Answering {
    type In = (String, String);
    type Out = (String, i64);

    fn process(
        &mut self,
        record: Record<String, String>,
        ctx: &mut Context<Self>,
    ) -> ProcessResult {
        let price = self.prices.get(&record.key)?.unwrap_or(-1);
        ctx.forward(record.with_value(price))
    }
}

const THREADS: i64 = 4;
const UPDATES: i64 = 500;

/// Every update is written once, each key's in the order in which they were put, and reaches the task that owns the key.
#[test]
fn updates_of_many_threads_arrive_once_and_in_order() {
    let mut kafka = Kafka::shared();
    let (asks, updates) = (kafka.topic("asks", 3), kafka.topic("updates", 3));
    let out = kafka.topic("out", 1);
    let prices = Stores::key_value::<String, i64>("prices");
    let builder = StreamsBuilder::new();
    builder.store_writer(&prices, updates.as_str());
    builder
        .stream(asks.as_str(), Consumed::<String, String>::new())
        .process(
            move |ctx| Ok(Answering { prices: ctx.store(&prices)? }),
            Processed::named("answering").store(&prices),
        )
        .to(out.as_str(), Produced::new());
    let dir = tempfile::tempdir().expect("a directory");
    let application = unique("writers");
    let settings = config(&application, &kafka.bootstrap, dir.path())
        .exactly_once()
        .set("max.request.size", "100000")
        .expect("a setting");
    let app = start(builder.build().expect("builds"), settings);
    let writer = app.store_writer(&prices).expect("a writer");
    let other = app.store_writer(&Stores::key_value::<String, String>(prices.name()));
    let error = other.expect_err("refused").to_string();
    assert!(error.contains("ask for it with the token that the topology has"), "{error}");
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let writer = writer.clone();
            scope.spawn(move || {
                let put = |number| writer.put(format!("k{thread}"), number).expect("put");
                let updates: Vec<_> = (0..UPDATES).map(put).collect();
                updates.into_iter().for_each(|update| update.wait().expect("written"));
            });
        }
    });
    let too_large = writer.put("x".repeat(200_000), 1).expect("put").wait();
    let error = too_large.expect_err("too large").to_string();
    assert!(error.contains(&updates) && error.contains("max.request.size"), "{error}");
    writer.delete("k0").expect("put").wait().expect("written");

    let read = kafka.read_until(&updates, 3, |read| read.len() as i64 > THREADS * UPDATES);
    for thread in 0..THREADS {
        let key = format!("k{thread}");
        let of_key = read.iter().filter(|record| record.key == key && record.value.is_some());
        let numbers: Vec<i64> = of_key.map(Read::count).collect();
        assert_eq!(numbers, (0..UPDATES).collect::<Vec<_>>(), "{key}");
    }
    // Each partition is asked until its updates are applied.
    let (mut seen, expected) = (0, [-1, UPDATES - 1, UPDATES - 1, UPDATES - 1]);
    for (key, expected) in ["k0", "k1", "k2", "k3"].into_iter().zip(expected) {
        loop {
            kafka.write(&asks, 3, [(key, "?")]);
            let read = kafka.read_until(&out, 1, |read| read.len() > seen);
            seen = read.len();
            if read.iter().rfind(|record| record.key == key).is_some_and(|r| r.count() == expected)
            {
                break;
            }
        }
    }
    app.close(PATIENCE).expect("closes");
    let closed = writer.put("k1", 1).expect_err("closed").to_string();
    assert!(closed.contains("the application is closed"), "{closed}");
    assert!(app.store_writer(&prices).is_err());
}

#[test]
fn a_store_that_names_no_topic_has_no_writer() {
    let mut kafka = Kafka::shared();
    let input = kafka.topic("in", 1);
    let prices = Stores::key_value::<String, i64>("prices");
    let builder = StreamsBuilder::new();
    let _ = builder.stream(input.as_str(), Consumed::<String, String>::new()).process(
        move |ctx| Ok(Answering { prices: ctx.store(&prices)? }),
        Processed::new().store(&prices),
    );
    let dir = tempfile::tempdir().expect("a directory");
    let settings = config(&unique("writers"), &kafka.bootstrap, dir.path());
    let app = start(builder.build().expect("builds"), settings);
    let error = app.store_writer(&prices).expect_err("no writer").to_string();
    assert!(error.contains("StreamsBuilder::store_writer"), "{error}");
    app.close(PATIENCE).expect("closes");
}

/// The updates have to reach the task of their key.
#[test]
fn p45_the_topic_of_updates_needs_as_many_partitions() {
    let mut kafka = Kafka::shared();
    let (asks, updates) = (kafka.topic("asks", 3), kafka.topic("updates", 2));
    let prices = Stores::key_value::<String, i64>("prices");
    let builder = StreamsBuilder::new();
    let _ = builder.stream(asks.as_str(), Consumed::<String, String>::new()).process(
        move |ctx| Ok(Answering { prices: ctx.store(&prices)? }),
        Processed::new().store(&prices),
    );
    builder.store_writer(&prices, updates.as_str());
    let dir = tempfile::tempdir().expect("a directory");
    let settings = config(&unique("writers"), &kafka.bootstrap, dir.path());
    let error = KafkaStreams::start(builder.build().expect("builds"), settings).expect_err("fails");
    let error = error.to_string();
    assert!(error.contains(&asks) && error.contains("a store and its writer"), "{error}");
}

//! Stores that are filled from topics of their own, on a broker.

use super::app::{config, start};
use crate::kafka::{Kafka, PATIENCE, unique};
use kstreams::prelude::*;

/// Counts the records of a key.
struct Tally {
    tallies: GlobalTableWriter<String, i64>,
}

impl Processor for Tally {
    type In = (String, String);
    type Out = ((), ());

    fn process(&mut self, record: Record<String, String>, _: &mut Context<Self>) -> ProcessResult {
        let before = self.tallies.get(&record.key)?.map_or(0, |(tally, _)| tally);
        Ok(self.tallies.put(&record.key, Some(&(before + 1)), record.timestamp)?)
    }
}

struct ShowTally {
    tallies: GlobalTable<String, i64>,
}

impl Processor for ShowTally {
    type In = (String, String);
    type Out = (String, String);

    fn process(
        &mut self,
        record: Record<String, String>,
        ctx: &mut Context<Self>,
    ) -> ProcessResult {
        let tally = self.tallies.get(&record.key)?.map_or(0, |(tally, _)| tally);
        ctx.forward(record.with_value(tally.to_string()))
    }
}

/// The processor has seen all partitions before the first record of a task is looked up, again after a restart, and goes on.
#[test]
fn the_processor_of_a_global_store_is_ahead_of_the_tasks() {
    let mut kafka = Kafka::shared();
    let (stream, tallied) = (kafka.topic("stream", 2), kafka.topic("tallied", 3));
    let out = kafka.topic("out", 1);
    kafka.write(&tallied, 3, (0..3000).map(|n| (format!("k{}", n % 300), "x")));
    let tallies = Stores::global::<String, i64>("tallies");
    let builder = StreamsBuilder::new();
    let supplier = move |ctx: &mut InitContext| Ok(Tally { tallies: ctx.global_writer(&tallies)? });
    builder.global_store(&tallies, &*tallied, Consumed::<String, String>::new(), supplier);
    builder
        .stream(&*stream, Consumed::<String, String>::new())
        .process(move |ctx| Ok(ShowTally { tallies: ctx.store(&tallies)? }), Processed::new())
        .to(&*out, Produced::with(DefaultSerde::default_serde(), DefaultSerde::default_serde()));
    let topology = builder.build().expect("builds");
    let dir = tempfile::tempdir().expect("a directory");
    let application = unique("tallies");
    let mut seen = 0;
    for tally in ["10", "11"] {
        kafka.write(&stream, 2, (0..300).map(|n| (format!("k{n}"), "look")));
        let settings = config(&application, &kafka.bootstrap, dir.path()).stream_threads(2);
        let running = start(topology.clone(), settings);
        let read = kafka.read_until(&out, 1, |read| read.len() >= seen + 300);
        let wrong =
            read[seen..].iter().filter(|read| read.value.as_deref() != Some(tally.as_bytes()));
        assert_eq!(wrong.count(), 0, "not all are {tally}");
        seen = read.len();
        let store = running.store(&tallies).expect("the store");
        assert_eq!(
            store.get(&"k7".to_string()).expect("read").map(|(tally, _)| tally.to_string()),
            Some(tally.to_string())
        );
        running.close(PATIENCE).expect("closes");
        kafka.write(&tallied, 3, (0..300).map(|n| (format!("k{n}"), "x")));
    }
}

struct Price {
    prices: KeyValueStore<String, String>,
}

impl Processor for Price {
    type In = (String, String);
    type Out = (String, String);

    fn process(
        &mut self,
        record: Record<String, String>,
        ctx: &mut Context<Self>,
    ) -> ProcessResult {
        let price = self.prices.get(&record.key)?.unwrap_or_else(|| "none".into());
        ctx.forward(record.with_value(price))
    }
}

/// A read-only store has no changelog of its own, and comes back from its topic when the directory is lost.
#[test]
fn a_read_only_store_comes_back_from_its_topic() {
    let mut kafka = Kafka::shared();
    let (orders, prices) = (kafka.topic("orders", 2), kafka.topic("prices", 2));
    let out = kafka.topic("out", 1);
    kafka.write(&prices, 2, (0..200).map(|n| (format!("k{n}"), n.to_string())));
    let store = Stores::key_value::<String, String>("prices");
    let mut topology = TopologyBuilder::new();
    topology.add_read_only_state_store(&store, "price-source", &prices, "price-store");
    let source = topology.add_source("orders", &orders, Consumed::<String, String>::new());
    let supplier = move |ctx: &mut InitContext| Ok(Price { prices: ctx.store(&store)? });
    let price = topology.add_processor("price", supplier, &[&source]);
    topology.connect_store(&store, &price);
    topology.add_sink("sink", &*out, Produced::new(), &[&price]);
    let topology = topology.build().expect("builds");
    let application = unique("prices");
    let mut seen = 0;
    // Prices come first: with data on all inputs records go by time.
    for round in 0..2 {
        let dir = tempfile::tempdir().expect("a directory");
        let settings = config(&application, &kafka.bootstrap, dir.path());
        let running = start(topology.clone(), settings);
        loop {
            kafka.write(&orders, 2, (0..200).map(|n| (format!("k{n}"), "order")));
            let read = kafka.read_until(&out, 1, |read| read.len() >= seen + 200);
            let values = read[seen..].iter().map(|read| (&read.key[1..], read.value.as_deref()));
            let right = values.filter(|(key, value)| *value == Some(key.as_bytes())).count();
            // In the first round the orders may be faster than the prices; what was restored is there at once.
            if right == read.len() - seen {
                seen = read.len();
                break;
            }
            assert_eq!(round, 0, "{right} of {}", read.len() - seen);
            seen = read.len();
        }
        running.close(PATIENCE).expect("closes");
    }
    let changelog = format!("{application}-prices-changelog");
    let described = kafka.client().describe_topics(vec![changelog.as_str().into()]);
    for (_, description) in described.wait(PATIENCE).expect("described") {
        assert!(description.is_err(), "there is a changelog");
    }
}

//! Stores that are filled from topics of their own.

use super::check;
use kstreams::prelude::*;

/// Sends on what a store has for each key.
struct LookUp {
    lengths: GlobalTable<String, i64>,
}

impl Processor for LookUp {
    type In = (String, String);
    type Out = (String, String);

    fn process(
        &mut self,
        record: Record<String, String>,
        ctx: &mut Context<Self>,
    ) -> ProcessResult {
        let found = self.lengths.get(&record.key)?;
        ctx.forward(record.with_value(format!("{found:?}")))
    }
}

/// Keeps how long the values of a key are together; an empty one deletes.
struct Lengths {
    lengths: GlobalTableWriter<String, i64>,
}

impl Processor for Lengths {
    type In = (String, String);
    type Out = ((), ());

    fn process(&mut self, record: Record<String, String>, _: &mut Context<Self>) -> ProcessResult {
        let before = self.lengths.get(&record.key)?.map_or(0, |(length, _)| length);
        let now = Some(before + record.value.len() as i64).filter(|_| !record.value.is_empty());
        Ok(self.lengths.put(&record.key, now.as_ref(), record.timestamp)?)
    }
}

fn lengths() -> StoreToken<GlobalTable<String, i64>> {
    Stores::global::<String, i64>("lengths")
}

#[test]
fn a_global_store_holds_what_its_processor_makes_of_the_topic() {
    let token = lengths();
    let builder = StreamsBuilder::new();
    let supplier = move |ctx: &mut InitContext| Ok(Lengths { lengths: ctx.global_writer(&token)? });
    builder.global_store(&token, "words", Consumed::<String, String>::new(), supplier);
    strings(&builder)
        .process(move |ctx| Ok(LookUp { lengths: ctx.store(&token)? }), Processed::new())
        .to("out", Produced::new());
    let topology = builder.build().expect("builds");
    assert!(topology.describe().starts_with(
        "Topologies:
   Sub-topology: 0 for global store (will not generate tasks)
    Source: KSTREAM-SOURCE-0000000000 (topics: [words])
      --> KTABLE-SOURCE-0000000001
    Processor: KTABLE-SOURCE-0000000001 (stores: [lengths])
      --> none
      <-- KSTREAM-SOURCE-0000000000"
    ));
    check(
        topology,
        "in (a,x)@1 -> out (a,None)@1
         words (a,xyz)@2 -> -
         words (a,xy)@3 -> -
         in (a,x)@4 -> out (a,Some((5, 3)))@4
         words (a,)@5 -> -
         in (a,x)@6 -> out (a,None)@6",
    );
}

#[test]
fn only_its_processor_writes_a_global_store() {
    let token = lengths();
    let builder = StreamsBuilder::new();
    let supplier = move |ctx: &mut InitContext| Ok(Lengths { lengths: ctx.global_writer(&token)? });
    builder.global_store(&token, "words", Consumed::<String, String>::new(), supplier);
    let _ = strings(&builder).process(supplier, Processed::named("other"));
    let error = TopologyTestDriver::new(builder.build().expect("builds")).expect_err("refused");
    let error = error.to_string();
    assert!(error.contains("processor other does not fill the global store lengths"), "{error}");
}

/// Asks for a punctuator.
struct Ticking;

impl Processor for Ticking {
    type In = (String, String);
    type Out = ((), ());

    fn init(&mut self, ctx: &mut Context<Self>) -> ProcessResult {
        ctx.schedule(seconds(1), PunctuationType::StreamTime, |_, _, _| Ok(()));
        Ok(())
    }

    fn process(&mut self, _: Record<String, String>, _: &mut Context<Self>) -> ProcessResult {
        Ok(())
    }
}

#[test]
fn the_processor_of_a_global_store_has_no_punctuators() {
    let builder = StreamsBuilder::new();
    let consumed = Consumed::<String, String>::new();
    builder.global_store(&lengths(), "words", consumed, |_| Ok(Ticking));
    let error = TopologyTestDriver::new(builder.build().expect("builds")).expect_err("refused");
    assert!(error.to_string().contains("cannot have punctuators"), "{error}");
}

/// Sends on what a store of its own task has for each key.
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
        let found = self.prices.get(&record.key)?;
        ctx.forward(record.with_value(format!("{found:?}")))
    }
}

#[test]
fn a_read_only_store_follows_its_topic_and_writes_nothing() {
    let prices = Stores::key_value::<String, String>("prices");
    let mut topology = TopologyBuilder::new();
    topology.add_read_only_state_store(&prices, "price-source", "prices", "price-store");
    let orders = topology.add_source("orders", "in", Consumed::<String, String>::new());
    let supplier = move |ctx: &mut InitContext| Ok(Price { prices: ctx.store(&prices)? });
    let price = topology.add_processor("price", supplier, &[&orders]);
    topology.connect_store(&prices, &price);
    topology.add_sink("sink", "out", Produced::new(), &[&price]);
    let topology = topology.build().expect("builds");
    assert_eq!(topology.describe().matches("Sub-topology").count(), 1);
    check(
        topology,
        "in (a,x)@1 -> out (a,None)@1
         prices (a,3)@2 -> -
         in (a,x)@3 -> out (a,Some(\"3\"))@3
         prices (a,null)@4 -> -
         in (a,x)@5 -> out (a,None)@5",
    );
}

fn strings(builder: &StreamsBuilder) -> KStream<String, String> {
    builder.stream("in", Consumed::new())
}

//! A processor asks for a store of other types than the token's.

use kstreams::prelude::*;

struct Count {
    counts: KeyValueStore<String, i64>,
}

impl Processor for Count {
    type In = (String, String);
    type Out = ((), ());

    fn process(&mut self, record: Record<String, String>, _: &mut Context<Self>) -> ProcessResult {
        self.counts.put(&record.key, Some(&1))?;
        Ok(())
    }
}

fn main() {
    let counts = Stores::key_value::<String, String>("counts");
    let builder = StreamsBuilder::new();
    let words = builder.stream("words", Consumed::<String, String>::new());
    let count = move |ctx: &mut InitContext| Ok(Count { counts: ctx.store(&counts)? });
    let _ = words.process(count, Processed::named("count").store(&counts));
}

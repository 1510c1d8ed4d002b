//! A processor takes other records than the stream has.

use kstreams::prelude::*;

struct Shout;

impl Processor for Shout {
    type In = (String, String);
    type Out = (String, String);

    fn process(&mut self, record: Record<String, String>, ctx: &mut Context<Self>) -> ProcessResult {
        ctx.forward(record)
    }
}

fn main() {
    let builder = StreamsBuilder::new();
    let counts = builder.stream("counts", Consumed::<String, i64>::new());
    let _ = counts.process(|_| Ok(Shout), Processed::new());
}

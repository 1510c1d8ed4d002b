//! Streams of different values are merged.

use kstreams::prelude::*;

fn main() {
    let builder = StreamsBuilder::new();
    let words = builder.stream("words", Consumed::<String, String>::new());
    let counts = builder.stream("counts", Consumed::<String, i64>::new());
    let _ = words.merge(&counts);
}

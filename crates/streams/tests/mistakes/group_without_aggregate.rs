//! A grouped stream is used as if it were a table.

use kstreams::prelude::*;

fn main() {
    let builder = StreamsBuilder::new();
    let words = builder.stream("words", Consumed::<String, String>::new());
    words.group_by(|_, word| word.clone(), Grouped::new()).to_stream();
}

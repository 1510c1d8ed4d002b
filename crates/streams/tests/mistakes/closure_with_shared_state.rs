//! A closure changes what all tasks would share.

use kstreams::prelude::*;
use std::cell::Cell;
use std::rc::Rc;

fn main() {
    let seen = Rc::new(Cell::new(0));
    let builder = StreamsBuilder::new();
    let words = builder.stream("words", Consumed::<String, String>::new());
    words.for_each(move |_, _| seen.set(seen.get() + 1));
}

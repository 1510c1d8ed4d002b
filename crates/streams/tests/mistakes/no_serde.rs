//! A type without a serde, and none given.

use kstreams::prelude::*;

#[derive(Clone)]
struct Order;

fn main() {
    let builder = StreamsBuilder::new();
    let _ = builder.stream("orders", Consumed::<String, Order>::new());
}

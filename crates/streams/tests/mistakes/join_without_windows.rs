//! Two streams are joined without a window.

use kstreams::prelude::*;

fn main() {
    let builder = StreamsBuilder::new();
    let orders = builder.stream("orders", Consumed::<String, i64>::new());
    let payments = builder.stream("payments", Consumed::<String, i64>::new());
    let _ = orders.join(&payments, |order, payment| order + payment, StreamJoined::new());
}

//! Two streams with keys of different types are joined.

use kstreams::prelude::*;

fn main() {
    let builder = StreamsBuilder::new();
    let orders = builder.stream("orders", Consumed::<String, i64>::new());
    let payments = builder.stream("payments", Consumed::<i64, i64>::new());
    let windows = JoinWindows::of(minutes(5));
    let _ = orders.join(&payments, |order, payment| order + payment, windows, StreamJoined::new());
}

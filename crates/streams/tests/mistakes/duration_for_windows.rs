//! A duration in place of windows.

use kstreams::prelude::*;

fn main() {
    let builder = StreamsBuilder::new();
    let clicks = builder.stream("clicks", Consumed::<String, i64>::new());
    let _ = clicks.group_by_key(Grouped::new()).windowed_by(minutes(5));
}

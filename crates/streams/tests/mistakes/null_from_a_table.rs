//! The changes of a table are written as if no key were ever deleted.

use kstreams::prelude::*;

fn main() {
    let builder = StreamsBuilder::new();
    let users = builder.table("users", Consumed::<String, String>::new(), Materialized::new());
    users.to_stream().to("users-again", Produced::<String, String>::new());
}

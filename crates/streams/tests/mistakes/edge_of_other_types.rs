//! A sink takes other records than its parent gives.

use kstreams::prelude::*;

fn main() {
    let mut topology = TopologyBuilder::new();
    let source = topology.add_source("source", "in", Consumed::<String, i64>::new());
    topology.add_sink("sink", "out", Produced::<String, String>::new(), &[&source]);
}

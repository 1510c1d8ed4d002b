//! The Processor API.

use super::{Case, Text, text};
use crate::processors::{Dedup, Route};
use kstreams::prelude::*;

pub(super) fn cases() -> Vec<Case> {
    vec![text("papi_dedup", papi_dedup), text("papi_children", papi_children)]
}

fn papi_dedup() -> Result<Topology> {
    let seen = Stores::key_value::<String, Text>("seen");
    let mut topology = TopologyBuilder::new();
    let source = topology.add_source("src", "a", Consumed::<Text, Text>::new());
    let dedup = move |ctx: &mut InitContext| Ok(Dedup { seen: ctx.store(&seen)? });
    let dedup = topology.add_processor("dedup", dedup, &[&source]);
    topology.connect_store(&seen, &dedup);
    topology.add_sink("snk", "out", Produced::new(), &[&dedup]);
    topology.build()
}

fn papi_children() -> Result<Topology> {
    let mut topology = TopologyBuilder::new();
    let source = topology.add_source("src", "a", Consumed::<Text, Text>::new());
    let route = topology.add_processor("route", |_| Ok(Route), &[&source]);
    topology.add_sink("long", "out-long", Produced::new(), &[&route]);
    topology.add_sink("short", "out-short", Produced::new(), &[&route]);
    topology.build()
}

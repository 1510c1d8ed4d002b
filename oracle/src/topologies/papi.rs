//! The Processor API.

use super::{Case, Text, text};
use crate::processors::{Dedup, Keep, Ledger, Look, Room, Route, Sweep, Tick};
use kstreams::prelude::*;

pub(super) fn cases() -> Vec<Case> {
    vec![
        text("papi_dedup", papi_dedup),
        text("papi_sweep", papi_sweep),
        text("papi_wallclock", papi_wallclock),
        text("papi_global", papi_global),
        text("papi_children", papi_children),
        text("seed_rooms", seed_rooms),
        text("seed_ledger", seed_ledger),
    ]
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

fn papi_sweep() -> Result<Topology> {
    let waiting = Stores::key_value::<String, Text>("buf");
    let mut topology = TopologyBuilder::new();
    let source = topology.add_source("src", "a", Consumed::<Text, Text>::new());
    let sweep = move |ctx: &mut InitContext| Ok(Sweep { waiting: ctx.store(&waiting)? });
    let sweep = topology.add_processor("sweep", sweep, &[&source]);
    topology.connect_store(&waiting, &sweep);
    topology.add_sink("snk", "out", Produced::new(), &[&sweep]);
    topology.build()
}

fn papi_wallclock() -> Result<Topology> {
    let last = Stores::key_value::<String, Text>("last").in_memory();
    let mut topology = TopologyBuilder::new();
    let source = topology.add_source("src", "a", Consumed::<Text, Text>::new());
    let tick = move |ctx: &mut InitContext| Ok(Tick { last: ctx.store(&last)? });
    let tick = topology.add_processor("tick", tick, &[&source]);
    topology.connect_store(&last, &tick);
    topology.add_sink("snk", "out", Produced::new(), &[&tick]);
    topology.build()
}

fn papi_global() -> Result<Topology> {
    let global = Stores::global::<String, String>("g");
    let mut topology = TopologyBuilder::new();
    let keep = move |ctx: &mut InitContext| Ok(Keep { global: ctx.global_writer(&global)? });
    let consumed = Consumed::<Text, Text>::new();
    topology.add_global_store_updated_by(&global, "gsrc", "b", consumed, "gproc", keep);
    let source = topology.add_source("src", "a", Consumed::<Text, Text>::new());
    let look = move |ctx: &mut InitContext| Ok(Look { global: ctx.store(&global)? });
    let look = topology.add_processor("look", look, &[&source]);
    topology.add_sink("snk", "out", Produced::new(), &[&look]);
    topology.build()
}

fn seed_rooms() -> Result<Topology> {
    let rooms = Stores::key_value::<String, String>("rooms");
    let mut topology = TopologyBuilder::new();
    let joins = topology.add_source("jsrc", "joins", Consumed::<Text, Text>::new());
    let leaves = topology.add_source("lsrc", "leaves", Consumed::<Text, Text>::new());
    let room = move |ctx: &mut InitContext| Ok(Room { rooms: ctx.store(&rooms)? });
    let room = topology.add_processor("room", room, &[&joins, &leaves]);
    topology.connect_store(&rooms, &room);
    topology.add_sink("snk", "out", Produced::new(), &[&room]);
    topology.build()
}

fn seed_ledger() -> Result<Topology> {
    let snapshots = Stores::key_value::<String, String>("snapshots");
    let mut topology = TopologyBuilder::new();
    let source = topology.add_source("src", "commands", Consumed::<Text, Text>::new());
    let decide = move |ctx: &mut InitContext| Ok(Ledger { snapshots: ctx.store(&snapshots)? });
    let decide = topology.add_processor("decide", decide, &[&source]);
    topology.connect_store(&snapshots, &decide);
    topology.add_sink("snk", "events", Produced::new(), &[&decide]);
    topology.build()
}

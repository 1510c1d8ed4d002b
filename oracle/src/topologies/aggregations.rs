//! Aggregations without windows.

use super::{Case, Text, first, long, stream, text};
use kstreams::prelude::*;

pub(super) fn cases() -> Vec<Case> {
    vec![
        long("count", count),
        long("count_by", count_by),
        text("reduce", reduce),
        text("aggregate_delete", aggregate_delete),
    ]
}

fn count() -> Result<Topology> {
    let builder = StreamsBuilder::new();
    stream(&builder, "a")
        .group_by_key(Grouped::new())
        .count(Materialized::named("c"))
        .to_stream()
        .to("out", Produced::new());
    builder.build()
}

fn count_by() -> Result<Topology> {
    let builder = StreamsBuilder::new();
    stream(&builder, "a")
        .group_by(|_, v| first(v), Grouped::new())
        .count(Materialized::new())
        .to_stream()
        .to("out", Produced::new());
    builder.build()
}

fn reduce() -> Result<Topology> {
    let builder = StreamsBuilder::new();
    let cat = |a: Text, b: Text| Some(a.unwrap_or_default() + "+" + &b.unwrap_or_default());
    stream(&builder, "a")
        .group_by_key(Grouped::new())
        .reduce(cat, Materialized::named("r"))
        .to_stream()
        .to("out", Produced::new());
    builder.build()
}

fn aggregate_delete() -> Result<Topology> {
    let builder = StreamsBuilder::new();
    stream(&builder, "a")
        .group_by_key(Grouped::new())
        .aggregate(
            String::new,
            |_, all, v| {
                let v = v.unwrap_or_default();
                (!v.starts_with('x')).then(|| all + &v)
            },
            Materialized::named("g"),
        )
        .to_stream()
        .to("out", Produced::new());
    builder.build()
}

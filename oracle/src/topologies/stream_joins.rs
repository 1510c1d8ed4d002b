//! Joins of two streams.

use super::{Case, Text, stream, text};
use kstreams::prelude::*;

pub(super) fn cases() -> Vec<Case> {
    vec![
        text("ss_inner", inner),
        text("ss_inner_grace", inner_grace),
        text("ss_left", left),
        text("ss_outer", outer),
        text("ss_outer_asym", outer_asymmetric),
        text("self_join", self_join),
        text("three_way", three_way),
    ]
}

/// As Java joins texts of which one may be null.
fn cat(one: Option<&Text>, two: Option<&Text>) -> Text {
    let text = |part: Option<&Text>| part.cloned().flatten().unwrap_or_else(|| "null".into());
    Some(text(one) + "+" + &text(two))
}

fn both(
    build: impl Fn(KStream<Text, Text>, KStream<Text, Text>) -> KStream<Text, Text>,
) -> Result<Topology> {
    let builder = StreamsBuilder::new();
    build(stream(&builder, "a"), stream(&builder, "b")).to("out", Produced::new());
    builder.build()
}

fn inner() -> Result<Topology> {
    both(|a, b| {
        let windows = JoinWindows::of(millis(5));
        a.join(&b, |a, b| cat(Some(a), Some(b)), windows, StreamJoined::new())
    })
}

fn inner_grace() -> Result<Topology> {
    both(|a, b| {
        let windows =
            JoinWindows::of(millis(5)).grace(millis(20)).before(millis(2)).after(millis(9));
        let joined = StreamJoined::named("j").store_name("js");
        a.join(&b, |a, b| cat(Some(a), Some(b)), windows, joined)
    })
}

fn left() -> Result<Topology> {
    both(|a, b| {
        let windows = JoinWindows::of(millis(5)).grace(millis(4));
        a.left_join(&b, |a, b| cat(Some(a), b), windows, StreamJoined::new())
    })
}

fn outer() -> Result<Topology> {
    both(|a, b| a.outer_join(&b, cat, JoinWindows::of(millis(5)), StreamJoined::new()))
}

fn outer_asymmetric() -> Result<Topology> {
    both(|a, b| {
        let windows =
            JoinWindows::of(millis(5)).grace(millis(10)).before(millis(0)).after(millis(12));
        a.outer_join(&b, cat, windows, StreamJoined::new())
    })
}

fn self_join() -> Result<Topology> {
    let builder = StreamsBuilder::new();
    let a = stream(&builder, "a");
    let windows = JoinWindows::of(millis(5));
    a.join(&a, |a, b| cat(Some(a), Some(b)), windows, StreamJoined::new())
        .to("out", Produced::new());
    let config = StreamsConfig::new("app", "x:1").set("topology.optimization", "all")?;
    builder.build_with(&config)
}

fn three_way() -> Result<Topology> {
    let builder = StreamsBuilder::new();
    let windows = JoinWindows::of(millis(6)).grace(millis(6));
    let (a, b) = (stream(&builder, "a"), stream(&builder, "b"));
    let joined = a.join(&b, |a, b| cat(Some(a), Some(b)), windows, StreamJoined::new());
    let table = builder.table("c", Consumed::<Text, Text>::new(), Materialized::new());
    joined
        .left_join_table(&table, cat_table, Joined::new())
        .group_by_key(Grouped::new())
        .count(Materialized::new())
        .to_stream()
        .map_values(|count| format!("n{}", count.unwrap_or_default()))
        .to("out", Produced::new());
    builder.build()
}

fn cat_table(value: &Text, other: Option<&Text>) -> Text {
    cat(Some(value), other)
}

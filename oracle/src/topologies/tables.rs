//! Tables and their joins.

use super::{Case, Text, first, long, stream, text};
use kstreams::prelude::*;
use std::time::Duration;

pub(super) fn cases() -> Vec<Case> {
    vec![
        text("table", source),
        text("table_filter", filter),
        text("table_filter_mat", filter_materialized),
        text("table_filter_not_map", filter_not_map),
        text("to_table", to_table),
        text("table_transform", transform),
        long("table_group_count", group_count),
        text("table_group_reduce", group_reduce),
        text("table_group_aggregate", group_aggregate),
        text("st_inner", stream_inner),
        text("st_left", stream_left),
        text("st_left_rekeyed", stream_left_rekeyed),
        text("st_versioned", stream_versioned),
        text("st_versioned_grace", stream_versioned_grace),
        text("gt_inner", global_inner),
        text("gt_left", global_left),
        text("tt_inner", inner),
        text("tt_left", left),
        text("tt_outer", outer),
        text("tt_filtered", filtered),
        text("suppress_time_limit", suppress_time_limit),
        text("suppress_max_records", suppress_max_records),
        text("tt_versioned", left_versioned),
        text("three_way", three_way),
        text("fk_inner", foreign_inner),
        text("fk_left", foreign_left),
    ]
}

type Table = KTable<String, String>;

fn table(builder: &StreamsBuilder, topic: &str) -> Table {
    builder.table(topic, Consumed::new(), Materialized::new())
}

fn stored(builder: &StreamsBuilder, topic: &str, store: &str) -> Table {
    builder.table(topic, Consumed::new(), Materialized::named(store))
}

fn out(builder: StreamsBuilder, table: &Table) -> Result<Topology> {
    table.to_stream().to("out", Produced::new());
    builder.build()
}

fn source() -> Result<Topology> {
    let builder = StreamsBuilder::new();
    let table = stored(&builder, "a", "st");
    out(builder, &table)
}

fn filter() -> Result<Topology> {
    let builder = StreamsBuilder::new();
    let long = table(&builder, "a").filter(|_, v| v.len() > 1);
    out(builder, &long)
}

fn filter_materialized() -> Result<Topology> {
    let builder = StreamsBuilder::new();
    let long = table(&builder, "a").filter(|_, v| v.len() > 1);
    out(builder, &long.materialized(Materialized::named("f")))
}

fn filter_not_map() -> Result<Topology> {
    let builder = StreamsBuilder::new();
    let mapped = stored(&builder, "a", "st")
        .filter_not(|_, v| v.starts_with('x'))
        .map_values_with_key(|k, v| format!("{k}{v}"))
        .materialized(Materialized::named("m"));
    out(builder, &mapped)
}

fn to_table() -> Result<Topology> {
    let builder = StreamsBuilder::new();
    stream(&builder, "a")
        .select_key(|_, v| first(v))
        .to_table(Materialized::<Text, String>::named("t"))
        .to_stream()
        .to("out", Produced::new());
    builder.build()
}

struct Double;

impl ValueTransformer for Double {
    type Key = String;
    type In = String;
    type Out = String;

    fn transform(
        &mut self,
        _: &String,
        value: Text,
        _: &mut ValueContext<'_>,
    ) -> std::result::Result<Text, BoxError> {
        Ok(Some(value.map_or("none".into(), |value| format!("{value}{value}"))))
    }
}

fn transform() -> Result<Topology> {
    let builder = StreamsBuilder::new();
    let doubled = stored(&builder, "a", "st")
        .transform_values(|_| Ok(Double), Processed::new())
        .materialized(Materialized::named("tv"));
    out(builder, &doubled)
}

/// Java's concatenation, null as `null`.
fn cat(a: Option<&String>, b: Option<&String>) -> String {
    let show = |text: Option<&String>| text.map_or("null", String::as_str).to_string();
    format!("{}+{}", show(a), show(b))
}

fn inner() -> Result<Topology> {
    let builder = StreamsBuilder::new();
    let (a, b) = (stored(&builder, "a", "ta"), stored(&builder, "b", "tb"));
    out(builder, &a.join(&b, |a, b| cat(Some(a), Some(b))))
}

fn left() -> Result<Topology> {
    let builder = StreamsBuilder::new();
    let (a, b) = (stored(&builder, "a", "ta"), stored(&builder, "b", "tb"));
    let joined = a.left_join(&b, |a, b| cat(Some(a), b)).materialized(Materialized::named("j"));
    out(builder, &joined)
}

fn outer() -> Result<Topology> {
    let builder = StreamsBuilder::new();
    let (a, b) = (table(&builder, "a"), table(&builder, "b"));
    out(builder, &a.outer_join(&b, cat))
}

fn filtered() -> Result<Topology> {
    let builder = StreamsBuilder::new();
    let long = table(&builder, "a").filter(|_, v| v.len() > 1);
    let marked = table(&builder, "b").map_values(|v| v + "'");
    let joined = long.outer_join(&marked, cat).named("tj").materialized(Materialized::named("j"));
    out(builder, &joined)
}

fn group_count() -> Result<Topology> {
    let builder = StreamsBuilder::new();
    stored(&builder, "a", "st")
        .group_by(|_, v| (v.chars().take(1).collect::<String>(), v), Grouped::new())
        .count(Materialized::named("c"))
        .to_stream()
        .to("out", Produced::new());
    builder.build()
}

fn group_reduce() -> Result<Topology> {
    let builder = StreamsBuilder::new();
    let reduced = stored(&builder, "a", "st")
        .group_by(|_, v| (v.chars().take(1).collect::<String>(), v), Grouped::new())
        .reduce(|g, v| g + "+" + &v, |g, v| g + "-" + &v, Materialized::named("r"));
    out(builder, &reduced)
}

fn group_aggregate() -> Result<Topology> {
    let builder = StreamsBuilder::new();
    let size = |v: &String| if v.chars().count() > 2 { "long" } else { "short" }.to_string();
    let aggregated =
        stored(&builder, "a", "st").group_by(move |_, v| (size(&v), v), Grouped::new()).aggregate(
            String::new,
            |_, g, v| g + "+" + &v,
            |_, g, v| g + "-" + &v,
            Materialized::named("g"),
        );
    out(builder, &aggregated)
}

/// The concatenation of a stream's value and a table's.
fn found(a: &Text, b: Option<&String>) -> String {
    cat(a.as_ref(), b)
}

fn stream_inner() -> Result<Topology> {
    let builder = StreamsBuilder::new();
    let a = stream(&builder, "a");
    let b = builder.table::<Text, String>("b", Consumed::new(), Materialized::named("t"));
    a.join_table(&b, |a, b| found(a, Some(b)), Joined::new()).to("out", Produced::new());
    builder.build()
}

fn stream_left() -> Result<Topology> {
    let builder = StreamsBuilder::new();
    let a = stream(&builder, "a");
    let b = builder.table::<Text, String>("b", Consumed::new(), Materialized::named("t"));
    a.left_join_table(&b, found, Joined::new()).to("out", Produced::new());
    builder.build()
}

fn stream_left_rekeyed() -> Result<Topology> {
    let builder = StreamsBuilder::new();
    let a = stream(&builder, "a").select_key(|_, v| first(v));
    let b = builder.table::<Text, String>("b", Consumed::new(), Materialized::named("t"));
    a.left_join_table(&b, found, Joined::new()).to("out", Produced::new());
    builder.build()
}

fn global_inner() -> Result<Topology> {
    let builder = StreamsBuilder::new();
    let g = builder.global_table::<String, String>("b", Consumed::new(), Materialized::named("g"));
    stream(&builder, "a")
        .join_global(&g, |_, v| first(v), |a, b| found(a, Some(b)), Joined::new())
        .to("out", Produced::new());
    builder.build()
}

fn global_left() -> Result<Topology> {
    let builder = StreamsBuilder::new();
    let g = builder.global_table::<String, String>("b", Consumed::new(), Materialized::named("g"));
    stream(&builder, "a")
        .left_join_global(&g, |k, _| k.clone(), found, Joined::new())
        .to("out", Produced::new());
    builder.build()
}

/// The part before the colon.
fn foreign_key(value: &str) -> Text {
    value.split_once(':').map(|(key, _)| key.to_string())
}

fn foreign_inner() -> Result<Topology> {
    let builder = StreamsBuilder::new();
    let (a, b) = (stored(&builder, "a", "l"), stored(&builder, "b", "r"));
    let joiner = |a: &String, b: &String| cat(Some(a), Some(b));
    let joined = a.join_foreign_key(&b, |v| foreign_key(v), joiner, TableJoined::new());
    out(builder, &joined.materialized(Materialized::named("fj")))
}

fn foreign_left() -> Result<Topology> {
    let builder = StreamsBuilder::new();
    let (a, b) = (stored(&builder, "a", "l"), stored(&builder, "b", "r"));
    let joiner = |a: &String, b: Option<&String>| cat(Some(a), b);
    let joined = a.left_join_foreign_key(&b, |v| foreign_key(v), joiner, TableJoined::named("fkj"));
    out(builder, &joined.materialized(Materialized::named("fj")))
}

fn suppress_time_limit() -> Result<Topology> {
    let builder = StreamsBuilder::new();
    let limit = Suppressed::until_time_limit(Duration::from_millis(7));
    let calm = stored(&builder, "a", "st").suppress(limit);
    out(builder, &calm)
}

fn suppress_max_records() -> Result<Topology> {
    let builder = StreamsBuilder::new();
    let limit = Suppressed::until_time_limit(Duration::from_secs(1)).max_records(3);
    let calm = stored(&builder, "a", "st").suppress(limit);
    out(builder, &calm)
}

/// A versioned table with 60 ms of history.
fn versioned(builder: &StreamsBuilder, topic: &str, store: &str) -> Table {
    builder.table(topic, Consumed::new(), history(store))
}

fn history<K: DefaultSerde>(store: &str) -> Materialized<K, String> {
    Materialized::versioned(store, Duration::from_millis(60))
}

fn left_versioned() -> Result<Topology> {
    let builder = StreamsBuilder::new();
    let (a, b) = (versioned(&builder, "a", "va"), versioned(&builder, "b", "vb"));
    out(builder, &a.left_join(&b, |a, b| cat(Some(a), b)))
}

fn stream_versioned() -> Result<Topology> {
    let builder = StreamsBuilder::new();
    let a = stream(&builder, "a");
    let b = builder.table::<Text, String>("b", Consumed::new(), history("vt"));
    a.left_join_table(&b, found, Joined::new()).to("out", Produced::new());
    builder.build()
}

fn three_way() -> Result<Topology> {
    let builder = StreamsBuilder::new();
    let (a, b) = (stream(&builder, "a"), stream(&builder, "b"));
    let windows = JoinWindows::of(millis(6)).grace(millis(6));
    let joiner = |a: &Text, b: &Text| cat(a.as_ref(), b.as_ref());
    let joined = a.join(&b, joiner, windows, StreamJoined::new());
    let c = builder.table::<Text, String>("c", Consumed::new(), Materialized::new());
    joined
        .left_join_table(&c, |ab, c| cat(Some(ab), c), Joined::new())
        .group_by_key(Grouped::new())
        .count(Materialized::new())
        .to_stream()
        .map_values(|n| n.map(|n| format!("n{n}")))
        .to("out", Produced::new());
    builder.build()
}

fn stream_versioned_grace() -> Result<Topology> {
    let builder = StreamsBuilder::new();
    let a = stream(&builder, "a");
    let b = builder.table::<Text, String>("b", Consumed::new(), history("vt"));
    a.left_join_table(&b, found, Joined::named("g").grace(millis(10))).to("out", Produced::new());
    builder.build()
}

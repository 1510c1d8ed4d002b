//! Windowed aggregations.

use super::{Case, Text, long, stream, text};
use kstreams::prelude::*;

pub(super) fn cases() -> Vec<Case> {
    vec![
        text("cogroup", cogroup),
        long("tumbling_count", tumbling_count),
        text("tumbling_grace", tumbling_grace),
        text("hopping_reduce", hopping_reduce),
        long("sliding_count", sliding_count),
        text("sliding_aggregate", sliding_aggregate),
        long("session_count", session_count),
        text("session_aggregate", session_aggregate),
        long("unlimited_count", unlimited_count),
        text("cogroup_windowed", cogroup_windowed),
        text("cogroup_session", cogroup_session),
        long("suppress_window_close", suppress_window_close),
        long("suppress_session_close", suppress_session_close),
    ]
}

/// As the oracle shows a windowed key.
fn shown(key: &str, Window { start, end }: Window) -> Text {
    Some(format!("{key}@{start}/{end}"))
}

fn out<V: Clone + DefaultSerde>(
    builder: StreamsBuilder,
    table: KTable<TimeWindowed<Text>, V>,
) -> Result<Topology> {
    table
        .to_stream_with_key(|key, _| shown(key.key.as_deref().unwrap_or_default(), key.window))
        .to("out", Produced::new());
    builder.build()
}

fn out_sessions<V: Clone + DefaultSerde>(
    builder: StreamsBuilder,
    table: KTable<SessionWindowed<Text>, V>,
) -> Result<Topology> {
    table
        .to_stream_with_key(|key, _| shown(key.key.as_deref().unwrap_or_default(), key.window))
        .to("out", Produced::new());
    builder.build()
}

fn grouped(builder: &StreamsBuilder, topic: &str) -> KGroupedStream<Text, Text> {
    stream(builder, topic).group_by_key(Grouped::new())
}

fn append(_: &Text, all: String, value: Text) -> String {
    all + value.as_deref().unwrap_or("null")
}

fn cat(one: Text, two: Text) -> Text {
    Some(one.unwrap_or_default() + "+" + two.as_deref().unwrap_or("null"))
}

fn tumbling_count() -> Result<Topology> {
    let builder = StreamsBuilder::new();
    let windows = TimeWindows::of(millis(10));
    let table = grouped(&builder, "a").windowed_by(windows).count(Materialized::named("w"));
    out(builder, table)
}

fn tumbling_grace() -> Result<Topology> {
    let builder = StreamsBuilder::new();
    let windows = TimeWindows::of(millis(10)).grace(millis(15));
    let windowed = grouped(&builder, "a").windowed_by(windows);
    let table = windowed.aggregate(String::new, append, Materialized::named("w"));
    out(builder, table)
}

fn hopping_reduce() -> Result<Topology> {
    let builder = StreamsBuilder::new();
    let windows = TimeWindows::of(millis(10)).grace(millis(5)).advance_by(millis(4));
    let table = grouped(&builder, "a").windowed_by(windows).reduce(cat, Materialized::named("w"));
    out(builder, table)
}

fn sliding_count() -> Result<Topology> {
    let builder = StreamsBuilder::new();
    let windows = SlidingWindows::of(millis(8)).grace(millis(10));
    let table = grouped(&builder, "a").windowed_by(windows).count(Materialized::named("w"));
    out(builder, table)
}

fn sliding_aggregate() -> Result<Topology> {
    let builder = StreamsBuilder::new();
    let windowed = grouped(&builder, "a").windowed_by(SlidingWindows::of(millis(8)));
    let table = windowed.aggregate(String::new, append, Materialized::named("w"));
    out(builder, table)
}

fn session_count() -> Result<Topology> {
    let builder = StreamsBuilder::new();
    let windows = SessionWindows::of(millis(6)).grace(millis(10));
    let table = grouped(&builder, "a").windowed_by(windows).count(Materialized::named("w"));
    out_sessions(builder, table)
}

fn merge(_: &Text, one: String, two: String) -> String {
    one + "|" + &two
}

fn session_aggregate() -> Result<Topology> {
    let builder = StreamsBuilder::new();
    let windowed = grouped(&builder, "a").windowed_by(SessionWindows::of(millis(6)));
    let table = windowed.aggregate(String::new, append, merge, Materialized::named("w"));
    out_sessions(builder, table)
}

fn unlimited_count() -> Result<Topology> {
    let builder = StreamsBuilder::new();
    let windows = UnlimitedWindows::new().start_on(20);
    let table = grouped(&builder, "a").windowed_by(windows).count(Materialized::named("w"));
    out(builder, table)
}

fn cogrouped(builder: &StreamsBuilder) -> CogroupedKStream<Text, String> {
    let mark = |mark: &'static str| {
        move |_: &Text, all: String, value: Text| all + mark + value.as_deref().unwrap_or("null")
    };
    grouped(builder, "a").cogroup(mark("a")).cogroup(&grouped(builder, "b"), mark("b"))
}

fn cogroup() -> Result<Topology> {
    let builder = StreamsBuilder::new();
    cogrouped(&builder)
        .aggregate(String::new, Materialized::named("cg"))
        .to_stream()
        .to("out", Produced::new());
    builder.build()
}

fn cogroup_windowed() -> Result<Topology> {
    let builder = StreamsBuilder::new();
    let windows = TimeWindows::of(millis(10)).grace(millis(5));
    let windowed = cogrouped(&builder).windowed_by(windows);
    let table = windowed.aggregate(String::new, Materialized::named("cg"));
    out(builder, table)
}

fn cogroup_session() -> Result<Topology> {
    let builder = StreamsBuilder::new();
    let windows = SessionWindows::of(millis(6)).grace(millis(5));
    let windowed = cogrouped(&builder).windowed_by(windows);
    let table = windowed.aggregate(String::new, merge, Materialized::named("cg"));
    out_sessions(builder, table)
}

fn suppress_window_close() -> Result<Topology> {
    let builder = StreamsBuilder::new();
    let windows = TimeWindows::of(millis(10)).grace(millis(5));
    let table = grouped(&builder, "a").windowed_by(windows).count(Materialized::named("w"));
    out(builder, table.suppress(Suppressed::until_window_closes()))
}

fn suppress_session_close() -> Result<Topology> {
    let builder = StreamsBuilder::new();
    let windows = SessionWindows::of(millis(6)).grace(millis(3));
    let table = grouped(&builder, "a").windowed_by(windows).count(Materialized::named("w"));
    out_sessions(builder, table.suppress(Suppressed::until_window_closes()))
}

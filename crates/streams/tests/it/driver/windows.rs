//! Windowed aggregations: the cases of public reports.

use super::{check_results, check_topics};
use kstreams::prelude::*;

type Table<W> = KTable<W, i64>;

fn grouped(builder: &StreamsBuilder) -> KGroupedStream<String, String> {
    builder.stream("in", Consumed::<String, String>::new()).group_by_key(Grouped::new())
}

fn shown<W: Clone + std::fmt::Display + 'static>(
    builder: StreamsBuilder,
    table: Table<W>,
) -> Topology {
    table.to_stream_with_key(|key, _| key.to_string()).to("out", Produced::new());
    builder.build().expect("builds")
}

fn counted(windows: TimeWindows) -> Topology {
    let builder = StreamsBuilder::new();
    let table = grouped(&builder).windowed_by(windows).count(Materialized::named("w"));
    shown(builder, table)
}

fn sessions(windows: SessionWindows, materialized: Materialized<String, i64>) -> Topology {
    let builder = StreamsBuilder::new();
    let table = grouped(&builder).windowed_by(windows).count(materialized);
    shown(builder, table)
}

fn check_as_java(topology: Topology, script: &str) {
    let config = StreamsConfig::new("app", "unused:1").set("compatibility", "java-4.4");
    check_topics(topology, config.expect("a setting"), script, |topic| !topic.starts_with("app-"));
}

/// Without a record cache.
fn check_uncached(topology: Topology, script: &str) {
    let config = StreamsConfig::new("app", "unused:1").cache_max_bytes(0);
    check_topics(topology, config, script, |topic| !topic.starts_with("app-"));
}

#[test]
fn p18_lateness_is_per_window_over_all_keys() {
    check_results(
        counted(TimeWindows::of(millis(10))),
        "in (a,v)@0 -> out ([a@0/10],1)@0
         in (a,v)@9 -> out ([a@0/10],2)@9
         in (b,v)@10 -> out ([b@10/20],1)@10
         in (a,v)@5 -> -
         in (a,v)@10 -> out ([a@10/20],1)@10",
    );
    check_results(
        counted(TimeWindows::of(millis(10)).grace(millis(5))),
        "in (a,v)@0 -> out ([a@0/10],1)@0
         in (b,v)@14 -> out ([b@10/20],1)@14
         in (a,v)@5 -> out ([a@0/10],2)@5
         in (b,v)@15 -> out ([b@10/20],2)@15
         in (a,v)@6 -> -",
    );
    check_results(
        counted(TimeWindows::of(millis(10)).advance_by(millis(5))),
        "in (a,v)@2 -> out ([a@0/10],1)@2
         in (b,v)@12 -> out ([b@5/15],1)@12; out ([b@10/20],1)@12
         in (a,v)@7 -> out ([a@5/15],1)@7",
    );
}

/// P34, P18: what was late is counted, once for each window.
#[test]
fn p34_late_records_are_counted() {
    let windows = TimeWindows::of(millis(10)).advance_by(millis(5));
    let mut driver = TopologyTestDriver::new(counted(windows)).expect("a driver");
    let mut input = driver.input::<String, String>("in");
    for time in [2, 12, 7] {
        input.pipe_key_value_at(&mut driver, time, "a", "v").expect("piped");
    }
    assert_eq!(driver.dropped_records(), 1);
}

fn on_close(windows: TimeWindows) -> Topology {
    let builder = StreamsBuilder::new();
    let windowed = grouped(&builder).windowed_by(windows);
    let final_only = windowed.emit_strategy(EmitStrategy::OnWindowClose);
    let table = final_only.count(Materialized::named("w"));
    shown(builder, table)
}

#[test]
fn p25_every_window_that_closes_is_emitted_once() {
    let script = "in (a,v)@1 -> -
         in (a,v)@2 -> -
         in (b,v)@10 -> out ([a@0/10],2)@2
         in (b,v)@11 -> -
         in (c,v)@40 -> out ([b@10/20],2)@11
         in (d,v)@41 -> -
         in (e,v)@90 -> out ([c@40/50],1)@40; out ([d@40/50],1)@41";
    check_results(on_close(TimeWindows::of(millis(10))), script);
    check_uncached(on_close(TimeWindows::of(millis(10))), script);
}

#[test]
fn p25_sliding_windows_that_close_are_emitted_once() {
    let topology = || {
        let builder = StreamsBuilder::new();
        let windowed = grouped(&builder).windowed_by(SlidingWindows::of(millis(10)));
        let final_only = windowed.emit_strategy(EmitStrategy::OnWindowClose);
        shown(builder, final_only.count(Materialized::named("w")))
    };
    let script = "in (a,v)@1 -> -
         in (a,v)@2 -> -
         in (b,v)@10 -> -
         in (b,v)@11 -> out ([a@0/10],2)@2; out ([b@0/10],1)@10
         in (c,v)@40 -> out ([b@1/11],2)@11; out ([a@2/12],1)@2; out ([b@11/21],1)@11
         in (d,v)@41 -> out ([c@30/40],1)@40
         in (e,v)@90 -> out ([d@31/41],1)@41";
    check_results(topology(), script);
    check_uncached(topology(), script);
}

#[test]
fn p25_sessions_that_close_are_emitted_once() {
    let builder = StreamsBuilder::new();
    let windowed = grouped(&builder).windowed_by(SessionWindows::of(millis(5)));
    let final_only = windowed.emit_strategy(EmitStrategy::OnWindowClose);
    check_results(
        shown(builder, final_only.count(Materialized::named("w"))),
        "in (a,v)@0 -> -
         in (a,v)@3 -> -
         in (b,v)@8 -> -
         in (b,v)@9 -> out ([a@0/3],2)@3
         in (c,v)@100 -> out ([b@8/9],2)@9",
    );
}

/// P19: what `suppress` sends is final: a session or sliding window whose end is reached still takes records with just that time.
#[test]
fn p19_suppressed_windows_with_their_end_are_sent_after_it() {
    let sessions = || {
        let builder = StreamsBuilder::new();
        let windowed = grouped(&builder).windowed_by(SessionWindows::of(millis(5)));
        let counted = windowed.count(Materialized::named("w"));
        shown(builder, counted.suppress(Suppressed::until_window_closes()))
    };
    let script = "in (a,v)@0 -> -
         in (a,v)@3 -> -
         in (b,v)@8 -> -
         in (a,v)@8 -> -
         in (c,v)@100 -> out ([a@0/8],3)@8; out ([b@8/8],1)@8";
    check_results(sessions(), script);
    check_uncached(sessions(), script);
    let sliding = || {
        let builder = StreamsBuilder::new();
        let windowed = grouped(&builder).windowed_by(SlidingWindows::of(millis(10)));
        let counted = windowed.count(Materialized::named("w"));
        shown(builder, counted.suppress(Suppressed::until_window_closes()))
    };
    let script = "in (a,v)@10 -> -
         in (a,v)@10 -> -
         in (b,v)@11 -> out ([a@0/10],2)@10";
    check_results(sliding(), script);
    check_uncached(sliding(), script);
    check_as_java(
        sliding(),
        "in (a,v)@10 -> out ([a@0/10],1)@10
         in (a,v)@10 -> out ([a@0/10],2)@10",
    );
}

/// A windowed aggregate that its type writes as null is none, whether or not a record cache is between.
#[test]
fn an_aggregate_that_is_null_deletes_its_window() {
    let topology = || {
        let builder = StreamsBuilder::new();
        builder
            .stream("in", Consumed::<String, Option<String>>::new())
            .group_by_key(Grouped::new())
            .windowed_by(TimeWindows::of(millis(10)))
            .reduce(|_, new| new, Materialized::named("w"))
            .map_values(|value| format!("{value:?}"))
            .to_stream_with_key(|key, _| key.to_string())
            .to("out", Produced::new());
        builder.build().expect("builds")
    };
    let script = "in (a,1)@0 -> out ([a@0/10],Some(\"1\"))@0
         in (a,null)@1 -> out ([a@0/10],null)@1
         in (a,2)@2 -> out ([a@0/10],Some(\"2\"))@2";
    check_results(topology(), script);
    check_uncached(topology(), script);
}

/// P26: how often to look is a setting; the default is always.
#[test]
fn p26_final_results_do_not_wait_for_the_wall_clock() {
    let config = StreamsConfig::new("app", "unused:1").set("emit.interval.ms", "1000");
    let script = |second: &str| {
        format!(
            "in (a,v)@1 -> -
             in (b,v)@20 -> out ([a@0/10],1)@1
             in (c,v)@40 -> {second}"
        )
    };
    let results = |topic: &str| !topic.starts_with("app-");
    let windows = TimeWindows::of(millis(10));
    check_results(on_close(windows), &script("out ([b@20/30],1)@20"));
    // The first look was at the first record.
    let waits = "in (a,v)@1 -> -
         in (b,v)@20 -> -";
    check_topics(on_close(windows), config.expect("a setting"), waits, results);
}

#[test]
fn p27_sessions_merge_with_deletions_before_the_result() {
    let windows = SessionWindows::of(millis(5)).grace(millis(100));
    check_results(
        sessions(windows, Materialized::named("w")),
        "in (a,v)@0 -> out ([a@0/0],1)@0
         in (a,v)@3 -> out ([a@0/0],null)@0; out ([a@0/3],2)@3
         in (a,v)@13 -> out ([a@13/13],1)@13
         in (a,v)@8 -> out ([a@0/3],null)@3; out ([a@13/13],null)@13; out ([a@0/13],4)@13
         in (a,v)@19 -> out ([a@19/19],1)@19",
    );
    check_results(
        sessions(windows, Materialized::named("w")),
        "in (a,v)@0 -> out ([a@0/0],1)@0
         in (a,v)@5 -> out ([a@0/0],null)@0; out ([a@0/5],2)@5
         in (a,v)@11 -> out ([a@11/11],1)@11",
    );
}

#[test]
fn p28_a_session_never_starts_anew_at_its_closing_edge() {
    let script = |found: &str| {
        format!(
            "in (a,v)@0 -> out ([a@0/0],1)@0
             in (b,v)@5 -> out ([b@5/5],1)@5
             in (a,v)@0 -> {found}"
        )
    };
    let windows = SessionWindows::of(millis(5));
    for materialized in [Materialized::named("w"), Materialized::named("w").in_memory()] {
        check_results(sessions(windows, materialized), &script("out ([a@0/0],2)@0"));
    }
    let uncached = Materialized::named("w").caching_disabled();
    check_uncached(sessions(windows, uncached), &script("out ([a@0/0],2)@0"));
    let uncached = Materialized::named("w").caching_disabled();
    check_as_java(sessions(windows, uncached), &script("out ([a@0/0],1)@0"));
}

#[test]
fn p30_a_record_from_the_future_is_counted_and_stops_nothing() {
    check_results(
        counted(TimeWindows::of(millis(10)).grace(millis(100))),
        "in (a,v)@5 -> out ([a@0/10],1)@5
         in (b,v)@4102444800000 -> out ([b@4102444800000/4102444800010],1)@4102444800000
         in (a,v)@6 -> -
         in (a,v)@1000 -> -",
    );
    check_results(
        counted(TimeWindows::of(millis(10))),
        "in (a,v)@9223372036854775802 -> -
         in (a,v)@5 -> -",
    );
}

#[test]
fn p36_p37_nulls_and_deletions_in_aggregates() {
    let builder = StreamsBuilder::new();
    let values = builder.stream("in", Consumed::<Option<String>, Option<String>>::new());
    let counts = values.group_by_key(Grouped::new()).count(Materialized::named("c"));
    counts.to_stream().to("out", Produced::new());
    check_results(
        builder.build().expect("builds"),
        "in (a,1)@10 -> out (a,1)@10
         in (a,null)@11 -> -
         in (null,x)@12 -> -
         in (a,2)@5 -> out (a,2)@10",
    );
    let builder = StreamsBuilder::new();
    grouped(&builder)
        .aggregate(
            || "init".to_string(),
            |_, all, value| (value != "del").then(|| all + &value),
            Materialized::named("g"),
        )
        .to_stream()
        .to("out", Produced::new());
    check_results(
        builder.build().expect("builds"),
        "in (a,1)@0 -> out (a,init1)@0
         in (a,del)@1 -> out (a,null)@1
         in (a,2)@2 -> out (a,init2)@2
         in (a,del)@3 -> out (a,null)@3
         in (a,del)@4 -> -",
    );
}

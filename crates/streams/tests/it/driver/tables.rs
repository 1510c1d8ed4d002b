//! Tables: sources, operators, stores, groups, suppression.

use super::{check, check_results};
use kstreams::prelude::*;

fn table(
    builder: &StreamsBuilder,
    materialized: Materialized<String, String>,
) -> KTable<String, String> {
    builder.table("t", Consumed::new(), materialized)
}

fn out(builder: StreamsBuilder, table: &KTable<String, String>) -> Topology {
    table.to_stream().to("out", Produced::new());
    builder.build().expect("builds")
}

/// P43: for a table with a store, as Java: the same value goes on again, a deletion of nothing does not, a null key is dropped.
#[test]
fn p43_the_same_value_goes_on_again() {
    let builder = StreamsBuilder::new();
    let table = table(&builder, Materialized::named("st"));
    check(
        out(builder, &table),
        "t (a,1)@0 -> app-st-changelog (a,1)@0; out (a,1)@0
         t (a,1)@5 -> app-st-changelog (a,1)@5; out (a,1)@5
         t (a,1)@3 -> app-st-changelog (a,1)@3; out (a,1)@3
         t (a,null)@6 -> app-st-changelog (a,null)@6; out (a,null)@6
         t (a,null)@7 -> -
         t (null,x)@8 -> -",
    );
}

#[test]
fn a_table_without_need_of_a_store_has_none() {
    let builder = StreamsBuilder::new();
    let table =
        table(&builder, Materialized::new()).filter(|_, v| v != "x").map_values(|v| v + "!");
    let topology = out(builder, &table);
    assert!(!topology.describe().contains("STATE-STORE"), "{topology}");
    check(
        topology,
        "t (a,1)@0 -> out (a,1!)@0
         t (a,x)@1 -> out (a,null)@1
         t (a,null)@2 -> out (a,null)@2",
    );
}

#[test]
fn a_filter_behind_a_store_says_nothing_of_what_was_never_there() {
    let builder = StreamsBuilder::new();
    let table = table(&builder, Materialized::named("st")).filter(|_, v| v != "x");
    check_results(
        out(builder, &table),
        "t (a,x)@0 -> -
         t (a,1)@1 -> out (a,1)@1
         t (a,x)@2 -> out (a,null)@2
         t (a,null)@3 -> -",
    );
}

/// P41: a new release filters what an earlier one copied. Without stores it deletes all that does not qualify; with one it
/// deletes what it knows to have been there, which the docs of `filter` say, and how to go about it.
#[test]
fn p41_a_new_filter_deletes_what_an_old_release_wrote() {
    let deleted = |table: KTable<String, String>, builder, expected| {
        let kept = table.filter(|_, v| !v.starts_with('-'));
        check_results(out(builder, &kept), expected);
    };
    let builder = StreamsBuilder::new();
    deleted(table(&builder, Materialized::new()), builder, "t (1,-1)@1 -> out (1,null)@1");
    let builder = StreamsBuilder::new();
    deleted(table(&builder, Materialized::named("st")), builder, "t (1,-1)@1 -> -");
}

#[test]
fn mapped_values_may_leave_keys_out() {
    let builder = StreamsBuilder::new();
    let numbers = table(&builder, Materialized::new())
        .filter_map_values(|v| v.parse::<i64>().ok())
        .materialized(Materialized::named("numbers"));
    assert_eq!(numbers.queryable_store_name(), Some("numbers"));
    numbers.map_values(|n| format!("{n}")).to_stream().to("out", Produced::new());
    check_results(
        builder.build().expect("builds"),
        "t (a,7)@0 -> out (a,7)@0
         t (a,no)@1 -> out (a,null)@1
         t (a,no)@2 -> -",
    );
}

/// Java's numbers: the store of an unnamed `Materialized` comes before the operator's own names.
#[test]
fn unnamed_stores_are_numbered_as_in_java() {
    let builder = StreamsBuilder::new();
    let (a, b) = (
        table(&builder, Materialized::new()),
        builder.table("u", Consumed::new(), Materialized::new()),
    );
    let joined =
        a.join(&b, |a: &String, b: &String| format!("{a}{b}")).materialized(Materialized::new());
    let filtered = joined.filter(|_, _| true).materialized(Materialized::new());
    let described = out(builder, &filtered).describe();
    for name in [
        "KTABLE-MERGE-0000000007 (stores: [KTABLE-MERGE-STATE-STORE-0000000006])",
        "KTABLE-JOINTHIS-0000000008 (stores: [u-STATE-STORE-0000000003])",
        "KTABLE-FILTER-0000000011 (stores: [])",
    ] {
        assert!(described.contains(name), "{described}");
    }
}

#[test]
fn a_table_is_materialized_once() {
    let builder = StreamsBuilder::new();
    let twice =
        table(&builder, Materialized::named("st")).materialized(Materialized::named("again"));
    twice.to_stream().to("out", Produced::new());
    let error = builder.build().expect_err("refused").to_string();
    assert!(error.contains("materialized() is for tables that were just made"), "{error}");
    assert!(error.contains("tables.rs"), "{error}");
}

#[test]
fn a_stream_of_changes_becomes_a_table() {
    let builder = StreamsBuilder::new();
    let table = builder
        .stream("t", Consumed::<String, Option<String>>::new())
        .map(|key, value| (key[..1].to_string(), value))
        .to_table(Materialized::<String, String>::named("st"));
    check_results(
        out(builder, &table),
        "t (ab,1)@4 {h=1} -> out (a,1)@4 {h=1}
         t (ac,null)@3 -> out (a,null)@3
         t (ac,null)@5 -> -",
    );
}

/// P39: a count of 0 stays; the old value is taken away before the new one is added.
#[test]
fn p39_a_count_falls_to_zero_and_stays() {
    let builder = StreamsBuilder::new();
    table(&builder, Materialized::new())
        .group_by(|_, v| (v[..1].to_string(), v), Grouped::new())
        .count(Materialized::named("counts"))
        .map_values(|count| count.to_string())
        .to_stream()
        .to("out", Produced::new());
    check_results(
        builder.build().expect("builds"),
        "t (k1,x1)@0 -> out (x,1)@0
         t (k1,x2)@1 -> out (x,1)@1
         t (k1,y1)@2 -> out (x,0)@2; out (y,1)@2
         t (k1,null)@3 -> out (y,0)@3",
    );
}

#[test]
fn groups_are_summed_and_may_vanish() {
    let builder = StreamsBuilder::new();
    let size = |v: &String| v.len() as i64;
    table(&builder, Materialized::new())
        .group_by(move |k, v| (k[..1].to_string(), size(&v)), Grouped::named("by-initial"))
        .aggregate(
            || 0,
            |_, sum, n| sum + n,
            |_, sum, n| Some(sum - n).filter(|sum| *sum > 0),
            Materialized::<String, i64>::named("sums"),
        )
        .map_values(|sum| sum.to_string())
        .to_stream()
        .to("out", Produced::new());
    check_results(
        builder.build().expect("builds"),
        "t (ab,xxx)@9 -> out (a,3)@9
         t (ac,xx)@5 -> out (a,5)@9
         t (ab,null)@6 -> out (a,2)@9
         t (ac,null)@7 -> out (a,null)@9",
    );
}

/// P42: a plain table follows its topic, not the timestamps; a versioned one knows better.
#[test]
fn p42_an_older_update_overwrites_a_newer_one_only_in_a_plain_table() {
    let run = |materialized, expected: &str| {
        let builder = StreamsBuilder::new();
        let table = table(&builder, materialized);
        builder
            .stream("s", Consumed::<String, String>::new())
            .join_table(&table, |s, t| format!("{s}+{t}"), Joined::new())
            .to("out", Produced::new());
        let script = format!(
            "t (a,new)@10 -> -
             t (a,old)@5 -> -
             s (a,S)@20 -> out (a,{expected})@20"
        );
        check_results(builder.build().expect("builds"), &script);
    };
    run(Materialized::named("plain"), "S+old");
    run(Materialized::versioned("versioned", millis(1000)), "S+new");
}

/// P23: the wait begins with the first change in the buffer, and the last one goes on.
#[test]
fn p23_suppress_until_a_time_limit() {
    let builder = StreamsBuilder::new();
    let calm = table(&builder, Materialized::named("st"))
        .suppress(Suppressed::until_time_limit(millis(10)));
    check_results(
        out(builder, &calm),
        "t (a,1)@0 -> -
         t (a,2)@5 {h=2} -> -
         t (b,x)@9 -> -
         t (b,y)@10 -> out (a,2)@5 {h=2}
         t (c,z)@15 -> -
         t (c,null)@16 -> -
         t (d,z)@40 -> out (b,y)@10; out (c,null)@16",
    );
}

#[test]
fn p23_a_full_buffer_lets_the_first_change_go_or_stops() {
    let run = |suppressed, last: &str| {
        let builder = StreamsBuilder::new();
        let calm = table(&builder, Materialized::named("st")).suppress(suppressed);
        let script = format!(
            "t (a,1)@0 -> -
             t (a,2)@5 -> -
             t (b,x)@9 -> {last}"
        );
        check_results(out(builder, &calm), &script);
    };
    let limit = || Suppressed::until_time_limit(millis(100)).max_records(1).with_name("calm");
    run(limit(), "out (a,2)@5");
    run(
        limit().shut_down_when_full(),
        "error: operator calm failed: the buffer is full: it has 2 records and 63 bytes, at most 1 records are allowed \
         (topic t, partition 0, offset 2) (task 0_0)",
    );
}

/// P20: nothing but records moves the time, and a window has one result.
#[test]
fn p20_final_results_come_when_their_window_closes() {
    let builder = StreamsBuilder::new();
    builder
        .stream("t", Consumed::<String, String>::new())
        .group_by_key(Grouped::new())
        .windowed_by(TimeWindows::of(millis(10)).grace(millis(5)))
        .count(Materialized::named("w"))
        .suppress(Suppressed::until_window_closes())
        .to_stream_with_key(|key, _| key.to_string())
        .map_values(|count| count.map(|count| count.to_string()))
        .to("out", Produced::new());
    check_results(
        builder.build().expect("builds"),
        "t (b,x)@2 -> -
         t (a,x)@0 -> -
         t (a,x)@1 -> -
         t (c,x)@14 -> -
         t (c,x)@15 -> out ([a@0/10],2)@1; out ([b@0/10],1)@2
         t (a,x)@3 -> -
         t (c,x)@40 -> out ([c@10/20],2)@15",
    );
}

#[test]
fn final_results_need_windows() {
    let builder = StreamsBuilder::new();
    let _ = builder
        .stream("t", Consumed::<String, String>::new())
        .group_by_key(Grouped::new())
        .windowed_by(TimeWindows::of(millis(10)))
        .count(Materialized::named("w"))
        .suppress(Suppressed::until_window_closes());
    assert!(builder.build().is_ok());
    let builder = StreamsBuilder::new();
    let _ = builder
        .table("t", Consumed::<SessionWindowed<String>, String>::new(), Materialized::new())
        .suppress(Suppressed::until_window_closes());
    let error = builder.build().expect_err("refused").to_string();
    assert!(error.contains("not made by a windowed aggregation"), "{error}");
}

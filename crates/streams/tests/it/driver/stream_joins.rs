//! Joins of two streams: the cases of public reports, and what always holds.

use super::{check_results, check_topics};
use crate::random::Random;
use kstreams::prelude::*;

type Text = Option<String>;

fn cat(one: Option<&Text>, two: Option<&Text>) -> String {
    let text = |part: Option<&Text>| part.cloned().flatten().unwrap_or_else(|| "null".into());
    text(one) + "+" + &text(two)
}

#[derive(Clone, Copy)]
enum Kind {
    Inner,
    Left,
    Outer,
}

fn join(kind: Kind, windows: JoinWindows, joined: StreamJoined<Text, Text, Text>) -> Topology {
    let builder = StreamsBuilder::new();
    let l = builder.stream("l", Consumed::<Text, Text>::new());
    let r = builder.stream("r", Consumed::<Text, Text>::new());
    let results = match kind {
        Kind::Inner => l.join(&r, |l, r| cat(Some(l), Some(r)), windows, joined),
        Kind::Left => l.left_join(&r, |l, r| cat(Some(l), r), windows, joined),
        Kind::Outer => l.outer_join(&r, cat, windows, joined),
    };
    results.to("out", Produced::new());
    builder.build().expect("builds")
}

/// Within 10 ms, with that grace.
fn within_10(kind: Kind, grace: u64) -> Topology {
    let windows = JoinWindows::of(millis(10)).grace(millis(grace));
    join(kind, windows, StreamJoined::new())
}

/// On disk and in memory.
fn check_both(kind: Kind, grace: u64, script: &str) {
    check_results(within_10(kind, grace), script);
    let windows = JoinWindows::of(millis(10)).grace(millis(grace));
    check_results(join(kind, windows, StreamJoined::new().in_memory()), script);
}

fn check_as_java(topology: Topology, script: &str) {
    let config = StreamsConfig::new("app", "unused:1").set("compatibility", "java-4.4");
    check_topics(topology, config.expect("a setting"), script, |topic| !topic.starts_with("app-"));
}

#[test]
fn p01_no_match_is_said_only_after_the_grace() {
    check_both(
        Kind::Left,
        20,
        "l (adv,x)@115 -> -
         l (a,A)@100 -> -
         r (a,r)@105 -> out (a,A+r)@105
         l (z,z)@200 -> out (adv,x+null)@115",
    );
    check_both(
        Kind::Outer,
        20,
        "l (adv,x)@115 -> -
         r (a,R)@100 -> -
         l (a,A)@105 -> out (a,A+R)@105",
    );
    check_as_java(
        within_10(Kind::Left, 20),
        "l (adv,x)@115 -> -
         l (a,A)@100 -> out (a,A+null)@100
         r (a,r)@105 -> out (a,A+r)@105",
    );
}

#[test]
fn p02_a_record_has_partners_or_none() {
    check_both(
        Kind::Left,
        0,
        "l (a,A)@0 -> -
         l (z,z)@11 -> out (a,A+null)@0
         r (a,R)@3 -> -",
    );
    check_as_java(
        within_10(Kind::Left, 0),
        "l (a,A)@0 -> -
         l (z,z)@11 -> out (a,A+null)@0
         r (a,R)@3 -> out (a,A+R)@3",
    );
}

#[test]
fn p04_late_records_are_dropped_whichever_side_moved_the_time() {
    for (advance, java) in [("l", "out (a,L+R)@5"), ("r", "-")] {
        let script = |last: &str| {
            format!(
                "r (a,R)@0 -> -
                 {advance} (z,z)@100 -> -
                 l (a,L)@5 -> {last}"
            )
        };
        check_both(Kind::Inner, 0, &script("-"));
        check_as_java(within_10(Kind::Inner, 0), &script(java));
    }
    let script = |last: &str| {
        format!(
            "l (z,z)@1000 -> -
             l (null,A)@0 -> {last}"
        )
    };
    check_both(Kind::Left, 0, &script("-"));
    check_as_java(within_10(Kind::Left, 0), &script("out (null,A+null)@0"));
}

/// P04: what is dropped is counted.
#[test]
fn p04_late_records_are_counted() {
    let mut driver = TopologyTestDriver::new(within_10(Kind::Inner, 0)).expect("a driver");
    let mut l = driver.input::<Text, Text>("l");
    for (key, time) in [("z", 100), ("a", 5)] {
        l.pipe_key_value_at(&mut driver, time, Some(key.into()), Some("v".into())).expect("piped");
    }
    assert_eq!(driver.dropped_records(), 1);
}

#[test]
fn p05_a_record_is_found_as_long_as_it_can_be_reached() {
    for (time, java) in [(20, "-"), (19, "out (a,L+R)@10")] {
        let script = |last: &str| {
            format!(
                "r (a,R)@0 -> -
                 r (z,z)@{time} -> -
                 l (a,L)@10 -> {last}"
            )
        };
        check_both(Kind::Inner, 0, &script("out (a,L+R)@10"));
        check_as_java(within_10(Kind::Inner, 0), &script(java));
    }
}

#[test]
fn p06_duplicates_all_join() {
    check_both(
        Kind::Inner,
        0,
        "l (a,L1)@5 -> -
         l (a,L2)@5 -> -
         l (a,L1)@5 -> -
         r (a,R)@6 -> out (a,L1+R)@6; out (a,L2+R)@6; out (a,L1+R)@6",
    );
}

#[test]
fn p08_null_keys_and_values() {
    let script = |left: &str, right: &str| {
        format!(
            "l (null,A)@0 -> {left}
             r (null,R)@1 -> {right}
             l (a,null)@2 -> -"
        )
    };
    let (left, right) = ("out (null,A+null)@0", "out (null,null+R)@1");
    check_both(Kind::Inner, 0, &script("-", "-"));
    check_both(Kind::Left, 0, &script(left, "-"));
    check_both(Kind::Outer, 0, &script(left, right));
}

#[test]
fn p65_an_unmatched_result_has_its_own_headers() {
    let script = |headers: &str| {
        format!(
            "l (a,A)@0 {{h=hA}} -> -
             l (a,B)@0 -> -
             l (z,Z)@50 {{h=hZ}} -> out (a,A+null)@0 {{h={headers}}}; out (a,B+null)@0"
        )
    };
    check_both(Kind::Left, 0, &script("hA"));
}

#[test]
fn windows_may_lie_on_one_side_or_apart() {
    let after = JoinWindows::of(millis(10)).before(millis(0));
    check_results(
        join(Kind::Inner, after, StreamJoined::new()),
        "l (a,L)@100 -> -
         r (a,R)@99 -> -
         r (a,R)@100 -> out (a,L+R)@100
         r (a,R)@110 -> out (a,L+R)@110
         r (a,R)@111 -> -",
    );
    let apart = JoinWindows::between(5, 10);
    check_results(
        join(Kind::Left, apart, StreamJoined::new()),
        "l (a,L)@100 -> -
         r (a,R)@104 -> -
         r (a,R)@105 -> out (a,L+R)@105
         l (b,L)@106 -> -
         l (z,Z)@117 -> out (b,L+null)@106",
    );
}

/// P02 for any order of arrival: a record of an outer side has partners or one result without, and never both; no partner lies
/// outside the window; a pair comes once.
#[test]
fn p02_holds_in_any_order() {
    for seed in 0..200 {
        arrivals(seed);
    }
}

fn arrivals(seed: u64) {
    let mut random = Random(seed * 2 + 0x9e37_79b9);
    random.below(2);
    let (before, after, grace) = (random.below(12), random.below(12), random.below(3) * 7);
    let kind = if random.below(2) == 0 { Kind::Left } else { Kind::Outer };
    let windows = JoinWindows::of(millis(0)).before(millis(before)).after(millis(after));
    let topology = join(kind, windows.grace(millis(grace)), StreamJoined::new());
    let mut driver = TopologyTestDriver::new(topology).expect("a driver");
    let (mut l, mut r) = (driver.input::<Text, Text>("l"), driver.input::<Text, Text>("r"));
    let mut out = driver.output::<Text, String>("out");
    let mut now = 0;
    for number in 0..60 {
        now += random.below(4);
        let time = now.saturating_sub(random.below(30)) as i64;
        let key = Some(["a", "b"][random.below(2) as usize].to_string());
        let side = if random.below(2) == 0 { &mut l } else { &mut r };
        side.pipe_key_value_at(&mut driver, time, key, Some(format!("{number}@{time}")))
            .expect("piped");
    }
    for input in [&mut l, &mut r] {
        let end = Some("end@100000".to_string());
        input.pipe_key_value_at(&mut driver, 100_000, Some("z".into()), end).expect("piped");
    }
    let context = format!("seed {seed}: before {before}, after {after}, grace {grace}");
    let results = out.read_values(&mut driver).expect("results");
    check_pairs(&results, before as i64, after as i64, &context);
}

fn check_pairs(results: &[String], before: i64, after: i64, context: &str) {
    let mut seen = std::collections::BTreeSet::new();
    let (mut matched, mut alone) = (seen.clone(), seen.clone());
    let time = |record: &str| -> i64 {
        record.split_once('@').and_then(|(_, time)| time.parse().ok()).expect("a time")
    };
    for result in results.iter().filter(|result| !result.contains("end@")) {
        assert!(seen.insert(result.clone()), "{context}: {result} came twice");
        match result.split_once('+').expect("two sides") {
            (one, "null") | ("null", one) => {
                alone.insert(one.to_string());
            }
            (left, right) => {
                let distance = time(right) - time(left);
                assert!((-before..=after).contains(&distance), "{context}: {result} is too far");
                matched.extend([left.to_string(), right.to_string()]);
            }
        }
    }
    let both: Vec<&String> = alone.intersection(&matched).collect();
    assert!(both.is_empty(), "{context}: {both:?} have partners and none");
}

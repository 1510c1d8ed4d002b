//! Versioned stores.

use super::{Bench, log_text};
use crate::state::{PutResult, StoreToken, Stores, VersionedKeyValueStore};
use std::time::Duration;

type Versions = VersionedKeyValueStore<String, String>;

fn token(history: u64, segment: u64) -> StoreToken<Versions> {
    let token = Stores::versioned_key_value("s", Duration::from_millis(history));
    token.segment_interval(Duration::from_millis(segment))
}

fn put(bench: &Bench<Versions>, key: &str, at: i64, value: &str) -> PutResult {
    let value = (value != "-").then(|| value.to_string());
    bench.at(at).put(&key.to_string(), value.as_ref(), at).expect("puts")
}

fn as_of(bench: &Bench<Versions>, key: &str, at: i64) -> String {
    let found = bench.store().get_as_of(&key.to_string(), at).expect("gets");
    found.map_or("-".into(), |version| {
        let to = version.valid_to.map_or("…".into(), |to| to.to_string());
        format!("{}@{}..{to}", version.value, version.timestamp)
    })
}

#[test]
fn late_values_take_their_place_in_the_history() {
    for token in [token(100, 10), token(100, 10).in_memory(), token(100, 1_000)] {
        let mut bench = Bench::open(token);
        assert_eq!(put(&bench, "k", 20, "b"), PutResult::Latest);
        assert_eq!(put(&bench, "k", 10, "a"), PutResult::ValidTo(20));
        assert_eq!(put(&bench, "k", 40, "d"), PutResult::Latest);
        assert_eq!(put(&bench, "k", 30, "-"), PutResult::ValidTo(40));
        assert_eq!(put(&bench, "k", 40, "e"), PutResult::Latest);
        for step in ["written", "committed", "restarted"] {
            let shown = [9, 10, 19, 20, 29, 30, 39, 40, 100].map(|at| as_of(&bench, "k", at));
            let expected = [
                "-",
                "a@10..20",
                "a@10..20",
                "b@20..30",
                "b@20..30",
                "-",
                "-",
                "e@40..…",
                "e@40..…",
            ];
            assert_eq!(shown, expected, "{step}");
            match step {
                "written" => drop(bench.commit()),
                _ => bench.restart(),
            }
        }
    }
}

#[test]
fn what_is_older_than_the_history_is_gone_but_for_the_latest() {
    let mut bench = Bench::open(token(100, 10));
    put(&bench, "k", 0, "a");
    put(&bench, "k", 50, "b");
    put(&bench, "old", 0, "c");
    put(&bench, "x", 300, "x");
    assert_eq!(put(&bench, "k", 199, "late"), PutResult::NotPut);
    assert_eq!(bench.dropped(), 1);
    assert_eq!(as_of(&bench, "k", 20), "-");
    assert_eq!(as_of(&bench, "k", 150), "b@50..…");
    assert_eq!(as_of(&bench, "old", 150), "c@0..…");
    let expected = "6b=a@0 6b=b@50 6f6c64=c@0 78=x@300 6b=late@199";
    let log = bench.commit();
    assert_eq!(log_text(&log), expected);
    let restored = Bench::restored(bench.token, &log);
    assert_eq!(as_of(&restored, "k", 250), "b@50..…");
    assert_eq!(as_of(&restored, "k", 20), "-");
    assert_eq!(put(&restored, "k", 199, "late"), PutResult::NotPut);
}

#[test]
fn a_deleted_key_has_a_history() {
    let mut bench = Bench::open(token(1_000, 10));
    put(&bench, "k", 10, "a");
    let old = bench.at(20).delete(&"k".into(), 20).expect("deletes").expect("a value");
    assert_eq!((old.value.as_str(), old.valid_to), ("a", None));
    assert_eq!(bench.store().get(&"k".into()).expect("gets"), None);
    assert_eq!([15, 20, 30].map(|at| as_of(&bench, "k", at)), ["a@10..20", "-", "-"]);
    assert_eq!(put(&bench, "k", 30, "b"), PutResult::Latest);
    assert_eq!([15, 25, 30].map(|at| as_of(&bench, "k", at)), ["a@10..20", "-", "b@30..…"]);
    let log = bench.commit();
    let restored = Bench::restored(bench.token, &log);
    assert_eq!([15, 25, 30].map(|at| as_of(&restored, "k", at)), ["a@10..20", "-", "b@30..…"]);
}

/// In Java 4.4 a tombstone at the latest value's own time is forgotten, and an older value that comes later is the latest.
#[test]
fn a_tombstone_in_place_of_the_latest_value_is_remembered() {
    for (is_correct, expected) in [(true, PutResult::ValidTo(20)), (false, PutResult::Latest)] {
        let token = token(1_000, 10);
        let bench = match is_correct {
            true => Bench::correct(token, 0, 1 << 20),
            false => Bench::open(token),
        };
        put(&bench, "k", 20, "b");
        put(&bench, "k", 20, "-");
        assert_eq!(put(&bench, "k", 10, "a"), expected);
        let latest = bench.store().get(&"k".into()).expect("gets");
        assert_eq!(latest.is_none(), is_correct);
        assert_eq!(as_of(&bench, "k", 15), if is_correct { "a@10..20" } else { "a@10..…" });
    }
}

//! Window stores.

use super::{Bench, log_text};
use crate::error::Result;
use crate::state::{StoreToken, Stores, TimestampedWindowStore, WindowStore};
use crate::windowed::TimeWindowed;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

type Windows = WindowStore<String, String>;

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn token(retention: u64) -> StoreToken<Windows> {
    Stores::window("s", ms(retention), ms(10))
}

fn put(bench: &Bench<Windows>, key: &str, start: i64, value: &str) {
    let value = (value != "-").then(|| value.to_string());
    bench.at(start).put(&key.to_string(), value.as_ref(), start).expect("puts");
}

fn values(values: impl Iterator<Item = Result<(i64, String)>>) -> String {
    let text = |entry: Result<(i64, String)>| {
        let (start, value) = entry.expect("an entry");
        format!("{start}={value}")
    };
    values.map(text).collect::<Vec<_>>().join(" ")
}

fn entries(entries: impl Iterator<Item = Result<(TimeWindowed<String>, String)>>) -> String {
    let text = |entry: Result<(TimeWindowed<String>, String)>| {
        let (key, value) = entry.expect("an entry");
        format!("{key}={value}")
    };
    entries.map(text).collect::<Vec<_>>().join(" ")
}

fn fetch(store: &Windows, key: &str, from: i64, to: i64) -> String {
    values(store.fetch_range(&key.to_string(), from..=to).expect("a range"))
}

fn both(token: StoreToken<Windows>) -> [Bench<Windows>; 2] {
    [Bench::open(token), Bench::open(token.in_memory())]
}

#[test]
fn windows_are_read_by_key_and_time() {
    for mut bench in both(token(1_000)) {
        for (key, start, value) in [("a", 20, "1"), ("a", 10, "2"), ("ab", 15, "3"), ("b", 20, "4")]
        {
            put(&bench, key, start, value);
        }
        for step in ["written", "committed", "restarted"] {
            let store = bench.store();
            assert_eq!(fetch(store, "a", 10, 20), "10=2 20=1", "{step}");
            assert_eq!(fetch(store, "a", 11, 100), "20=1", "{step}");
            assert_eq!(fetch(store, "c", 0, 100), "", "{step}");
            assert_eq!(store.fetch(&"a".into(), 10).expect("get"), Some("2".into()), "{step}");
            assert_eq!(store.fetch(&"a".into(), 11).expect("get"), None, "{step}");
            let backward = store.backward_fetch_range(&"a".into(), ..).expect("a range");
            assert_eq!(values(backward), "20=1 10=2", "{step}");
            match step {
                "written" => assert_eq!(bench.commit().len(), 4),
                _ => bench.restart(),
            }
        }
    }
}

/// On disk Java goes through the segments and in each by key, in memory by time and key.
#[test]
fn several_keys_come_in_javas_order() {
    let orders = [
        "[a@0/10]=1 [a@20/30]=2 [b@10/20]=3 [a@60000/60010]=4 [b@60000/60010]=5",
        "[a@0/10]=1 [b@10/20]=3 [a@20/30]=2 [a@60000/60010]=4 [b@60000/60010]=5",
    ];
    for (mut bench, expected) in both(token(100_000)).into_iter().zip(orders) {
        put(&bench, "b", 60_000, "5");
        put(&bench, "a", 20, "2");
        bench.commit();
        bench.restart();
        put(&bench, "b", 10, "3");
        put(&bench, "a", 0, "1");
        put(&bench, "a", 60_000, "4");
        let store = bench.store();
        assert_eq!(entries(store.all().expect("all")), expected);
        let reversed: Vec<&str> = expected.split(' ').rev().collect();
        assert_eq!(entries(store.backward_all().expect("all")), reversed.join(" "));
        let by_time = entries(store.fetch_all_by_time(..).expect("all"));
        assert_eq!(by_time, orders[1]);
        let some = store.fetch_keys("b".to_string().., 10..60_000).expect("some");
        assert_eq!(entries(some), "[b@10/20]=3");
    }
}

#[test]
fn what_is_older_than_the_retention_is_not_shown_and_goes_away() {
    for mut bench in both(token(100_000)) {
        put(&bench, "a", 0, "1");
        put(&bench, "a", 50_001, "2");
        put(&bench, "a", 100_000, "3");
        bench.commit();
        // At 100_000 the window at 0 is just too old.
        assert_eq!(fetch(bench.store(), "a", 0, 200_000), "50001=2 100000=3");
        assert_eq!(bench.store().fetch(&"a".into(), 0).expect("get"), None);
        bench.restart();
        assert_eq!(fetch(bench.store(), "a", 0, 200_000), "50001=2 100000=3");
        put(&bench, "b", 400_000, "4");
        assert_eq!(entries(bench.store().all().expect("all")), "[b@400000/400010]=4");
        bench.commit();
        bench.restart();
        assert_eq!(entries(bench.store().all().expect("all")), "[b@400000/400010]=4");
    }
}

/// Java logs a put that its store drops. Only one into a segment that is gone counts as dropped, in memory each too old one.
#[test]
fn a_late_put_is_logged_and_counted() {
    for (bench, late_in_segment) in both(token(100_000)).into_iter().zip([0, 1]) {
        let mut bench = bench;
        put(&bench, "a", 160_000, "1");
        put(&bench, "a", 60_000, "2");
        assert_eq!(bench.dropped(), late_in_segment);
        put(&bench, "a", 59_999, "3");
        assert_eq!(bench.dropped(), late_in_segment + 1);
        assert_eq!(fetch(bench.store(), "a", 0, 200_000), "160000=1");
        let log = bench.commit();
        let expected = "61000000000002710000000000=1@160000 61000000000000ea6000000000=2@60000 \
                        61000000000000ea5f00000000=3@59999";
        assert_eq!(log_text(&log), expected);
    }
}

#[test]
fn duplicates_are_numbered_and_all_kept() {
    for mut bench in both(token(1_000).retain_duplicates()) {
        put(&bench, "a", 10, "1");
        put(&bench, "a", 10, "2");
        put(&bench, "a", 10, "-");
        put(&bench, "a", 5, "3");
        let log = bench.commit();
        let expected = "61000000000000000a00000001=1@10 61000000000000000a00000002=2@10 \
                        61000000000000000a00000003=-@10 61000000000000000500000004=3@5";
        assert_eq!(log_text(&log), expected);
        assert_eq!(fetch(bench.store(), "a", 0, 10), "5=3 10=1 10=2");
        assert_eq!(bench.store().fetch(&"a".into(), 10).expect("get"), Some("2".into()));
        // The numbers go on, so that nothing is overwritten.
        bench.restart();
        put(&bench, "a", 10, "4");
        assert_eq!(fetch(bench.store(), "a", 0, 10), "5=3 10=1 10=2 10=4");
        let more = bench.commit();
        assert_eq!(log_text(&more), "61000000000000000a00000005=4@10");
        let log = [log, more].concat();
        let restored = Bench::restored(bench.token, &log);
        assert_eq!(fetch(restored.store(), "a", 0, 10), "5=3 10=1 10=2 10=4");
    }
}

#[test]
fn deleted_windows_stay_deleted() {
    for mut bench in both(token(1_000)) {
        put(&bench, "a", 10, "1");
        put(&bench, "a", 20, "2");
        bench.commit();
        bench.restart();
        put(&bench, "a", 10, "-");
        put(&bench, "a", 30, "3");
        put(&bench, "a", 30, "-");
        assert_eq!(fetch(bench.store(), "a", 0, 100), "20=2");
        assert_eq!(entries(bench.store().all().expect("all")), "[a@20/30]=2");
        bench.commit();
        assert_eq!(fetch(bench.store(), "a", 0, 100), "20=2");
        bench.restart();
        assert_eq!(fetch(bench.store(), "a", 0, 100), "20=2");
    }
}

#[test]
fn uncommitted_windows_are_lost_with_the_task() {
    for mut bench in both(token(1_000)) {
        put(&bench, "a", 10, "1");
        bench.commit();
        put(&bench, "a", 10, "2");
        put(&bench, "a", 500, "3");
        bench.restart();
        assert_eq!(fetch(bench.store(), "a", 0, 1_000), "10=1");
    }
}

#[test]
fn a_restore_gives_the_same_windows_without_the_expired_ones() {
    for mut bench in both(token(100_000)) {
        put(&bench, "a", 0, "1");
        put(&bench, "a", 90_000, "2");
        put(&bench, "b", 90_000, "3");
        let mut log = bench.commit();
        put(&bench, "b", 90_000, "-");
        put(&bench, "a", 165_000, "4");
        log.extend(bench.commit());
        let mut restored = Bench::restored(bench.token, &log);
        assert_eq!(
            entries(restored.store().all().expect("all")),
            "[a@90000/90010]=2 [a@165000/165010]=4"
        );
        // The time that was observed came along.
        put(&restored, "a", 10, "late");
        assert_eq!(restored.dropped(), 1);
        restored.commit();
        assert_eq!(fetch(restored.store(), "a", 0, 200_000), "90000=2 165000=4");
    }
}

/// P33: what was expired goes from disk and from memory after a restore too.
#[test]
fn p33_expired_windows_go_after_a_restore() {
    let row = |number: usize| {
        let start = (number % 10) as i64;
        let mut key = format!("k{number}").into_bytes();
        key.extend(start.to_be_bytes());
        key.extend(0_i32.to_be_bytes());
        (key, Some(b"v".to_vec()), start)
    };
    // As many as a restore writes in bulk, in each of its parts.
    let log: Vec<_> = (0..24_000).map(row).collect();
    for token in [token(100), token(100).in_memory()] {
        let mut bench = Bench::restored(token, &log);
        assert_eq!(bench.rows(), 24_000);
        put(&bench, "k", 600_000, "new");
        bench.commit();
        assert_eq!(entries(bench.store().all().expect("all")), "[k@600000/600010]=new");
        assert_eq!(bench.rows(), 1, "in the engine");
        bench.restart();
        assert_eq!(entries(bench.store().all().expect("all")), "[k@600000/600010]=new");
    }
}

/// With a record cache the last change of a window leaves it at the commit, with the value before it if that was asked for.
#[test]
fn a_cached_store_forwards_and_logs_the_last_change() {
    for in_memory in [false, true] {
        let token = Stores::timestamped_window::<String, String>("s", ms(1_000), ms(10));
        let token = if in_memory { token.in_memory() } else { token }.caching_enabled();
        let mut bench = Bench::with_cache_of(token, 1 << 20, 1 << 20);
        let seen = Rc::new(RefCell::new(Vec::new()));
        let sink = seen.clone();
        let store = bench.store();
        let cached = store.forward_changes(
            move |change, _| {
                let show = |value: Option<String>| value.unwrap_or("-".into());
                let (new, old) = (show(change.new), show(change.old));
                sink.borrow_mut().push(format!("{} {old}>{new}@{}", change.key, change.timestamp));
                Ok(())
            },
            "node".into(),
            true,
        );
        assert!(cached);
        let put =
            |store: &TimestampedWindowStore<String, String>, key: &str, start, value: &str, at| {
                let value = value.to_string();
                let value = (value != "-").then_some((&value, at));
                store.put(&key.to_string(), value, start).expect("puts");
            };
        put(bench.at(1), "a", 0, "1", 1);
        put(bench.at(2), "b", 0, "1", 2);
        put(bench.at(3), "a", 0, "2", 3);
        put(bench.at(4), "c", 0, "1", 4);
        put(bench.at(5), "c", 0, "-", 5);
        let fetched = bench.store().fetch(&"a".into(), 0).expect("get");
        assert_eq!(fetched, Some(("2".into(), 3)));
        let log = log_text(&bench.commit());
        assert_eq!(log, "62000000000000000000000000=1@2 61000000000000000000000000=2@3");
        assert_eq!(seen.take(), ["[b@0/10] ->1@2", "[a@0/10] ->2@3"]);
        put(bench.at(6), "a", 0, "3", 6);
        put(bench.at(7), "b", 0, "-", 7);
        let all = bench.store().all().expect("all").map(|entry| entry.expect("an entry").1);
        assert_eq!(all.collect::<Vec<_>>(), [("3".to_string(), 6)]);
        let log = log_text(&bench.commit());
        assert_eq!(log, "61000000000000000000000000=3@6 62000000000000000000000000=-@7");
        assert_eq!(seen.take(), ["[a@0/10] 2>3@6", "[b@0/10] 1>-@7"]);
    }
}

#[test]
fn a_window_before_the_epoch_is_refused() {
    let bench = Bench::open(token(1_000));
    let error = bench.store().put(&"a".into(), None, -1).expect_err("refused");
    assert_eq!(error.to_string(), "store s: a window cannot start at -1");
}

/// Java leaves `a` out here on disk: in its bounds the bytes of keys and times are not told apart.
#[test]
fn a_range_of_keys_holds_them_whatever_their_bytes_are() {
    for bench in both(token(1_000_000)) {
        put(&bench, "a", 102_000, "1");
        put(&bench, "a\0", 101_000, "2");
        put(&bench, "a\u{1}", 101_000, "3");
        let found = bench.store().fetch_keys(..="a\0".to_string(), 100_000..).expect("a range");
        let mut found: Vec<String> = found.map(|entry| entry.expect("an entry").1).collect();
        found.sort();
        assert_eq!(found, ["1", "2"]);
    }
}

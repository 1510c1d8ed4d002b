//! Session stores.

use super::{Bench, log_text};
use crate::error::Result;
use crate::state::{SessionStore, StoreToken, Stores};
use crate::windowed::{SessionWindowed, Window};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

type Sessions = SessionStore<String, String>;

fn token(retention: u64) -> StoreToken<Sessions> {
    Stores::session("s", Duration::from_millis(retention))
}

fn put(bench: &Bench<Sessions>, key: &str, start: i64, end: i64, value: &str) {
    let value = (value != "-").then(|| value.to_string());
    let window = Window::new(start, end);
    bench.at(end).put(&key.to_string(), window, value.as_ref()).expect("puts");
}

fn values(found: impl Iterator<Item = Result<(Window, String)>>) -> String {
    let text = |entry: Result<(Window, String)>| {
        let (window, value) = entry.expect("an entry");
        format!("{}..{}={value}", window.start, window.end)
    };
    found.map(text).collect::<Vec<_>>().join(" ")
}

fn entries(found: impl Iterator<Item = Result<(SessionWindowed<String>, String)>>) -> String {
    let text = |entry: Result<(SessionWindowed<String>, String)>| {
        let (key, value) = entry.expect("an entry");
        format!("{key}={value}")
    };
    found.map(text).collect::<Vec<_>>().join(" ")
}

fn both(token: StoreToken<Sessions>) -> [Bench<Sessions>; 2] {
    [Bench::open(token), Bench::open(token.in_memory())]
}

#[test]
fn sessions_are_found_by_their_ends_and_starts() {
    for mut bench in both(token(1_000)) {
        for (start, end, value) in [(40, 50, "3"), (10, 20, "1"), (25, 30, "2")] {
            put(&bench, "a", start, end, value);
        }
        put(&bench, "b", 15, 26, "4");
        for step in ["written", "committed", "restarted"] {
            let (store, key) = (bench.store(), "a".to_string());
            let found = |end, start| values(store.find_sessions(&key, end, start).expect("finds"));
            assert_eq!(found(20, 40), "10..20=1 25..30=2 40..50=3", "{step}");
            assert_eq!(found(21, 39), "25..30=2", "{step}");
            assert_eq!(found(51, 100), "", "{step}");
            let backward = store.backward_fetch(&key).expect("fetches");
            assert_eq!(values(backward), "40..50=3 25..30=2 10..20=1", "{step}");
            let session = store.fetch_session(&key, Window::new(25, 30)).expect("fetches");
            assert_eq!(session, Some("2".into()), "{step}");
            assert_eq!(store.fetch_session(&key, Window::new(24, 30)).expect("none"), None);
            let by_end = entries(store.find_sessions_by_end(20..=30).expect("finds"));
            assert_eq!(by_end, "[a@10/20]=1 [b@15/26]=4 [a@25/30]=2", "{step}");
            match step {
                "written" => drop(bench.commit()),
                _ => bench.restart(),
            }
        }
    }
}

#[test]
fn several_keys_come_in_javas_order() {
    let orders = ["[a@0/9]=1 [a@5/30]=2 [b@0/10]=3", "[a@0/9]=1 [b@0/10]=3 [a@5/30]=2"];
    for (bench, expected) in both(token(1_000)).into_iter().zip(orders) {
        for (key, start, end, value) in [("b", 0, 10, "3"), ("a", 5, 30, "2"), ("a", 0, 9, "1")] {
            put(&bench, key, start, end, value);
        }
        let store = bench.store();
        assert_eq!(entries(store.fetch_keys(..).expect("all")), expected);
        let reversed: Vec<&str> = expected.split(' ').rev().collect();
        assert_eq!(entries(store.backward_fetch_keys(..).expect("all")), reversed.join(" "));
        let some = store.find_sessions_of_keys("b".to_string().., 10, 5).expect("finds");
        assert_eq!(entries(some), "[b@0/10]=3");
    }
}

#[test]
fn a_session_that_grows_leaves_one_row() {
    for mut bench in both(token(1_000)) {
        put(&bench, "a", 10, 10, "1");
        bench.commit();
        for end in 11..20 {
            bench.at(end).remove(&"a".into(), Window::new(10, end - 1)).expect("removes");
            put(&bench, "a", 10, end, "2");
        }
        assert_eq!(values(bench.store().fetch(&"a".into()).expect("fetches")), "10..19=2");
        let log = bench.commit();
        assert_eq!(log.len(), 18);
        let key = |end: u8| format!("6100000000000000{end:02x}000000000000000a");
        let expected = format!("{}=-@11 {}=2@11", key(10), key(11));
        assert_eq!(log_text(&log[..2]), expected);
        bench.restart();
        assert_eq!(values(bench.store().fetch(&"a".into()).expect("fetches")), "10..19=2");
    }
}

#[test]
fn old_sessions_go_and_late_ones_are_dropped() {
    for mut bench in both(token(100_000)) {
        put(&bench, "a", 0, 10, "1");
        put(&bench, "a", 200_000, 200_000, "2");
        put(&bench, "b", 5, 20, "3");
        assert_eq!(bench.dropped(), 1);
        assert_eq!(entries(bench.store().fetch_keys(..).expect("all")), "[a@200000/200000]=2");
        let log = bench.commit();
        assert_eq!(log.len(), 3);
        let restored = Bench::restored(bench.token, &log);
        assert_eq!(entries(restored.store().fetch_keys(..).expect("all")), "[a@200000/200000]=2");
        put(&restored, "b", 5, 20, "3");
        assert_eq!(restored.dropped(), 1);
    }
}

#[test]
fn a_cached_store_forwards_merged_sessions_once() {
    let mut bench = Bench::with_cache_of(token(1_000).caching_enabled(), 1 << 20, 1 << 20);
    let seen = Rc::new(RefCell::new(Vec::new()));
    let sink = seen.clone();
    let cached = bench.store().forward_changes(
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
    put(&bench, "a", 10, 10, "1");
    bench.at(12).remove(&"a".into(), Window::new(10, 10)).expect("removes");
    put(&bench, "a", 10, 12, "2");
    assert_eq!(values(bench.store().fetch(&"a".into()).expect("fetches")), "10..12=2");
    bench.commit();
    assert_eq!(seen.take(), ["[a@10/12] ->2@12"]);
    bench.at(14).remove(&"a".into(), Window::new(10, 12)).expect("removes");
    put(&bench, "a", 10, 14, "3");
    assert_eq!(values(bench.store().fetch(&"a".into()).expect("fetches")), "10..14=3");
    bench.commit();
    assert_eq!(seen.take(), ["[a@10/12] 2>-@14", "[a@10/14] ->3@14"]);
    bench.restart();
    assert_eq!(values(bench.store().fetch(&"a".into()).expect("fetches")), "10..14=3");
}

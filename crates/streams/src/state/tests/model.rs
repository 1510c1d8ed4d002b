//! Stores beside plain maps: many small steps from one seed, with commits, restarts and little memory in between.

use super::Bench;
use crate::state::{SessionStore, Stores, VersionedKeyValueStore, WindowStore};
use crate::windowed::Window;
use std::collections::BTreeMap;
use std::time::Duration;

struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }

    fn key(&mut self) -> String {
        ["a", "ab", "b", "a-key-that-is-longer-than-what-lies-inside"][self.below(4) as usize]
            .into()
    }
}

/// What is written and committed, and what was committed last.
#[derive(Clone, Default)]
struct Both<K: Ord + Clone> {
    now: (BTreeMap<K, String>, i64),
    committed: (BTreeMap<K, String>, i64),
}

const RETENTION: i64 = 150_000;

/// Little memory makes the engine answer; none of it must show.
const READ_CACHES: [usize; 2] = [1_000, 1 << 20];

#[test]
fn window_stores_are_as_plain_maps() {
    for seed in 1..=6 {
        for read_cache in READ_CACHES {
            for in_memory in [false, true] {
                windows(seed, read_cache, in_memory, seed % 2 == 0);
            }
        }
    }
}

fn windows(seed: u64, read_cache: usize, in_memory: bool, caching: bool) {
    let token = Stores::window::<String, String>(
        "s",
        Duration::from_millis(RETENTION as u64),
        Duration::from_secs(10),
    );
    let token = if in_memory { token.in_memory() } else { token };
    let token = if caching { token.caching_enabled() } else { token };
    let mut bench: Bench<WindowStore<String, String>> = Bench::correct(token, 1 << 20, read_cache);
    let mut random = Random(seed * 7_919);
    let mut model = Both::<(String, i64)>::default();
    model.now.1 = -1;
    model.committed.1 = -1;
    let mut time = 0;
    for step in 0..400 {
        time += random.below(2_000) as i64;
        let start = (time - random.below(200_000) as i64).max(0) / 1_000 * 1_000;
        let key = random.key();
        match random.below(20) {
            0 => {
                bench.commit();
                model.committed = model.now.clone();
            }
            1 => {
                bench.restart();
                model.now = model.committed.clone();
            }
            2..=3 => {
                bench.at(time).put(&key, None, start).expect("deletes");
                model.now.0.remove(&(key, start));
                model.now.1 = model.now.1.max(start);
            }
            _ => {
                let value = step.to_string();
                bench.at(time).put(&key, Some(&value), start).expect("puts");
                model.now.1 = model.now.1.max(start);
                model.now.0.insert((key, start), value);
            }
        }
        let (now, observed) = &mut model.now;
        now.retain(|(_, start), _| *start >= *observed - RETENTION);
        let context = format!("seed {seed} step {step} cache {read_cache} memory {in_memory}");
        check_windows(&bench, now, &mut random, time, &context);
        check_committed_windows(&mut bench, &model.committed.0, &mut random, time, &context);
    }
}

/// Other threads see the last commit.
fn check_committed_windows(
    bench: &mut Bench<WindowStore<String, String>>,
    committed: &BTreeMap<(String, i64), String>,
    random: &mut Random,
    time: i64,
    context: &str,
) {
    let (store, key) = (bench.read_only(), random.key());
    let from = (time - random.below(200_000) as i64).max(0);
    let to = from + random.below(100_000) as i64;
    let found = store.fetch_range(&key, from..=to).expect("a range");
    let found: Vec<_> = found.map(|entry| entry.expect("an entry")).collect();
    let expected: Vec<_> = committed
        .range((key.clone(), from)..=(key.clone(), to))
        .map(|((_, start), value)| (*start, value.clone()))
        .collect();
    assert_eq!(found, expected, "committed, {context}");
    let at = from / 1_000 * 1_000;
    let one = store.fetch(&key, at).expect("a value");
    assert_eq!(one.as_ref(), committed.get(&(key, at)), "committed, {context}");
    let all = store.all().expect("all").map(|entry| entry.expect("an entry"));
    let mut all: Vec<_> = all.map(|(key, value)| ((key.key, key.window.start), value)).collect();
    all.sort();
    let expected: Vec<_> = committed.clone().into_iter().collect();
    assert_eq!(all, expected, "committed, {context}");
}

fn check_windows(
    bench: &Bench<WindowStore<String, String>>,
    model: &BTreeMap<(String, i64), String>,
    random: &mut Random,
    time: i64,
    context: &str,
) {
    let store = bench.store();
    let key = random.key();
    let from = (time - random.below(200_000) as i64).max(0);
    let to = from + random.below(100_000) as i64;
    let found = store.fetch_range(&key, from..=to).expect("a range");
    let found: Vec<_> = found.map(|entry| entry.expect("an entry")).collect();
    let expected: Vec<_> = model
        .range((key.clone(), from)..=(key.clone(), to))
        .map(|((_, start), value)| (*start, value.clone()))
        .collect();
    assert_eq!(found, expected, "{context}");
    let at = from / 1_000 * 1_000;
    let one = store.fetch(&key, at).expect("a value");
    assert_eq!(one.as_ref(), model.get(&(key, at)), "{context}");
    let all = store.fetch_all_by_time(from..=to).expect("all");
    let all: Vec<_> = all
        .map(|entry| entry.expect("an entry"))
        .map(|(key, value)| (key.window.start, key.key, value))
        .collect();
    let mut expected: Vec<_> = model
        .iter()
        .filter(|((_, start), _)| (from..=to).contains(start))
        .map(|((key, start), value)| (*start, key.clone(), value.clone()))
        .collect();
    expected.sort();
    assert_eq!(all, expected, "{context}");
    let mut any: Vec<_> = store
        .fetch_all(from..=to)
        .expect("all")
        .map(|entry| entry.expect("an entry"))
        .map(|(key, value)| (key.window.start, key.key, value))
        .collect();
    any.sort();
    assert_eq!(any, expected, "{context}");
}

#[test]
fn session_stores_are_as_plain_maps() {
    for seed in 1..=6 {
        for read_cache in READ_CACHES {
            for in_memory in [false, true] {
                sessions(seed, read_cache, in_memory, seed % 2 == 0);
            }
        }
    }
}

fn sessions(seed: u64, read_cache: usize, in_memory: bool, caching: bool) {
    let retention = Duration::from_millis(RETENTION as u64);
    let token = Stores::session::<String, String>("s", retention);
    let token = if in_memory { token.in_memory() } else { token };
    let token = if caching { token.caching_enabled() } else { token };
    let mut bench: Bench<SessionStore<String, String>> = Bench::correct(token, 1 << 20, read_cache);
    let mut random = Random(seed * 104_729);
    let mut model = Both::<(String, i64, i64)>::default();
    model.now.1 = -1;
    model.committed.1 = -1;
    let mut time = 0;
    for step in 0..400 {
        time += random.below(2_000) as i64;
        let end = (time - random.below(200_000) as i64).max(0);
        let start = (end - random.below(20_000) as i64).max(0);
        let key = random.key();
        match random.below(20) {
            0 => {
                bench.commit();
                model.committed = model.now.clone();
            }
            1 => {
                bench.restart();
                model.now = model.committed.clone();
            }
            2..=7 => {
                let known = model.now.0.keys().nth(random.below(30) as usize).cloned();
                if let Some((key, end, start)) = known {
                    bench.at(time).remove(&key, Window::new(start, end)).expect("removes");
                    model.now.0.remove(&(key, end, start));
                }
            }
            _ => {
                let value = step.to_string();
                let window = Window::new(start, end);
                bench.at(time).put(&key, window, Some(&value)).expect("puts");
                model.now.1 = model.now.1.max(end);
                model.now.0.insert((key, end, start), value);
            }
        }
        let (now, observed) = &mut model.now;
        now.retain(|(_, end, _), _| *end >= *observed - RETENTION);
        let context = format!("seed {seed} step {step} cache {read_cache} memory {in_memory}");
        let (store, key) = (bench.store(), random.key());
        let from = (time - random.below(200_000) as i64).max(0);
        let latest = from + random.below(50_000) as i64;
        let found = store.find_sessions(&key, from, latest).expect("finds");
        let found: Vec<_> = found.map(|entry| entry.expect("an entry")).collect();
        let expected: Vec<_> = now
            .iter()
            .filter(|((other, end, start), _)| *other == key && *end >= from && *start <= latest)
            .map(|((_, end, start), value)| (Window::new(*start, *end), value.clone()))
            .collect();
        let by_end = |(window, _): &(Window, String)| (window.end, window.start);
        let mut found_in_order = found;
        found_in_order.sort_by_key(by_end);
        assert_eq!(found_in_order, expected, "{context}");

        // Other threads see the last commit.
        let found = bench.read_only().find_sessions(&key, from, latest).expect("finds");
        let mut found: Vec<_> = found.map(|entry| entry.expect("an entry")).collect();
        found.sort_by_key(by_end);
        let committed = model.committed.0.iter();
        let expected: Vec<_> = committed
            .filter(|((other, end, start), _)| *other == key && *end >= from && *start <= latest)
            .map(|((_, end, start), value)| (Window::new(*start, *end), value.clone()))
            .collect();
        assert_eq!(found, expected, "committed, {context}");
    }
}

#[test]
fn versioned_stores_are_as_plain_maps() {
    for seed in 1..=6 {
        for read_cache in READ_CACHES {
            versions(seed, read_cache);
        }
    }
}

/// Within the history the store answers as a map from keys and times to values does.
fn versions(seed: u64, read_cache: usize) {
    const HISTORY: i64 = 1_000;
    let token = Stores::versioned_key_value::<String, String>("s", Duration::from_millis(1_000));
    let token = token.segment_interval(Duration::from_millis(100));
    let mut bench: Bench<VersionedKeyValueStore<String, String>> =
        Bench::correct(token, 0, read_cache);
    let mut random = Random(seed * 15_485_863);
    let (mut now, mut committed) = (BTreeMap::new(), BTreeMap::new());
    let (mut time, mut committed_time) = (0, 0);
    let mut observed = -1;
    for step in 0..600 {
        time += random.below(40) as i64;
        let at = (time - random.below(900) as i64).max(0);
        let key = random.key();
        match random.below(20) {
            0 => {
                bench.commit();
                (committed, committed_time) = (now.clone(), observed);
            }
            1 => {
                bench.restart();
                (now, observed) = (committed.clone(), committed_time);
            }
            choice => {
                if at < observed - HISTORY {
                    continue;
                }
                let value = (choice > 5).then(|| step.to_string());
                bench.at(time).put(&key, value.as_ref(), at).expect("puts");
                now.insert((key, at), value);
                observed = observed.max(at);
            }
        }
        let (key, at) = (random.key(), observed - random.below(HISTORY as u64) as i64);
        let found = bench.store().get_as_of(&key, at).expect("gets").map(|found| found.value);
        let before = now.range((key.clone(), i64::MIN)..=(key.clone(), at)).next_back();
        let expected = before.and_then(|(_, value)| value.clone());
        assert_eq!(found, expected, "seed {seed} step {step}: {key} at {at}");
        let latest = bench.store().get(&key).expect("gets").map(|found| found.value);
        let last = now.range((key.clone(), i64::MIN)..=(key.clone(), i64::MAX)).next_back();
        assert_eq!(
            latest,
            last.and_then(|(_, v): (_, &Option<String>)| v.clone()),
            "seed {seed} step {step}"
        );

        // Other threads see the last commit.
        let at = committed_time - random.below(HISTORY as u64) as i64;
        let found = bench.read_only().get_as_of(&key, at).expect("gets").map(|found| found.value);
        let before = committed.range((key.clone(), i64::MIN)..=(key.clone(), at)).next_back();
        let expected = before.and_then(|(_, value): (_, &Option<String>)| value.clone());
        assert_eq!(found, expected, "committed, seed {seed} step {step}: {key} at {at}");
    }
}

//! Stores beside Java's: they give the answers that `testdata/stores/Answers.java` got from Kafka Streams 4.4 to the same scripts.

use super::Bench;
use crate::error::Result;
use crate::state::{
    PutResult, SessionStore, StoreToken, StoreType, Stores, VersionedKeyValueStore,
    VersionedRecord, WindowStore,
};
use crate::windowed::{SessionWindowed, TimeWindowed, Window};
use std::ops::Bound;
use std::time::Duration;

const RETENTION: Duration = Duration::from_secs(100);
const SIZE: Duration = Duration::from_millis(10);

/// How often there is a commit, and how much memory there is.
const RUNS: [(usize, usize); 3] = [(1, 1_000), (7, 1 << 20), (usize::MAX, 1 << 20)];

type Windows = WindowStore<String, String>;
type Sessions = SessionStore<String, String>;
type Versions = VersionedKeyValueStore<String, String>;

/// Replays a script: `answer` gets the words of an operation, and nothing for one that is left out.
fn replay<S: StoreType>(
    script: &str,
    token: StoreToken<S>,
    answer: impl Fn(&Bench<S>, &[&str]) -> Option<String>,
) {
    for (commits, read_cache) in RUNS {
        let mut bench = Bench::with_cache_of(token, 0, read_cache);
        for (number, line) in script.lines().enumerate() {
            let (operation, expected) = line.split_once(" = ").expect("an operation");
            let words: Vec<&str> = operation.split(' ').collect();
            let Some(mut said) = answer(&bench, &words) else { continue };
            if matches!(words[0], "put" | "remove") {
                let separator = if said.is_empty() { "" } else { ", " };
                said += &format!("{separator}dropped {}", bench.dropped());
            }
            assert_eq!(said, expected, "line {}: {operation}, commits {commits}", number + 1);
            if number % commits == commits - 1 {
                bench.commit();
            }
        }
    }
}

fn keys(words: &[&str]) -> (Bound<String>, Bound<String>) {
    let bound =
        |name: &str| if name == "*" { Bound::Unbounded } else { Bound::Included(name.into()) };
    (bound(words[1]), bound(words[2]))
}

fn number(word: &str) -> i64 {
    word.parse().expect("a number")
}

fn value(word: &str) -> Option<String> {
    (word != "-").then(|| word.into())
}

fn joined<T>(entries: impl Iterator<Item = Result<T>>, show: impl Fn(T) -> String) -> String {
    entries.map(|entry| show(entry.expect("an entry"))).collect::<Vec<_>>().join(" ")
}

fn shown(key: &str, window: Window, value: &str) -> String {
    format!("{key}@{}/{}:{value}", window.start, window.end)
}

fn window(bench: &Bench<Windows>, words: &[&str], duplicates: bool) -> Option<String> {
    let store = bench.store();
    let (from, to) = match words.len() {
        4.. if words[0] != "put" => {
            (number(words[words.len() - 2]), number(words[words.len() - 1]))
        }
        _ => (0, 0),
    };
    let values =
        |values| joined(values, |(start, value): (i64, String)| format!("{start}:{value}"));
    let entries = |entries| {
        joined(entries, |(key, value): (TimeWindowed<String>, String)| {
            shown(&key.key, key.window, &value)
        })
    };
    Some(match words[0] {
        "put" => {
            let put = store.put(&words[1].to_string(), value(words[3]).as_ref(), number(words[2]));
            put.expect("puts");
            String::new()
        }
        // Java looks for the last number that was given, whatever it was given to.
        "get" if duplicates => return None,
        "get" => {
            let value = store.fetch(&words[1].to_string(), number(words[2])).expect("gets");
            value.unwrap_or("-".into())
        }
        "fetch" => values(store.fetch_range(&words[1].to_string(), from..=to).expect("fetches")),
        "backward" => {
            values(store.backward_fetch_range(&words[1].to_string(), from..=to).expect("fetches"))
        }
        "keys" => entries(store.fetch_keys(keys(words), from..=to).expect("fetches")),
        "backward-keys" => {
            entries(store.backward_fetch_keys(keys(words), from..=to).expect("fetches"))
        }
        "all" => entries(store.all().expect("fetches")),
        "backward-all" => entries(store.backward_all().expect("fetches")),
        other => panic!("{other}"),
    })
}

#[test]
fn window_stores_answer_as_javas() {
    let token = Stores::window::<String, String>("s", RETENTION, SIZE);
    let disk = include_str!("../../../testdata/stores/window-disk.txt");
    replay(disk, token, |bench, words| window(bench, words, false));
    let memory = include_str!("../../../testdata/stores/window-memory.txt");
    replay(memory, token.in_memory(), |bench, words| window(bench, words, false));
}

#[test]
fn window_stores_with_duplicates_answer_as_javas() {
    let token = Stores::window::<String, String>("s", RETENTION, SIZE).retain_duplicates();
    let disk = include_str!("../../../testdata/stores/duplicates-disk.txt");
    replay(disk, token, |bench, words| window(bench, words, true));
    let memory = include_str!("../../../testdata/stores/duplicates-memory.txt");
    replay(memory, token.in_memory(), |bench, words| window(bench, words, true));
}

fn session(bench: &Bench<Sessions>, words: &[&str]) -> Option<String> {
    let store = bench.store();
    let last = words.len() - 1;
    let (x, y) = match words[0] {
        "fetch" => (0, 0),
        "put" => (number(words[2]), number(words[3])),
        _ => (number(words[last - 1]), number(words[last])),
    };
    let one = words[1].to_string();
    let values =
        |values| joined(values, |(window, value): (Window, String)| shown(&one, window, &value));
    let entries = |entries| {
        joined(entries, |(key, value): (SessionWindowed<String>, String)| {
            shown(&key.key, key.window, &value)
        })
    };
    Some(match words[0] {
        "put" => {
            store.put(&one, Window::new(x, y), value(words[4]).as_ref()).expect("puts");
            String::new()
        }
        "remove" => {
            store.remove(&one, Window::new(x, y)).expect("removes");
            String::new()
        }
        "get" => {
            let value = store.fetch_session(&one, Window::new(x, y)).expect("gets");
            value.unwrap_or("-".into())
        }
        "find" => values(store.find_sessions(&one, x, y).expect("finds")),
        "backward" => values(store.backward_find_sessions(&one, x, y).expect("finds")),
        "fetch" => values(store.fetch(&one).expect("fetches")),
        "keys" => entries(store.find_sessions_of_keys(keys(words), x, y).expect("finds")),
        "backward-keys" => {
            entries(store.backward_find_sessions_of_keys(keys(words), x, y).expect("finds"))
        }
        other => panic!("{other}"),
    })
}

#[test]
fn session_stores_answer_as_javas() {
    let token = Stores::session::<String, String>("s", RETENTION);
    replay(include_str!("../../../testdata/stores/session-disk.txt"), token, session);
    let memory = include_str!("../../../testdata/stores/session-memory.txt");
    replay(memory, token.in_memory(), session);
}

fn versioned(bench: &Bench<Versions>, words: &[&str]) -> Option<String> {
    let (store, key) = (bench.store(), words[1].to_string());
    let at = words.get(2).map_or(0, |word| number(word));
    let version = |found: Result<Option<VersionedRecord<String>>>| {
        // Java's store does not tell how long a value was valid.
        let found = found.expect("reads");
        found.map_or("-".into(), |found| format!("{}@{}", found.value, found.timestamp))
    };
    Some(match words[0] {
        "put" => match store.put(&key, value(words[3]).as_ref(), at).expect("puts") {
            PutResult::Latest => "latest".into(),
            PutResult::ValidTo(to) => format!("to {to}"),
            PutResult::NotPut => "not put".into(),
        },
        "delete" => version(store.delete(&key, at)),
        "get" => version(store.get(&key)),
        "as-of" => version(store.get_as_of(&key, at)),
        other => panic!("{other}"),
    })
}

#[test]
fn versioned_stores_answer_as_javas() {
    let token = Stores::versioned_key_value::<String, String>("s", Duration::from_secs(1));
    let token = token.segment_interval(Duration::from_millis(100));
    let script = include_str!("../../../testdata/stores/versioned.txt");
    replay(script, token, versioned);
    replay(script, token.in_memory(), versioned);
}

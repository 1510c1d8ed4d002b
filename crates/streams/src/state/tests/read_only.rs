//! Stores as other threads read them: what the last commit left, whatever happens meanwhile.

use super::Bench;
use crate::error::Result;
use crate::state::read_only::sealed::{Query, Source};
use crate::state::{
    GlobalStores, KeyValueStore, PartitionReader, Queryable, ReadOnlyKeyValueStore, Scope,
    StoreSource, StoreSpec, StoreToken, Stores, VersionedRecord,
};
use std::sync::Arc;
use std::time::Duration;

/// One partition, which is always here.
struct OneStore {
    reader: PartitionReader,
    globals: GlobalStores,
}

impl StoreSource for OneStore {
    fn spec(&self) -> &StoreSpec {
        &self.reader.spec
    }

    fn serde_topic(&self) -> Arc<str> {
        "t".into()
    }

    fn globals(&self) -> &GlobalStores {
        &self.globals
    }

    fn present(&self, _: Scope) -> Result<Vec<PartitionReader>> {
        Ok(vec![self.reader.clone()])
    }

    fn all(&self, _: Scope) -> Result<Vec<PartitionReader>> {
        Ok(vec![self.reader.clone()])
    }

    fn check_absent(&self, _: Scope, _: &[u8]) -> Result<()> {
        Ok(())
    }
}

impl<S: Queryable> Bench<S> {
    /// The store as another thread sees it.
    pub(super) fn read_only(&mut self) -> S::ReadOnly {
        let token = self.token;
        self.read_only_by(&token).expect("a handle")
    }

    fn read_only_by<T: Query>(&mut self, token: &StoreToken<T>) -> Result<T::ReadOnly> {
        let readers = self.set.as_mut().expect("open").readers().expect("readers");
        let reader = readers.into_iter().next().expect("a store").1;
        let globals = GlobalStores::new(&[]);
        T::read_only(token, Source(Arc::new(OneStore { reader, globals })))
    }
}

fn tokens() -> [StoreToken<KeyValueStore<String, i64>>; 2] {
    let token = Stores::key_value("s");
    [token, token.in_memory()]
}

fn shown(entries: impl Iterator<Item = Result<(String, i64)>>) -> String {
    let show = |entry: Result<(String, i64)>| {
        let (key, value) = entry.expect("an entry");
        format!("{key}{value}")
    };
    entries.map(show).collect::<Vec<_>>().join(" ")
}

fn put(bench: &Bench<KeyValueStore<String, i64>>, key: &str, value: Option<i64>) {
    bench.at(0).put(&key.to_string(), value.as_ref()).expect("puts");
}

/// P91: a query sees a write once it is committed, and never one that is given up.
#[test]
fn p91_only_what_is_committed_is_seen() {
    for token in tokens() {
        let mut bench = Bench::open(token);
        let counts = bench.read_only();
        let get = |counts: &ReadOnlyKeyValueStore<String, i64>, key: &str| {
            counts.get(&key.to_string()).expect("a look")
        };
        put(&bench, "a", Some(1));
        put(&bench, "b", Some(1));
        assert_eq!(get(&counts, "a"), None);
        bench.commit();
        assert_eq!(shown(counts.all().expect("all")), "a1 b1");
        put(&bench, "a", Some(2));
        put(&bench, "b", None);
        put(&bench, "c", Some(2));
        assert_eq!(get(&counts, "a"), Some(1));
        assert_eq!(shown(counts.range("b".to_string()..).expect("a range")), "b1");
        assert_eq!(shown(counts.reverse_all().expect("all")), "b1 a1");
        let before = counts.all().expect("all");
        bench.commit();
        assert_eq!(get(&counts, "a"), Some(2));
        assert_eq!(shown(counts.all().expect("all")), "a2 c2");
        assert_eq!(shown(counts.prefix_scan("c").expect("a scan")), "c2");
        assert_eq!(shown(before), "a1 b1");
        put(&bench, "a", Some(3));
        bench.restart();
        assert_eq!(get(&bench.read_only(), "a"), Some(2));
    }
}

/// An iterator can outlive its task: the store can be opened again meanwhile, be written, and closed.
#[test]
fn iterators_outlive_the_task() {
    for token in tokens() {
        let mut bench = Bench::open(token);
        put(&bench, "a", Some(1));
        bench.commit();
        let entries = bench.read_only().all().expect("all");
        for value in 2..5 {
            bench.restart();
            put(&bench, "a", Some(value));
            bench.commit();
        }
        assert_eq!(shown(bench.read_only().all().expect("all")), "a4");
        drop(bench);
        let read = std::thread::spawn(move || shown(entries));
        assert_eq!(read.join().expect("read"), "a1");
    }
}

/// Threads that look all the time while one commits: each sees one commit as a whole, and never an older one than before.
#[test]
fn commits_are_seen_as_a_whole() {
    for token in tokens() {
        let mut bench = Bench::open(token);
        let keys = ["a", "b", "c"];
        keys.iter().for_each(|key| put(&bench, key, Some(0)));
        bench.commit();
        let counts = bench.read_only();
        std::thread::scope(|scope| {
            for _ in 0..2 {
                let counts = counts.clone();
                scope.spawn(move || {
                    let mut last = 0;
                    while last < 200 {
                        let values: Vec<i64> =
                            counts.all().expect("all").map(|entry| entry.expect("one").1).collect();
                        assert_eq!(values, [values[0]; 3]);
                        assert!(values[0] >= last);
                        last = values[0];
                    }
                });
            }
            for value in 1..=200 {
                keys.iter().for_each(|key| put(&bench, key, Some(value)));
                bench.commit();
            }
        });
    }
}

/// As in Java, a store with timestamps can be read without them; types and kinds have to be the store's.
#[test]
fn tokens_have_to_fit() {
    let mut bench = Bench::open(Stores::timestamped_key_value::<String, i64>("s"));
    bench.at(7).put(&"a".to_string(), Some((&1, 7))).expect("puts");
    bench.commit();
    assert_eq!(bench.read_only().get(&"a".to_string()).expect("a look"), Some((1, 7)));
    let plain = bench.read_only_by(&Stores::key_value::<String, i64>("s")).expect("a handle");
    assert_eq!(plain.get(&"a".to_string()).expect("a look"), Some(1));
    let error = bench.read_only_by(&Stores::key_value::<String, i32>("s")).expect_err("refused");
    assert!(error.to_string().contains("holds (alloc::string::String, i64)"), "{error}");
    let hour = Duration::from_secs(3_600);
    let error = bench.read_only_by(&Stores::session::<String, i64>("s", hour));
    assert!(error.expect_err("refused").to_string().contains("of another kind"));
    let mut plain = Bench::open(Stores::key_value::<String, i64>("s"));
    let error = plain.read_only_by(&Stores::timestamped_key_value::<String, i64>("s"));
    assert!(error.expect_err("refused").to_string().contains("keeps no timestamps"));
}

#[test]
fn the_history_of_a_key_is_read_over_segments() {
    let day = Duration::from_secs(86_400);
    let token = Stores::versioned_key_value::<String, i64>("s", day);
    let mut bench = Bench::open(token.segment_interval(Duration::from_millis(20)));
    let key = "a".to_string();
    for (value, time) in [(Some(1), 10), (Some(2), 25), (None, 40), (Some(3), 70), (Some(4), 95)] {
        bench.at(time).put(&key, value.as_ref(), time).expect("puts");
    }
    assert_eq!(bench.read_only().get(&key).expect("a look"), None);
    bench.commit();
    let prices = bench.read_only();
    let history = |from, to| {
        let found = prices.history(&key, from..=to).expect("a look");
        let show = |found: VersionedRecord<i64>| (found.value, found.timestamp, found.valid_to);
        found.into_iter().map(show).collect::<Vec<_>>()
    };
    let all = [(4, 95, None), (3, 70, Some(95)), (2, 25, Some(40)), (1, 10, Some(25))];
    assert_eq!(history(0, 1_000), all);
    assert_eq!(history(24, 70), all[1..]);
    assert_eq!(history(40, 69), []);
    assert_eq!(history(i64::MIN, 25), all[2..]);
    assert_eq!(prices.get_as_of(&key, 30).expect("a look").map(|found| found.value), Some(2));
}

//! Stores in the hands of a processor.

use kstreams::prelude::*;
use kstreams::state::{StoreToken, StoreType};

type Text = KeyValueStore<String, String>;

/// A topology whose only purpose is its store.
fn with_store<S: StoreType>(token: StoreToken<S>) -> Topology {
    struct Idle;
    impl Processor for Idle {
        type In = (String, String);
        type Out = ((), ());

        fn process(&mut self, _: Record<String, String>, _: &mut Context<Self>) -> ProcessResult {
            Ok(())
        }
    }
    let mut topology = TopologyBuilder::new();
    let source = topology.add_source("source", "in", Consumed::<String, String>::new());
    let idle = topology.add_processor("idle", |_| Ok(Idle), &[&source]);
    topology.connect_store(&token, &idle);
    topology.build().expect("builds")
}

/// Runs `test` on a store in memory and on one on disk.
fn on_both(test: impl Fn(&mut TopologyTestDriver, StoreToken<Text>)) {
    let memory = Stores::key_value::<String, String>("store").in_memory();
    test(&mut TopologyTestDriver::new(with_store(memory)).expect("a driver"), memory);
    let disk = Stores::key_value::<String, String>("store");
    let dir = tempfile::tempdir().expect("a directory");
    let config = StreamsConfig::new("app", "unused:1").state_dir(dir.path());
    let driver = TopologyTestDriver::with_config(with_store(disk), &config);
    test(&mut driver.expect("a driver"), disk);
}

fn keys(entries: kstreams::state::Entries<String, String>) -> String {
    let keys: Vec<String> = entries.map(|entry| entry.expect("an entry").0).collect();
    keys.join(" ")
}

/// Commits what was written so far.
fn commit(driver: &mut TopologyTestDriver) {
    driver.pipe_bytes("in", Some(b"k"), Some(b"v"), 0, &Headers::new()).expect("processed");
}

#[test]
fn ranges_see_committed_and_uncommitted_entries_in_key_order() {
    on_both(|driver, token| {
        let store = driver.store(&token).expect("the store");
        for key in ["b", "d", "a"] {
            store.put(&key.into(), Some(&"1".into())).expect("put");
        }
        commit(driver);
        store.put(&"c".into(), Some(&"2".into())).expect("put");
        store.delete(&"b".into()).expect("deleted");
        assert_eq!(keys(store.all().expect("all")), "a c d");
        assert_eq!(keys(store.reverse_all().expect("all")), "d c a");
        assert_eq!(keys(store.range("a".to_string().."d".to_string()).expect("range")), "a c");
        assert_eq!(keys(store.range("b".to_string()..="d".to_string()).expect("range")), "c d");
        assert_eq!(keys(store.range("d".to_string().."a".to_string()).expect("range")), "");
        assert_eq!(keys(store.reverse_range(.."d".to_string()).expect("range")), "c a");
        assert_eq!(store.put_if_absent(&"a".into(), &"3".into()).expect("put"), Some("1".into()));
        assert_eq!(store.put_if_absent(&"b".into(), &"3".into()).expect("put"), None);
        assert_eq!(keys(store.all().expect("all")), "a b c d");
    });
}

/// What is deleted while a walk goes on stays deleted, at once and after a commit; the walk goes on over its snapshot.
#[test]
fn a_sweep_deletes_what_it_walks_over() {
    on_both(|driver, token| {
        let store = driver.store(&token).expect("the store");
        for number in 0..100 {
            store.put(&format!("{number:03}"), Some(&"x".into())).expect("put");
            if number == 50 {
                commit(driver);
            }
        }
        let mut walked = 0;
        for entry in store.all().expect("all") {
            let (key, _) = entry.expect("an entry");
            walked += 1;
            assert_eq!(store.delete(&key).expect("deleted"), Some("x".into()));
            assert_eq!(store.get(&key).expect("get"), None);
        }
        assert_eq!(walked, 100);
        assert_eq!(keys(store.all().expect("all")), "");
        commit(driver);
        assert_eq!(keys(store.all().expect("all")), "");
    });
}

/// P60: a prefix of 0xFF bytes has no upper bound.
#[test]
fn p60_prefix_scan_with_ff() {
    let check = |driver: &mut TopologyTestDriver,
                 token: StoreToken<KeyValueStore<Vec<u8>, String>>| {
        let store = driver.store(&token).expect("the store");
        for key in [&[0xfe][..], &[0xff], &[0xff, 0x00]] {
            store.put(&key.to_vec(), Some(&"x".into())).expect("put");
        }
        let found = |store: &KeyValueStore<Vec<u8>, String>| -> Vec<Vec<u8>> {
            let entries = store.prefix_scan([0xff]).expect("scan");
            entries.map(|entry| entry.expect("an entry").0).collect()
        };
        assert_eq!(found(&store), [vec![0xff], vec![0xff, 0x00]]);
        commit(driver);
        assert_eq!(found(&store), [vec![0xff], vec![0xff, 0x00]]);
    };
    let memory = Stores::key_value::<Vec<u8>, String>("store").in_memory();
    check(&mut TopologyTestDriver::new(with_store(memory)).expect("a driver"), memory);
    let disk = Stores::key_value::<Vec<u8>, String>("store");
    let dir = tempfile::tempdir().expect("a directory");
    let config = StreamsConfig::new("app", "unused:1").state_dir(dir.path());
    check(&mut TopologyTestDriver::with_config(with_store(disk), &config).expect("a driver"), disk);
}

/// The stores of a task that ends are closed at once: its next owner, perhaps another thread, opens the same files.
#[test]
fn p63_a_cached_table_can_be_opened_again_at_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let config = StreamsConfig::new("app", "unused:1").state_dir(dir.path());
    let builder = StreamsBuilder::new();
    builder
        .stream("in", Consumed::<String, String>::new())
        .group_by_key(Grouped::new())
        .count(Materialized::named("counts"))
        .to_stream()
        .to("out", Produced::new());
    let topology = builder.build().expect("builds");
    for round in 1..=20 {
        let driver = TopologyTestDriver::with_config(topology.clone(), &config);
        let mut driver = driver.expect("the stores are free");
        driver.pipe_bytes("in", Some(b"k"), Some(b"v"), 0, &Headers::new()).expect("processed");
        let counted = driver.take_records("out").pop().expect("a count");
        assert_eq!(counted.value.as_deref(), Some(&i64::to_be_bytes(round)[..]));
    }
}

#[test]
fn a_store_on_disk_is_there_after_a_restart() {
    let token = Stores::key_value::<String, String>("store");
    let dir = tempfile::tempdir().expect("a directory");
    let config = StreamsConfig::new("app", "unused:1").state_dir(dir.path());
    let mut driver = TopologyTestDriver::with_config(with_store(token), &config).expect("a driver");
    let store = driver.store(&token).expect("the store");
    store.put(&"committed".into(), Some(&"1".into())).expect("put");
    commit(&mut driver);
    store.put(&"lost".into(), Some(&"1".into())).expect("put");
    drop(store);
    drop(driver);
    let driver = TopologyTestDriver::with_config(with_store(token), &config).expect("a driver");
    let store = driver.store(&token).expect("the store");
    assert_eq!(keys(store.all().expect("all")), "committed");
}

/// Stores that go by time are there after a restart too, with the time that they had reached.
#[test]
fn windows_sessions_and_versions_are_there_after_a_restart() {
    use std::time::Duration;
    let (hour, minute) = (Duration::from_secs(3_600), Duration::from_secs(60));
    let windows = Stores::window::<String, i64>("windows", hour, minute);
    let sessions = Stores::session::<String, i64>("sessions", hour);
    let versions = Stores::versioned_key_value::<String, i64>("versions", hour);
    let dir = tempfile::tempdir().expect("a directory");
    let config = StreamsConfig::new("app", "unused:1").state_dir(dir.path());
    let topology = || {
        struct Keep(WindowStore<String, i64>, SessionStore<String, i64>, Versions);
        type Versions = VersionedKeyValueStore<String, i64>;
        impl Processor for Keep {
            type In = (String, i64);
            type Out = ((), ());

            fn process(
                &mut self,
                record: Record<String, i64>,
                _: &mut Context<Self>,
            ) -> ProcessResult {
                let Record { key, value, timestamp, .. } = record;
                self.0.put(&key, Some(&value), timestamp)?;
                self.1.put(&key, Window::new(timestamp, timestamp + 5), Some(&value))?;
                self.2.put(&key, Some(&value), timestamp)?;
                Ok(())
            }
        }
        let builder = StreamsBuilder::new();
        let stores = Processed::new().store(&windows).store(&sessions).store(&versions);
        let supplier = move |ctx: &mut InitContext<'_>| {
            Ok(Keep(ctx.store(&windows)?, ctx.store(&sessions)?, ctx.store(&versions)?))
        };
        let _ = builder.stream("in", Consumed::<String, i64>::new()).process(supplier, stores);
        builder.build().expect("builds")
    };
    let pipe = |driver: &mut TopologyTestDriver, at: i64, value: i64| {
        driver.input::<String, i64>("in").pipe_key_value_at(driver, at, "k", value).expect("piped");
    };
    let mut driver = TopologyTestDriver::with_config(topology(), &config).expect("a driver");
    pipe(&mut driver, 9_000_000, 1);
    pipe(&mut driver, 9_000_100, 2);
    drop(driver);
    let mut driver = TopologyTestDriver::with_config(topology(), &config).expect("a driver");
    // The stores know how late this is.
    pipe(&mut driver, 10, 3);
    assert_eq!(driver.dropped_records(), 3);
    let key = "k".to_string();
    let found = driver.store(&windows).expect("a store").fetch_range(&key, ..).expect("a range");
    let found: Vec<(i64, i64)> = found.map(|entry| entry.expect("an entry")).collect();
    assert_eq!(found, [(9_000_000, 1), (9_000_100, 2)]);
    let found = driver.store(&sessions).expect("a store").fetch(&key).expect("sessions");
    let found: Vec<(Window, i64)> = found.map(|entry| entry.expect("an entry")).collect();
    let window = |start| Window::new(start, start + 5);
    assert_eq!(found, [(window(9_000_000), 1), (window(9_000_100), 2)]);
    let store = driver.store(&versions).expect("a store");
    let value = |at| store.get_as_of(&key, at).expect("a version").map(|version| version.value);
    assert_eq!([8_999_999, 9_000_050, 9_000_100].map(value), [None, Some(1), Some(2)]);
}

/// A key that gives other bytes each time would never be found again: it is refused at the first use, with the reason.
#[test]
fn a_key_that_is_never_the_same_is_refused() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU8, Ordering};

    #[derive(Debug, Default)]
    struct Encrypting(AtomicU8);

    impl Serde<String> for Encrypting {
        fn serialize(
            &self,
            _: &At<'_>,
            key: &String,
            out: &mut Vec<u8>,
        ) -> Result<Presence, BoxError> {
            let nonce = self.0.fetch_add(1, Ordering::Relaxed);
            out.push(nonce);
            out.extend(key.bytes().map(|byte| byte ^ nonce));
            Ok(Presence::Value)
        }

        fn deserialize(&self, _: &At<'_>, bytes: &[u8]) -> Result<String, BoxError> {
            let (nonce, bytes) = bytes.split_first().ok_or("too short")?;
            Ok(String::from_utf8(bytes.iter().map(|byte| byte ^ nonce).collect())?)
        }
    }

    let serde: SerdeRef<String> = Arc::new(Encrypting::default());
    let token = Stores::key_value_with("members", serde, String::default_serde());
    let driver = TopologyTestDriver::new(with_store(token)).expect("a driver");
    let store = driver.store(&token).expect("the store");
    let error = store.put(&"ann".into(), Some(&"x".into())).expect_err("refused").to_string();
    assert!(error.starts_with("store members: cannot use this key: its serde gives other bytes"));
    assert_eq!(store.all().expect("all").count(), 0);
    assert!(store.delete(&"ann".into()).is_err());
}

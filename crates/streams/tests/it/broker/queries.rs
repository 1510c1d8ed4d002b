//! Stores read by threads of the user's own while the application runs, moves, fails and closes.

use super::app::{config, start};
use super::exactly_once::fence;
use crate::kafka::{Kafka, PATIENCE, SetAtEnd, unique};
use kstreams::prelude::*;
use kstreams::runtime::{
    FailureReason, HostInfo, KeyQuery, Position, RangeQuery, StateQueryRequest, ThreadResponse,
};
use kstreams_client::{Clock, SystemClock};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

const PARTITIONS: i32 = 4;

fn counts() -> StoreToken<KeyValueStore<String, i64>> {
    Stores::key_value("counts")
}

/// Asks again until the answer is `Some`.
fn eventually<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let clock = SystemClock::new();
    let end = clock.now() + PATIENCE;
    loop {
        if let Some(found) = ask() {
            return found;
        }
        assert!(clock.now() < end, "no {what} after {PATIENCE:?}");
        std::thread::yield_now();
    }
}

fn numbered(from: usize, to: usize) -> impl Iterator<Item = (String, String)> {
    (from..to).map(|number| (format!("k{}", number % 100), number.to_string()))
}

/// All that a local store has, added up.
fn total(store: &ReadOnlyKeyValueStore<String, i64>) -> Result<i64> {
    store.all()?.map(|entry| entry.map(|(_, count)| count)).sum()
}

/// P89: unknown, starting, moved and stopped are different errors; a handle goes on through a rebalance; both versions of queries
/// and the owners of keys.
#[test]
fn p89_each_reason_has_its_error() {
    let mut kafka = Kafka::shared();
    let (input, output) = (kafka.topic("in", PARTITIONS), kafka.topic("out", PARTITIONS));
    let dir = tempfile::tempdir().expect("a directory");
    let application = unique("queried");
    kafka.write(&input, PARTITIONS, numbered(0, 1_000));
    let at = |name: &str, port: u16| {
        config(&application, &kafka.bootstrap, &dir.path().join(name))
            .set("application.server", format!("{name}.example:{port}"))
            .expect("a setting")
    };
    let topology = || super::counts(&input, &output);
    let app = KafkaStreams::start(topology(), at("first", 1)).expect("starts");
    let unknown = app.store(&Stores::key_value::<String, i64>("count")).expect_err("unknown");
    assert_eq!(unknown.kind(), ErrorKind::UnknownStore);
    assert!(unknown.to_string().contains("it has counts"), "{unknown}");
    let store = app.store(&counts()).expect("a handle");
    // (a) Until the first task runs.
    assert_eq!(total(&store).expect_err("too early").kind(), ErrorKind::Starting);
    eventually("counts", || total(&store).ok().filter(|total| *total == 1_000));
    assert_eq!(store.get(&"k7".to_string()).expect("a look"), Some(10));
    assert_eq!(store.get(&"nobody".to_string()).expect("a look"), None);

    let bound = |offset| Position::of(&input, 0, offset);
    let request = StateQueryRequest::in_store(&counts()).with_query(RangeQuery::with_no_bounds());
    let answer = app.query(&request.clone().with_position_bound(bound(0))).expect("answers");
    assert_eq!(answer.partition_results().len(), PARTITIONS as usize);
    let reached = answer.position().offset(&input, 0).expect("an input");
    let entries = answer.into_partition_results().into_values();
    let sum: i64 = entries
        .flat_map(|partition| partition.result().expect("entries"))
        .map(|entry| entry.expect("an entry").1)
        .sum();
    assert_eq!(sum, 1_000);
    let request = request.with_partitions([0, 9]).with_position_bound(bound(reached + 1));
    let answers = app.query(&request).expect("answers").into_partition_results();
    assert_eq!(answers[&0].failure_reason(), Some(FailureReason::NotUpToBound));
    assert_eq!(answers[&9].failure_reason(), Some(FailureReason::DoesNotExist));

    // (b) A second instance takes half of the partitions.
    let second = start(topology(), at("second", 2));
    let elsewhere = HostInfo { host: "second.example".into(), port: 2 };
    let moved = eventually("moved key", || {
        (0..100).map(|number| format!("k{number}")).find(|key| {
            let error = store.get(key).err();
            error.is_some_and(|error| {
                let kind = error.kind();
                assert!(matches!(kind, ErrorKind::Moved | ErrorKind::Rebalancing), "{error}");
                kind == ErrorKind::Moved && error.to_string().contains("second.example:2")
            })
        })
    });
    let owner = app.key_owner(&counts(), moved.as_str()).expect("an owner");
    assert_eq!((owner.is_local, owner.host.as_ref()), (false, Some(&elsewhere)));
    let other = second.store(&counts()).expect("a handle");
    assert_eq!(eventually("value", || other.get(&moved).ok().flatten()), 10);
    let pinned = store.clone().partition(owner.partition);
    assert_eq!(pinned.get(&moved).expect_err("moved").kind(), ErrorKind::Moved);
    let request = StateQueryRequest::in_store(&counts())
        .with_query(KeyQuery::with_key(moved.clone()))
        .with_partitions([owner.partition]);
    let answer = app.query(&request).expect("answers").only_partition_result().expect("one");
    assert_eq!(answer.failure_reason(), Some(FailureReason::NotPresent));
    let hosts = eventually("metadata", || {
        let hosts = second.metadata_for_store("counts");
        (hosts.len() == 2).then(|| hosts.into_iter().map(|host| host.host).collect::<BTreeSet<_>>())
    });
    assert!(hosts.contains(&elsewhere), "{hosts:?}");
    assert_eq!(app.thread_metadata().len(), 1);

    // What moved comes back, and the old handles see it.
    second.close(PATIENCE).expect("closes");
    assert_eq!(other.get(&moved).expect_err("closed").kind(), ErrorKind::Stopped);
    assert_eq!(eventually("value", || pinned.get(&moved).ok().flatten()), 10);
    eventually("counts", || total(&store).ok().filter(|total| *total == 1_000));
    // (d) Closed.
    app.close(PATIENCE).expect("closes");
    let error = total(&store).expect_err("closed");
    assert_eq!(error.kind(), ErrorKind::Stopped);
    assert_eq!(app.query(&request).expect_err("closed").kind(), ErrorKind::Stopped);
}

/// P91: with exactly once, what is processed and not committed is not seen, nor is what a crash undoes. The records of one turn are
/// held back until the gate opens: only then does the transaction commit.
#[test]
fn p91_queries_see_committed_values_only() {
    for in_memory in [false, true] {
        let mut kafka = Kafka::shared();
        let input = kafka.topic("in", 1);
        let token = counts();
        let token = if in_memory { token.in_memory() } else { token };
        let seen = Arc::new((AtomicBool::new(false), AtomicBool::new(false)));
        let gate = seen.clone();
        let builder = StreamsBuilder::new();
        let _ = builder.stream(input.as_str(), Consumed::<String, String>::new()).process(
            move |ctx| Ok(Gated { counts: ctx.store(&token)?, gate: gate.clone() }),
            Processed::named("gated").store(&token),
        );
        let dir = tempfile::tempdir().expect("a directory");
        let settings = config(&unique("gated"), &kafka.bootstrap, dir.path()).exactly_once();
        let app = start(builder.build().expect("builds"), settings);
        let store = app.store(&token).expect("a handle");
        let key = "a".to_string();
        kafka.write(&input, 1, [("a", "1")]);
        eventually("the first value", || store.get(&key).expect("a look").filter(|one| *one == 1));
        // Written to the store, and the processor waits.
        kafka.write(&input, 1, [("a", "2"), ("gate", "0")]);
        eventually("the gate", || seen.0.load(Ordering::SeqCst).then_some(()));
        assert_eq!(store.get(&key).expect("a look"), Some(1));
        let all: Vec<_> = store.all().expect("all").map(|e| e.expect("one")).collect();
        assert_eq!(all, [(key.clone(), 1)]);
        seen.1.store(true, Ordering::SeqCst);
        eventually("the second value", || store.get(&key).expect("a look").filter(|two| *two == 2));
        app.close(PATIENCE).expect("closes");
    }
}

struct Gated {
    counts: KeyValueStore<String, i64>,
    gate: Arc<(AtomicBool, AtomicBool)>,
}

impl Processor for Gated {
    type In = (String, String);
    type Out = (String, i64);

    fn process(&mut self, record: Record<String, String>, _: &mut Context<Self>) -> ProcessResult {
        if record.key == "gate" {
            self.gate.0.store(true, Ordering::SeqCst);
            while !self.gate.1.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            return Ok(());
        }
        self.counts.put(&record.key, Some(&record.value.parse()?))?;
        Ok(())
    }
}

/// How much a store is used is told task by task, as of the last commit.
#[test]
fn the_use_of_stores_is_counted() {
    let mut kafka = Kafka::shared();
    let (input, output) = (kafka.topic("in", 1), kafka.topic("out", 1));
    let dir = tempfile::tempdir().expect("a directory");
    let settings = config(&unique("used"), &kafka.bootstrap, dir.path());
    let app = start(super::counts(&input, &output), settings);
    kafka.write(&input, 1, numbered(0, 1_000));
    let used = || app.thread_metadata()[0].tasks.first()?.stores.get("counts").copied();
    let usage = eventually("use", || used().filter(|usage| usage.writes == 1_000));
    // A count is a look and a write.
    assert_eq!(usage.reads, 1_000);
    assert!(usage.entries >= 100, "{usage:?}");
    app.close(PATIENCE).expect("closes");
}

/// P92, as far as there are no standby tasks: an answer tells how far it is, and who wants more is refused with both numbers.
#[test]
fn p92_an_answer_tells_its_position_and_a_bound_is_kept() {
    let mut kafka = Kafka::shared();
    let input = kafka.topic("in", 1);
    let gate = Arc::<(AtomicBool, AtomicBool)>::default();
    let (token, gated) = (counts(), gate.clone());
    let builder = StreamsBuilder::new();
    let supplier =
        move |ctx: &mut InitContext| Ok(Gated { counts: ctx.store(&token)?, gate: gated.clone() });
    let _ = builder
        .stream(input.as_str(), Consumed::<String, String>::new())
        .process(supplier, Processed::named("gated").store(&token));
    let dir = tempfile::tempdir().expect("a directory");
    let settings = config(&unique("lagging"), &kafka.bootstrap, dir.path());
    let app = start(builder.build().expect("builds"), settings);
    let request = StateQueryRequest::in_store(&token).with_query(KeyQuery::with_key("a".into()));
    let ask = |bound: Option<i64>| {
        let request = match bound {
            Some(offset) => request.clone().with_position_bound(Position::of(&input, 0, offset)),
            None => request.clone(),
        };
        app.query(&request).ok()?.only_partition_result()
    };
    kafka.write(&input, 1, (0..100).map(|number| ("a", number.to_string())));
    eventually("the first values", || ask(Some(99))?.result().ok());
    let rest = (100..1099).map(|number| ("a", number.to_string()));
    kafka.write(&input, 1, [("gate", "0".to_string())].into_iter().chain(rest));
    eventually("the gate", || gate.0.load(Ordering::SeqCst).then_some(()));

    let owner = app.key_owner(&token, "a").expect("an owner");
    assert_eq!((owner.partition, owner.is_local), (0, true));
    for partition in [-1, 99] {
        let error = app.partition_owner(&token, partition).expect_err("no such partition");
        assert_eq!(error.kind(), ErrorKind::UnknownStore);
        let pinned = app.store(&token).expect("a handle").partition(partition);
        let error = pinned.get(&"a".to_string()).expect_err("no such partition");
        assert_eq!(error.kind(), ErrorKind::UnknownStore, "{error}");
    }

    let answer = ask(None).expect("an answer");
    let behind = 1_099 - answer.position().offset(&input, 0).expect("an input");
    assert_eq!((behind, answer.result().expect("a value")), (1_000, Some(99)));
    ask(Some(99)).expect("an answer").result().expect("a value");
    let refused = ask(Some(1_099)).expect("an answer");
    assert_eq!(refused.failure_reason(), Some(FailureReason::NotUpToBound));
    let error = refused.result().expect_err("refused").to_string();
    assert!(error.contains("up to offset 99, not 1099 yet"), "{error}");
    gate.1.store(true, Ordering::SeqCst);
    eventually("the last value", || {
        let value = ask(Some(1_099))?.result().ok()?;
        (value == Some(1_098)).then_some(())
    });
    app.close(PATIENCE).expect("closes");
}

/// Puts how many records of "a" there were, those of attempts that came to nothing included, and stops at "gate".
struct Attempts {
    counts: KeyValueStore<String, i64>,
    attempts: Arc<AtomicI64>,
    gate: Arc<(AtomicBool, AtomicBool)>,
}

impl Processor for Attempts {
    type In = (String, String);
    type Out = ((), ());

    fn process(&mut self, record: Record<String, String>, _: &mut Context<Self>) -> ProcessResult {
        if record.key == "a" {
            let attempt = self.attempts.fetch_add(1, Ordering::SeqCst);
            return Ok(self.counts.put(&record.key, Some(&attempt))?);
        }
        self.gate.0.store(true, Ordering::SeqCst);
        while !self.gate.1.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        Ok(())
    }
}

/// P91: a transaction that is aborted is never seen: its producer is fenced in the middle, and what it did is done again.
#[test]
fn p91_an_aborted_transaction_is_never_seen() {
    for in_memory in [false, true] {
        let mut kafka = Kafka::shared();
        let input = kafka.topic("in", 1);
        let token = if in_memory { counts().in_memory() } else { counts() };
        let attempts = Arc::<AtomicI64>::default();
        let gate = Arc::<(AtomicBool, AtomicBool)>::default();
        let (attempted, gated) = (attempts.clone(), gate.clone());
        let builder = StreamsBuilder::new();
        let supplier = move |ctx: &mut InitContext| {
            let (attempts, gate) = (attempted.clone(), gated.clone());
            Ok(Attempts { counts: ctx.store(&token)?, attempts, gate })
        };
        let _ = builder
            .stream(input.as_str(), Consumed::<String, String>::new())
            .process(supplier, Processed::named("attempts").store(&token));
        let dir = tempfile::tempdir().expect("a directory");
        let application = unique("aborted");
        let settings = config(&application, &kafka.bootstrap, dir.path()).exactly_once();
        // The directory tells the process's id, which is part of the producer's name.
        let other = Stores::key_value::<String, i64>("other");
        builder.store_writer(&other, kafka.topic("other", 1));
        let app = start(builder.build().expect("builds"), settings);
        let store = app.store(&token).expect("a handle");
        let key = "a".to_string();
        kafka.write(&input, 1, [("a", "x")]);
        eventually("the first value", || store.get(&key).expect("a look").filter(|one| *one == 0));
        kafka.write(&input, 1, [("a", "x"), ("gate", "x")]);
        eventually("the gate", || gate.0.load(Ordering::SeqCst).then_some(()));
        fence(&mut kafka, &application, &dir.path().join(&application));
        gate.1.store(true, Ordering::SeqCst);
        let mut seen = Vec::new();
        let looked = eventually("the last value", || {
            let value = store.get(&key).ok().flatten()?;
            if seen.last() != Some(&value) {
                seen.push(value);
            }
            (value > 1).then_some(value)
        });
        app.close(PATIENCE).expect("closes");
        assert_eq!(seen, [0, looked], "after {attempts:?} attempts");
    }
}

/// Eight threads ask while a million records change the store: no error, no value that goes back, on disk and in memory.
#[test]
fn eight_threads_query_while_the_store_changes() {
    let mut kafka = Kafka::shared();
    let input = kafka.topic("in", PARTITIONS);
    kafka.write(&input, PARTITIONS, numbered(0, 100));
    let builder = StreamsBuilder::new();
    let _ = builder
        .stream(input.as_str(), Consumed::<String, String>::new())
        .group_by_key(Grouped::new())
        .count(Materialized::named("counts"));
    let dir = tempfile::tempdir().expect("a directory");
    let app = start(
        builder.build().expect("builds"),
        config(&unique("asked"), &kafka.bootstrap, dir.path()),
    );
    let store = app.store(&counts()).expect("a handle");
    eventually("counts", || total(&store).ok().filter(|total| *total == 100));
    let done = AtomicBool::new(false);
    let asked: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|thread| {
                let (store, done) = (store.clone(), &done);
                scope.spawn(move || {
                    let (mut asked, mut last) = (0, [0; 100]);
                    while !done.load(Ordering::Relaxed) {
                        let number = (asked * 7 + thread) % 100;
                        let count = store.get(&format!("k{number}")).expect("a look");
                        let count = count.expect("a count");
                        assert!(count >= last[number], "{count} after {}", last[number]);
                        last[number] = count;
                        asked += 1;
                        if asked % 1_000 == 0 {
                            total(&store).expect("a walk");
                        }
                    }
                    asked
                })
            })
            .collect();
        let end = SetAtEnd(&done);
        for round in 1..10 {
            kafka.write(&input, PARTITIONS, numbered(round * 20_000, (round + 1) * 20_000));
        }
        eventually("counts", || total(&store).ok().filter(|total| *total == 180_100));
        drop(end);
        threads.into_iter().map(|thread| thread.join().expect("no error")).sum()
    });
    assert!(asked > 8);
    app.close(Duration::from_secs(60)).expect("closes");
}

/// P89: (c) a thread fails and is replaced. The handle says so meanwhile, and then goes on.
#[test]
fn p89_a_handle_outlives_its_thread() {
    let mut kafka = Kafka::shared();
    let input = kafka.topic("in", 1);
    let token = counts();
    let failed = Arc::new(AtomicBool::new(false));
    let (fails, builder) = (failed.clone(), StreamsBuilder::new());
    let _ = builder.stream(input.as_str(), Consumed::<String, String>::new()).process(
        move |ctx| Ok(Failing { counts: ctx.store(&token)?, failed: fails.clone() }),
        Processed::named("failing").store(&token),
    );
    let dir = tempfile::tempdir().expect("a directory");
    let settings = config(&unique("replaced"), &kafka.bootstrap, dir.path());
    let app = KafkaStreams::builder(builder.build().expect("builds"), settings)
        .on_uncaught(|_| ThreadResponse::ReplaceThread)
        .start()
        .expect("starts");
    let store = app.store(&token).expect("a handle");
    let key = "a".to_string();
    kafka.write(&input, 1, [("a", "1")]);
    eventually("the first value", || store.get(&key).ok().flatten().filter(|one| *one == 1));
    // An iterator of the thread that goes.
    let entries = store.all().expect("all");
    kafka.write(&input, 1, [("fail", "0"), ("a", "2")]);
    let after = eventually("the second value", || match store.get(&key) {
        Ok(value) => value.filter(|value| *value != 1),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Rebalancing, "{error}");
            None
        }
    });
    assert_eq!(after, 2);
    assert!(failed.load(Ordering::SeqCst));
    assert_eq!(entries.map(|entry| entry.expect("an entry").1).collect::<Vec<_>>(), [1]);
    app.close(PATIENCE).expect("closes");
}

/// Fails at the first record that asks for it.
struct Failing {
    counts: KeyValueStore<String, i64>,
    failed: Arc<AtomicBool>,
}

impl Processor for Failing {
    type In = (String, String);
    type Out = (String, i64);

    fn process(&mut self, record: Record<String, String>, _: &mut Context<Self>) -> ProcessResult {
        if record.key == "fail" && !self.failed.swap(true, Ordering::SeqCst) {
            return Err("not this time".into());
        }
        self.counts.put(&record.key, Some(&record.value.parse()?))?;
        Ok(())
    }
}

/// Not for every run: how long processing pauses, at most, with and without eight threads that ask, while the store changes 100,000
/// times a second. `KSTREAMS_QUERY_SECONDS` is how long each takes (60), `KSTREAMS_QUERY_RATE` the changes a second, and
/// `KSTREAMS_QUERIES` how often each thread asks in a second: as fast as it can, if nothing is said.
#[test]
#[ignore = "a measurement"]
fn pauses_of_processing() {
    let number = |name: &str, else_: u64| {
        std::env::var(name).map_or(else_, |number| number.parse().expect("a number"))
    };
    let (seconds, rate) =
        (number("KSTREAMS_QUERY_SECONDS", 60), number("KSTREAMS_QUERY_RATE", 100_000));
    let queries = number("KSTREAMS_QUERIES", u64::MAX);
    for in_memory in [false, true] {
        for threads in [0, 8] {
            measure(in_memory, threads, seconds, rate, queries);
        }
    }
}

#[expect(clippy::print_stdout, reason = "a measurement")]
fn measure(in_memory: bool, threads: usize, seconds: u64, rate: u64, queries: u64) {
    let mut kafka = Kafka::shared();
    let input = kafka.topic("in", 1);
    let records = seconds * rate;
    // They are there before the application, so that only processing is measured.
    kafka.write(&input, 1, (0..records).map(|n| (format!("k{}", n % 10_000), n.to_string())));
    let token = if in_memory { counts().in_memory() } else { counts() };
    let progress = Arc::new(Progress::default());
    let (seen, builder) = (progress.clone(), StreamsBuilder::new());
    let _ = builder.stream(input.as_str(), Consumed::<String, String>::new()).process(
        move |ctx| {
            let (counts, progress) = (ctx.store(&token)?, seen.clone());
            Ok(Watched {
                counts,
                progress,
                clock: SystemClock::new(),
                began: None,
                last: None,
                rate,
            })
        },
        Processed::named("watched").store(&token),
    );
    let dir = tempfile::tempdir().expect("a directory");
    let settings = config(&unique("watched"), &kafka.bootstrap, dir.path());
    let app = start(builder.build().expect("builds"), settings);
    let store = app.store(&token).expect("a handle");
    let done = AtomicBool::new(false);
    let clock = SystemClock::new();
    let began = clock.now();
    let asked: u64 = std::thread::scope(|scope| {
        let asking: Vec<_> = (0..threads)
            .map(|thread| {
                let (store, done) = (store.clone(), &done);
                scope.spawn(move || {
                    let mut asked = 0u64;
                    while !done.load(Ordering::Relaxed) {
                        let key = format!("k{}", (asked * 7 + thread as u64) % 10_000);
                        store.get(&key).expect("a look");
                        asked += 1;
                        if asked.is_multiple_of(100) && queries < u64::MAX {
                            std::thread::park_timeout(Duration::from_micros(100_000_000 / queries));
                        }
                        if asked.is_multiple_of(10_000) {
                            store.all().expect("all").for_each(|entry| drop(entry.expect("one")));
                        }
                    }
                    asked
                })
            })
            .collect();
        let end = SetAtEnd(&done);
        while progress.records.load(Ordering::Relaxed) < records {
            assert!(!app.state().is_terminal());
            kafka.pause(Duration::from_millis(20));
        }
        drop(end);
        asking.into_iter().map(|thread| thread.join().expect("no error")).sum()
    });
    println!(
        "in memory {in_memory}, {threads} threads: {records} records in {:.1} s, {asked} queries; pauses over 10, 25 and 50 ms: {:?}, \
         the longest {} us",
        (clock.now() - began).as_secs_f64(),
        progress.pauses,
        progress.longest.load(Ordering::Relaxed)
    );
    app.close(PATIENCE).expect("closes");
}

/// What was processed, and how long the thread was away between two records.
#[derive(Debug, Default)]
struct Progress {
    records: AtomicU64,
    /// Over 10, 25 and 50 milliseconds.
    pauses: [AtomicU64; 3],
    /// Microseconds.
    longest: AtomicU64,
}

/// Takes so many records a second.
struct Watched {
    counts: KeyValueStore<String, i64>,
    progress: Arc<Progress>,
    clock: SystemClock,
    began: Option<kstreams_client::Now>,
    /// When the last record was done.
    last: Option<kstreams_client::Now>,
    rate: u64,
}

impl Processor for Watched {
    type In = (String, String);
    type Out = ((), ());

    fn process(&mut self, record: Record<String, String>, _: &mut Context<Self>) -> ProcessResult {
        let now = self.clock.now();
        let began = *self.began.get_or_insert(now);
        if let Some(last) = self.last {
            let pause = (now - last).as_micros() as u64;
            self.progress.longest.fetch_max(pause, Ordering::Relaxed);
            for (limit, count) in [10_000, 25_000, 50_000].into_iter().zip(&self.progress.pauses) {
                count.fetch_add(u64::from(pause > limit), Ordering::Relaxed);
            }
        }
        self.counts.put(&record.key, Some(&record.value.parse()?))?;
        let done = self.progress.records.fetch_add(1, Ordering::Relaxed) + 1;
        let due = Duration::from_nanos(done * 1_000_000_000 / self.rate);
        if let Some(early) = due.checked_sub(self.clock.now() - began)
            && early > Duration::from_millis(1)
        {
            std::thread::park_timeout(early);
        }
        self.last = Some(self.clock.now());
        Ok(())
    }
}

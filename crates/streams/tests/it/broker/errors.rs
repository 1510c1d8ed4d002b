//! What fails: nothing before it is lost, handlers decide, threads are replaced, and closing has an end.

use super::app::{config, start};
use super::counts;
use crate::kafka::{Kafka, PATIENCE, Read, unique};
use kstreams::handlers::{FailedWrite, ProductionHandler, ProductionResponse};
use kstreams::prelude::*;
use kstreams_client::NewTopic;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Writes numbers; what is no number fails, and `calls` counts how often.
fn parsing(input: &str, output: &str, calls: &Arc<AtomicUsize>) -> Topology {
    let calls = calls.clone();
    let builder = StreamsBuilder::new();
    builder
        .stream(input, Consumed::<String, String>::new())
        .try_map_values(move |text| {
            Ok(text.parse::<i64>().inspect_err(|_| {
                calls.fetch_add(1, Ordering::SeqCst);
            })?)
        })
        .named("parse")
        .to(output, Produced::new());
    builder.build().expect("builds")
}

fn values(read: &[Read]) -> Vec<i64> {
    read.iter().map(Read::count).collect()
}

fn end_of(app: &KafkaStreams) -> String {
    assert_eq!(app.wait_for(PATIENCE, State::is_terminal), State::Error);
    let error = app.close(PATIENCE).expect_err("an error").to_string();
    // Who closes later hears the same.
    assert_eq!(app.close(PATIENCE).expect_err("an error").to_string(), error);
    error
}

/// A task of several inputs stops before a record that fails, like any other.
#[test]
fn a_failing_record_stops_a_task_of_two_inputs() {
    let mut kafka = Kafka::shared();
    for idle in ["-1", "0", "100"] {
        let (input, other) = (kafka.topic("in", 1), kafka.topic("other", 1));
        let output = kafka.topic("out", 1);
        kafka.write(&input, 1, [("a", "1"), ("a", "bad")]);
        let builder = StreamsBuilder::new();
        let read = |topic: &str| builder.stream(topic, Consumed::<String, String>::new());
        read(&input)
            .merge(&read(&other))
            .try_map_values(|text| Ok(text.parse::<i64>()?))
            .named("parse")
            .to(
                output.as_str(),
                Produced::with(DefaultSerde::default_serde(), i64::default_serde()),
            );
        let dir = tempfile::tempdir().expect("a directory");
        let settings = config(&unique("two-inputs"), &kafka.bootstrap, dir.path())
            .set("max.task.idle.ms", idle)
            .expect("a setting");
        let app = KafkaStreams::start(builder.build().expect("builds"), settings).expect("starts");
        let error = end_of(&app);
        assert!(error.contains("operator parse failed"), "{error}");
        assert_eq!(values(&kafka.read_until(&output, 1, |read| !read.is_empty())), [1]);
    }
}

/// A commit is far away when the record fails: what comes before it is committed all the same, once, and the record is met once.
fn progress_is_committed(guarantee: &str) {
    let mut kafka = Kafka::shared();
    let (input, output) = (kafka.topic("in", 1), kafka.topic("out", 1));
    let good = (0..100).map(|number| ("a", number.to_string()));
    kafka.write(&input, 1, good.chain([("a", "bad".into()), ("a", "100".into())]));
    let dir = tempfile::tempdir().expect("a directory");
    let app = unique("progress");
    let settings = config(&app, &kafka.bootstrap, dir.path())
        .commit_interval(Duration::from_millis(5000))
        .set("processing.guarantee", guarantee)
        .and_then(|config| config.set("transaction.timeout.ms", "5500"));
    let settings = settings.expect("settings");
    let calls = Arc::new(AtomicUsize::new(0));
    let running = KafkaStreams::start(parsing(&input, &output, &calls), settings);
    let error = end_of(&running.expect("starts"));
    assert!(error.starts_with("operator parse failed: invalid digit"), "{error}");
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    let committed = kafka.committed(&app);
    assert_eq!(committed.values().copied().collect::<Vec<_>>(), [100]);
    let read = kafka.read_until(&output, 1, |read| read.len() >= 100);
    match guarantee {
        "exactly_once_v2" => assert_eq!(values(&read), (0..100).collect::<Vec<_>>()),
        _ => assert_eq!(values(&read).last(), Some(&99)),
    }
}

#[test]
fn what_comes_before_a_failing_record_is_committed_at_least_once() {
    progress_is_committed("at_least_once");
}

#[test]
fn what_comes_before_a_failing_record_is_committed_exactly_once() {
    progress_is_committed("exactly_once_v2");
}

/// A cache forwards at the commit: the failure is cornered until it is alone.
#[test]
fn what_comes_before_a_failing_flush_is_committed() {
    let mut kafka = Kafka::shared();
    let (input, output) = (kafka.topic("in", 1), kafka.topic("out", 1));
    let good = (0..50).map(|number| (format!("key-{number}"), "x"));
    kafka.write(&input, 1, good.chain([("bad".into(), "x"), ("behind".into(), "x")]));
    let builder = StreamsBuilder::new();
    builder
        .stream(input.as_str(), Consumed::<String, String>::new())
        .group_by_key(Grouped::new())
        .count(Materialized::named("counts"))
        .to_stream()
        .filter(|key, _| {
            assert!(key != "bad", "told to");
            true
        })
        .to(output.as_str(), Produced::new());
    let dir = tempfile::tempdir().expect("a directory");
    let app = unique("flush");
    let settings = config(&app, &kafka.bootstrap, dir.path()).cache_max_bytes(1 << 20);
    let running = KafkaStreams::start(builder.build().expect("builds"), settings.exactly_once());
    let error = end_of(&running.expect("starts"));
    assert!(error.contains("user code panicked: told to"), "{error}");
    assert_eq!(kafka.committed(&app).values().copied().collect::<Vec<_>>(), [50]);
    kafka.counts_adding_up_to(&output, 1, 50);
}

/// P71: the handler says "continue", and is not asked about a changelog record that is too large.
struct GoOn(Arc<Mutex<Vec<String>>>);

impl ProductionHandler for GoOn {
    fn handle(&self, write: &FailedWrite<'_>, error: &BoxError) -> ProductionResponse {
        let seen = format!("{} {:?} {:?}: {error}", write.topic, write.problem, write.value_size);
        self.0.lock().expect("not poisoned").push(seen);
        ProductionResponse::resume()
    }
}

#[test]
fn p71_p96_what_is_too_large_for_a_sink_is_left_out_and_for_a_changelog_it_is_an_error() {
    let mut kafka = Kafka::shared();
    let (input, output) = (kafka.topic("in", 1), kafka.topic("out", 1));
    let large = "x".repeat(700_000);
    kafka.write(&input, 1, [("a", large.as_str()), ("a", large.as_str())]);
    let builder = StreamsBuilder::new();
    builder
        .stream(input.as_str(), Consumed::<String, String>::new())
        .group_by_key(Grouped::new())
        .aggregate(
            String::new,
            |_, all: String, value: String| Some(all + &value),
            Materialized::<String, String>::named("all"),
        )
        .to_stream()
        .to(output.as_str(), Produced::new());
    let dir = tempfile::tempdir().expect("a directory");
    let seen = Arc::new(Mutex::new(Vec::new()));
    let app = unique("large");
    let settings = config(&app, &kafka.bootstrap, dir.path()).exactly_once();
    let settings = settings.production_handler(GoOn(seen.clone()));
    let running = KafkaStreams::start(builder.build().expect("builds"), settings);
    let error = end_of(&running.expect("starts"));
    assert!(error.contains("a record of 1400"), "{error}");
    let place = "changelog of store all: key of 1 bytes, value of 1400";
    assert!(error.contains(place) && error.contains(&format!("{app}-all-changelog")), "{error}");
    assert_eq!(kafka.committed(&app).values().copied().collect::<Vec<_>>(), [1]);
    let lengths: Vec<usize> = kafka
        .read_until(&output, 1, |read| !read.is_empty())
        .iter()
        .map(|read| read.value.as_ref().map_or(0, Vec::len))
        .collect();
    assert_eq!(lengths, [700_000]);
    let seen = seen.lock().expect("not poisoned");
    let first =
        format!("{output} TooLarge Some(1400000): cannot write a record for topic {output}");
    assert!(seen.iter().all(|seen| seen.starts_with(&first)) && !seen.is_empty(), "{seen:?}");
}

/// P96: a record that is too large becomes a dead letter, and the next one flows.
#[test]
fn p96_p97_a_record_that_is_too_large_becomes_a_dead_letter() {
    let mut kafka = Kafka::shared();
    let (input, output) = (kafka.topic("in", 1), kafka.topic("out", 1));
    let dead = kafka.topic("dead", 1);
    kafka.write(&input, 1, [("a", "1"), ("b", "600000"), ("c", "2")]);
    let builder = StreamsBuilder::new();
    builder
        .stream(input.as_str(), Consumed::<String, String>::new())
        .try_map_values(|length| Ok("xy".repeat(length.parse()?)))
        .to(output.as_str(), Produced::<String, String>::new());
    let dir = tempfile::tempdir().expect("a directory");
    let settings = config(&unique("skip-large"), &kafka.bootstrap, dir.path()).exactly_once();
    let settings = settings.set("production.exception.handler", "log-and-continue");
    let settings = settings.expect("a setting").dead_letter_topic(&dead);
    let running = start(builder.build().expect("builds"), settings);
    let read = kafka.read_until(&output, 1, |read| read.len() >= 2);
    assert_eq!(read.iter().map(|read| read.key.as_str()).collect::<Vec<_>>(), ["a", "c"]);
    let letters = kafka.read_until(&dead, 1, |read| !read.is_empty());
    assert_eq!((letters[0].key.as_str(), letters[0].value.as_deref()), ("b", Some(&b"600000"[..])));
    running.close(PATIENCE).expect("closes");
}

/// A topic that takes less than the producer would send: what only the broker refuses is cornered at the commit.
fn refused_by_the_broker(
    guarantee: &str,
    handler: &str,
) -> (Kafka, String, Result<Vec<Read>, String>) {
    let mut kafka = Kafka::shared();
    let (input, output) = (kafka.topic("in", 1), unique("small"));
    let dead = kafka.topic("dead", 1);
    let small = NewTopic::new(output.as_str(), 1).config("max.message.bytes", "2000");
    for made in
        kafka.client().create_topics(vec![small]).wait(PATIENCE).expect("created").into_values()
    {
        made.expect("created");
    }
    let lengths = (0..20).map(|number| if number == 13 { "4000" } else { "10" });
    kafka.write(
        &input,
        1,
        lengths.enumerate().map(|(number, length)| (number.to_string(), length)),
    );
    let builder = StreamsBuilder::new();
    builder
        .stream(input.as_str(), Consumed::<String, String>::new())
        .try_map_values(|length| Ok("x".repeat(length.parse()?)))
        .to(output.as_str(), Produced::<String, String>::new());
    let dir = tempfile::tempdir().expect("a directory");
    let app = unique("refused");
    let settings = config(&app, &kafka.bootstrap, dir.path())
        .set("processing.guarantee", guarantee)
        .and_then(|settings| settings.set("production.exception.handler", handler))
        .and_then(|settings| settings.set("retry.backoff.ms", "10"));
    let settings = settings.expect("settings").dead_letter_topic(&dead);
    let running = KafkaStreams::start(builder.build().expect("builds"), settings).expect("starts");
    let result = match handler {
        "log-and-continue" => {
            kafka.committed_until(&app, |committed| committed.values().sum::<i64>() == 20);
            running.close(PATIENCE).expect("closes");
            Ok(kafka.read_until(&dead, 1, |read| !read.is_empty()))
        }
        _ => {
            let error = end_of(&running);
            assert_eq!(kafka.committed(&app).values().copied().collect::<Vec<_>>(), [13]);
            Err(error)
        }
    };
    (kafka, output, result)
}

/// P96: the handler is asked when the record is alone; the dead letter has its source.
#[test]
fn p96_what_a_broker_refuses_is_left_out() {
    for guarantee in ["at_least_once", "exactly_once_v2"] {
        let (kafka, output, letters) = refused_by_the_broker(guarantee, "log-and-continue");
        let letters = letters.expect("letters");
        let letters = letters.iter().map(|read| (read.key.as_str(), read.value.as_deref()));
        assert_eq!(letters.collect::<Vec<_>>(), [("13", Some(&b"4000"[..]))], "{guarantee}");
        let mut keys: Vec<usize> = kafka
            .read_until(&output, 1, |read| read.iter().any(|read| read.key == "19"))
            .iter()
            .map(|read| read.key.parse().expect("a number"))
            .collect();
        if guarantee == "at_least_once" {
            keys.sort_unstable();
            keys.dedup();
        }
        assert_eq!(keys, (0..20).filter(|number| *number != 13).collect::<Vec<_>>(), "{guarantee}");
    }
}

#[test]
fn p96_what_a_broker_refuses_is_an_error_behind_everything_before_it() {
    let (_, output, error) = refused_by_the_broker("exactly_once_v2", "log-and-fail");
    let error = error.expect_err("stops");
    let text = format!(
        "cannot write a record for topic {output}, with a key of 2 bytes and a value of 4000"
    );
    assert!(error.starts_with(&text) && error.contains("offset 13"), "{error}");
}

/// Wants everything written in the end, and counts how often it said so.
struct Insist(Arc<AtomicUsize>);

impl ProductionHandler for Insist {
    fn handle(&self, _: &FailedWrite<'_>, _: &BoxError) -> ProductionResponse {
        self.0.fetch_add(1, Ordering::SeqCst);
        ProductionResponse::retry()
    }
}

/// P96: what a broker refuses may be taken later, once somebody has changed the topic.
#[test]
fn p96_what_a_broker_refuses_is_written_again_if_the_handler_says_so() {
    let mut kafka = Kafka::shared();
    let (input, output) = (kafka.topic("in", 1), unique("small"));
    let small = NewTopic::new(output.as_str(), 1).config("max.message.bytes", "2000");
    for made in
        kafka.client().create_topics(vec![small]).wait(PATIENCE).expect("created").into_values()
    {
        made.expect("created");
    }
    kafka.write(&input, 1, [("a", "10"), ("b", "4000"), ("c", "10")]);
    let builder = StreamsBuilder::new();
    builder
        .stream(input.as_str(), Consumed::<String, String>::new())
        .try_map_values(|length| Ok("x".repeat(length.parse()?)))
        .to(output.as_str(), Produced::<String, String>::new());
    let dir = tempfile::tempdir().expect("a directory");
    let asked = Arc::new(AtomicUsize::new(0));
    let settings = config(&unique("insists"), &kafka.bootstrap, dir.path()).exactly_once();
    let settings = settings.production_handler(Insist(asked.clone()));
    let settings = settings.set("retry.backoff.ms", "10").expect("a setting");
    let running = start(builder.build().expect("builds"), settings);
    while asked.load(Ordering::SeqCst) < 3 {
        assert!(!running.state().is_terminal());
        kafka.pause(Duration::from_millis(10));
    }
    let larger = [("max.message.bytes".to_string(), "100000".to_string())].into();
    let altered = [(output.as_str().into(), larger)].into();
    kafka.client().alter_configs(altered).wait(PATIENCE).expect("altered");
    let read = kafka.read_until(&output, 1, |read| read.len() >= 3);
    assert_eq!(read.iter().map(|read| read.key.as_str()).collect::<Vec<_>>(), ["a", "b", "c"]);
    running.close(PATIENCE).expect("closes");
}

#[test]
fn a_topic_for_dead_letters_that_does_not_exist_is_named() {
    let mut kafka = Kafka::shared();
    let (input, output) = (kafka.topic("in", 1), kafka.topic("out", 1));
    let dead = unique("no-dead");
    let dir = tempfile::tempdir().expect("a directory");
    let settings = config(&unique("nowhere"), &kafka.bootstrap, dir.path());
    let error = KafkaStreams::start(counts(&input, &output), settings.dead_letter_topic(&dead));
    let error = error.expect_err("refused").to_string();
    assert!(error.contains(&format!("does not have {dead}")), "{error}");
}

/// At least once, a dead letter of a failure is written as well, as on Java.
#[test]
fn a_failure_leaves_a_dead_letter_at_least_once() {
    let mut kafka = Kafka::shared();
    let (input, output) = (kafka.topic("in", 1), kafka.topic("out", 1));
    let dead = kafka.topic("dead", 1);
    kafka.write(&input, 1, [("a", "1"), ("b", "bad")]);
    let dir = tempfile::tempdir().expect("a directory");
    let settings = config(&unique("fail-letter"), &kafka.bootstrap, dir.path());
    let calls = Arc::default();
    let topology = parsing(&input, &output, &calls);
    let running = KafkaStreams::start(topology, settings.dead_letter_topic(&dead));
    end_of(&running.expect("starts"));
    let letters = kafka.read_until(&dead, 1, |read| !read.is_empty());
    assert_eq!(letters[0].value.as_deref(), Some(&b"bad"[..]));
}

/// Threads of this process, as far as they are of one application.
fn threads_of(application: &str) -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").expect("Linux");
    let names =
        tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    // The system keeps 15 bytes of a name.
    names.filter(|name| name.trim_end() == &application[..15.min(application.len())]).count()
}

/// P84: a record that always fails under "replace": after some tries the error is final, and nothing is left behind.
#[test]
fn p84_replacements_have_an_end_and_leave_nothing_behind() {
    let mut kafka = Kafka::shared();
    let (input, output) = (kafka.topic("in", 1), kafka.topic("out", 1));
    kafka.write(&input, 1, [("a", "1"), ("a", "bad")]);
    let dir = tempfile::tempdir().expect("a directory");
    let name = format!("r{}", unique("eplace").split_once('-').expect("a name").1);
    let name = format!("{name}-is-replaced");
    let settings = config(&name, &kafka.bootstrap, dir.path())
        .exactly_once()
        .set("retry.backoff.ms", "10")
        .expect("a setting");
    let (calls, asked) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (asking, name2) = (asked.clone(), name.clone());
    let most = Arc::new(AtomicUsize::new(0));
    let most_threads = most.clone();
    let app = KafkaStreams::builder(parsing(&input, &output, &calls), settings)
        .on_uncaught(move |error| {
            assert_eq!(error.kind(), ErrorKind::Processing);
            asking.fetch_add(1, Ordering::SeqCst);
            most_threads.fetch_max(threads_of(&name2), Ordering::SeqCst);
            ThreadResponse::ReplaceThread
        })
        .start()
        .expect("starts");
    let error = end_of(&app);
    assert!(error.contains("operator parse failed"), "{error}");
    assert_eq!(asked.load(Ordering::SeqCst), 9, "the first thread and eight more");
    assert_eq!(calls.load(Ordering::SeqCst), 9);
    // A stream thread and its driver, and one that may be about to end.
    assert!(most.load(Ordering::SeqCst) <= 4, "{most:?}");
    assert_eq!(kafka.committed(&name).values().copied().collect::<Vec<_>>(), [1]);
    assert_eq!(values(&kafka.read_until(&output, 1, |read| !read.is_empty())), [1]);
}

/// What this process has: threads, open files, kilobytes of memory.
fn resources() -> [usize; 3] {
    let count = |path: &str| std::fs::read_dir(path).expect("Linux").count();
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let memory = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a size");
    let memory = memory.trim().trim_end_matches(" kB").parse().expect("a number");
    [count("/proc/self/task"), count("/proc/self/fd"), memory]
}

/// P84, by the thousand: every other record fails once. `KSTREAMS_REPLACEMENTS` says how many replacements there are.
#[test]
#[ignore = "a measurement that takes minutes"]
fn p84_many_replacements() {
    let many = std::env::var("KSTREAMS_REPLACEMENTS").map_or(1000, |n| n.parse().expect("n"));
    let mut kafka = Kafka::shared();
    let (input, output) = (kafka.topic("in", 1), kafka.topic("out", 1));
    let last = Arc::new(AtomicUsize::new(0));
    let failing = last.clone();
    let builder = StreamsBuilder::new();
    builder
        .stream(input.as_str(), Consumed::<String, String>::new())
        .try_map_values(move |text| {
            let number: usize = text.parse()?;
            let is_new = number % 2 == 1 && failing.fetch_max(number, Ordering::SeqCst) < number;
            if is_new { Err("once".into()) } else { Ok(number as i64) }
        })
        .to(output.as_str(), Produced::new());
    kafka.write(&input, 1, (0..many * 2).map(|n| ("a", n.to_string())));
    let dir = tempfile::tempdir().expect("a directory");
    let settings = config(&unique("many"), &kafka.bootstrap, dir.path())
        .set("retry.backoff.ms", "1")
        .expect("a setting");
    let replaced = Arc::new(AtomicUsize::new(0));
    let counting = replaced.clone();
    let app = KafkaStreams::builder(builder.build().expect("builds"), settings)
        .on_uncaught(move |_| {
            let replaced = counting.fetch_add(1, Ordering::SeqCst);
            if replaced.is_multiple_of((many / 10).max(1)) {
                println!("{replaced} replacements: {:?}", resources());
            }
            ThreadResponse::ReplaceThread
        })
        .start()
        .expect("starts");
    while replaced.load(Ordering::SeqCst) < many && !app.state().is_terminal() {
        kafka.pause(Duration::from_millis(50));
    }
    println!("{} replacements: {:?}", replaced.load(Ordering::SeqCst), resources());
    app.close(PATIENCE).expect("closes");
}

/// The thread that takes the place of another goes on where that one has committed.
#[test]
fn a_replaced_thread_goes_on() {
    let mut kafka = Kafka::shared();
    let (input, output) = (kafka.topic("in", 1), kafka.topic("out", 1));
    kafka.write(&input, 1, [("a", "1"), ("a", "2"), ("a", "3")]);
    let broken = Arc::new(AtomicBool::new(true));
    let failing = broken.clone();
    let builder = StreamsBuilder::new();
    builder
        .stream(input.as_str(), Consumed::<String, String>::new())
        .map_values(move |value| {
            let fails = value == "2" && failing.swap(false, Ordering::SeqCst);
            assert!(!fails, "not yet");
            value
        })
        .group_by_key(Grouped::new())
        .count(Materialized::named("counts"))
        .to_stream()
        .to(output.as_str(), Produced::new());
    let dir = tempfile::tempdir().expect("a directory");
    let settings = config(&unique("goes-on"), &kafka.bootstrap, dir.path()).exactly_once();
    let app = KafkaStreams::builder(builder.build().expect("builds"), settings)
        .on_uncaught(|_| ThreadResponse::ReplaceThread)
        .start()
        .expect("starts");
    assert_eq!(values(&kafka.read_until(&output, 1, |read| read.len() >= 3)), [1, 2, 3]);
    assert_eq!(app.wait_for(PATIENCE, |state| state == State::Running), State::Running);
    assert!(!broken.load(Ordering::SeqCst));
    app.close(PATIENCE).expect("closes");
}

#[test]
fn one_instance_can_stop_the_whole_application() {
    let mut kafka = Kafka::shared();
    let (input, output) = (kafka.topic("in", 2), kafka.topic("out", 1));
    let name = unique("all-stop");
    let calls = Arc::default();
    let dirs: Vec<_> = (0..2).map(|_| tempfile::tempdir().expect("a directory")).collect();
    let apps: Vec<KafkaStreams> = dirs
        .iter()
        .map(|dir| {
            KafkaStreams::builder(
                parsing(&input, &output, &calls),
                config(&name, &kafka.bootstrap, dir.path()),
            )
            .on_uncaught(|_| ThreadResponse::ShutdownApplication)
            .start()
            .expect("starts")
        })
        .collect();
    for app in &apps {
        assert_eq!(app.wait_for(PATIENCE, |state| state == State::Running), State::Running);
    }
    kafka.write_to(&input, 0, "a", "bad");
    let errors: Vec<String> = apps.iter().map(end_of).collect();
    assert!(errors.iter().any(|error| error.contains("operator parse failed")), "{errors:?}");
    assert!(
        errors.iter().any(|error| error.contains("asked for the whole application to stop")),
        "{errors:?}"
    );
}

/// P81: a record that takes longer than the session of the group is processed once, and what comes behind it as well.
#[test]
fn p81_a_slow_record_is_processed_once() {
    let mut kafka = Kafka::shared();
    let (input, output) = (kafka.topic("in", 1), kafka.topic("out", 1));
    kafka.write(&input, 1, [("a", "slow"), ("a", "fast")]);
    let calls = Arc::new(AtomicUsize::new(0));
    let called = calls.clone();
    let builder = StreamsBuilder::new();
    builder
        .stream(input.as_str(), Consumed::<String, String>::new())
        .peek(move |_, value| {
            if value == "slow" {
                called.fetch_add(1, Ordering::SeqCst);
                std::thread::park_timeout(Duration::from_secs(9));
            }
        })
        .group_by_key(Grouped::new())
        .count(Materialized::named("counts"))
        .to_stream()
        .to(output.as_str(), Produced::new());
    let dir = tempfile::tempdir().expect("a directory");
    let app = unique("slow");
    let settings = config(&app, &kafka.bootstrap, dir.path());
    let running = start(builder.build().expect("builds"), settings);
    kafka.committed_until(&app, |committed| committed.values().sum::<i64>() == 2);
    running.close(PATIENCE).expect("closes");
    assert_eq!(values(&kafka.read_all(&output, 1)), [1, 2]);
    assert_eq!(calls.load(Ordering::SeqCst), 1);
}

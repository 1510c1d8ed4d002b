//! Tables on a broker: joins over topics of several partitions, global tables, buffers that come back.

use super::app::{config, start};
use crate::kafka::{Kafka, PATIENCE, Read, unique};
use kstreams::prelude::*;
use std::collections::BTreeMap;

fn text(read: &Read) -> String {
    let value = read.value.as_deref().map(String::from_utf8_lossy);
    format!("{}={}", read.key, value.as_deref().unwrap_or("null"))
}

/// The last result of each key.
fn rows(read: &[Read]) -> BTreeMap<String, String> {
    read.iter().map(|record| (record.key.clone(), text(record))).collect()
}

fn numbered(count: usize, name: &'static str) -> impl Iterator<Item = (String, String)> {
    (0..count).map(move |n| (format!("{name}{n}"), format!("{name}-{n}")))
}

/// All partitions of a global table are there before the first record is looked up, and updates arrive.
#[test]
fn global_tables_are_filled_before_anything_runs_and_stay_up_to_date() {
    let mut kafka = Kafka::shared();
    let (stream, table) = (kafka.topic("stream", 2), kafka.topic("table", 3));
    let out = kafka.topic("out", 1);
    kafka.write(&table, 3, numbered(1000, "g"));
    kafka.write(&stream, 2, (0..1000).map(|n| (format!("s{n}"), format!("g{n}"))));
    let builder = StreamsBuilder::new();
    let global = builder.global_table(
        table.as_str(),
        Consumed::<String, String>::new(),
        Materialized::new(),
    );
    builder
        .stream(stream.as_str(), Consumed::<String, String>::new())
        .left_join_global(
            &global,
            |_, key| key.clone(),
            |key, found| format!("{key}+{}", found.map_or("nothing", String::as_str)),
            Joined::new(),
        )
        .to(out.as_str(), Produced::new());
    let dir = tempfile::tempdir().expect("a directory");
    let settings = config(&unique("global"), &kafka.bootstrap, dir.path()).stream_threads(2);
    let running = start(builder.build().expect("builds"), settings);
    let read = kafka.read_until(&out, 1, |read| read.len() >= 1000);
    let unmatched: Vec<String> =
        read.iter().map(text).filter(|row| row.ends_with("nothing")).collect();
    assert_eq!(unmatched, Vec::<String>::new());
    kafka.write(&table, 3, [("g0", "new")]);
    let mut seen = read.len();
    loop {
        kafka.write(&stream, 2, [("again", "g0")]);
        let read = kafka.read_until(&out, 1, |read| read.len() > seen);
        if read.iter().any(|record| text(record) == "again=g0+new") {
            break;
        }
        seen = read.len();
    }
    running.close(PATIENCE).expect("closes");
}

/// P14: answers go back to the partition that a row came from, whoever chose it; and topics of different sizes join.
#[test]
fn p14_foreign_keys_join_over_partitions() {
    let mut kafka = Kafka::shared();
    let (left, right) = (kafka.topic("left", 4), kafka.topic("right", 3));
    let out = kafka.topic("out", 1);
    kafka.write(&right, 3, numbered(10, "r"));
    kafka.write(&left, 4, (0..100).map(|n| (format!("l{n}"), format!("r{}", n % 10))));
    let by_hand =
        (0..4).find(|partition| kstreams::topology::partition_for_key(b"k", 4) != *partition);
    kafka.write_to(&left, by_hand.expect("a wrong partition"), "k", "r3");
    let builder = StreamsBuilder::new();
    let table =
        |topic: &str| builder.table(topic, Consumed::<String, String>::new(), Materialized::new());
    table(&left)
        .join_foreign_key(
            &table(&right),
            String::clone,
            |key, found| format!("{key}+{found}"),
            TableJoined::named("fk"),
        )
        .to_stream()
        .to(out.as_str(), Produced::new());
    let dir = tempfile::tempdir().expect("a directory");
    let application = unique("foreign");
    let settings = config(&application, &kafka.bootstrap, dir.path()).stream_threads(2);
    let running = start(builder.build().expect("builds"), settings);
    let all = |read: &[Read]| rows(read).len() == 101;
    let read = kafka.read_until(&out, 1, all);
    let rows = rows(&read);
    assert_eq!(rows["k"], "k=r3+r-3");
    assert_eq!(rows["l47"], "l47=r7+r-7");
    kafka.write(&right, 3, [("r3", "changed")]);
    kafka.read_until(&out, 1, |read| {
        read.iter().filter(|record| text(record).ends_with("+changed")).count() == 11
    });
    running.close(PATIENCE).expect("closes");
    for (topic, partitions) in [("registration", 3), ("response", 4)] {
        let name = format!("{application}-fk-subscription-{topic}-topic");
        let described = kafka.client().describe_topics(vec![name.as_str().into()]);
        for (_, description) in described.wait(PATIENCE).expect("described") {
            assert_eq!(description.expect("there").partitions, partitions, "{name}");
        }
    }
}

/// P45: topics that do not fit are named with their counts; a repartition topic takes the other side's.
#[test]
fn p45_joined_topics_need_equally_many_partitions() {
    let mut kafka = Kafka::shared();
    let (stream, table) = (kafka.topic("stream", 2), kafka.topic("table", 3));
    let out = kafka.topic("out", 1);
    let dir = tempfile::tempdir().expect("a directory");
    let topology = |rekeyed: bool| {
        let builder = StreamsBuilder::new();
        let table =
            builder.table(table.as_str(), Consumed::<String, String>::new(), Materialized::new());
        let source = builder.stream(stream.as_str(), Consumed::<String, String>::new());
        let source = if rekeyed { source.select_key(|key, _| key.clone()) } else { source };
        source
            .join_table(&table, |s, t| format!("{s}+{t}"), Joined::named("join"))
            .to(out.as_str(), Produced::new());
        builder.build().expect("builds")
    };
    let refused = unique("refused");
    let settings = config(&refused, &kafka.bootstrap, &dir.path().join("refused"));
    let error = KafkaStreams::start(topology(false), settings).expect_err("refused").to_string();
    let counts = format!("{stream} has 2, {table} has 3");
    assert!(error.contains(&counts), "{error}");
    kafka.write(&table, 3, numbered(50, "k"));
    let application = unique("rekeyed");
    let settings = config(&application, &kafka.bootstrap, &dir.path().join("rekeyed"));
    let running = start(topology(true), settings);
    let mut seen = 0;
    // The table may be read after the stream: what finds nothing yet is written again.
    while seen < 50 {
        kafka.write(&stream, 2, numbered(50, "k"));
        let read = kafka.read_until(&out, 1, |read| rows(read).len() > seen.min(49));
        seen = rows(&read).len();
    }
    running.close(PATIENCE).expect("closes");
    let name = format!("{application}-join-repartition");
    let described = kafka.client().describe_topics(vec![name.as_str().into()]);
    for (_, description) in described.wait(PATIENCE).expect("described") {
        assert_eq!(description.expect("there").partitions, 3);
    }
}

/// P45: every operation that needs it is refused.
#[test]
fn p45_topics_that_do_not_fit_are_refused_by_every_operation() {
    type Build = fn(&StreamsBuilder, &str, &str) -> KStream<String, String>;
    let stream = |builder: &StreamsBuilder, topic: &str| -> KStream<String, String> {
        builder.stream(topic, Consumed::new())
    };
    let builds: [Build; 3] = [
        |builder, l, r| {
            let table = |topic| builder.table(topic, Consumed::new(), Materialized::new());
            let (l, r): (KTable<String, String>, KTable<String, String>) = (table(l), table(r));
            l.outer_join(&r, |l, r| format!("{l:?}{r:?}"))
                .to_stream()
                .map_values(Option::unwrap_or_default)
        },
        |builder, l, r| {
            let l = builder.stream::<String, String>(l, Consumed::new());
            let r = builder.stream::<String, String>(r, Consumed::new());
            let windows = JoinWindows::of(millis(10));
            l.left_join(&r, |l, r| format!("{l}{r:?}"), windows, StreamJoined::new())
        },
        |builder, l, r| {
            let grouped = |topic| {
                let stream = builder.stream::<String, String>(topic, Consumed::new());
                stream.group_by_key(Grouped::new())
            };
            grouped(l)
                .cogroup(|_, all: String, value| all + &value)
                .cogroup(&grouped(r), |_, all, value| all + &value)
                .aggregate(String::new, Materialized::new())
                .to_stream()
                .map_values(Option::unwrap_or_default)
        },
    ];
    let mut kafka = Kafka::shared();
    let (left, right) = (kafka.topic("left", 2), kafka.topic("right", 3));
    let out = kafka.topic("out", 1);
    for build in builds {
        let builder = StreamsBuilder::new();
        build(&builder, &left, &right).to(out.as_str(), Produced::new());
        let dir = tempfile::tempdir().expect("a directory");
        let settings = config(&unique("refused"), &kafka.bootstrap, dir.path());
        let started = KafkaStreams::start(builder.build().expect("builds"), settings);
        let error = started.expect_err("refused").to_string();
        assert!(error.contains(&format!("{left} has 2, {right} has 3")), "{error}");
    }
    // A source alone reads topics of any size.
    let builder = StreamsBuilder::new();
    stream(&builder, &left).merge(&stream(&builder, &right)).to(out.as_str(), Produced::new());
    let dir = tempfile::tempdir().expect("a directory");
    let settings = config(&unique("merged"), &kafka.bootstrap, dir.path());
    start(builder.build().expect("builds"), settings).close(PATIENCE).expect("closes");
}

/// What waits in a suppression buffer is there after a move: it comes from the changelog, with its order and its prior values.
#[test]
fn a_suppression_buffer_comes_back_from_its_changelog() {
    let mut kafka = Kafka::shared();
    let (input, out) = (kafka.topic("in", 1), kafka.topic("out", 1));
    let topology = || {
        let builder = StreamsBuilder::new();
        builder
            .table(input.as_str(), Consumed::<String, String>::named("t"), Materialized::new())
            .suppress(Suppressed::until_time_limit(days(36_500)).max_records(2))
            .to_stream()
            .to(out.as_str(), Produced::new());
        builder.build().expect("builds")
    };
    let application = unique("suppress");
    let dir = tempfile::tempdir().expect("a directory");
    let bootstrap = kafka.bootstrap.clone();
    let settings = |name: &str| config(&application, &bootstrap, &dir.path().join(name));
    let running = start(topology(), settings("one"));
    kafka.write(&input, 1, [("a", "1"), ("b", "1"), ("a", "2")]);
    kafka.committed_until(&application, |committed| committed.values().sum::<i64>() >= 3);
    running.close(PATIENCE).expect("closes");
    let running = start(topology(), settings("elsewhere"));
    kafka.write(&input, 1, [("c", "1"), ("d", "1")]);
    let read = kafka.read_until(&out, 1, |read| read.len() >= 2);
    assert_eq!(read.iter().map(text).collect::<Vec<_>>(), ["a=2", "b=1"]);
    running.close(PATIENCE).expect("closes");
}

/// With `reuse.ktable.source.topics` a table's topic is its changelog: nothing is written twice, and a lost store comes from it, as
/// far as it was processed.
#[test]
fn a_table_comes_back_from_its_own_topic() {
    let mut kafka = Kafka::shared();
    let (stream, table, out) =
        (kafka.topic("stream", 1), kafka.topic("table", 1), kafka.topic("out", 1));
    let application = unique("reuse");
    let dir = tempfile::tempdir().expect("a directory");
    let bootstrap = kafka.bootstrap.clone();
    let settings = |name: &str| {
        config(&application, &bootstrap, &dir.path().join(name))
            .set("topology.optimization", "reuse.ktable.source.topics")
            .expect("set")
    };
    let topology = || {
        let builder = StreamsBuilder::new();
        let names = builder.table(
            table.as_str(),
            Consumed::<String, String>::new(),
            Materialized::named("names"),
        );
        builder
            .stream(stream.as_str(), Consumed::<String, String>::new())
            .left_join_table(
                &names,
                |s, t| format!("{s}+{}", t.map_or("nothing", String::as_str)),
                Joined::new(),
            )
            .to(out.as_str(), Produced::new());
        builder.build_with(&settings("any")).expect("builds")
    };
    let running = start(topology(), settings("one"));
    kafka.write(&table, 1, [("a", "1"), ("b", "1"), ("a", "2")]);
    kafka.committed_until(&application, |committed| committed.values().sum::<i64>() >= 3);
    running.close(PATIENCE).expect("closes");
    let changelog = format!("{application}-names-changelog");
    let described = kafka.client().describe_topics(vec![changelog.as_str().into()]);
    for (_, description) in described.wait(PATIENCE).expect("described") {
        assert!(description.is_err(), "{changelog} is not needed");
    }
    for (place, name) in ["one", "elsewhere"].into_iter().enumerate() {
        let running = start(topology(), settings(name));
        kafka.write(&stream, 1, [("a", "x"), ("b", "y")]);
        let wanted = 2 * (place + 1);
        let read = kafka.read_until(&out, 1, |read| read.len() >= wanted);
        let last: Vec<String> = read[wanted - 2..].iter().map(text).collect();
        assert_eq!(last, ["a=x+2", "b=y+1"], "{name}");
        running.close(PATIENCE).expect("closes");
    }
}

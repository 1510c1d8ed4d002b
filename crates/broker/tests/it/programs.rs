//! Clients that are not ours, over TCP: kcat (librdkafka), and the real Java producer and Kafka Streams.

use std::collections::BTreeMap;
use std::process::Command;

use bytes::Bytes;
use kstreams_broker::{Broker, BrokerConfig, StoredRecord};
use kstreams_test_programs::{java, kcat};

/// Runs a program to its good end with text as its input; gives its output.
fn run(command: Command, input: &str) -> String {
    String::from_utf8(kstreams_test_programs::run(command, input.as_bytes())).unwrap()
}

fn start() -> Broker {
    Broker::builder().in_memory().config(BrokerConfig::quick()).start().unwrap()
}

#[test]
fn kcat_writes_and_reads() {
    let broker = start();
    let bootstrap = broker.bootstrap();
    broker.create_topic("t", 1).unwrap();
    let produce = |more: &[&str], lines: &str| {
        let mut command = kcat(&["-P", "-b", &bootstrap, "-t", "t", "-p", "0", "-K", ":"]);
        command.args(more);
        run(command, lines);
    };
    // It compresses only what becomes smaller by it.
    let long = "value".repeat(50);
    let mut expected = String::new();
    for (at, codec) in ["none", "gzip", "snappy", "lz4", "zstd"].into_iter().enumerate() {
        produce(&["-X", &format!("compression.codec={codec}")], &format!("{codec}:{long}\n"));
        expected += &format!("{at} {}:{codec} 250:{long} \n", codec.len());
    }
    produce(&["-H", "h=1", "-H", "null", "-H", "h=2"], "k:v\n:\nno key\n");
    produce(&["-Z", "-X", "enable.idempotence=true"], "no value:\n");
    expected += "5 1:k 1:v h=1,null=NULL,h=2\n6 0: 0: h=1,null=NULL,h=2\n\
                 7 -1: 6:no key h=1,null=NULL,h=2\n8 8:no value -1: \n";

    let consume = ["-b", &bootstrap, "-e", "-q", "-f", "%o %K:%k %S:%s %h\n"];
    let from_the_start = [&consume[..], &["-C", "-t", "t", "-o", "beginning"]].concat();
    assert_eq!(run(kcat(&from_the_start), ""), expected);
    // As a member of a group, which commits: the second one has nothing left to read.
    let group = [&consume[..], &["-X", "auto.offset.reset=earliest", "-G", "group", "t"]].concat();
    assert_eq!(run(kcat(&group), ""), expected);
    assert_eq!(broker.committed("group", "t", 0), Some(9));
    assert_eq!(run(kcat(&group), ""), "");
    let topics = run(kcat(&["-L", "-b", &bootstrap]), "");
    assert!(topics.contains("topic \"t\" with 1 partitions"), "{topics}");
}

#[test]
fn kcat_writes_and_reads_a_large_value() {
    let broker = start();
    let bootstrap = broker.bootstrap();
    broker.create_topic("t", 1).unwrap();
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("large-value");
    let large: String = (0..150_000).map(|at| format!("{at:06x}")).collect();
    std::fs::write(&file, &large).unwrap();
    run(kcat(&["-P", "-b", &bootstrap, "-t", "t", "-z", "lz4", file.to_str().unwrap()]), "");
    let stored = broker.records("t").unwrap();
    assert!(stored.len() == 1 && stored[0].value.as_deref() == Some(large.as_bytes()));
    let read = run(kcat(&["-C", "-b", &bootstrap, "-t", "t", "-e", "-q", "-f", "%s"]), "");
    assert!(read == large, "{} bytes", read.len());
}

/// The values of each key, in order.
fn by_key(records: Vec<StoredRecord>) -> BTreeMap<Option<Bytes>, Vec<Bytes>> {
    let mut values = BTreeMap::<_, Vec<Bytes>>::new();
    for record in records {
        values.entry(record.key).or_default().push(record.value.unwrap());
    }
    values
}

#[test]
fn java_fills_a_topic_and_kafka_streams_maps_it() {
    java_maps("at_least_once");
}

#[test]
fn kafka_streams_maps_a_topic_exactly_once() {
    java_maps("exactly_once_v2");
}

fn java_maps(guarantee: &str) {
    let broker = start();
    let bootstrap = broker.bootstrap();
    run(java(&["Gen", &bootstrap, "in", "3", "2000", "50", "40"]), "");
    let input = broker.records("in").unwrap();
    assert_eq!(input.len(), 2000);
    assert_eq!(input.iter().map(|record| record.partition).max(), Some(2));

    let state = format!("java-map-{guarantee}");
    let state = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(state);
    let _ = std::fs::remove_dir_all(&state);
    let state = state.to_str().unwrap();
    let bench = ["Bench", &bootstrap, "map", guarantee, "2000", "2", state, "java-map", "in"];
    let told = run(java(&bench), "");
    assert!(told.contains("\"records\":2000,"), "{told}");

    let mut mapped = by_key(input);
    for value in mapped.values_mut().flatten() {
        *value = [&[value[0] ^ 1], &value[1..]].concat().into();
    }
    assert!(by_key(broker.records("java-map-out").unwrap()) == mapped, "another output");
    // It closed cleanly: all is committed.
    for partition in 0..3 {
        let end = broker.offsets("in", partition).unwrap().1;
        assert_eq!(broker.committed("java-map", "in", partition), Some(end));
    }
}

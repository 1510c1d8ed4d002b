//! Java's producer and consumer, raw and as its console tools.

use super::record::{Field, Record, assert_same, every_kind, large_value};
use super::{COMPRESSIONS, ours, partitions};
use crate::kafka::Kafka;
use kstreams_test_programs::{java, run};

const CONSUMER: &str = "org.apache.kafka.tools.consumer.ConsoleConsumer";
const PRODUCER: &str = "org.apache.kafka.tools.ConsoleProducer";

/// Ends a record of the console consumer; no record of the tests has it inside.
const END: &[u8] = b"<END OF RECORD>\n";

#[test]
fn what_we_write_java_reads() {
    let mut kafka = Kafka::shared();
    let topic = kafka.topic("ours-java", COMPRESSIONS.len() as i32);
    let mut written = Vec::new();
    for (partition, compression) in partitions() {
        let records = every_kind(partition);
        ours::write(&mut kafka, &topic, compression, &records);
        written.extend(records);
    }
    ours::assert_compressed(&kafka, &topic);

    let count = written.len().to_string();
    let read = run(java(&["Records", "read", &kafka.bootstrap, &topic, &count, "60000"]), b"");
    let read = String::from_utf8(read).expect("JSON");
    let read: Vec<Record> = read.lines().map(Record::from_json).collect();
    assert_same("Java's consumer", &read, &written);

    // The records of several partitions come in any order.
    let shown = console_consumer(&kafka.bootstrap, &topic, &count);
    let mut shown = split(&shown);
    let mut wanted: Vec<Vec<u8>> = written.iter().map(as_the_console_shows).collect();
    shown.sort();
    wanted.sort();
    assert_eq!(shown.len(), wanted.len());
    for (shown, wanted) in shown.iter().zip(&wanted) {
        let text =
            |bytes: &[u8]| String::from_utf8_lossy(&bytes[..bytes.len().min(200)]).into_owned();
        assert!(shown == wanted, "{}\nnot {}", text(shown), text(wanted));
    }
}

fn console_consumer(bootstrap: &str, topic: &str, count: &str) -> Vec<u8> {
    let mut command = java(&[CONSUMER, "--bootstrap-server", bootstrap, "--topic", topic]);
    command.args(["--from-beginning", "--max-messages", count, "--timeout-ms", "60000"]);
    // With the old protocol it recommends the new one on its output.
    command.args(["--command-property", "group.protocol=consumer"]);
    let end = format!("line.separator={}", String::from_utf8_lossy(END));
    for property in
        ["print.timestamp=true", "print.partition=true", "print.offset=true", "print.key=true"]
            .into_iter()
            .chain(["print.headers=true", "null.literal=NULL", &end])
    {
        command.args(["--formatter-property", property]);
    }
    run(command, b"")
}

fn as_the_console_shows(record: &Record) -> Vec<u8> {
    let Record { partition, offset, timestamp, .. } = record;
    let place = format!("CreateTime:{timestamp}\tPartition:{partition}\tOffset:{offset}\t");
    [place.as_bytes(), &as_a_line(record, b"NO_HEADERS")].concat()
}

/// Headers, key and value as both console tools take them to be, without an end.
fn as_a_line(record: &Record, no_headers: &[u8]) -> Vec<u8> {
    let or_null = |field: &Field| field.clone().unwrap_or_else(|| b"NULL".to_vec());
    let header =
        |(name, value): &(String, Field)| [name.as_bytes(), b":", &or_null(value)].concat();
    let headers: Vec<Vec<u8>> = record.headers.iter().map(header).collect();
    let headers = if headers.is_empty() { no_headers.to_vec() } else { headers.join(&b","[..]) };
    [&headers, &b"\t"[..], &or_null(&record.key), b"\t", &or_null(&record.value)].concat()
}

/// What stands before each [`END`].
fn split(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut records = Vec::new();
    while let Some(at) = bytes.windows(END.len()).position(|window| window == END) {
        records.push(bytes[..at].to_vec());
        bytes = &bytes[at + END.len()..];
    }
    assert!(bytes.is_empty(), "behind the records: {}", String::from_utf8_lossy(bytes));
    records
}

#[test]
fn what_java_writes_we_read() {
    let mut kafka = Kafka::shared();
    let topic = kafka.topic("java-ours", COMPRESSIONS.len() as i32);
    let mut written = Vec::new();
    for (partition, compression) in partitions() {
        let records = every_kind(partition);
        let lines: Vec<String> = records.iter().map(Record::to_json).collect();
        let args = ["Records", "write", &kafka.bootstrap, &topic, compression.name()];
        run(java(&args), lines.join("\n").as_bytes());
        written.extend(records);
    }
    ours::assert_compressed(&kafka, &topic);
    let read = ours::read(&kafka, &topic, COMPRESSIONS.len() as i32, written.len());
    assert_same("our client", &read, &written);
}

#[test]
fn what_javas_console_writes_we_read() {
    let mut kafka = Kafka::shared();
    let topic = kafka.topic("console-ours", 1);
    let large = large_value();
    let record = |key, value| Record::new(0, key, value);
    let headers: &[(&str, Option<&[u8]>)] =
        &[("twice", Some(b"1")), ("null", None), ("empty", Some(b"")), ("twice", Some(b"2"))];
    let written = [
        record(Some(b"key"), Some(b"value")),
        record(None, Some(b"no key")),
        record(Some(b"no value"), None),
        record(None, None),
        record(Some(b""), Some(b"")),
        record(Some(b"headers"), Some(b"value")).with_headers(headers),
        record(Some(b"large"), Some(&large)),
    ];
    let lines = written.iter().map(|record| [as_a_line(record, b"NULL"), b"\n".to_vec()].concat());
    let lines: Vec<Vec<u8>> = lines.collect();
    let mut command = java(&[PRODUCER, "--bootstrap-server", &kafka.bootstrap]);
    command.args(["--topic", &topic, "--compression-codec", "zstd"]);
    for property in ["parse.headers=true", "parse.key=true", "null.marker=NULL"] {
        command.args(["--reader-property", property]);
    }
    run(command, &lines.concat());

    let mut read = ours::read(&kafka, &topic, 1, written.len());
    for (at, record) in (0..).zip(&mut read) {
        assert_eq!(record.offset, at);
        // The time is that of the console's clock.
        (record.offset, record.timestamp) = (0, 0);
    }
    assert_same("our client", &read, &written);
}

//! kcat, which stands for all clients on librdkafka.

use super::record::{Record, assert_same, every_kind, large_value, sorted};
use super::{COMPRESSIONS, ours, partitions};
use crate::kafka::Kafka;
use kstreams_test_programs::{kcat, run};

#[test]
fn what_we_write_kcat_reads() {
    let mut kafka = Kafka::shared();
    let topic = kafka.topic("ours-kcat", COMPRESSIONS.len() as i32);
    let mut written = Vec::new();
    for (partition, compression) in partitions() {
        let records = every_kind(partition);
        ours::write(&mut kafka, &topic, compression, &records);
        written.extend(records);
    }
    // A line of where it is, how long key and value are (null: -1) and the headers; then key and value as they are.
    let format = "%p %o %T %K %S %h\n%k%s\n";
    let args =
        ["-C", "-b", &kafka.bootstrap, "-t", &topic, "-o", "beginning", "-e", "-q", "-f", format];
    let read = run(kcat(&args), b"");
    assert_same("kcat", &sorted(parse(&read)), &written);
}

fn parse(mut bytes: &[u8]) -> Vec<Record> {
    let mut records = Vec::new();
    while !bytes.is_empty() {
        let end = bytes.iter().position(|byte| *byte == b'\n').expect("a line");
        let mut words = bytes[..end].splitn(6, |byte| *byte == b' ');
        bytes = &bytes[end + 1..];
        let mut number = || {
            let word = std::str::from_utf8(words.next().expect("a word")).expect("a number");
            word.parse::<i64>().expect("a number")
        };
        let [partition, offset, timestamp, key, value] = std::array::from_fn(|_| number());
        let headers = headers(words.next().expect("headers"));
        let mut field = |length: i64| {
            let (field, rest) = bytes.split_at(usize::try_from(length).ok()?);
            bytes = rest;
            Some(field.to_vec())
        };
        let (key, value) = (field(key), field(value));
        let partition = partition as i32;
        records.push(Record { partition, offset, timestamp, key, value, headers });
        bytes = bytes.strip_prefix(b"\n").expect("an end of line");
    }
    records
}

/// `name=value,name=value`, a null value as `NULL`.
fn headers(text: &[u8]) -> Vec<(String, Option<Vec<u8>>)> {
    let header = |text: &[u8]| {
        let at = text.iter().position(|byte| *byte == b'=').expect("a value");
        let (name, value) = (text[..at].to_vec(), &text[at + 1..]);
        let value = (value != b"NULL").then(|| value.to_vec());
        (String::from_utf8(name).expect("UTF-8"), value)
    };
    let parts = text.split(|byte| *byte == b',');
    parts.filter(|part| !part.is_empty()).map(header).collect()
}

#[test]
fn what_kcat_writes_we_read() {
    let mut kafka = Kafka::shared();
    let topic = kafka.topic("kcat-ours", COMPRESSIONS.len() as i32);
    let files = tempfile::tempdir().expect("a folder");
    let large = files.path().join("large");
    std::fs::write(&large, large_value()).expect("written");
    let mut written = Vec::new();
    for (partition, compression) in partitions() {
        let (number, codec) =
            (partition.to_string(), format!("compression.codec={}", compression.name()));
        let produce = |more: &[&str], lines: &str| {
            let mut command = kcat(&["-P", "-b", &kafka.bootstrap, "-t", &topic, "-p", &number]);
            command.args(["-X", &codec]).args(more);
            run(command, lines.as_bytes());
        };
        // It compresses only what becomes smaller by it.
        let long = "value ".repeat(100);
        produce(&["-K", "\t"], &format!("key\t{long}\n\tempty key\nempty value\t\nno key\n"));
        // With -Z what is empty is sent as null.
        produce(&["-K", "\t", "-Z"], "no value\t\n\tno key\n");
        let headers = ["-H", "twice=1", "-H", "null", "-H", "empty=", "-H", "twice=2"];
        produce(&[&headers[..], &["-K", "\t"]].concat(), "headers\tvalue\n");
        produce(&[large.to_str().expect("a path")], "");

        let record = |key, value| Record::new(partition, key, value);
        let headers: &[(&str, Option<&[u8]>)] =
            &[("twice", Some(b"1")), ("null", None), ("empty", Some(b"")), ("twice", Some(b"2"))];
        let records = [
            record(Some(b"key"), Some(long.as_bytes())),
            record(Some(b""), Some(b"empty key")),
            record(Some(b"empty value"), Some(b"")),
            record(None, Some(b"no key")),
            record(Some(b"no value"), None),
            record(None, Some(b"no key")),
            record(Some(b"headers"), Some(b"value")).with_headers(headers),
            record(None, Some(&large_value())),
        ];
        written.extend((0..).zip(records).map(|(offset, record)| Record { offset, ..record }));
    }
    ours::assert_compressed(&kafka, &topic);
    let mut read = ours::read(&kafka, &topic, COMPRESSIONS.len() as i32, written.len());
    for record in &mut read {
        // The time is that of kcat's clock.
        record.timestamp = 0;
    }
    assert_same("our client", &read, &written);
}

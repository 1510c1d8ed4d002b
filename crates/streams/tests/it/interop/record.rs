//! Records as everybody sees them, and the ones that go to and fro.

use serde_json::{Value, json};
use std::fmt::Write;

/// Bytes or null.
pub(super) type Field = Option<Vec<u8>>;

/// A record and where it is.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) partition: i32,
    pub(super) offset: i64,
    pub(super) timestamp: i64,
    pub(super) key: Field,
    pub(super) value: Field,
    pub(super) headers: Vec<(String, Field)>,
}

impl Record {
    /// A record without headers; offset and timestamp are to be set.
    pub(super) fn new(partition: i32, key: Option<&[u8]>, value: Option<&[u8]>) -> Self {
        let field = |bytes: Option<&[u8]>| bytes.map(<[u8]>::to_vec);
        let (key, value) = (field(key), field(value));
        Record { partition, offset: 0, timestamp: 0, key, value, headers: Vec::new() }
    }

    pub(super) fn with_headers(mut self, headers: &[(&str, Option<&[u8]>)]) -> Self {
        let owned =
            |(name, value): &(&str, Option<&[u8]>)| ((*name).to_owned(), value.map(<[u8]>::to_vec));
        self.headers = headers.iter().map(owned).collect();
        self
    }

    /// The line of `tests/java/Records.java`.
    pub(super) fn to_json(&self) -> String {
        let headers: Vec<Value> =
            self.headers.iter().map(|(name, value)| json!([name, hex(value)])).collect();
        json!({
            "partition": self.partition,
            "ts": self.timestamp,
            "key": hex(&self.key),
            "value": hex(&self.value),
            "headers": headers,
        })
        .to_string()
    }

    /// Reads a line of `tests/java/Records.java`.
    pub(super) fn from_json(line: &str) -> Self {
        let line: Value = serde_json::from_str(line).expect("JSON");
        let number = |name: &str| line[name].as_i64().expect("a number");
        let headers = line["headers"].as_array().expect("headers").iter();
        Record {
            partition: number("partition") as i32,
            offset: number("offset"),
            timestamp: number("ts"),
            key: from_hex(&line["key"]),
            value: from_hex(&line["value"]),
            headers: headers
                .map(|header| (header[0].as_str().expect("a name").into(), from_hex(&header[1])))
                .collect(),
        }
    }

    /// For messages: what is long is cut.
    fn shown(&self) -> String {
        let shown = |field: &Field| match field {
            None => "null".to_owned(),
            Some(bytes) => {
                let start = &bytes[..bytes.len().min(40)];
                format!("{:?} ({} bytes)", String::from_utf8_lossy(start), bytes.len())
            }
        };
        let Record { partition, offset, timestamp, .. } = self;
        let mut text = format!("{partition}/{offset} at {timestamp}: ");
        let _ = write!(text, "{} -> {}", shown(&self.key), shown(&self.value));
        for (name, value) in &self.headers {
            let _ = write!(text, ", {name}: {}", shown(value));
        }
        text
    }
}

fn hex(field: &Field) -> Value {
    let Some(bytes) = field else { return Value::Null };
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text.into()
}

fn from_hex(value: &Value) -> Field {
    let digit = |digit: u8| (digit as char).to_digit(16).expect("a hex digit") as u8;
    let bytes = value.as_str()?.as_bytes().chunks(2);
    Some(bytes.map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect())
}

/// Puts one partition after the other, each by its offsets, as records of several partitions come in any order.
pub(super) fn sorted(mut records: Vec<Record>) -> Vec<Record> {
    records.sort_by_key(|record| (record.partition, record.offset));
    records
}

#[track_caller]
pub(super) fn assert_same(what: &str, read: &[Record], written: &[Record]) {
    for (read, written) in read.iter().zip(written) {
        assert!(read == written, "{what}\n   read {}\nwritten {}", read.shown(), written.shown());
    }
    assert_eq!(read.len(), written.len(), "{what}: number of records");
}

/// 900 kB that no compression makes small, and that stay below the 1 MB of a broker if none does.
pub(super) fn large_value() -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut byte = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        b'a' + ((state >> 33) % 26) as u8
    };
    (0..900_000).map(|_| byte()).collect()
}

/// Every kind of record, for one partition. Timestamps go back now and then.
pub(super) fn every_kind(partition: i32) -> Vec<Record> {
    let all_bytes: Vec<u8> = (0..=255).collect();
    let mut records = vec![
        Record::new(partition, Some(b"key"), Some(b"value")),
        Record::new(partition, None, Some(b"no key")),
        Record::new(partition, Some(b"no value"), None),
        Record::new(partition, None, None),
        Record::new(partition, Some(b""), Some(b"")),
        Record::new(partition, Some(&all_bytes), Some(&all_bytes)),
        Record::new(partition, Some(b"headers"), Some(b"value")).with_headers(&[
            ("twice", Some(b"1")),
            ("null", None),
            ("empty", Some(b"")),
            ("twice", Some(b"2")),
            ("gr\u{f6}\u{df}e", Some(b"\xff\xfe")),
        ]),
        Record::new(partition, None, None).with_headers(&[("only", Some(b"headers"))]),
        Record::new(partition, Some(b"large"), Some(&large_value())),
    ];
    for at in 0..200 {
        let (key, value) = (format!("key-{}", at % 7), "value ".repeat(at));
        records.push(Record::new(partition, Some(key.as_bytes()), Some(value.as_bytes())));
    }
    for (at, record) in (0..).zip(&mut records) {
        record.offset = at;
        record.timestamp = 1_700_000_000_000 + at - (at % 5) * 1_000;
    }
    records
}

//! The oracle's lines: JSON objects, one a record.

use kstreams::record::Headers;
use kstreams::testing::ProducedRecord;
use serde_json::{Map, Value, json};

/// A line of input.
pub(crate) enum Input {
    /// The wall clock moves by so many milliseconds.
    Advance(u64),
    /// A record of a topic.
    Record {
        topic: String,
        key: Option<String>,
        value: Option<String>,
        timestamp: i64,
        headers: Headers,
    },
}

pub(crate) fn parse(line: &str) -> Result<Input, Box<dyn std::error::Error>> {
    let line: Value = serde_json::from_str(line)?;
    if let Some(by) = line.get("advance") {
        return Ok(Input::Advance(by.as_u64().ok_or("advance is not a number")?));
    }
    let text = |name: &str| line.get(name).and_then(Value::as_str).map(str::to_string);
    let mut headers = Headers::new();
    if let Some(given) = line.get("headers").and_then(Value::as_object) {
        for (name, value) in given {
            match value.as_str() {
                Some(value) => headers.add(name.as_str(), value),
                None => headers.add_null(name.as_str()),
            }
        }
    }
    Ok(Input::Record {
        topic: text("topic").ok_or("no topic")?,
        key: text("key"),
        value: text("value"),
        timestamp: line.get("ts").and_then(Value::as_i64).ok_or("no ts")?,
        headers,
    })
}

/// How the bytes of keys and values are shown.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    Text,
    Long,
}

/// A line of output: the record that input line `n` caused.
pub(crate) fn show(n: usize, record: &ProducedRecord, internal: bool, value: Kind) -> String {
    let mut line = Map::new();
    line.insert("n".into(), json!(n));
    line.insert("topic".into(), json!(record.topic));
    let (key_bytes, value_bytes) = (record.key.as_deref(), record.value.as_deref());
    if internal {
        line.insert("keyHex".into(), json!(key_bytes.map(hex)));
        line.insert("valueHex".into(), json!(value_bytes.map(hex)));
    } else {
        line.insert("key".into(), json!(key_bytes.map(text)));
        let shown = match (value, value_bytes) {
            (Kind::Long, Some(bytes)) => {
                json!(<[u8; 8]>::try_from(bytes).map(i64::from_be_bytes).ok())
            }
            (_, bytes) => json!(bytes.map(text)),
        };
        line.insert("value".into(), shown);
    }
    // A record without a time gets that of its sending.
    line.insert("ts".into(), json!((record.timestamp >= 0).then_some(record.timestamp)));
    // As in a Java map: a repeated name keeps its place and shows its last value.
    let mut headers = Map::new();
    for header in &record.headers {
        let shown =
            header.value.as_deref().map(|value| if internal { hex(value) } else { text(value) });
        headers.insert(header.name.to_string(), json!(shown));
    }
    line.insert("headers".into(), Value::Object(headers));
    Value::Object(line).to_string()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

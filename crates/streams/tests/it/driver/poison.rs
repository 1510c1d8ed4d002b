//! Records that cannot be read (P93), and records without a time.

use super::{check, check_with};
use kstreams::handlers::{BadRecord, DeserializationHandler, HandlerResponse};
use kstreams::prelude::*;
use kstreams::serde::{At, Presence};
use kstreams::topology::{LogAndSkipOnInvalidTimestamp, UsePartitionTimeOnInvalidTimestamp};
use std::sync::{Arc, Mutex};

fn numbers() -> Topology {
    let builder = StreamsBuilder::new();
    builder
        .stream("in", Consumed::<Option<String>, Option<i32>>::new())
        .map_values(|value| value.map(|value| value.to_string()))
        .to("out", Produced::new());
    builder.build().expect("builds")
}

/// P93: the skip policy leaves the record out and nothing else.
#[test]
fn p93_a_poison_record_is_left_out() {
    let config = StreamsConfig::new("app", "unused:1");
    let skip = config.set("deserialization.exception.handler", "log-and-continue");
    check_with(
        numbers(),
        skip.expect("a setting"),
        "in (a,\0\0\0\x01)@0 -> out (a,1)@0
         in (a,poison)@100 -> -
         in (a,\0\0\0\x02)@5 -> out (a,2)@5
         in (a,null)@6 -> out (a,null)@6",
    );
}

/// P93: the time of a record that is left out moves nothing.
#[test]
fn p93_a_poison_record_does_not_move_the_time() {
    let builder = StreamsBuilder::new();
    builder
        .stream("in", Consumed::<String, i32>::new())
        .map_values(|value| value.to_string())
        .process(|_| Ok(super::processors::Tell), Processed::new())
        .to("out", Produced::new());
    let config = StreamsConfig::new("app", "unused:1");
    let skip = config.set("deserialization.exception.handler", "log-and-continue");
    check_with(
        builder.build().expect("builds"),
        skip.expect("a setting"),
        "in (a,\0\0\0\x01)@0 -> out (a,app 0_0 in 0 0 0)@0
         in (a,poison)@100 -> -
         in (a,\0\0\0\x02)@5 -> out (a,app 0_0 in 0 2 5)@5",
    );
}

/// P93: the default policy stops there, and says where.
#[test]
fn p93_a_poison_record_stops_the_task_and_is_named() {
    check(
        numbers(),
        "in (a,\0\0\0\x01)@0 -> out (a,1)@0
         in (a,poison)@100 -> error: cannot read the value of a record: \
         a 32-bit integer has 4 bytes, these are 6 (topic in, partition 0, offset 1) (task 0_0) \
         (deserialization.exception.handler=log-and-continue would leave such records out) (task 0_0)",
    );
}

/// Takes its marker out of the headers, as decoders of enveloped records do, and fails.
struct Enveloped;

impl Serde<String> for Enveloped {
    fn serialize(&self, _: &At, value: &String, out: &mut Vec<u8>) -> Result<Presence, BoxError> {
        out.extend_from_slice(value.as_bytes());
        Ok(Presence::Value)
    }

    fn deserialize(&self, at: &At, _: &[u8]) -> Result<String, BoxError> {
        let mut headers = at.headers.clone();
        headers.remove("marker");
        Err(format!("{} headers are left", headers.len()).into())
    }
}

/// Writes down what it is shown, and goes on.
struct Witness(Arc<Mutex<Vec<String>>>);

impl DeserializationHandler for Witness {
    fn handle(&self, record: &BadRecord<'_>, error: &BoxError) -> HandlerResponse {
        let text =
            |bytes: Option<&[u8]>| String::from_utf8_lossy(bytes.unwrap_or(b"null")).into_owned();
        let (key, value, marker) = (record.key, record.value, record.headers.last("marker"));
        let seen = format!("{} {} {}: {error}", text(key), text(value), text(marker));
        self.0.lock().expect("not poisoned").push(seen);
        HandlerResponse::resume()
    }
}

/// P67: the handler sees the record as it was on the wire, whatever the serde did with the headers.
#[test]
fn p67_a_handler_sees_the_headers_of_the_wire() {
    let builder = StreamsBuilder::new();
    let consumed = Consumed::<String, String>::with(String::default_serde(), Arc::new(Enveloped));
    builder.stream("in", consumed).to("out", Produced::new());
    let seen = Arc::new(Mutex::new(Vec::new()));
    let config = StreamsConfig::new("app", "unused:1");
    check_with(
        builder.build().expect("builds"),
        config.deserialization_handler(Witness(seen.clone())),
        "in (a,x)@0 {marker=m other=o} -> -
         in (b,y)@1 {marker=n} -> -",
    );
    let seen = seen.lock().expect("not poisoned");
    assert_eq!(*seen, ["a x m: 1 headers are left", "b y n: 0 headers are left"]);
}

#[test]
fn a_null_that_the_type_does_not_have_says_what_to_do() {
    let builder = StreamsBuilder::new();
    builder.stream("in", Consumed::<String, String>::new()).to("out", Produced::new());
    check(
        builder.build().expect("builds"),
        "in (null,x)@0 -> error: cannot read the key of a record: the key is null and its type has \
         no null: read the topic with Option<…> as its key type, or with Consumed::values() if keys \
         do not matter (topic in, partition 0, offset 0) (task 0_0) \
         (deserialization.exception.handler=log-and-continue would leave such records out) (task 0_0)",
    );
}

fn timed(consumed: Consumed<String, String>) -> Topology {
    let builder = StreamsBuilder::new();
    builder.stream("in", consumed).to("out", Produced::new());
    builder.build().expect("builds")
}

/// P53: the three policies for records without a timestamp.
#[test]
fn p53_records_without_a_time() {
    check(
        timed(Consumed::new()),
        "in (a,bad)@-1 -> error: cannot tell the time of a record: the record has the invalid \
         timestamp -1: an old producer may have written it; take another timestamp extractor to \
         drop such records or to give them a time (topic in, partition 0, offset 0) (task 0_0)",
    );
    check(
        timed(Consumed::new().timestamp_extractor(LogAndSkipOnInvalidTimestamp)),
        "in (a,bad)@-1 -> -
         in (a,x)@5 -> out (a,x)@5
         in (a,bad)@-1 -> -
         in (a,y)@3 -> out (a,y)@3",
    );
    check(
        timed(Consumed::new().timestamp_extractor(UsePartitionTimeOnInvalidTimestamp)),
        "in (a,x)@5 -> out (a,x)@5
         in (a,bad)@-1 -> out (a,bad)@5
         in (a,y)@3 -> out (a,y)@3
         in (a,bad)@-1 -> out (a,bad)@5",
    );
}

#[test]
fn time_can_come_from_the_content() {
    check(
        timed(
            Consumed::<String, String>::new()
                .timestamps(|record| record.value.parse().unwrap_or(-1)),
        ),
        "in (a,70)@5 -> out (a,70)@70
         in (a,none)@5 -> -",
    );
}

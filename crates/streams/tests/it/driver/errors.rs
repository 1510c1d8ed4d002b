//! What handlers decide about user code that fails and records that cannot be written, and the dead letters that are left.

use super::{check, check_with};
use kstreams::handlers::{
    ErrorContext, FailedWrite, HandlerResponse, ProcessingHandler, ProductionHandler,
    ProductionResponse,
};
use kstreams::prelude::*;
use kstreams::serde::{At, Presence};
use kstreams::testing::ProducedRecord;
use std::sync::{Arc, Mutex};

fn app() -> StreamsConfig {
    StreamsConfig::new("app", "unused:1")
}

fn skipping() -> StreamsConfig {
    app().set("processing.exception.handler", "log-and-continue").expect("a setting")
}

/// Parses numbers; `panic` panics.
fn parse(text: &str) -> Result<i64, BoxError> {
    assert!(text != "panic", "told to");
    Ok(text.parse()?)
}

fn numbers() -> Topology {
    let builder = StreamsBuilder::new();
    builder
        .stream("in", Consumed::<String, String>::new())
        .try_map_values(|text| parse(&text))
        .named("parse")
        .map_values(|number| number.to_string())
        .to("out", Produced::new());
    builder.build().expect("builds")
}

/// What is left of a record, without the headers that Java does not have word by word.
fn told(letter: &ProducedRecord) -> String {
    let text = |bytes: Option<&[u8]>| {
        bytes.map_or("null".into(), |bytes| String::from_utf8_lossy(bytes).into_owned())
    };
    let headers: Vec<String> = letter
        .headers
        .iter()
        .map(|header| {
            format!(
                "{}={}",
                header.name.replace("__streams.errors.", ""),
                text(header.value.as_deref())
            )
        })
        .filter(|header| !header.starts_with("stacktrace="))
        .collect();
    let (key, value) = (text(letter.key.as_deref()), text(letter.value.as_deref()));
    format!("({key},{value})@{} {}", letter.timestamp, headers.join("; "))
}

fn letters(driver: &mut TopologyTestDriver, topic: &str) -> Vec<String> {
    driver.take_records(topic).iter().map(told).collect()
}

#[test]
fn user_code_that_fails_stops_the_task() {
    check(
        numbers(),
        "in (a,1)@0 -> out (a,1)@0
         in (a,one)@1 -> error: operator parse failed: invalid digit found in string \
         (topic in, partition 0, offset 1) (task 0_0)",
    );
    check(
        numbers(),
        "in (a,panic)@1 -> error: user code panicked: told to (operator parse) (topic in, partition 0, offset 0) (task 0_0)",
    );
}

#[test]
fn a_record_on_which_user_code_fails_or_panics_is_left_out() {
    check_with(
        numbers(),
        skipping(),
        "in (a,1)@0 -> out (a,1)@0
         in (a,one)@1 -> -
         in (a,panic)@2 -> -
         in (a,2)@3 -> out (a,2)@3",
    );
}

#[test]
fn java_class_names_are_taken() {
    let class = "org.apache.kafka.streams.errors.LogAndContinueProcessingExceptionHandler";
    let config = app().set("processing.exception.handler", class).expect("a setting");
    check_with(numbers(), config, "in (a,one)@1 -> -");
}

/// The record is left out at the node that failed: siblings and what was forwarded before stay.
#[test]
fn only_the_node_that_failed_leaves_the_record_out() {
    let builder = StreamsBuilder::new();
    let words = builder
        .stream("in", Consumed::<String, String>::new())
        .flat_map_values(|line| line.split(' ').map(str::to_string).collect::<Vec<_>>());
    words
        .try_map_values(|text| parse(&text))
        .map_values(|n| n.to_string())
        .to("first", Produced::new());
    words.to("second", Produced::new());
    check_with(
        builder.build().expect("builds"),
        skipping(),
        "in (a,1 x 3)@0 -> first (a,1)@0; first (a,3)@0; second (a,1)@0; second (a,x)@0; second (a,3)@0",
    );
}

#[test]
fn a_dead_letter_is_the_source_record_with_javas_headers() {
    let config = skipping().dead_letter_topic("dead");
    let mut driver = TopologyTestDriver::with_config(numbers(), &config).expect("builds");
    let mut headers = Headers::new();
    headers.add("mine", "1");
    driver.pipe_bytes("in", Some(b"a"), Some(b"1"), 3, &headers).expect("processed");
    driver.pipe_bytes("in", Some(b"a"), Some(b"one"), 4, &headers).expect("left out");
    let letters = driver.take_records("dead");
    assert_eq!(
        letters.iter().map(told).collect::<Vec<_>>(),
        ["(a,one)@4 mine=1; exception=kstreams::ErrorKind::Processing; \
          message=invalid digit found in string; topic=in; partition=0; offset=1"]
    );
    let names: Vec<&str> = letters[0].headers.iter().map(|header| &*header.name).collect();
    assert_eq!(
        names,
        [
            "mine",
            "__streams.errors.exception",
            "__streams.errors.message",
            "__streams.errors.stacktrace",
            "__streams.errors.topic",
            "__streams.errors.partition",
            "__streams.errors.offset"
        ]
    );
    let trace = letters[0].headers.last("__streams.errors.stacktrace").expect("a text");
    assert!(String::from_utf8_lossy(trace).contains("at operator parse, task 0_0"));
}

/// P67: a record that cannot be read is kept as it was on the wire, and moves on.
#[test]
fn p67_a_record_that_cannot_be_read_becomes_a_dead_letter() {
    let builder = StreamsBuilder::new();
    builder.stream("in", Consumed::<String, i32>::new()).to("out", Produced::new());
    let topology = builder.build().expect("builds");
    let config = app().dead_letter_topic("dead");
    let skip = config.clone().set("deserialization.exception.handler", "log-and-continue");
    let mut driver = TopologyTestDriver::with_config(topology.clone(), &skip.expect("a setting"))
        .expect("builds");
    let mut headers = Headers::new();
    headers.add("marker", "m");
    driver.pipe_bytes("in", Some(b"a"), Some(b"poison"), 7, &headers).expect("left out");
    let expected = "(a,poison)@7 marker=m; exception=kstreams::ErrorKind::BadRecord; \
                    message=a 32-bit integer has 4 bytes, these are 6; topic=in; partition=0; offset=0";
    assert_eq!(letters(&mut driver, "dead"), [expected]);
    // One that stops leaves a letter as well.
    let mut driver = TopologyTestDriver::with_config(topology, &config).expect("builds");
    driver.pipe_bytes("in", Some(b"a"), Some(b"poison"), 7, &headers).expect_err("stops");
    assert_eq!(letters(&mut driver, "dead"), [expected]);
}

/// Writes down what it is told, and goes on.
#[derive(Clone, Default)]
struct Witness(Arc<Mutex<Vec<String>>>);

impl Witness {
    fn saw(&self, context: &ErrorContext<'_>, what: String) {
        let place = context
            .metadata
            .as_ref()
            .map_or("-".into(), |at| format!("{}-{}@{}", at.topic, at.partition, at.offset));
        let value = context.value.map(|value| String::from_utf8_lossy(value).into_owned());
        let (task, operator, time) = (context.task, context.operator, context.timestamp);
        let seen = format!("{task} {operator} {place} {time} {value:?}: {what}");
        self.0.lock().expect("not poisoned").push(seen);
    }

    fn seen(&self) -> Vec<String> {
        self.0.lock().expect("not poisoned").drain(..).collect()
    }
}

impl ProcessingHandler for Witness {
    fn handle(&self, context: &ErrorContext<'_>, error: &BoxError) -> HandlerResponse {
        self.saw(context, error.to_string());
        HandlerResponse::resume().with_dead_letters(context.dead_letter(error))
    }
}

impl ProductionHandler for Witness {
    fn handle(&self, write: &FailedWrite<'_>, error: &BoxError) -> ProductionResponse {
        let (topic, problem) = (write.topic, write.problem);
        self.saw(write, format!("{topic} {problem:?}: {error}"));
        ProductionResponse::resume().with_dead_letters(write.dead_letter(error))
    }
}

/// Fails every ten ms of stream time, and once a second on the wall.
struct Failing;

impl Processor for Failing {
    type In = (String, String);
    type Out = (String, String);

    fn init(&mut self, ctx: &mut Context<Self>) -> ProcessResult {
        ctx.schedule(millis(10), PunctuationType::StreamTime, |_, _, _| Err("stream".into()));
        ctx.schedule(seconds(1), PunctuationType::WallClockTime, |_, _, _| panic!("wall"));
        Ok(())
    }

    fn process(
        &mut self,
        record: Record<String, String>,
        ctx: &mut Context<Self>,
    ) -> ProcessResult {
        ctx.forward(record)
    }
}

/// In a punctuator there is no record, and a dead letter says so as Java does.
#[test]
fn punctuators_that_fail_reach_the_same_handler() {
    let builder = StreamsBuilder::new();
    builder
        .stream("in", Consumed::<String, String>::new())
        .process(|_| Ok(Failing), Processed::named("failing"))
        .to("out", Produced::new());
    let witness = Witness::default();
    let config = app().processing_handler(witness.clone()).dead_letter_topic("dead");
    let topology = builder.build().expect("builds");
    let mut driver = TopologyTestDriver::with_config(topology, &config).expect("builds");
    let mut input = driver.input::<String, String>("in");
    input.pipe_key_value_at(&mut driver, 5, "a", "x").expect("goes on");
    driver.advance_wall_clock(seconds(1)).expect("goes on");
    assert_eq!(
        witness.seen(),
        ["0_0 failing - 5 None: stream", "0_0 failing - 1000 None: user code panicked: wall"]
    );
    assert_eq!(
        letters(&mut driver, "dead"),
        [
            "(null,null)@5 exception=kstreams::ErrorKind::Processing; message=stream; \
             topic=null; partition=-1; offset=-1",
            "(null,null)@1000 exception=kstreams::ErrorKind::Processing; \
             message=user code panicked: wall; topic=null; partition=-1; offset=-1"
        ]
    );
    assert_eq!(
        driver.output::<String, String>("out").read_values(&mut driver).expect("reads"),
        ["x"]
    );
}

/// Hides what goes wrong below it.
struct Swallowing;

impl Processor for Swallowing {
    type In = (String, String);
    type Out = (String, String);

    fn process(
        &mut self,
        record: Record<String, String>,
        ctx: &mut Context<Self>,
    ) -> ProcessResult {
        let _ = ctx.forward(record);
        Ok(())
    }
}

/// What has failed for good cannot be hidden by user code above it.
#[test]
fn a_failure_that_user_code_swallows_stops_the_task_all_the_same() {
    let builder = StreamsBuilder::new();
    builder
        .stream("in", Consumed::<String, String>::new())
        .process(|_| Ok(Swallowing), Processed::new())
        .try_map_values(|text| parse(&text))
        .named("parse")
        .map_values(|number| number.to_string())
        .to("out", Produced::new());
    let topology = builder.build().expect("builds");
    check(
        topology.clone(),
        "in (a,one)@1 -> error: operator parse failed: invalid digit found in string \
         (topic in, partition 0, offset 0) (task 0_0)",
    );
    check_with(topology, skipping(), "in (a,one)@1 -> -");
}

/// Cannot write `bad`, and panics on `panic`.
struct Picky;

impl Serde<String> for Picky {
    fn serialize(&self, _: &At, value: &String, out: &mut Vec<u8>) -> Result<Presence, BoxError> {
        assert!(value != "panic", "told to");
        if value == "bad" {
            return Err("a bad value".into());
        }
        out.extend_from_slice(value.as_bytes());
        Ok(Presence::Value)
    }

    fn deserialize(&self, _: &At, bytes: &[u8]) -> Result<String, BoxError> {
        Ok(String::from_utf8(bytes.to_vec())?)
    }
}

#[test]
fn a_record_that_a_sink_cannot_write_goes_to_the_production_handler() {
    let builder = StreamsBuilder::new();
    builder
        .stream("in", Consumed::<String, String>::new())
        .to("out", Produced::with(String::default_serde(), Arc::new(Picky)));
    let topology = builder.build().expect("builds");
    // The processing handler has no say.
    check_with(
        topology.clone(),
        skipping(),
        "in (a,bad)@1 -> error: cannot write the value of a record for topic out: a bad value \
         (operator KSTREAM-SINK-0000000001) (topic in, partition 0, offset 0) (task 0_0)",
    );
    let witness = Witness::default();
    let config = app().production_handler(witness.clone()).dead_letter_topic("dead");
    let mut driver = TopologyTestDriver::with_config(topology, &config).expect("builds");
    let mut input = driver.input::<String, String>("in");
    for value in ["x", "bad", "panic", "y"] {
        input.pipe_key_value_at(&mut driver, 0, "a", value).expect("goes on");
    }
    let out = driver.output::<String, String>("out").read_values(&mut driver).expect("reads");
    assert_eq!(out, ["x", "y"]);
    let seen = witness.seen();
    assert_eq!(
        seen[0],
        "0_0 KSTREAM-SINK-0000000001 in-0@1 0 Some(\"bad\"): out Value: \
         cannot write the value of a record for topic out: a bad value"
    );
    assert!(seen[1].contains("user code panicked"), "{seen:?}");
    assert_eq!(letters(&mut driver, "dead").len(), 2);
}

/// P71: what goes to a repartition topic is the application's own, and no handler may leave it out.
#[test]
fn p71_a_write_to_a_repartition_topic_cannot_be_left_out() {
    let builder = StreamsBuilder::new();
    builder
        .stream("in", Consumed::<String, String>::new())
        .group_by(
            |_, value| value.clone(),
            Grouped::with(Arc::new(Picky) as SerdeRef<String>, String::default_serde()),
        )
        .count(Materialized::named("counts"))
        .to_stream()
        .map_values(|count| count.map_or("null".into(), |count| count.to_string()))
        .to("out", Produced::with(String::default_serde(), String::default_serde()));
    let witness = Witness::default();
    let config = app().production_handler(witness.clone()).processing_handler(witness.clone());
    let mut driver =
        TopologyTestDriver::with_config(builder.build().expect("builds"), &config).expect("builds");
    let mut input = driver.input::<String, String>("in");
    input.pipe_key_value_at(&mut driver, 0, "a", "x").expect("goes on");
    let error = input.pipe_key_value_at(&mut driver, 0, "a", "bad").expect_err("stops").to_string();
    assert!(
        error.contains(
            "cannot write the key of a record for topic app-counts-repartition: a bad value"
        ),
        "{error}"
    );
    assert!(witness.seen().is_empty());
}

/// Whoever handles errors may fail as well.
struct Broken;

impl ProcessingHandler for Broken {
    fn handle(&self, _: &ErrorContext<'_>, _: &BoxError) -> HandlerResponse {
        panic!("no idea")
    }
}

#[test]
fn a_handler_that_panics_stops_the_task() {
    check_with(
        numbers(),
        app().processing_handler(Broken),
        "in (a,one)@1 -> error: user code panicked: no idea \
         (in the handler that was asked about: invalid digit found in string) (operator parse) \
         (topic in, partition 0, offset 0) (task 0_0)",
    );
}

/// Panics on `panic`, as a decoder might.
struct Panicking;

impl Serde<String> for Panicking {
    fn serialize(&self, _: &At, value: &String, out: &mut Vec<u8>) -> Result<Presence, BoxError> {
        out.extend_from_slice(value.as_bytes());
        Ok(Presence::Value)
    }

    fn deserialize(&self, _: &At, bytes: &[u8]) -> Result<String, BoxError> {
        assert!(bytes != b"panic", "told to");
        Ok(String::from_utf8(bytes.to_vec())?)
    }
}

#[test]
fn a_serde_that_panics_cannot_read_the_record() {
    let builder = StreamsBuilder::new();
    let consumed = Consumed::<String, String>::with(String::default_serde(), Arc::new(Panicking));
    builder.stream("in", consumed).to("out", Produced::carried());
    let topology = builder.build().expect("builds");
    check(
        topology.clone(),
        "in (a,panic)@1 -> error: cannot read the value of a record: user code panicked: told to \
         (topic in, partition 0, offset 0) (task 0_0) \
         (deserialization.exception.handler=log-and-continue would leave such records out) (task 0_0)",
    );
    let config = app().set("deserialization.exception.handler", "log-and-continue");
    check_with(
        topology,
        config.expect("a setting"),
        "in (a,panic)@1 -> -
         in (a,x)@2 -> out (a,x)@2",
    );
}

/// An error of ours that user code gives back is user code's: what a query or a writer said, for instance.
#[test]
fn an_error_of_any_kind_from_user_code_goes_to_the_handler() {
    let kinds = [ErrorKind::Timeout, ErrorKind::Broker, ErrorKind::Moved, ErrorKind::InvalidState];
    for kind in kinds {
        let topology = || {
            let builder = StreamsBuilder::new();
            builder
                .stream("in", Consumed::<String, String>::new())
                .try_map_values(move |value| match value.as_str() {
                    "bad" => Err(Error::new(kind, "not now").into()),
                    _ => Ok(value),
                })
                .named("asks")
                .to("out", Produced::with(String::default_serde(), String::default_serde()));
            builder.build().expect("builds")
        };
        check_with(topology(), skipping(), "in (a,bad)@1 -> -\nin (a,good)@2 -> out (a,good)@2");
        check(
            topology(),
            "in (a,bad)@1 -> error: user code failed: not now (operator asks) (topic in, partition 0, offset 0) (task 0_0)",
        );
    }
}

//! Single processors, without a topology.

use kstreams::prelude::*;
use kstreams::testing::{ProcessorTestDriver, ValueTransformerTestDriver};

/// Sends words to a child by their lengths, with the place where each was read.
struct Route;

impl Processor for Route {
    type In = (String, String);
    type Out = (String, String);

    fn process(
        &mut self,
        record: Record<String, String>,
        ctx: &mut Context<Self>,
    ) -> ProcessResult {
        let place = ctx.metadata().ok_or("no record")?;
        let told = format!(
            "{} {}-{}@{} {} {} {:?}",
            record.value,
            place.topic,
            place.partition,
            place.offset,
            ctx.task_id(),
            ctx.wall_clock(),
            ctx.app_config("client.id")
        );
        match record.value.len() {
            0 => panic!("an empty word"),
            1..=3 => ctx.forward_to("short", record.with_value(told)),
            4..=6 => ctx.forward_to("long", record.with_value(told)),
            _ => ctx.forward(record.with_value(told)),
        }
    }
}

fn word(word: &str) -> Record<String, String> {
    Record::new("k".into(), word.into(), 7)
}

#[test]
fn a_processor_alone_sees_its_place_and_its_children() {
    let config = StreamsConfig::new("app", "unused:1").set("client.id", "me").expect("a setting");
    let mut driver = ProcessorTestDriver::builder(|_| Ok(Route), Processed::named("route"))
        .children(["short", "long"])
        .config(&config)
        .task_id(TaskId { subtopology: 2, partition: 3 })
        .wall_clock(1_000)
        .build()
        .expect("starts");
    driver.set_metadata("words", 3, 41);
    for text in ["one", "three", "thousand"] {
        driver.process(word(text)).expect("processed");
    }
    let forwarded = driver.take_forwarded();
    let shown: Vec<String> = forwarded
        .iter()
        .map(|forwarded| format!("{}: {}", forwarded.child, forwarded.record.value))
        .collect();
    assert_eq!(
        shown,
        [
            r#"short: one words-3@41 2_3 1000 Some("me")"#,
            r#"long: three words-3@42 2_3 1000 Some("me")"#,
            r#"short: thousand words-3@43 2_3 1000 Some("me")"#,
            r#"long: thousand words-3@43 2_3 1000 Some("me")"#,
        ]
    );
    assert!(driver.take_forwarded().is_empty());
    let error = driver.process(word("")).expect_err("a panic").to_string();
    assert!(error.contains("user code panicked: an empty word"), "{error}");
    driver.close().expect("closes");
}

#[test]
fn a_processor_alone_needs_its_children_and_its_stores() {
    let mut driver = ProcessorTestDriver::new(|_| Ok(Route), Processed::new()).expect("starts");
    let error = driver.process(word("one")).expect_err("refused").to_string();
    assert!(
        error.contains("there is no child `short` here: the children are [\"child\"]"),
        "{error}"
    );
    let other = Stores::key_value::<String, i64>("other");
    let error = driver.store(&other).expect_err("refused").to_string();
    assert!(error.contains("has no access to store other"), "{error}");
}

/// Counts ticks of stream time, walks its store by the wall clock, and tells when it is closed.
struct Ticks {
    ticks: KeyValueStore<String, i64>,
}

impl FixedKeyProcessor for Ticks {
    type Key = String;
    type In = String;
    type Out = i64;

    fn init(&mut self, ctx: &mut FixedKeyContext<'_, Self>) -> ProcessResult {
        ctx.schedule(millis(10), PunctuationType::StreamTime, |this, now, _| {
            Ok(this.ticks.put(&"tick".to_string(), Some(&now))?)
        });
        let wall = PunctuationType::WallClockTime;
        ctx.schedule_chunked(
            &self.ticks,
            millis(50),
            wall,
            Chunk::entries(1),
            |this, _, (key, _), _| Ok(this.ticks.put(&key, None)?),
        );
        Ok(())
    }

    fn process(
        &mut self,
        record: FixedKeyRecord<String, String>,
        ctx: &mut FixedKeyContext<'_, Self>,
    ) -> ProcessResult {
        self.ticks.put(record.key(), Some(&record.timestamp()))?;
        ctx.request_commit();
        let time = ctx.stream_time();
        ctx.forward(record.with_value(time))
    }
}

#[test]
fn punctuators_of_a_processor_alone_follow_both_clocks() {
    let ticks = Stores::key_value::<String, i64>("ticks");
    let supplier = move |ctx: &mut InitContext| Ok(Ticks { ticks: ctx.store(&ticks)? });
    let processed = Processed::new().store(&ticks);
    let mut driver = ProcessorTestDriver::fixed_key(supplier, processed).expect("starts");
    let last = |driver: &ProcessorTestDriver<_>| {
        driver.store(&ticks).expect("the store").get(&"tick".to_string()).expect("read")
    };
    driver.process(Record::new("a".into(), "x".into(), 25)).expect("processed");
    assert!(driver.take_commit_request());
    assert!(!driver.take_commit_request());
    assert_eq!(last(&driver), Some(25));
    driver.advance_stream_time(29).expect("turned");
    assert_eq!(last(&driver), Some(25));
    driver.advance_stream_time(30).expect("turned");
    assert_eq!(last(&driver), Some(30));
    assert_eq!(driver.take_forwarded()[0].record.value, 25);
    let wall = PunctuationType::WallClockTime;
    assert_eq!(driver.next_punctuation(wall), Some(50));
    driver.advance_wall_clock(millis(50)).expect("turned");
    assert_eq!(driver.store(&ticks).expect("the store").all().expect("all").count(), 0);
}

struct Failing;

impl ValueTransformer for Failing {
    type Key = String;
    type In = String;
    type Out = String;

    fn transform(
        &mut self,
        _: &String,
        value: Option<String>,
        _: &mut ValueContext<'_>,
    ) -> std::result::Result<Option<String>, BoxError> {
        match value.as_deref() {
            Some("fail") => Err("as it is told".into()),
            _ => Ok(value),
        }
    }
}

#[test]
fn a_value_transformer_alone() {
    let mut driver =
        ValueTransformerTestDriver::new(|_| Ok(Failing), Processed::new()).expect("starts");
    assert_eq!(driver.transform("a", Some("x"), 0).expect("made"), Some("x".into()));
    assert_eq!(driver.transform("a", None::<String>, 0).expect("made"), None);
    let error = driver.transform("a", Some("fail"), 0).expect_err("fails").to_string();
    assert!(error.contains("as it is told"), "{error}");
}

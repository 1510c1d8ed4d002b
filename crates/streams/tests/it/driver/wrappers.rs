//! Code around processors.

use super::check;
use kstreams::prelude::*;
use kstreams::topology::{ProcessorWrapper, WrappedRecord, Wrapper, Wrapping};
use std::sync::{Arc, Mutex};

type Seen = Arc<Mutex<Vec<String>>>;

/// Wraps what `wants` likes; each wrapper numbers the records that come to it, in a store that all of them share.
struct Number {
    wants: fn(&str) -> bool,
    seen: Seen,
}

struct NumberOne {
    name: String,
    seen: Seen,
    numbers: KeyValueStore<String, i64>,
}

impl ProcessorWrapper for Number {
    fn wrap(&self, processor: &str) -> Option<Wrapping> {
        let numbers = Stores::key_value::<String, i64>("numbers").logging_disabled();
        let (name, seen) = (processor.to_string(), self.seen.clone());
        let supplier = move |ctx: &mut InitContext| {
            let (name, seen) = (name.clone(), seen.clone());
            Ok(NumberOne { name, seen, numbers: ctx.store(&numbers)? })
        };
        (self.wants)(processor).then(|| Wrapping::new(supplier).store(&numbers))
    }
}

impl Wrapper for NumberOne {
    fn process(&mut self, record: WrappedRecord<'_>, ctx: &ValueContext<'_>) -> ProcessResult {
        let number = self.numbers.get(&self.name)?.unwrap_or(0) + 1;
        self.numbers.put(&self.name, Some(&number))?;
        let offset = ctx.metadata().map(|place| place.offset);
        let key = record.key::<String>().cloned();
        self.seen
            .lock()
            .expect("a lock")
            .push(format!("{} {number} {key:?} {offset:?}", self.name));
        if record.value::<String>().is_some_and(|value| value == "skip") {
            return Ok(());
        }
        if record.headers().last("fail").is_some() {
            return Err("told to fail".into());
        }
        record.process()
    }

    fn close(&mut self) {
        self.seen.lock().expect("a lock").push(format!("{} closed", self.name));
    }
}

fn numbered(wants: fn(&str) -> bool) -> (StreamsBuilder, Seen) {
    let (builder, seen) = (StreamsBuilder::new(), Seen::default());
    builder.wrap_processors(Number { wants, seen: seen.clone() });
    (builder, seen)
}

fn taken(seen: &Seen) -> Vec<String> {
    std::mem::take(&mut seen.lock().expect("a lock"))
}

#[test]
fn a_wrapper_sees_the_records_of_processors_and_may_leave_them_out() {
    let (builder, seen) = numbered(|_| true);
    builder
        .stream("in", Consumed::<String, String>::new())
        .map_values(|value| value + "!")
        .named("loud")
        .group_by_key(Grouped::new())
        .count(Materialized::named("counts"))
        .to_stream()
        .named("changes")
        .to("out", Produced::new());
    check(
        builder.build().expect("builds"),
        "in (a,x)@1 -> app-counts-changelog (a,1)@1; out (a,1)@1
         in (a,skip)@2 -> -
         in (a,x)@3 -> app-counts-changelog (a,2)@3; out (a,2)@3",
    );
    let aggregate = "KSTREAM-AGGREGATE-0000000002";
    let told = |number: i64, offset: i64| format!("{number} Some(\"a\") Some({offset})");
    let expected = [
        format!("loud {}", told(1, 0)),
        format!("{aggregate} {}", told(1, 0)),
        format!("changes {}", told(1, 0)),
        format!("loud {}", told(2, 1)),
        format!("loud {}", told(3, 2)),
        format!("{aggregate} {}", told(2, 2)),
        format!("changes {}", told(2, 2)),
    ];
    assert_eq!(taken(&seen), expected);
}

#[test]
fn an_error_of_a_wrapper_is_one_of_its_processor() {
    let (builder, _) = numbered(|name| name == "loud");
    let loud = |value: String| match value.as_str() {
        "boom" => panic!("boom"),
        _ => value + "!",
    };
    builder
        .stream("in", Consumed::<String, String>::new())
        .map_values(loud)
        .named("loud")
        .to("out", Produced::new());
    check(
        builder.build().expect("builds"),
        "in (a,x)@1 {fail=1} -> error: operator loud failed: told to fail (topic in, partition 0, offset 0) (task 0_0)
         in (a,boom)@1 -> error: user code panicked: boom (operator loud) (topic in, partition 0, offset 1) (task 0_0)",
    );
}

#[test]
fn a_global_store_takes_no_stores_of_a_wrapper() {
    let (builder, _) = numbered(|_| true);
    let _ = builder.global_table("t", Consumed::<String, String>::new(), Materialized::named("t"));
    let error = builder.build().expect_err("refused").to_string();
    assert!(
        error.contains("the wrapper of KTABLE-SOURCE-0000000001 cannot have stores"),
        "{error}"
    );
}

/// The stores of a wrapper are by whatever key it likes.
#[test]
fn the_topology_check_does_not_mind_the_stores_of_a_wrapper() {
    let (builder, _) = numbered(|_| true);
    builder
        .stream("in", Consumed::<String, String>::new())
        .select_key(|_, value| value.clone())
        .process(|_| Ok(Pass), Processed::named("pass"))
        .to("out", Produced::with(String::default_serde(), String::default_serde()));
    let findings = builder.build().expect("builds").lint();
    assert!(findings.is_empty(), "{findings:?}");
}

struct Pass;

impl Processor for Pass {
    type In = (String, String);
    type Out = (String, String);

    fn process(
        &mut self,
        record: Record<String, String>,
        ctx: &mut Context<Self>,
    ) -> ProcessResult {
        ctx.forward(record)
    }
}

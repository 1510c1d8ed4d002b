//! The Processor API.

use super::check;
use kstreams::prelude::*;
use kstreams::state::StoreType;

/// Writes a key twice.
pub(super) struct PutTwice {
    pub(super) store: KeyValueStore<String, String>,
}

impl Processor for PutTwice {
    type In = (String, String);
    type Out = ((), ());

    fn process(&mut self, record: Record<String, String>, _: &mut Context<Self>) -> ProcessResult {
        self.store.put(&record.key, Some(&(record.value.clone() + "1")))?;
        self.store.put(&record.key, Some(&(record.value + "2")))?;
        Ok(())
    }
}

/// Tells what the context says.
pub(super) struct Tell;

impl Processor for Tell {
    type In = (String, String);
    type Out = (String, String);

    fn process(
        &mut self,
        record: Record<String, String>,
        ctx: &mut Context<Self>,
    ) -> ProcessResult {
        let place = ctx.metadata().ok_or("no metadata")?;
        let told = format!(
            "{} {} {} {} {} {}",
            ctx.application_id(),
            ctx.task_id(),
            place.topic,
            place.partition,
            place.offset,
            ctx.stream_time()
        );
        ctx.forward(record.with_value(told))
    }
}

#[test]
fn the_context_knows_task_record_and_time() {
    let mut topology = TopologyBuilder::new();
    let source = topology.add_source("source", "in", Consumed::<String, String>::new());
    let tell = topology.add_processor("tell", |_| Ok(Tell), &[&source]);
    topology.add_sink("sink", "out", Produced::new(), &[&tell]);
    check(
        topology.build().expect("builds"),
        "in (a,x)@5 -> out (a,app 0_0 in 0 0 5)@5
         in (a,x)@3 -> out (a,app 0_0 in 0 1 5)@3",
    );
}

struct Route;

impl Processor for Route {
    type In = (String, String);
    type Out = (String, String);

    fn process(
        &mut self,
        record: Record<String, String>,
        ctx: &mut Context<Self>,
    ) -> ProcessResult {
        let child = record.value.clone();
        ctx.forward_to(&child, record)
    }
}

#[test]
fn a_record_goes_to_the_child_of_that_name() {
    let mut topology = TopologyBuilder::new();
    let source = topology.add_source("source", "in", Consumed::<String, String>::new());
    let route = topology.add_processor("route", |_| Ok(Route), &[&source]);
    topology.add_sink("left", "l", Produced::new(), &[&route]);
    topology.add_sink("right", "r", Produced::new(), &[&route]);
    check(
        topology.build().expect("builds"),
        "in (a,left)@1 -> l (a,left)@1
         in (a,right)@1 -> r (a,right)@1
         in (a,up)@1 -> error: operator route failed: there is no child `up` here: \
         the children are [\"left\", \"right\"] (topic in, partition 0, offset 2) (task 0_0)",
    );
}

struct Closing(std::sync::Arc<std::sync::atomic::AtomicU32>);

impl Processor for Closing {
    type In = (String, String);
    type Out = ((), ());

    fn process(&mut self, _: Record<String, String>, _: &mut Context<Self>) -> ProcessResult {
        panic!("that was too much")
    }

    fn close(&mut self) {
        self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }
}

#[test]
fn a_panic_is_an_error_that_names_the_record() {
    let closed = std::sync::Arc::default();
    let mut topology = TopologyBuilder::new();
    let source = topology.add_source("source", "in", Consumed::<String, String>::new());
    topology.add_processor(
        "closing",
        move |_| Ok(Closing(std::sync::Arc::clone(&closed))),
        &[&source],
    );
    check(
        topology.build().expect("builds"),
        "in (a,x)@1 -> error: user code panicked: that was too much (operator closing) \
         (topic in, partition 0, offset 0) (task 0_0)",
    );
}

#[test]
fn a_store_that_is_not_connected_is_refused() {
    let store = Stores::key_value::<String, String>("mine");
    let mut topology = TopologyBuilder::new();
    let source = topology.add_source("source", "in", Consumed::<String, String>::new());
    let supplier = move |ctx: &mut InitContext| Ok(PutTwice { store: ctx.store(&store)? });
    topology.add_processor("writer", supplier, &[&source]);
    let error = TopologyTestDriver::new(topology.build().expect("builds")).expect_err("refused");
    assert!(
        error.to_string().starts_with("processor writer has no access to store mine"),
        "{error}"
    );
}

/// A processor may have the store of an aggregate, whichever of the two comes first; the aggregate says what the store is like.
#[test]
fn a_processor_attached_to_the_store_of_a_table() {
    struct Doubling {
        counts: TimestampedKeyValueStore<String, i64>,
    }

    impl Processor for Doubling {
        type In = (String, String);
        type Out = (String, i64);

        fn process(
            &mut self,
            record: Record<String, String>,
            ctx: &mut Context<Self>,
        ) -> ProcessResult {
            let (count, time) = self.counts.get(&record.key)?.unwrap_or((0, record.timestamp));
            self.counts.put(&record.key, Some((&(count * 2), time)))?;
            ctx.forward(record.with_value(count))
        }
    }

    let count = |stream: &KStream<String, String>| {
        let counts = Materialized::named("counts").in_memory().caching_disabled();
        stream.group_by_key(Grouped::new()).count(counts).to_stream().to("out", Produced::new());
    };
    let double = |builder: &StreamsBuilder| {
        let counts = Stores::timestamped_key_value::<String, i64>("counts");
        builder
            .stream("double", Consumed::<String, String>::new())
            .process(
                move |ctx| Ok(Doubling { counts: ctx.store(&counts)? }),
                Processed::named("doubling").store(&counts),
            )
            .to("before", Produced::new());
    };
    for doubles_first in [true, false] {
        let builder = StreamsBuilder::new();
        let stream = builder.stream("in", Consumed::<String, String>::new());
        if doubles_first {
            double(&builder);
            count(&stream);
        } else {
            count(&stream);
            double(&builder);
        }
        super::check(
            builder.build().expect("builds"),
            "in (a,x)@1 -> app-counts-changelog (a,1)@1; out (a,1)@1
             double (a,x)@2 -> app-counts-changelog (a,2)@1; before (a,1)@2
             in (a,x)@3 -> app-counts-changelog (a,3)@3; out (a,3)@3",
        );
    }
}

/// Keeps how often it was called in a file of its task.
struct Tally {
    file: std::path::PathBuf,
}

impl Processor for Tally {
    type In = (String, String);
    type Out = (String, String);

    fn process(
        &mut self,
        record: Record<String, String>,
        ctx: &mut Context<Self>,
    ) -> ProcessResult {
        let before = std::fs::read_to_string(&self.file).unwrap_or_default();
        std::fs::write(&self.file, format!("{before}{}", record.key))?;
        let settings = ["commit.interval.ms", "client.id"].map(|key| ctx.app_config(key));
        let told = format!("{} {settings:?}", std::fs::read_to_string(&self.file)?);
        ctx.forward(record.with_value(told))
    }
}

#[test]
fn the_context_knows_settings_and_has_a_directory() {
    let root = tempfile::tempdir().expect("a directory");
    let builder = StreamsBuilder::new();
    builder
        .stream("in", Consumed::<String, String>::new())
        .process(|ctx| Ok(Tally { file: ctx.state_dir()?.join("tally") }), Processed::new())
        .to("out", Produced::new());
    let config = StreamsConfig::new("app", "unused:1").state_dir(root.path());
    let config = config.set("commit.interval.ms", "7").expect("a setting");
    let mut driver =
        TopologyTestDriver::with_config(builder.build().expect("builds"), &config).expect("runs");
    let mut input = driver.input::<String, String>("in");
    for key in ["a", "b"] {
        input.pipe_key_value_at(&mut driver, 1, key, "x".to_string()).expect("processed");
    }
    let told = driver.output::<String, String>("out").read_values(&mut driver).expect("read");
    assert_eq!(told, [r#"a [Some("7"), None]"#, r#"ab [Some("7"), None]"#]);
    let file = root.path().join("app/0_0/tally");
    assert_eq!(std::fs::read_to_string(file).expect("there"), "ab");
}

struct Holding<S> {
    _store: S,
}

impl<S: 'static> Processor for Holding<S> {
    type In = (String, String);
    type Out = ((), ());

    fn process(&mut self, _: Record<String, String>, _: &mut Context<Self>) -> ProcessResult {
        Ok(())
    }
}

/// What a processor that asks for `asked` hears when the topology has `given`.
fn refused<S: StoreType, T: StoreType + 'static>(
    given: &StoreToken<S>,
    asked: StoreToken<T>,
) -> String {
    let builder = StreamsBuilder::new();
    let _ = builder.stream("in", Consumed::<String, String>::new()).process(
        move |ctx| Ok(Holding { _store: ctx.store(&asked)? }),
        Processed::named("p").store(given),
    );
    let driver = TopologyTestDriver::new(builder.build().expect("builds"));
    driver.expect_err("refused").to_string()
}

#[test]
fn a_store_is_asked_for_as_what_it_is() {
    let numbers = Stores::key_value::<String, i64>("s");
    let error = refused(&numbers, Stores::key_value::<String, String>("s"));
    assert!(error.contains("store s holds (alloc::string::String, i64), not"), "{error}");
    let error = refused(&numbers, Stores::timestamped_key_value::<String, i64>("s"));
    assert!(error.contains("store s has values without timestamps"), "{error}");
    let timestamped = Stores::timestamped_key_value::<String, i64>("s");
    let error = refused(&timestamped, Stores::key_value::<String, i64>("s"));
    assert!(error.contains("store s has values with timestamps"), "{error}");
    let error = refused(&numbers, Stores::session::<String, i64>("s", days(1)));
    assert!(error.contains("store s is of another kind"), "{error}");
}

/// Panics where it is told.
struct Panicking;

impl Processor for Panicking {
    type In = (String, String);
    type Out = ((), ());

    fn init(&mut self, _: &mut Context<Self>) -> ProcessResult {
        panic!("in init")
    }

    fn process(&mut self, _: Record<String, String>, _: &mut Context<Self>) -> ProcessResult {
        Ok(())
    }
}

#[test]
fn a_panic_while_a_processor_is_made_names_it() {
    let run = |supplier: fn() -> Panicking| {
        let builder = StreamsBuilder::new();
        let stream = builder.stream("in", Consumed::<String, String>::new());
        let _ = stream.process(move |_| Ok(supplier()), Processed::named("p"));
        let driver = TopologyTestDriver::new(builder.build().expect("builds"));
        driver.expect_err("panics").to_string()
    };
    assert_eq!(run(|| Panicking), "user code panicked: in init (operator p) (task 0_0)");
    let error = run(|| panic!("in the supplier"));
    assert_eq!(error, "user code panicked: in the supplier (operator p) (task 0_0)");
}

//! The test driver itself: partitions, commits by hand, crashes, restarts.

use kstreams::prelude::*;
use kstreams::testing::LocalState;

const BOTH: [LocalState; 2] = [LocalState::Kept, LocalState::Lost];

fn strings(builder: &StreamsBuilder, topic: &str) -> KStream<String, String> {
    builder.stream(topic, Consumed::new())
}

fn serde<T: DefaultSerde>() -> SerdeRef<T> {
    T::default_serde()
}

/// One store of each kind, each with a result for each record.
fn every_kind(in_memory: bool) -> Topology {
    let builder = StreamsBuilder::new();
    let stream = strings(&builder, "in");
    let counts = stream.group_by_key(Grouped::new());
    counts.count(Materialized::named("counts")).to_stream().to("counts", Produced::new());
    let windows = counts.windowed_by(TimeWindows::of(millis(100)));
    windows
        .count(Materialized::named("windows"))
        .to_stream()
        .map(|key, count| (key.key, count))
        .to("windows", Produced::with(serde(), serde()));
    let sessions = counts.windowed_by(SessionWindows::of(millis(10)));
    sessions
        .count(Materialized::named("sessions"))
        .to_stream()
        .map(|key, count| (key.key, count))
        .to("sessions", Produced::with(serde(), serde()));
    let history = Stores::versioned_key_value::<String, i64>("history", days(1));
    let history = if in_memory { history.in_memory() } else { history };
    stream
        .process(
            move |ctx| Ok(Sum { history: ctx.store(&history)? }),
            Processed::named("sum").store(&history),
        )
        .to("history", Produced::with(serde(), serde()));
    builder.build().expect("builds")
}

/// Adds the length of each value to the sum so far.
struct Sum {
    history: VersionedKeyValueStore<String, i64>,
}

impl Processor for Sum {
    type In = (String, String);
    type Out = (String, i64);

    fn process(
        &mut self,
        record: Record<String, String>,
        ctx: &mut Context<Self>,
    ) -> ProcessResult {
        let before = self.history.get(&record.key)?.map_or(0, |version| version.value);
        let now = before + record.value.len() as i64;
        self.history.put(&record.key, Some(&now), record.timestamp)?;
        ctx.forward(Record::new(record.key, now, record.timestamp))
    }
}

const OUTPUTS: [&str; 4] = ["counts", "windows", "sessions", "history"];

/// All results, by topic.
fn results(driver: &mut TopologyTestDriver) -> String {
    let mut shown = Vec::new();
    for topic in OUTPUTS {
        let read = driver.output::<String, Option<i64>>(topic).read_all(driver).expect("read");
        let read = read.iter().map(|record| {
            let value = record.value.map_or("null".to_string(), |value| value.to_string());
            format!("{}{value}@{}", record.key, record.timestamp)
        });
        shown.push(format!("{topic} {}", read.collect::<Vec<_>>().join(" ")));
    }
    shown.join("; ")
}

const RECORDS: [(&str, &str, i64); 8] = [
    ("a", "x", 1),
    ("b", "xx", 2),
    ("a", "xxx", 5),
    ("a", "x", 14),
    ("b", "x", 101),
    ("a", "xx", 103),
    ("b", "x", 90),
    ("a", "x", 250),
];

/// Whatever is done between two records, the results are those of a run without it.
fn check(partitions: i32, meanwhile: impl Fn(&mut TopologyTestDriver, usize)) {
    for in_memory in [true, false] {
        let dir = tempfile::tempdir().expect("a directory");
        let config = StreamsConfig::new("app", "unused:1").cache_max_bytes(0);
        let config = if in_memory { config } else { config.state_dir(dir.path()) };
        let run = |config: &StreamsConfig, meanwhile: &dyn Fn(&mut TopologyTestDriver, usize)| {
            let builder = TopologyTestDriver::builder(every_kind(in_memory));
            let builder = builder.config(config).partitions(partitions).commits_by_hand();
            let mut driver = builder.build().expect("starts");
            let mut input = driver.input::<String, String>("in");
            for (place, (key, value, time)) in RECORDS.into_iter().enumerate() {
                input.pipe_key_value_at(&mut driver, time, key, value).expect("processed");
                meanwhile(&mut driver, place);
            }
            driver.commit().expect("commits");
            results(&mut driver)
        };
        let expected = run(&StreamsConfig::new("app", "unused:1").cache_max_bytes(0), &|_, _| ());
        assert!(expected.starts_with("counts a1@1"), "{expected}");
        assert_eq!(run(&config, &meanwhile), expected);
    }
}

#[test]
fn restarts_change_nothing() {
    for (partitions, state) in [(1, BOTH[0]), (1, BOTH[1]), (3, BOTH[0]), (3, BOTH[1])] {
        check(partitions, |driver, _| driver.restart(state).expect("restarts"));
    }
}

#[test]
fn crashes_change_nothing() {
    for (partitions, state) in [(1, BOTH[0]), (1, BOTH[1]), (3, BOTH[0]), (3, BOTH[1])] {
        check(partitions, |driver, place| {
            if place % 3 == 1 {
                driver.commit().expect("commits");
            }
            driver.crash(state).expect("starts again");
        });
    }
}

#[test]
fn what_is_not_committed_is_nowhere_but_in_the_task() {
    let builder = StreamsBuilder::new();
    let counts = Materialized::<String, i64>::named("counts");
    let counted = strings(&builder, "in").group_by_key(Grouped::new()).count(counts);
    counted.to_stream().to("out", Produced::new());
    let topology = builder.build().expect("builds");
    let config = StreamsConfig::new("app", "unused:1").cache_max_bytes(0);
    let builder = TopologyTestDriver::builder(topology).config(&config).commits_by_hand();
    let mut driver = builder.build().expect("starts");
    let mut input = driver.input::<String, String>("in");
    let out = driver.output::<String, i64>("out");
    input.pipe(&mut driver, "a", "x").expect("processed");
    assert!(out.is_empty(&driver));
    assert_eq!(driver.uncommitted_records("out").len(), 1);
    let token = Stores::timestamped_key_value::<String, i64>("counts");
    let stored = |driver: &TopologyTestDriver| {
        driver.store(&token).expect("the store").get(&"a".to_string()).expect("read")
    };
    assert_eq!(stored(&driver), Some((1, 0)));
    driver.commit().expect("commits");
    assert_eq!((out.len(&driver), driver.uncommitted_records("out").len()), (1, 0));
    input.pipe(&mut driver, "a", "x").expect("processed");
    assert_eq!(stored(&driver), Some((2, 0)));
    driver.crash(LocalState::Kept).expect("starts again");
    // It was processed again.
    assert_eq!(stored(&driver), Some((2, 0)));
    assert_eq!(out.len(&driver), 1);
    driver.close().expect("closes");
}

#[test]
fn what_a_failed_record_leaves_is_its_dead_letter_and_a_crash_goes_back_before_it() {
    let builder = StreamsBuilder::new();
    strings(&builder, "in")
        .try_map_values(|value| Ok(value.parse::<i64>()?))
        .to("out", Produced::with(serde(), serde()));
    let topology = builder.build().expect("builds");
    let config = StreamsConfig::new("app", "unused:1").dead_letter_topic("dead");
    let builder = TopologyTestDriver::builder(topology).config(&config).commits_by_hand();
    let mut driver = builder.build().expect("starts");
    let mut input = driver.input::<String, String>("in");
    let mut out = driver.output::<String, i64>("out");
    let mut dead = driver.output::<String, String>("dead");
    input.pipe(&mut driver, "a", "1").expect("processed");
    driver.commit().expect("commits");
    input.pipe(&mut driver, "a", "2").expect("processed");
    input.pipe(&mut driver, "a", "three").expect_err("fails");
    assert_eq!(out.read_values(&mut driver).expect("read"), [1]);
    assert_eq!(driver.uncommitted_records("out").len(), 1);
    assert_eq!(dead.read_values(&mut driver).expect("read"), ["three"]);
    // As in an application: the record is met again.
    driver.crash(LocalState::Kept).expect_err("fails again");
    assert_eq!(dead.read_values(&mut driver).expect("read"), ["three"]);
    assert!(out.is_empty(&driver));
}

#[test]
fn records_go_to_the_partitions_of_their_keys() {
    let builder = StreamsBuilder::new();
    strings(&builder, "in")
        .map(|key, value| (value, key))
        .repartition(Repartitioned::named("by-value").number_of_partitions(2))
        .process(|ctx| Ok(Where { task: ctx.task_id() }), Processed::named("where"))
        .to("out", Produced::with(serde(), serde()));
    let topology = builder.build().expect("builds");
    let mut driver = TopologyTestDriver::builder(topology).partitions(5).build().expect("starts");
    let mut input = driver.input::<String, String>("in");
    for number in 0..20 {
        input.pipe(&mut driver, number.to_string(), format!("v{number}")).expect("processed");
    }
    input.partition(4).pipe(&mut driver, "0", "v0").expect("processed");
    for record in driver.take_records("out") {
        let (key, told) = (record.key.expect("a key"), record.value.expect("a value"));
        let told = String::from_utf8(told.to_vec()).expect("text");
        let partition = kstreams::topology::partition_for_key(&key, 2);
        assert_eq!(told, format!("1_{partition}"));
        assert_eq!(record.partition, kstreams::topology::partition_for_key(&key, 5));
    }
    let error = driver.input::<String, String>("in").partition(5).pipe(&mut driver, "a", "b");
    let error = error.expect_err("refused").to_string();
    assert!(error.contains("topic in has 5 partitions, none is 5"), "{error}");
}

/// Tells which task it is.
struct Where {
    task: TaskId,
}

impl Processor for Where {
    type In = (String, String);
    type Out = (String, String);

    fn process(
        &mut self,
        record: Record<String, String>,
        ctx: &mut Context<Self>,
    ) -> ProcessResult {
        ctx.forward(record.with_value(self.task.to_string()))
    }
}

#[test]
fn a_read_only_store_is_restored_from_its_topic_as_far_as_it_was_processed() {
    for state in BOTH {
        let prices = Stores::key_value::<String, String>("prices");
        let mut topology = TopologyBuilder::new();
        topology.add_read_only_state_store(&prices, "source", "prices", "store");
        let topology = topology.build().expect("builds");
        let builder = TopologyTestDriver::builder(topology).commits_by_hand();
        let mut driver = builder.build().expect("starts");
        let mut input = driver.input::<String, Option<String>>("prices");
        input.pipe(&mut driver, "a", Some("1".into())).expect("processed");
        driver.commit().expect("commits");
        input.pipe(&mut driver, "a", None).expect("processed");
        let price = |driver: &TopologyTestDriver| {
            driver.store(&prices).expect("the store").get(&"a".to_string()).expect("read")
        };
        driver.crash(state).expect("starts again");
        assert_eq!(price(&driver), None, "{state:?}");
        driver.restart(state).expect("restarts");
        assert_eq!(price(&driver), None, "{state:?}");
        input.pipe(&mut driver, "a", Some("2".into())).expect("processed");
        driver.crash(state).expect("starts again");
        assert_eq!(price(&driver), Some("2".into()), "{state:?}");
    }
}

/// Forgets keys that were not seen for a second, and a millisecond more.
struct Ttl {
    seen: KeyValueStore<String, i64>,
}

impl Processor for Ttl {
    type In = (String, String);
    type Out = (String, i64);

    fn init(&mut self, ctx: &mut Context<Self>) -> ProcessResult {
        ctx.schedule(millis(1), PunctuationType::WallClockTime, |ttl, now, ctx| {
            for entry in ttl.seen.all()? {
                let (key, seen) = entry?;
                if now - seen > 1_000 {
                    ttl.seen.delete(&key)?;
                    ctx.forward(Record::new(key, now, now))?;
                }
            }
            Ok(())
        });
        Ok(())
    }

    fn process(
        &mut self,
        record: Record<String, String>,
        ctx: &mut Context<Self>,
    ) -> ProcessResult {
        Ok(self.seen.put(&record.key, Some(&ctx.wall_clock()))?)
    }
}

/// P56: there is one clock, so a time that is just over is just over each time.
#[test]
fn p56_the_wall_clock_of_a_test_is_one() {
    let seen = Stores::key_value::<String, i64>("seen").in_memory();
    let builder = StreamsBuilder::new();
    strings(&builder, "in")
        .process(
            move |ctx| Ok(Ttl { seen: ctx.store(&seen)? }),
            Processed::named("ttl").store(&seen),
        )
        .to("out", Produced::new());
    let topology = builder.build().expect("builds");
    let start = 1_700_000_000_000;
    let builder = TopologyTestDriver::builder(topology).wall_clock(start);
    let mut driver = builder.build().expect("starts");
    let mut input = driver.input::<String, String>("in");
    let mut out = driver.output::<String, i64>("out");
    for run in 0..10_000 {
        let now = driver.wall_clock();
        assert_eq!(now, start + run * 1_001);
        input.pipe(&mut driver, "a", "x").expect("processed");
        driver.advance_wall_clock(millis(1_000)).expect("turned");
        assert!(out.is_empty(&driver), "run {run}");
        driver.advance_wall_clock(millis(1)).expect("turned");
        assert_eq!(out.read_values(&mut driver).expect("read"), [now + 1_001], "run {run}");
    }
}

/// Notes when it is called, and what it is given.
struct Noting;

impl Processor for Noting {
    type In = (String, String);
    type Out = (String, String);

    fn init(&mut self, ctx: &mut Context<Self>) -> ProcessResult {
        ctx.schedule(millis(100), PunctuationType::StreamTime, |_, now, ctx| {
            ctx.forward(Record::new("!".into(), now.to_string(), now))
        });
        Ok(())
    }

    fn process(
        &mut self,
        record: Record<String, String>,
        ctx: &mut Context<Self>,
    ) -> ProcessResult {
        let told = format!("{} of {}", record.timestamp, ctx.stream_time());
        ctx.forward(record.with_value(told))
    }
}

/// P54: the time that a task has reached outlives it.
#[test]
fn p54_stream_time_goes_on_after_a_restart() {
    for state in BOTH {
        let builder = StreamsBuilder::new();
        strings(&builder, "in")
            .process(|_| Ok(Noting), Processed::new())
            .to("out", Produced::with(serde(), serde()));
        let mut driver = TopologyTestDriver::new(builder.build().expect("builds")).expect("starts");
        let mut input = driver.input::<String, String>("in");
        let mut pipe = |driver: &mut TopologyTestDriver, times: &[i64]| {
            for time in times {
                input.pipe_key_value_at(driver, *time, "r", "x").expect("processed");
            }
            driver.output::<String, String>("out").read_values(driver).expect("read").join(", ")
        };
        assert_eq!(pipe(&mut driver, &[1000, 1050]), "1000 of 1000, 1000, 1050 of 1050");
        driver.restart(state).expect("restarts");
        assert_eq!(pipe(&mut driver, &[900]), "900 of 1050, 1050");
        assert_eq!(pipe(&mut driver, &[1100]), "1100 of 1100, 1100");
    }
}

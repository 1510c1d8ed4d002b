//! Punctuators: when they fire, and walks in chunks.

use kstreams::prelude::*;
use kstreams::serde::{At, Presence};
use std::sync::{Arc, Mutex};

type Log = Arc<Mutex<Vec<String>>>;
type Init<P> = fn(&P, &mut Context<P>);

/// Notes its records, and what its schedules note.
struct Noting {
    log: Log,
    init: Init<Noting>,
}

impl Noting {
    fn note(&self, what: &str, time: i64) -> ProcessResult {
        self.log.lock().expect("the log").push(format!("{what}{time}"));
        Ok(())
    }
}

impl Processor for Noting {
    type In = (String, String);
    type Out = ((), ());

    fn init(&mut self, ctx: &mut Context<Self>) -> ProcessResult {
        (self.init)(self, ctx);
        Ok(())
    }

    fn process(&mut self, record: Record<String, String>, _: &mut Context<Self>) -> ProcessResult {
        self.note("", record.timestamp)
    }
}

/// Runs steps, `@100` a record of that time and `+100` so many milliseconds of the wall clock, and gives what was noted.
fn check(init: Init<Noting>, steps: &str, expected: &str) {
    let log = Log::default();
    let noted = log.clone();
    let builder = StreamsBuilder::new();
    let _ = builder
        .stream("in", Consumed::<String, String>::new())
        .process(move |_| Ok(Noting { log: noted.clone(), init }), Processed::new());
    let mut driver = TopologyTestDriver::new(builder.build().expect("builds")).expect("a driver");
    for step in steps.split(' ') {
        let (kind, number) = step.split_at(1);
        let number: u64 = number.parse().expect("a number");
        match kind {
            "@" => driver.pipe_bytes("in", Some(b"k"), Some(b"v"), number as i64, &Headers::new()),
            _ => driver.advance_wall_clock(millis(number)),
        }
        .expect("runs");
    }
    assert_eq!(log.lock().expect("the log").join(" "), expected);
}

fn every(ctx: &mut Context<Noting>, interval: u64, kind: PunctuationType) {
    ctx.schedule(millis(interval), kind, |noting, now, _| noting.note("!", now));
}

#[test]
fn p54_stream_time_fires_after_the_record_that_moved_it() {
    check(
        |_, ctx| every(ctx, 10, PunctuationType::StreamTime),
        "@100 @105 @110 +1000 @145 @146 @90 @151",
        "100 !100 105 110 !110 145 !145 146 90 151 !151",
    );
}

/// P30: a time that nothing can come after is a time like any other, and ends.
#[test]
fn p30_the_end_of_time_comes_once() {
    check(
        |_, ctx| every(ctx, 10, PunctuationType::StreamTime),
        "@9223372036854775807 @5 @9223372036854775807",
        "9223372036854775807 !9223372036854775807 5 9223372036854775807",
    );
}

#[test]
fn the_wall_clock_fires_without_records_and_makes_up_for_nothing() {
    check(
        |_, ctx| every(ctx, 10, PunctuationType::WallClockTime),
        "+5 @1000 +4 +1 +35 +5 +9 +1",
        "1000 !10 !45 !50 !60",
    );
}

#[test]
fn an_anchor_is_a_point_of_the_grid() {
    check(
        |_, ctx| {
            let wall = PunctuationType::WallClockTime;
            ctx.schedule_at(30, millis(100), wall, |noting, now, _| noting.note("!", now));
        },
        "+29 +1 +99 +1 +250 +49 +1",
        "!30 !130 !380 !430",
    );
    check(
        |_, ctx| {
            let stream = PunctuationType::StreamTime;
            ctx.schedule_at(130, millis(100), stream, |noting, now, _| noting.note("!", now));
        },
        "@100 @129 @131 @229 @230",
        "100 129 131 !131 229 230 !230",
    );
}

#[test]
fn a_punctuator_may_cancel_itself_and_others() {
    check(
        |_, ctx| {
            let wall = PunctuationType::WallClockTime;
            let other = ctx.schedule(millis(10), wall, |noting, now, _| noting.note("other", now));
            ctx.schedule(millis(25), wall, move |noting, now, ctx| {
                other.cancel();
                let own = ctx.schedule(millis(1), PunctuationType::WallClockTime, |_, _, _| Ok(()));
                own.cancel();
                noting.note("!", now)
            });
        },
        "+10 +10 +10 +10 +10",
        "other10 other20 !30 !50",
    );
}

type Numbers = KeyValueStore<i64, i64>;

/// Changes the store that it walks: halves even numbers, deletes odd ones, and puts a copy of some behind itself.
fn change(numbers: &Numbers, (key, value): (i64, i64)) -> ProcessResult {
    match value % 2 {
        0 => numbers.put(&key, Some(&(value / 2)))?,
        _ => numbers.put(&key, None)?,
    }
    if value % 5 == 0 {
        numbers.put(&(key - 1_000), Some(&value))?;
    }
    Ok(())
}

struct Walker {
    numbers: Numbers,
    /// Entries of a chunk; none: one walk in one piece.
    chunk: Option<usize>,
}

impl Processor for Walker {
    type In = (i64, i64);
    type Out = ((), ());

    fn init(&mut self, ctx: &mut Context<Self>) -> ProcessResult {
        let (interval, wall) = (millis(10), PunctuationType::WallClockTime);
        match self.chunk {
            None => ctx.schedule(interval, wall, |walker, _, _| {
                for entry in walker.numbers.all()? {
                    change(&walker.numbers, entry?)?;
                }
                Ok(())
            }),
            Some(entries) => {
                let chunk = Chunk::entries(entries);
                ctx.schedule_chunked(&self.numbers, interval, wall, chunk, |walker, _, entry, _| {
                    change(&walker.numbers, entry)
                })
            }
        };
        Ok(())
    }

    fn process(&mut self, record: Record<i64, i64>, _: &mut Context<Self>) -> ProcessResult {
        Ok(self.numbers.put(&record.key, Some(&record.value))?)
    }
}

fn walked(chunk: Option<usize>, count: i64) -> Vec<(i64, i64)> {
    let token = Stores::key_value::<i64, i64>("numbers");
    let builder = StreamsBuilder::new();
    let _ = builder.stream("in", Consumed::<i64, i64>::new()).process(
        move |ctx| Ok(Walker { numbers: ctx.store(&token)?, chunk }),
        Processed::new().store(&token),
    );
    let mut driver = TopologyTestDriver::new(builder.build().expect("builds")).expect("a driver");
    let mut input = driver.input::<i64, i64>("in");
    for key in 0..count {
        input.pipe_key_value_at(&mut driver, 0, 5_000 + key, key * 7 % 64).expect("piped");
    }
    for _ in 0..3 {
        driver.advance_wall_clock(millis(10)).expect("walked");
    }
    let store = driver.store(&token).expect("the store");
    store.all().expect("all").map(|entry| entry.expect("an entry")).collect()
}

#[test]
fn a_walk_in_chunks_has_the_result_of_one_in_one_piece() {
    for count in [0, 1, 2, 7, 100] {
        let whole = walked(None, count);
        for chunk in [0, 1, 2, 3, 7, 99, 100, 1_000] {
            assert_eq!(walked(Some(chunk), count), whole, "{count} entries, chunks of {chunk}");
        }
    }
}

/// The walk can be ended from within, and nothing of it is left.
#[test]
fn a_walk_that_is_cancelled_stops_where_it_is() {
    struct Counting {
        numbers: Numbers,
        met: Arc<Mutex<Vec<i64>>>,
        walk: Option<Cancellable>,
    }

    impl Processor for Counting {
        type In = (i64, i64);
        type Out = ((), ());

        fn init(&mut self, ctx: &mut Context<Self>) -> ProcessResult {
            let (interval, wall) = (millis(10), PunctuationType::WallClockTime);
            let chunk = Chunk::entries(2);
            let walk = ctx.schedule_chunked(
                &self.numbers,
                interval,
                wall,
                chunk,
                |this, _, (key, _), _| {
                    this.met.lock().expect("met").push(key);
                    if key == 2 {
                        this.walk.iter().for_each(Cancellable::cancel);
                    }
                    Ok(())
                },
            );
            self.walk = Some(walk);
            Ok(())
        }

        fn process(&mut self, record: Record<i64, i64>, _: &mut Context<Self>) -> ProcessResult {
            Ok(self.numbers.put(&record.key, Some(&record.value))?)
        }
    }

    let (token, met) =
        (Stores::key_value::<i64, i64>("numbers"), Arc::<Mutex<Vec<i64>>>::default());
    let builder = StreamsBuilder::new();
    let noted = met.clone();
    let _ = builder.stream("in", Consumed::<i64, i64>::new()).process(
        move |ctx| Ok(Counting { numbers: ctx.store(&token)?, met: noted.clone(), walk: None }),
        Processed::new().store(&token),
    );
    let mut driver = TopologyTestDriver::new(builder.build().expect("builds")).expect("a driver");
    let mut input = driver.input::<i64, i64>("in");
    for key in 0..10 {
        input.pipe_key_value_at(&mut driver, 0, key, key).expect("piped");
    }
    driver.advance_wall_clock(millis(10)).expect("walked");
    driver.advance_wall_clock(millis(10)).expect("walked");
    assert_eq!(*met.lock().expect("met"), [0, 1, 2]);
}

/// Reads numbers; a negative one cannot be read.
struct NotNegative;

impl Serde<i64> for NotNegative {
    fn serialize(&self, _: &At<'_>, value: &i64, out: &mut Vec<u8>) -> Result<Presence, BoxError> {
        out.extend_from_slice(&value.to_be_bytes());
        Ok(Presence::Value)
    }

    fn deserialize(&self, _: &At<'_>, bytes: &[u8]) -> Result<i64, BoxError> {
        let number = i64::from_be_bytes(bytes.try_into()?);
        if number < 0 { Err("a negative number".into()) } else { Ok(number) }
    }
}

/// Doubles what it meets on a walk that has no time.
struct Doubling {
    numbers: Numbers,
    chunk: Chunk,
}

impl Processor for Doubling {
    type In = (i64, i64);
    type Out = ((), ());

    fn init(&mut self, ctx: &mut Context<Self>) -> ProcessResult {
        let wall = PunctuationType::WallClockTime;
        ctx.schedule_chunked(
            &self.numbers,
            millis(10),
            wall,
            self.chunk,
            |this, _, (key, value), _| Ok(this.numbers.put(&key, Some(&(value * 2)))?),
        );
        Ok(())
    }

    fn process(&mut self, record: Record<i64, i64>, _: &mut Context<Self>) -> ProcessResult {
        Ok(self.numbers.put(&record.key, Some(&record.value))?)
    }
}

/// One entry is met a turn, however little time there is; and one that cannot be read is left out if the handler wants it so.
#[test]
fn a_walk_gets_on_whatever_is_in_its_way() {
    let none = std::time::Duration::ZERO;
    for chunk in [Chunk::entries(10).time(none), Chunk::entries(0), Chunk::default()] {
        let serde: SerdeRef<i64> = Arc::new(NotNegative);
        let token = Stores::key_value_with("numbers", i64::default_serde(), serde);
        let builder = StreamsBuilder::new();
        let _ = builder.stream("in", Consumed::<i64, i64>::new()).process(
            move |ctx| Ok(Doubling { numbers: ctx.store(&token)?, chunk }),
            Processed::new().store(&token),
        );
        let config = StreamsConfig::new("app", "unused:1");
        let config = config.set("processing.exception.handler", "log-and-continue");
        let topology = builder.build().expect("builds");
        let mut driver =
            TopologyTestDriver::with_config(topology, &config.expect("a setting")).expect("starts");
        let mut input = driver.input::<i64, i64>("in");
        input.pipe_all(&mut driver, [(1, 1), (2, -2), (3, 3)]).expect("piped");
        driver.advance_wall_clock(millis(10)).expect("walked");
        let store = driver.store(&token).expect("the store");
        let values = [1, 3].map(|key| store.get(&key).expect("read"));
        assert_eq!(values, [Some(2), Some(6)], "{chunk:?}");
    }
}

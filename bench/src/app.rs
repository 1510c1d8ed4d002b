//! Whole applications, with the arguments and the output of `tests/java/Bench.java`, to be compared with it on the same data.
//!
//! The CPU time here counts the close with its last commit as well; Java's ends before its close.

use crate::measure::{Failure, cpu_time, peak_resident_mb};
use crate::restoring::{self, Restored};
use kstreams::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(500);

/// What to run: `BOOTSTRAP WORKLOAD GUARANTEE RECORDS THREADS STATEDIR APPID IN [IN2]`. Without records it only restores.
pub(crate) struct Work<'a> {
    pub(crate) bootstrap: &'a str,
    pub(crate) workload: &'a str,
    pub(crate) guarantee: &'a str,
    pub(crate) records: u64,
    pub(crate) threads: usize,
    pub(crate) state_dir: &'a str,
    pub(crate) application: &'a str,
    pub(crate) input: &'a str,
    /// What is joined.
    pub(crate) right: Option<&'a str>,
}

fn topology(work: &Work<'_>, output: &str, seen: &Arc<AtomicU64>) -> Result<Topology> {
    let builder = StreamsBuilder::new();
    let seen = seen.clone();
    let records =
        builder.stream(work.input, Consumed::<String, Vec<u8>>::new()).peek(move |_, _| {
            seen.fetch_add(1, Ordering::Relaxed);
        });
    let (kind, _) = work.workload.split_once('-').unwrap_or((work.workload, ""));
    match kind {
        "map" => records
            .map_values(|mut value| {
                value[0] ^= 1;
                value
            })
            .to(output, Produced::new()),
        "count" => records
            .group_by_key(Grouped::new())
            .count(Materialized::named("counts"))
            .to_stream()
            .to(output, Produced::new()),
        "recount" => records
            .group_by(|key, _| key[..13].to_string(), Grouped::new())
            .count(Materialized::named("counts"))
            .to_stream()
            .to(output, Produced::new()),
        "window" => records
            .group_by_key(Grouped::new())
            .windowed_by(TimeWindows::of(Duration::from_secs(60)))
            .count(Materialized::named("counts"))
            .to_stream()
            .select_key(|window, _| window.key.clone())
            .to(output, Produced::new()),
        "tablejoin" => {
            let consumed = Consumed::<String, Vec<u8>>::new();
            let table = builder.table(right(work)?, consumed, Materialized::named("tbl"));
            let joined = records.join_table(&table, |left, _| left.clone(), Joined::new());
            joined.to(output, Produced::new());
        }
        "streamjoin" => {
            let others = builder.stream(right(work)?, Consumed::<String, Vec<u8>>::new());
            let within = JoinWindows::of(Duration::from_secs(5));
            let joined = records.join(&others, |left, _| left.clone(), within, StreamJoined::new());
            joined.to(output, Produced::new());
        }
        other => {
            let message = format!("there is no workload {other}");
            return Err(Error::new(ErrorKind::InvalidConfig, message));
        }
    }
    builder.build()
}

fn right<'a>(work: &Work<'a>) -> Result<&'a str> {
    let missing = || Error::new(ErrorKind::InvalidConfig, "a join needs a second topic: IN2");
    work.right.ok_or_else(missing)
}

fn config(work: &Work<'_>) -> Result<StreamsConfig> {
    let cache: u64 = match work.workload.split_once('-') {
        Some((_, "nocache")) => 0,
        Some((_, "bigcache")) => 256 << 20,
        _ => 10 << 20,
    };
    StreamsConfig::new(work.application, work.bootstrap)
        .stream_threads(work.threads)
        .state_dir(work.state_dir)
        .commit_interval(Duration::from_secs(1))
        .cache_max_bytes(cache)
        .set("processing.guarantee", work.guarantee)?
        .set("linger.ms", "20")
}

/// When things happened.
struct Times {
    first: Instant,
    half: Instant,
    end: Instant,
}

/// Waits until all records are processed or, without any, everything is restored.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
fn watch(app: &KafkaStreams, records: u64, seen: &AtomicU64) -> Times {
    let start = Instant::now();
    if records == 0 {
        app.wait_for(PATIENCE, |state| state == State::Running || state.is_terminal());
        return Times { first: start, half: start, end: Instant::now() };
    }
    let (mut first, mut half) = (None, None);
    loop {
        let state = app.wait_for(Duration::from_millis(5), State::is_terminal);
        let (now, seen) = (Instant::now(), seen.load(Ordering::Relaxed));
        if seen > 0 {
            first.get_or_insert(now);
        }
        if seen >= records / 2 {
            half.get_or_insert(now);
        }
        if seen >= records || state.is_terminal() || start.elapsed() > PATIENCE {
            let first = first.unwrap_or(start);
            return Times { first, half: half.unwrap_or(now), end: now };
        }
    }
}

/// Runs until all records are processed and committed; prints one line of figures.
pub(crate) fn run(work: &Work<'_>) -> std::result::Result<(), Failure> {
    let output = format!("{}-out", work.application);
    // It may be there already.
    let _ = crate::topics::create_topics(work.bootstrap, &[&output]);
    let restored = restoring::listen()?;
    let seen = Arc::new(AtomicU64::new(0));
    let (topology, config) = (topology(work, &output, &seen)?, config(work)?);
    let cpu = cpu_time()?;
    let app = KafkaStreams::start(topology, config)?;
    let times = watch(&app, work.records, &seen);
    app.close(Duration::from_secs(60))?;
    let close = times.end.elapsed();
    let cpu = cpu_time()?.saturating_sub(cpu);
    show(work, seen.load(Ordering::Relaxed), &times, cpu, close, restored.take())
}

fn show(
    work: &Work<'_>,
    records: u64,
    times: &Times,
    cpu: Duration,
    close: Duration,
    restored: Restored,
) -> std::result::Result<(), Failure> {
    let secs = (times.end - times.first).as_secs_f64();
    let second_half = (times.end - times.half).as_secs_f64();
    let rate = |records: u64, secs: f64| if records == 0 { 0.0 } else { records as f64 / secs };
    let cpu = cpu.as_secs_f64();
    println!(
        "{{\"engine\":\"kstreams\",\"workload\":\"{}\",\"guarantee\":\"{}\",\"records\":{records},\
         \"secs\":{secs:.2},\"rec_per_s\":{:.0},\"second_half_rec_per_s\":{:.0},\"cpu_s\":{cpu:.2},\
         \"cpu_us_per_rec\":{:.3},\"close_s\":{:.2},\"rss_mb\":{},\"restored\":{},\"restore_s\":{:.2}}}",
        work.workload,
        work.guarantee,
        rate(records, secs),
        rate(records - records / 2, second_half),
        if records == 0 { 0.0 } else { cpu * 1e6 / records as f64 },
        close.as_secs_f64(),
        peak_resident_mb()?,
        restored.records,
        restored.time.as_secs_f64(),
    );
    Ok(())
}

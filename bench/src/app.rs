//! Whole applications, with the arguments and the output of `tests/java/Bench.java`, to be compared with it on the same data.

use crate::measure::{Failure, cpu_time};
use kstreams::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(500);

/// What to run: `BOOTSTRAP WORKLOAD GUARANTEE RECORDS THREADS STATEDIR APPID IN`.
pub(crate) struct Work<'a> {
    pub(crate) bootstrap: &'a str,
    pub(crate) workload: &'a str,
    pub(crate) guarantee: &'a str,
    pub(crate) records: u64,
    pub(crate) threads: usize,
    pub(crate) state_dir: &'a str,
    pub(crate) application: &'a str,
    pub(crate) input: &'a str,
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
        other => {
            let message = format!("there is no workload {other}");
            return Err(Error::new(ErrorKind::InvalidConfig, message));
        }
    }
    builder.build()
}

/// Runs until all records are processed and committed; prints one line of figures.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
pub(crate) fn run(work: &Work<'_>) -> std::result::Result<(), Failure> {
    let output = format!("{}-out", work.application);
    // It may be there already.
    let _ = crate::ours::create_topics(work.bootstrap, &[&output]);
    let cache: u64 = match work.workload.split_once('-') {
        Some((_, "nocache")) => 0,
        Some((_, "bigcache")) => 256 << 20,
        _ => 10 << 20,
    };
    let config = StreamsConfig::new(work.application, work.bootstrap)
        .stream_threads(work.threads)
        .state_dir(work.state_dir)
        .commit_interval(Duration::from_secs(1))
        .cache_max_bytes(cache)
        .set("processing.guarantee", work.guarantee)?
        .set("linger.ms", "20")?;
    let seen = Arc::new(AtomicU64::new(0));
    let topology = topology(work, &output, &seen)?;
    let (cpu, start) = (cpu_time()?, Instant::now());
    let app = KafkaStreams::start(topology, config)?;
    let mut first = None;
    while seen.load(Ordering::Relaxed) < work.records && start.elapsed() < PATIENCE {
        let state = app.wait_for(Duration::from_millis(5), State::is_terminal);
        if state.is_terminal() {
            break;
        }
        if first.is_none() && seen.load(Ordering::Relaxed) > 0 {
            first = Some(Instant::now());
        }
    }
    let secs = first.unwrap_or(start).elapsed().as_secs_f64();
    app.close(Duration::from_secs(60))?;
    let cpu = cpu_time()?.saturating_sub(cpu).as_secs_f64();
    let records = seen.load(Ordering::Relaxed);
    println!(
        "{{\"engine\":\"kstreams\",\"workload\":\"{}\",\"guarantee\":\"{}\",\"records\":{records},\
         \"secs\":{secs:.2},\"rec_per_s\":{:.0},\"cpu_s\":{cpu:.2},\"cpu_us_per_rec\":{:.3},\"rss_mb\":{}}}",
        work.workload,
        work.guarantee,
        records as f64 / secs,
        cpu * 1e6 / records.max(1) as f64,
        peak_resident_mb()?
    );
    Ok(())
}

fn peak_resident_mb() -> std::result::Result<u64, Failure> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with("VmHWM")).ok_or("no VmHWM")?;
    let kb: u64 = line.split_whitespace().nth(1).ok_or("no number")?.parse()?;
    Ok(kb / 1024)
}

//! What a piece of work costs.

use std::time::Duration;
#[cfg(feature = "librdkafka")]
use std::time::Instant;

/// Any error of a benchmark.
pub(crate) type Failure = Box<dyn std::error::Error>;

/// What it took.
#[cfg(feature = "librdkafka")]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cost {
    pub(crate) cpu: Duration,
    pub(crate) wall: Duration,
}

#[cfg(feature = "librdkafka")]
impl Cost {
    pub(crate) fn show(&self, engine: &str, work: &str, records: usize) {
        let (cpu, wall) = (self.cpu.as_secs_f64(), self.wall.as_secs_f64());
        println!(
            "{{\"engine\":\"{engine}\",\"work\":\"{work}\",\"records\":{records},\
             \"cpu_us_per_rec\":{:.3},\"rec_per_s_per_core\":{:.0},\"rec_per_s\":{:.0}}}",
            cpu * 1e6 / records as f64,
            records as f64 / cpu,
            records as f64 / wall
        );
    }
}

/// Runs `work` and tells what it took.
#[cfg(feature = "librdkafka")]
#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
pub(crate) fn measure(work: impl FnOnce() -> Result<(), Failure>) -> Result<Cost, Failure> {
    let (cpu, wall) = (cpu_time()?, Instant::now());
    work()?;
    Ok(Cost { cpu: cpu_time()?.saturating_sub(cpu), wall: wall.elapsed() })
}

/// User and system time of all threads that the process has had (Linux, 100 ticks a second).
pub(crate) fn cpu_time() -> Result<Duration, Failure> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let fields: Vec<&str> =
        stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks: u64 = fields.get(11).ok_or("no utime")?.parse::<u64>()?
        + fields.get(12).ok_or("no stime")?.parse::<u64>()?;
    Ok(Duration::from_millis(ticks * 10))
}

/// The most memory that the process has had.
pub(crate) fn peak_resident_mb() -> Result<u64, Failure> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with("VmHWM")).ok_or("no VmHWM")?;
    let kb: u64 = line.split_whitespace().nth(1).ok_or("no number")?.parse()?;
    Ok(kb / 1024)
}

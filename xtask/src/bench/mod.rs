//! `cargo xtask bench`: what a record costs, here and with Java 4.4, on the same broker and the same data.
//!
//! Java, ours and, where there is one, the bare loop of `limit/` run one after the other, pair by pair, so that a change of
//! the machine's mood meets all of them. Every run's own line goes to standard output, medians and spread to standard error,
//! and the last line has the ratios.

mod figures;
mod options;
mod runs;

use self::figures::{Figures, Ratios, median, spread};
use self::options::{Options, Workload};
use self::runs::Runs;
use crate::args::Args;
use crate::broker::{self, TestBroker};
use crate::{java, process, workspace};

/// What one pair has measured.
struct Pair {
    java: Figures,
    ours: Figures,
    limit: Option<Figures>,
}

/// `bench client …` and the other words of the benchmark program go there; options are a comparison with Java.
pub(crate) fn command(words: Vec<String>) -> Result<(), String> {
    match words.first().map(String::as_str) {
        Some("client") => client(&words),
        Some("engine") => {
            Args::new(words[1..].to_vec()).end()?;
            let command = workspace::cargo(["bench", "-p", "bench", "--bench", "engine"]);
            process::succeed(command, "the benchmark of the engine failed")
        }
        _ => compare(&Options::parse(Args::new(words))?),
    }
}

/// The raw client beside librdkafka.
fn client(words: &[String]) -> Result<(), String> {
    let broker = TestBroker::take_or_start()?;
    let mut command = workspace::cargo(["run", "--release", "-p", "bench"]);
    command.args(["--features", "librdkafka", "--"]);
    command.args(words).env(broker::BOOTSTRAP, broker.bootstrap());
    let result = process::succeed(command, "the benchmark of the client failed");
    broker.stop()?;
    result
}

fn compare(options: &Options) -> Result<(), String> {
    java::check()?;
    java::prepare()?;
    build(options)?;
    let broker = match &options.bootstrap {
        Some(bootstrap) => TestBroker::Given(bootstrap.clone()),
        None => TestBroker::take_or_start()?,
    };
    let result = Runs::new(options, broker.bootstrap()).and_then(|mut runs| {
        let result = measure(options, &mut runs);
        runs.clean_up()?;
        result
    });
    broker.stop()?;
    println!("{}", result?.line(options));
    Ok(())
}

/// Each alone: built together they would share the features of their dependencies.
fn build(options: &Options) -> Result<(), String> {
    let packages: &[&str] = if options.has_limit() { &["bench", "limit"] } else { &["bench"] };
    for package in packages {
        let command = workspace::cargo(["build", "--release", "-p", package]);
        process::succeed(command, &format!("{package} does not build"))?;
    }
    Ok(())
}

fn measure(options: &Options, runs: &mut Runs<'_>) -> Result<Ratios, String> {
    runs.fill()?;
    // The first round also finds the setting with which Java does best.
    let mut best: Option<(&str, Vec<Pair>)> = None;
    for suffix in options.variants() {
        let pair = run_pair(options, runs, suffix)?;
        let is_better =
            best.as_ref().is_none_or(|(_, pairs)| pair.java.cpu() < pairs[0].java.cpu());
        if is_better {
            best = Some((suffix, vec![pair]));
        }
    }
    let Some((suffix, mut pairs)) = best else { return Err("nothing was run".to_owned()) };
    while pairs.len() < options.pairs {
        pairs.push(run_pair(options, runs, suffix)?);
    }
    let kind = format!("{}{suffix}", options.workload.name());
    eprintln!("\n{kind}, {}: median (lowest to highest)", options.guarantee);
    show("java", pairs.iter().map(|pair| &pair.java));
    show("kstreams", pairs.iter().map(|pair| &pair.ours));
    show("limit", pairs.iter().filter_map(|pair| pair.limit.as_ref()));
    Ok(Ratios::of(&pairs))
}

fn run_pair(options: &Options, runs: &mut Runs<'_>, suffix: &str) -> Result<Pair, String> {
    let told = |figures: Figures| {
        println!("{}", figures.line());
        figures
    };
    let (java, ours) = match options.workload {
        Workload::Restore => (told(runs.java_restores()?), told(runs.ours_restores()?)),
        _ => (told(runs.java(suffix)?), told(runs.ours(suffix)?)),
    };
    let limit = if options.has_limit() { Some(told(runs.limit()?)) } else { None };
    Ok(Pair { java, ours, limit })
}

fn show<'a>(engine: &str, figures: impl Iterator<Item = &'a Figures>) {
    let figures: Vec<&Figures> = figures.collect();
    if figures.is_empty() {
        return;
    }
    let column = |of: fn(&Figures) -> f64, digits: usize| {
        let values: Vec<f64> = figures.iter().map(|figures| of(figures)).collect();
        let (low, high) = spread(&values);
        format!("{:.digits$} ({low:.digits$} to {high:.digits$})", median(&values))
    };
    eprintln!(
        "{engine:9} CPU {} us a record; {} records/s; {} MB",
        column(Figures::cpu, 2),
        column(Figures::rate, 0),
        column(Figures::memory, 0)
    );
}

impl Ratios {
    /// Java divided by ours, pair by pair; ours divided by the bare loop.
    fn of(pairs: &[Pair]) -> Ratios {
        let ratio = |of: &dyn Fn(&Pair) -> f64, what: &str| {
            let values: Vec<f64> = pairs.iter().map(of).collect();
            let (low, high) = spread(&values);
            eprintln!("{what:9} {:.2} ({low:.2} to {high:.2})", median(&values));
            median(&values)
        };
        let wall = ratio(&|pair| pair.ours.rate() / pair.java.rate(), "rate");
        let cpu = ratio(&|pair| pair.java.cpu() / pair.ours.cpu(), "CPU");
        let memory = ratio(&|pair| pair.java.memory() / pair.ours.memory(), "memory");
        let has_limit = pairs.iter().all(|pair| pair.limit.is_some());
        let limit = has_limit.then(|| {
            let of = |pair: &Pair| {
                pair.limit.as_ref().map_or(f64::NAN, |limit| pair.ours.cpu() / limit.cpu())
            };
            ratio(&of, "to limit")
        });
        Ratios { wall, cpu, memory, limit }
    }
}

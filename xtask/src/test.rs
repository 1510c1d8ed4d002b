//! `cargo xtask test`: one command from a fresh machine to a verdict. CI calls nothing else.
//!
//! A failed step does not hide the next ones: all run, and the end names those that failed. While the compiler works,
//! the Java reference and kcat are fetched beside it.

use crate::args::Args;
use crate::broker::{self, TestBroker};
use crate::kcat::{self, Kcat};
use crate::process::{self, Ended};
use crate::{conformance, java, oracle, parity, tidy, workspace};
use std::process::Command;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The steps, in the order in which they run: what is fast and what fails most comes first.
const STEPS: [&str; 9] =
    ["fmt", "tidy", "clippy", "features", "doc", "test", "cluster", "parity", "oracle"];

/// What `--quick` leaves: nothing that needs Java, a broker or kcat.
const QUICK: [&str; 4] = ["fmt", "tidy", "clippy", "test"];

/// When all tests together take longer, one of them hangs.
const TESTS_AT_MOST: Duration = Duration::from_secs(45 * 60);

/// What is asked for.
pub(crate) struct Options {
    steps: Vec<String>,
    quick: bool,
    package: Option<String>,
}

impl Options {
    pub(crate) fn parse(mut args: Args) -> Result<Options, String> {
        let quick = args.flag("--quick");
        let package = args.value("-p")?;
        let mut steps = args.names()?;
        if let Some(unknown) = steps.iter().find(|step| !STEPS.contains(&step.as_str())) {
            return Err(format!("there is no step '{unknown}': {}", STEPS.join(" ")));
        }
        if steps.is_empty() {
            let all: &[&str] = if quick { &QUICK } else { &STEPS };
            steps = all.iter().map(|step| (*step).to_owned()).collect();
        }
        Ok(Options { steps, quick, package })
    }

    fn wants(&self, step: &str) -> bool {
        self.steps.iter().any(|name| name == step)
    }

    /// A cargo command on the package that was named, or on the default members.
    fn cargo<const N: usize>(&self, args: [&str; N]) -> Command {
        let mut command = workspace::cargo(args);
        if let Some(package) = &self.package {
            command.args(["-p", package]);
        }
        command
    }
}

/// What came out.
#[derive(Default)]
struct Report {
    outcome: Outcome,
    failed_steps: Vec<&'static str>,
    times: Vec<(&'static str, Duration)>,
}

/// Tests, as libtest counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Count {
    passed: u64,
    failed: u64,
}

/// What the tests said.
#[derive(Default)]
struct Outcome {
    count: Count,
    failures: Failures,
}

/// What failed tests printed, to be said again at the end: there it is found, even where only the end of a log is kept.
#[derive(Default)]
struct Failures {
    lines: Vec<String>,
    /// How many lines of the test may still come; none outside of a test's output.
    left: usize,
}

/// As much of a failed test's output as the end repeats.
const LINES_OF_A_FAILURE: usize = 30;

impl Failures {
    /// libtest says `---- NAME stdout ----` before a test's output, and `failures:` behind all.
    fn see(&mut self, line: &str) {
        if line.starts_with("---- ") && line.ends_with(" stdout ----") {
            self.left = LINES_OF_A_FAILURE;
        } else if line == "failures:" {
            self.left = 0;
        }
        if self.left > 0 {
            self.left -= 1;
            self.lines.push(line.to_owned());
        }
    }
}

impl Outcome {
    fn see(&mut self, line: &str) {
        if let Some(Count { passed, failed }) = test_result(line) {
            self.count.passed += passed;
            self.count.failed += failed;
        }
        self.failures.see(line);
    }
}

pub(crate) fn run(options: &Options) -> Result<(), String> {
    let needs_broker = options.wants("test") && !options.quick;
    let needs_java =
        needs_broker || ["cluster", "parity", "oracle"].iter().any(|step| options.wants(step));
    if needs_java {
        // Now, not after ten minutes of compiling.
        java::check()?;
    }
    let java = needs_java.then(|| {
        std::thread::spawn(move || {
            java::prepare()?;
            if needs_broker { conformance::prepare() } else { Ok(()) }
        })
    });
    let kcat = needs_broker.then(|| std::thread::spawn(kcat::prepare));
    let mut report = Report::default();
    report.step(options, "fmt", || fmt(options));
    report.step(options, "tidy", tidy::run);
    report.step(options, "clippy", || clippy(options));
    report.step(options, "features", features);
    report.step(options, "doc", || doc(options));
    let java = java.map_or(Ok(()), joined);
    if let Err(why) = &java {
        eprintln!("\nerror: {why}");
    }
    let mut outcome = Outcome::default();
    report.step(options, "test", || {
        if needs_broker {
            java.clone()?;
            tests_on_broker(options, kcat, &mut outcome)
        } else {
            unit_tests(options, &mut outcome)
        }
    });
    report.step(options, "cluster", || {
        java.clone()?;
        conformance::cluster(|command| tests(command, &mut outcome))
    });
    report.outcome = outcome;
    report.step(options, "parity", || {
        java.clone()?;
        parity::run(&parity::Options::check())
    });
    report.step(options, "oracle", || {
        java.clone()?;
        oracle::run(&oracle::Options::short())
    });
    report.end()
}

fn joined<T>(thread: JoinHandle<Result<T, String>>) -> Result<T, String> {
    thread.join().unwrap_or_else(|_| Err("a thread of xtask panicked: look above".to_owned()))
}

impl Report {
    fn step(
        &mut self,
        options: &Options,
        name: &'static str,
        work: impl FnOnce() -> Result<(), String>,
    ) {
        if !options.wants(name) {
            return;
        }
        println!("\n=== {name}");
        let start = process::now();
        let result = work();
        let took = start.elapsed();
        self.times.push((name, took));
        match result {
            Ok(()) => println!("=== {name}: good, {}", seconds(took)),
            Err(why) => {
                self.failed_steps.push(name);
                println!("{why}\n=== {name}: FAILED, {}", seconds(took));
            }
        }
    }

    /// The last lines. A failed step counts as a failure even if no test failed in it, so that the last line and the
    /// exit status always agree.
    fn end(&self) -> Result<(), String> {
        let Count { passed, failed } = self.outcome.count;
        let failed = failed + self.steps_without_test_failures();
        let times: Vec<String> =
            self.times.iter().map(|(name, took)| format!("{name} {}", seconds(*took))).collect();
        for line in &self.outcome.failures.lines {
            println!("{line}");
        }
        println!("\ntimes: {}", times.join(", "));
        if !self.failed_steps.is_empty() {
            println!("failed: {}", self.failed_steps.join(", "));
        }
        println!("{passed} passed, {failed} failed");
        if failed == 0 { Ok(()) } else { Err("not everything is good: look above".to_owned()) }
    }

    fn steps_without_test_failures(&self) -> u64 {
        let told =
            |name: &&&str| ["test", "cluster"].contains(*name) && self.outcome.count.failed > 0;
        self.failed_steps.iter().filter(|name| !told(name)).count() as u64
    }
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

fn fmt(options: &Options) -> Result<(), String> {
    let mut command = options.cargo(["fmt", "--check"]);
    if options.package.is_none() {
        command.arg("--all");
    }
    process::succeed(command, "some files are not formatted: run `cargo fmt --all`")
}

fn clippy(options: &Options) -> Result<(), String> {
    let mut command = options.cargo(["clippy", "--all-targets", "--keep-going"]);
    command.args(["--", "-D", "warnings"]);
    process::succeed(command, "clippy has something to say")
}

/// Crates with features must also be good without them.
fn features() -> Result<(), String> {
    for package in workspace::packages_with_features()? {
        let mut command = workspace::cargo(["clippy", "--no-default-features", "-p"]);
        command.args([&package, "--", "-D", "warnings"]);
        process::succeed(command, &format!("clippy on {package} without its features"))?;
    }
    Ok(())
}

fn doc(options: &Options) -> Result<(), String> {
    let mut command = options.cargo(["doc", "--no-deps"]);
    command.env("RUSTDOCFLAGS", "-D warnings");
    process::succeed(command, "the documentation does not build")
}

/// The tests inside of the crates: they need nothing around them.
fn unit_tests(options: &Options, outcome: &mut Outcome) -> Result<(), String> {
    let mut command = options.cargo(["test", "--no-fail-fast", "--bins"]);
    if options.package.as_deref().map_or(Ok(true), workspace::has_library)? {
        command.arg("--lib");
    }
    command.env("RUST_BACKTRACE", "1");
    tests(command, outcome)
}

/// All tests, with everything around them that they may need.
fn tests_on_broker(
    options: &Options,
    kcat: Option<JoinHandle<Result<Kcat, String>>>,
    outcome: &mut Outcome,
) -> Result<(), String> {
    let mut command = options.cargo(["test", "--no-fail-fast"]);
    command.env("RUST_BACKTRACE", "1");
    if let Some(kcat) = kcat {
        let Kcat { program, libraries } = joined(kcat)?;
        println!("kcat: {}", program.display());
        command.env(kcat::PROGRAM, program).env(kcat::LIBRARIES, libraries);
    }
    let broker = TestBroker::take_or_start()?;
    println!("broker: {}", broker.bootstrap());
    command.env(broker::BOOTSTRAP, broker.bootstrap());
    let result = tests(command, outcome);
    if result.is_err()
        && let Some(log) = broker.keep_log()
    {
        println!("the broker's log: {}", log.display());
    }
    let stopped = broker.stop();
    let conforms = match options.package.as_deref() {
        None | Some("kstreams-client") => conformance::run(|command| tests(command, outcome)),
        Some(_) => Ok(()),
    };
    result.and(stopped).and(conforms)
}

/// Runs the tests, shows what they print, and counts.
fn tests(command: Command, outcome: &mut Outcome) -> Result<(), String> {
    let start: Instant = process::now();
    let ended = process::watch(command, TESTS_AT_MOST, |line| {
        println!("{line}");
        outcome.see(line);
    })?;
    match ended {
        Ended::OutOfTime => {
            Err(format!("the tests did not end within {}: one hangs", seconds(start.elapsed())))
        }
        Ended::With(status) if status.success() => Ok(()),
        Ended::With(_) if outcome.count.failed > 0 => {
            Err(format!("{} tests failed", outcome.count.failed))
        }
        Ended::With(status) => Err(format!("a test program did not compile or crashed ({status})")),
    }
}

/// `test result: ok. 5 passed; 0 failed; 0 ignored; …`, with or without colours.
fn test_result(line: &str) -> Option<Count> {
    let (_, rest) = line.split_once("test result: ")?;
    let number = |what: &str| -> Option<u64> {
        let before = rest.split(what).next().filter(|before| before.len() < rest.len())?;
        before.rsplit(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    };
    Some(Count { passed: number(" passed")?, failed: number(" failed")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_line_is_counted() {
        let line =
            "test result: FAILED. 12 passed; 3 failed; 1 ignored; 0 measured; 0 filtered out";
        assert_eq!(test_result(line), Some(Count { passed: 12, failed: 3 }));
        let coloured = "test result: \u{1b}[32mok\u{1b}(B. 7 passed; 0 failed; 0 ignored;";
        assert_eq!(test_result(coloured), Some(Count { passed: 7, failed: 0 }));
        assert_eq!(test_result("test counts::passed ... ok"), None);
    }

    #[test]
    fn what_a_failed_test_printed_is_kept() {
        let mut outcome = Outcome::default();
        let log = "test a ... FAILED\n\nfailures:\n\n---- a stdout ----\npanicked at a.rs\n\nfailures:\n    a\n";
        log.lines().for_each(|line| outcome.see(line));
        assert_eq!(outcome.failures.lines, ["---- a stdout ----", "panicked at a.rs", ""]);
    }

    #[test]
    fn a_failed_step_is_a_failure_once() {
        let mut report = Report::default();
        report.outcome.count = Count { passed: 5, failed: 2 };
        report.failed_steps = vec!["clippy", "test"];
        assert_eq!(report.steps_without_test_failures(), 1);
        report.outcome.count.failed = 0;
        assert_eq!(report.steps_without_test_failures(), 2);
        assert!(report.end().is_err());
    }

    #[test]
    fn steps_are_chosen_by_name() {
        let parse = |line: &str| {
            Options::parse(Args::new(line.split_whitespace().map(str::to_owned).collect()))
        };
        assert!(parse("tidy fmt").is_ok_and(|options| options.steps == ["tidy", "fmt"]));
        assert!(parse("--quick").is_ok_and(|options| options.steps == QUICK));
        assert!(parse("dance").is_err_and(|why| why.contains("'dance'")));
    }
}

//! `cargo xtask oracle`: the same seeded input through the real Kafka Streams and through ours, line against line.
//!
//! Java answers everything in one run (`tests/java/Oracle.java`, command `corpus-of`), ours one process a topology and
//! seed. Lines must be equal byte for byte.

use crate::args::Args;
use crate::process::{self, Ended};
use crate::{java, workspace};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// So many differences are shown in full; the others are only counted.
const SHOWN_AT_MOST: usize = 5;

/// Lines of what our program says when it fails.
const ERRORS_AT_MOST: usize = 12;

/// A run of a few hundred lines takes a second: after this one hangs.
const ONE_RUN_AT_MOST: Duration = Duration::from_secs(120);

/// What is asked for.
pub(crate) struct Options {
    seeds: u64,
    count: u64,
    release: bool,
    /// What the generated input is like: `tests/java/README.md` knows the shapes.
    shape: Option<String>,
    names: Vec<String>,
}

impl Options {
    pub(crate) fn parse(mut args: Args) -> Result<Options, String> {
        let seeds = args.value("--seeds")?.unwrap_or(20);
        let count = args.value("--count")?.unwrap_or(200);
        let release = args.flag("--release");
        let shape = args.value("--shape")?;
        Ok(Options { seeds, count, release, shape, names: args.names()? })
    }

    /// The comparison that belongs to every test run.
    pub(crate) fn short() -> Options {
        Options { seeds: 4, count: 100, release: false, shape: None, names: Vec::new() }
    }
}

/// The folder with Java's answers, and our program.
struct Comparison {
    program: PathBuf,
    corpus: PathBuf,
}

/// One thing to compare: a topology's describe text (no seed), or its output for a seed.
struct Case<'a> {
    name: &'a str,
    seed: Option<u64>,
}

pub(crate) fn run(options: &Options) -> Result<(), String> {
    let program = build(options.release)?;
    let names = names(&program, options)?;
    let corpus = workspace::target().join(format!("oracle-{}", std::process::id()));
    let _ = fs::remove_dir_all(&corpus);
    ask_java(&corpus, &names, options)?;
    let comparison = Comparison { program, corpus };
    let cases = cases(&names, options.seeds);
    let differences = comparison.all(&cases);
    let total = cases.len();
    if differences.is_empty() {
        println!(
            "oracle: {} topologies, {} seeds of {} lines: all {total} answers equal Java's",
            names.len(),
            options.seeds,
            options.count
        );
        return fs::remove_dir_all(&comparison.corpus).map_err(|why| why.to_string());
    }
    show(&differences);
    Err(format!(
        "oracle: {} of {total} answers differ from Java's; its inputs and answers are kept in {}",
        differences.len(),
        keep(comparison.corpus).display()
    ))
}

/// Only the last differences stay.
fn keep(corpus: PathBuf) -> PathBuf {
    let kept = workspace::target().join("oracle-differences");
    let _ = fs::remove_dir_all(&kept);
    if fs::rename(&corpus, &kept).is_ok() { kept } else { corpus }
}

fn build(release: bool) -> Result<PathBuf, String> {
    // Not `-p oracle`: among all default members it gets the features with which the tests are built, so nothing is
    // compiled twice.
    let mut command = workspace::cargo(["build", "--quiet", "--bin", "oracle"]);
    if release {
        command.arg("--release");
    }
    process::succeed(command, "the oracle runner does not compile")?;
    Ok(workspace::target().join(if release { "release" } else { "debug" }).join("oracle"))
}

fn names(program: &Path, options: &Options) -> Result<Vec<String>, String> {
    let mut list = Command::new(program);
    list.arg("list");
    let known: Vec<String> = process::output(list)?.lines().map(str::to_owned).collect();
    if known.is_empty() {
        return Err("`oracle list` names no topology: there is nothing to compare".to_owned());
    }
    if let Some(name) = options.names.iter().find(|name| !known.contains(name)) {
        return Err(format!("`oracle list` does not name '{name}': {}", known.join(" ")));
    }
    Ok(if options.names.is_empty() { known } else { options.names.clone() })
}

fn ask_java(corpus: &Path, names: &[String], options: &Options) -> Result<(), String> {
    let mut command = java::run(["Oracle", "corpus-of"]);
    command.arg(corpus).arg(options.count.to_string()).arg(names.join(","));
    command.args((1..=options.seeds).map(|seed| seed.to_string()));
    if let Some(shape) = &options.shape {
        command.env("ORACLE_SHAPE", shape);
    }
    process::succeed(command, "the Java oracle gave no answers")
}

fn cases(names: &[String], seeds: u64) -> Vec<Case<'_>> {
    let mut cases = Vec::new();
    for name in names {
        cases.push(Case { name, seed: None });
        cases.extend((1..=seeds).map(|seed| Case { name, seed: Some(seed) }));
    }
    cases
}

impl Comparison {
    /// The differences by the number of their case, so that they come out in the same order every time.
    fn all(&self, cases: &[Case<'_>]) -> BTreeMap<usize, String> {
        let next = AtomicUsize::new(0);
        let workers = std::thread::available_parallelism().map_or(1, usize::from);
        let work = || {
            let mut found = BTreeMap::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some(case) = cases.get(number) else { return found };
                if let Err(difference) = self.one(case) {
                    found.insert(number, difference);
                }
            }
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
            let found = threads.into_iter().filter_map(|thread| thread.join().ok());
            found.flatten().collect()
        })
    }

    fn one(&self, case: &Case<'_>) -> Result<(), String> {
        let Case { name, seed } = case;
        let Some(seed) = seed else {
            let theirs = self.read(&format!("{name}.describe.txt"))?;
            let (ours, failed) = self.ask_ours(&["describe", name], None)?;
            let failed = failed.map_or_else(String::new, |why| format!("\n  {why}"));
            return equal_lines(&theirs, &ours).map_err(|difference| {
                format!("{name}: the describe text differs\n{difference}{failed}")
            });
        };
        let input = format!("{name}.{seed}.in.jsonl");
        let theirs = self.read(&format!("{name}.{seed}.out.jsonl"))?;
        let arguments = ["run", name, "--mode", "java-4.4"];
        let (ours, failed) = self.ask_ours(&arguments, Some(&self.corpus.join(&input)))?;
        let Err(difference) = equal_lines(&theirs, &ours) else {
            return failed.map_or(Ok(()), |why| Err(format!("{name}, seed {seed}: {why}")));
        };
        let input = self.read(&input)?;
        let cause = difference.caused_by(&input).map_or_else(String::new, |cause| cause + "\n");
        let failed = failed.map_or_else(String::new, |why| format!("\n  {why}"));
        Err(format!("{name}, seed {seed}: the output differs\n{cause}{difference}{failed}"))
    }

    fn read(&self, file: &str) -> Result<String, String> {
        let path = self.corpus.join(file);
        fs::read_to_string(&path).map_err(|why| format!("{}: {why}", path.display()))
    }

    /// What ours prints, and how it failed if it did.
    fn ask_ours(
        &self,
        arguments: &[&str],
        input: Option<&Path>,
    ) -> Result<(String, Option<String>), String> {
        let mut command = Command::new(&self.program);
        command.args(arguments).stdin(Stdio::null());
        if let Some(input) = input {
            command.stdin(File::open(input).map_err(|why| format!("{}: {why}", input.display()))?);
        }
        let printed = process::capture(command, ONE_RUN_AT_MOST)?;
        let how = match printed.ended {
            Ended::With(status) if status.success() => return Ok((printed.output, None)),
            Ended::With(status) => format!("ended with {status}"),
            Ended::OutOfTime => format!("did not end within {} s", ONE_RUN_AT_MOST.as_secs()),
        };
        let errors: Vec<&str> = printed.errors.lines().take(ERRORS_AT_MOST).collect();
        let why = format!("`oracle {}` {how}: {}", arguments.join(" "), errors.join("\n    "));
        Ok((printed.output, Some(why)))
    }
}

fn show(differences: &BTreeMap<usize, String>) {
    for difference in differences.values().take(SHOWN_AT_MOST) {
        println!("\n{difference}");
    }
    if differences.len() > SHOWN_AT_MOST {
        println!("\n… and {} more", differences.len() - SHOWN_AT_MOST);
    }
}

/// The first line that is not the same; none means that the text ended there.
#[derive(Debug, PartialEq)]
struct Difference {
    line: usize,
    theirs: Option<String>,
    ours: Option<String>,
}

fn equal_lines(theirs: &str, ours: &str) -> Result<(), Difference> {
    if theirs == ours {
        return Ok(());
    }
    // Only the line feed ends a line, and a last line without one is another text.
    let mut left = theirs.split_inclusive('\n');
    let mut right = ours.split_inclusive('\n');
    let mut line = 1;
    loop {
        let (theirs, ours) = (left.next(), right.next());
        if theirs != ours || theirs.is_none() {
            let owned = |text: Option<&str>| text.map(str::to_owned);
            return Err(Difference { line, theirs: owned(theirs), ours: owned(ours) });
        }
        line += 1;
    }
}

impl Difference {
    /// The input line that brought it about: the earlier one of the two lines' `n`.
    fn caused_by(&self, input: &str) -> Option<String> {
        let numbers = [&self.theirs, &self.ours];
        let number = numbers.into_iter().flatten().filter_map(|line| input_number(line)).min()?;
        let line = input.lines().nth(number.checked_sub(1)?)?;
        Some(format!("  input line {number}: {line}"))
    }
}

/// `{"n":17,…`: the number of the input line.
fn input_number(line: &str) -> Option<usize> {
    let rest = line.strip_prefix("{\"n\":")?;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shown = |line: &Option<String>| match line {
            None => "(no more lines)".to_owned(),
            Some(line) if line.ends_with('\n') => line.trim_end_matches('\n').to_owned(),
            Some(line) => format!("{line}  (without a line feed)"),
        };
        writeln!(f, "  output line {}:", self.line)?;
        writeln!(f, "    Java: {}", shown(&self.theirs))?;
        write!(f, "    ours: {}", shown(&self.ours))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn difference(theirs: &str, ours: &str) -> Difference {
        equal_lines(theirs, ours).unwrap_err()
    }

    #[test]
    fn the_first_different_line_is_found() {
        assert_eq!(equal_lines("a\nb\n", "a\nb\n"), Ok(()));
        let found = difference("a\nb\nc\n", "a\nx\nc\n");
        assert_eq!(found.to_string(), "  output line 2:\n    Java: b\n    ours: x");
        assert_eq!(difference("a\n", "a\nb\n").theirs, None);
        assert_eq!(difference("a\nb\n", "a\n").ours, None);
    }

    #[test]
    fn a_missing_line_feed_is_a_difference() {
        let found = difference("a\n", "a");
        assert_eq!(found.line, 1);
        assert!(found.to_string().contains("ours: a  (without a line feed)"), "{found}");
        assert_eq!(difference("a\r\n", "a\n").line, 1);
    }

    #[test]
    fn the_cause_is_the_earlier_input_line() {
        let found = difference("{\"n\":3,\"v\":1}\n", "{\"n\":2,\"v\":1}\n");
        assert_eq!(found.caused_by("one\ntwo\nthree\n"), Some("  input line 2: two".to_owned()));
        assert_eq!(difference("text\n", "").caused_by("one\n"), None);
    }
}

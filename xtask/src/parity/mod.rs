//! `cargo xtask parity`: every public method of Java's beside ours, read from the classes of the real Kafka.
//!
//! That ours exist is rustdoc's to say: in the page that is made for it each of our names is a link.

mod comparison;
mod mapping;
mod page;
#[cfg(test)]
mod tests;

use crate::args::Args;
use crate::{java, process, workspace};
use comparison::Table;
use mapping::Verdict;
use page::Names;

/// The packages all of whose public classes the file has to have a section for: all of Kafka Streams that are not internal.
const PACKAGES: [&str; 8] = [
    "org.apache.kafka.streams",
    "org.apache.kafka.streams.errors",
    "org.apache.kafka.streams.kstream",
    "org.apache.kafka.streams.processor",
    "org.apache.kafka.streams.processor.api",
    "org.apache.kafka.streams.query",
    "org.apache.kafka.streams.state",
    "org.apache.kafka.streams.test",
];

/// The file of what is ours.
const MAPPING: &str = "xtask/parity.txt";

/// The list for readers of the repository, and the page of the documentation.
const LIST: &str = "PARITY.md";
const PAGE: &str = "crates/streams/src/from_java.md";

/// What is asked for.
pub(crate) struct Options {
    write: bool,
}

impl Options {
    /// Only compares.
    pub(crate) fn check() -> Options {
        Options { write: false }
    }

    pub(crate) fn parse(mut args: Args) -> Result<Options, String> {
        let write = args.flag("--write");
        args.end()?;
        Ok(Options { write })
    }
}

pub(crate) fn run(options: &Options) -> Result<(), String> {
    let text = read(MAPPING)?;
    let classes = mapping::parse(&text).map_err(|mistakes| told(&mistakes))?;
    java::prepare()?;
    let mut command = java::run(["Methods", "--classes"]);
    command.args(PACKAGES);
    let missing = comparison::missing_classes(&classes, &process::output(command)?);
    if !missing.is_empty() {
        return Err(told(&missing));
    }
    let mut command = java::run(["Methods"]);
    command.args(classes.iter().map(|class| &class.path));
    let methods = process::output(command)?;
    let tables = comparison::compare(&classes, &methods).map_err(|mistakes| told(&mistakes))?;
    for (file, page) in [(LIST, list(&tables)), (PAGE, doc_page(&tables))] {
        if read(file).is_ok_and(|text| text == page) {
            continue;
        }
        if !options.write {
            return Err(format!(
                "{file} is not what it would be now: `cargo xtask parity --write`"
            ));
        }
        std::fs::write(workspace::root().join(file), page)
            .map_err(|why| format!("{file} cannot be written: {why}"))?;
    }
    println!("{}", page::overview(&tables).lines().next().unwrap_or_default());
    Ok(())
}

fn read(file: &str) -> Result<String, String> {
    std::fs::read_to_string(workspace::root().join(file))
        .map_err(|why| format!("{file} cannot be read: {why}"))
}

fn told(mistakes: &[String]) -> String {
    format!("{MAPPING} and Java do not agree:\n  {}", mistakes.join("\n  "))
}

fn list(tables: &[Table<'_>]) -> String {
    format!(
        "# Java's methods and ours\n\n\
         Every public method of Kafka Streams 4.4 and its test utilities (the DSL, processors, state, queries, errors, tests), read \
         from the classes by reflection, beside ours. One method with an options struct stands here where Java has overloads; `named` and `materialized` follow the operator that they are \
         about. Methods `try_…` take closures that can fail.\n\n\
         `cargo xtask parity --write` makes this file from `{MAPPING}`; the same with links is the page `from_java` of the \
         documentation.\n\n\
         {}\n## Not there yet\n\n{}\n## Left out\n\n{}{}",
        page::overview(tables),
        page::reasons(tables, Verdict::NotYet),
        page::reasons(tables, Verdict::LeftOut),
        page::tables(tables, Names::Plain)
    )
}

fn doc_page(tables: &[Table<'_>]) -> String {
    page::tables(tables, Names::Links)
}

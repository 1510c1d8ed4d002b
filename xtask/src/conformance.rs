//! The client's suite on every broker that it must work with, besides the Kafka that all tests run on: the embedded
//! broker, and an older Kafka. What a broker cannot do is listed, and counts as nothing.

use crate::broker::{self, TestBroker};
use crate::{java, process, workspace};
use std::process::Command;

/// The oldest Kafka that is tried: the last one before 4.0, without streams groups and with version 1 of transactions.
const OLD_KAFKA: &str = "3.9.1";

/// Modules of the suite that need more than a broker has, and what it is.
const STREAMS_GROUPS: (&str, &str) = ("streams_groups", "it has no streams groups");
const OWN_BROKER: (&str, &str) = ("own_broker", "they start brokers of Kafka 4.4");

/// Fetches what the suite needs.
pub(crate) fn prepare() -> Result<(), String> {
    java::prepare_version(OLD_KAFKA)
}

/// Runs the suite on each; `tests` runs a command of tests and counts.
pub(crate) fn run(mut tests: impl FnMut(Command) -> Result<(), String>) -> Result<(), String> {
    let lacks = [OWN_BROKER];
    let embedded = on("the embedded broker", "embedded", &lacks, &mut tests);
    let name = "the embedded broker with transactions of version 1";
    let version_1 = on(name, "embedded-v1", &lacks, &mut tests);
    let old = on_old_kafka(&mut tests);
    embedded.and(version_1).and(old)
}

/// The client on three brokers that are killed in turn: a minute or two.
pub(crate) fn cluster(mut tests: impl FnMut(Command) -> Result<(), String>) -> Result<(), String> {
    let mut command = workspace::cargo(["test", "-p", "kstreams-client", "--test", "cluster"]);
    command.args(["--", "--nocapture"]).env("RUST_BACKTRACE", "1");
    tests(command)
}

fn on_old_kafka(tests: &mut impl FnMut(Command) -> Result<(), String>) -> Result<(), String> {
    let broker = TestBroker::start(OLD_KAFKA)?;
    let name = format!("Kafka {OLD_KAFKA}");
    let result = on(&name, broker.bootstrap(), &[STREAMS_GROUPS, OWN_BROKER], tests);
    if result.is_err()
        && let Some(log) = broker.keep_log()
    {
        println!("the broker's log: {}", log.display());
    }
    let stopped = broker.stop();
    result.and(stopped)
}

fn on(
    name: &str,
    bootstrap: &str,
    lacks: &[(&str, &str)],
    tests: &mut impl FnMut(Command) -> Result<(), String>,
) -> Result<(), String> {
    println!("\nthe client's suite on {name}");
    for (module, why) in lacks {
        let names = names_in(module)?;
        println!("not applicable on {name}, as {why}: {}", names.join(", "));
    }
    let mut command = suite();
    command.env(broker::BOOTSTRAP, bootstrap).env("RUST_BACKTRACE", "1");
    for (module, _) in lacks {
        command.args(["--skip", &format!("{module}::")]);
    }
    tests(command).map_err(|why| format!("on {name}: {why}"))
}

/// The suite; what follows goes to it.
fn suite() -> Command {
    workspace::cargo(["test", "-p", "kstreams-client", "--test", "it", "--"])
}

/// The suite's tests of a module; that there are none is an error, as its name may have changed.
fn names_in(module: &str) -> Result<Vec<String>, String> {
    let mut command = suite();
    command.args(["--list", &format!("{module}::")]);
    let text = process::output(command)?;
    let names: Vec<String> =
        text.lines().filter_map(|line| Some(line.strip_suffix(": test")?.to_owned())).collect();
    if names.is_empty() { Err(format!("there are no tests in '{module}'")) } else { Ok(names) }
}

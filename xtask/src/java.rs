//! The Java reference: the real Kafka 4.4, through the script `tests/java/run` (its README has the commands).

use crate::{process, workspace};
use std::process::Command;

/// Where the script finds which Kafka is wanted.
pub(crate) const VERSION: &str = "KAFKA_VERSION";

/// The script with these arguments.
pub(crate) fn run<const N: usize>(args: [&str; N]) -> Command {
    let mut command = Command::new(workspace::root().join("tests/java/run"));
    command.args(args).current_dir(workspace::root());
    command
}

/// Whether Java and Maven are there; the error says what to install. Fast.
pub(crate) fn check() -> Result<(), String> {
    process::quietly(run(["check"]), "the Java reference cannot run")
}

/// Fetches Kafka from Maven Central if this is the first time, and compiles the classes of `tests/java`.
pub(crate) fn prepare() -> Result<(), String> {
    process::quietly(run(["prepare"]), "the Java reference could not be made ready")
}

/// Fetches the brokers of another version.
pub(crate) fn prepare_version(version: &str) -> Result<(), String> {
    let mut command = run(["prepare"]);
    command.env(VERSION, version);
    process::quietly(command, &format!("Kafka {version} could not be made ready"))
}

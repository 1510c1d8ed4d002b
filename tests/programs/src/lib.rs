//! The other programs of the tests: brokers and tools of the real Kafka through `tests/java/run`, and kcat.
//!
//! For tests only: what goes wrong here is a panic that says what to do.

#![expect(clippy::missing_panics_doc, reason = "a test that cannot go on fails")]

mod brokers;
mod java_producer;

pub use self::brokers::Brokers;
pub use self::java_producer::{JavaProducer, Stalls};

use std::io::Write;
use std::process::{Command, Stdio};

/// A class on the real Kafka, or another word that `tests/java/run` knows.
#[must_use]
pub fn java(args: &[&str]) -> Command {
    let mut command = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../java/run"));
    command.args(args);
    command
}

/// kcat, from where `cargo xtask test` has it.
#[must_use]
pub fn kcat(args: &[&str]) -> Command {
    let program = std::env::var_os("KSTREAMS_KCAT").unwrap_or_else(|| "kcat".into());
    let mut command = Command::new(program);
    if let Some(libraries) = std::env::var_os("KSTREAMS_KCAT_LIBS").filter(|libs| !libs.is_empty())
    {
        command.env("LD_LIBRARY_PATH", libraries);
    }
    command.args(args);
    command
}

/// Runs a program to its good end with `input` as its input; gives its output.
pub fn run(mut command: Command, input: &[u8]) -> Vec<u8> {
    let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let started = pipes.spawn();
    let mut child = started.unwrap_or_else(|why| {
        panic!("{command:?}: {why}: run `cargo xtask test`, which gets what the tests need")
    });
    let mut stdin = child.stdin.take().expect("its input");
    let output = std::thread::scope(|scope| {
        // A program that ends early closes its input; its status says more than this error.
        scope.spawn(move || stdin.write_all(input));
        child.wait_with_output().expect("its output")
    });
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{said}", output.status);
    output.stdout
}

/// As [`run`], without input, for output that is text.
pub fn text_of(command: Command) -> String {
    String::from_utf8(run(command, b"")).expect("text")
}

//! Benchmarks of kstreams, on a real broker. `cargo xtask bench` runs them; its help says how.
//!
//! The unit is CPU time of the whole process, user and system, all threads: what a record costs, whatever else the machine does.

#![expect(clippy::print_stdout, reason = "the benchmark's results")]

mod app;
#[cfg(feature = "librdkafka")]
mod client;
mod measure;
#[cfg(feature = "librdkafka")]
mod ours;
mod restoring;
#[cfg(feature = "librdkafka")]
mod theirs;
mod topics;

use crate::measure::Failure;
use std::process::ExitCode;

const USAGE: &str = "\
bench client [RECORDS]   the client beside librdkafka (feature librdkafka; KSTREAMS_TEST_BOOTSTRAP names the broker)
bench app BOOTSTRAP WORKLOAD[-nocache|-bigcache] GUARANTEE RECORDS THREADS STATEDIR APPID IN [IN2]
                         an application, with the arguments of tests/java/Bench.java and its workloads;
                         RECORDS 0: it only restores
bench topics BOOTSTRAP create|delete TOPIC...";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &[&str]) -> Result<(), Failure> {
    match *args {
        ["client"] => client(None),
        ["client", records] => client(Some(number("RECORDS", records)?)),
        [
            "app",
            bootstrap,
            workload,
            guarantee,
            records,
            threads,
            state_dir,
            application,
            input,
            ref right @ ..,
        ] if right.len() < 2 => app::run(&app::Work {
            bootstrap,
            workload,
            guarantee,
            records: number("RECORDS", records)?,
            threads: number("THREADS", threads)?,
            state_dir,
            application,
            input,
            right: right.first().copied(),
        }),
        ["topics", bootstrap, "create", ref topics @ ..] => {
            topics::create_topics(bootstrap, topics)
        }
        ["topics", bootstrap, "delete", ref topics @ ..] => {
            topics::delete_topics(bootstrap, topics)
        }
        _ => Err(format!("this is not understood: {}\n\n{USAGE}", args.join(" ")).into()),
    }
}

fn number<T: std::str::FromStr>(what: &str, text: &str) -> Result<T, Failure> {
    text.parse().map_err(|_| format!("{what} cannot be '{text}'").into())
}

#[cfg(feature = "librdkafka")]
fn client(records: Option<usize>) -> Result<(), Failure> {
    client::run(records.unwrap_or(client::RECORDS))
}

#[cfg(not(feature = "librdkafka"))]
fn client(_: Option<usize>) -> Result<(), Failure> {
    Err("built without librdkafka: use `cargo xtask bench client`".into())
}

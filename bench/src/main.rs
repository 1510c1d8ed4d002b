//! Benchmarks of kstreams beside librdkafka, on a real broker: `cargo xtask bench client [RECORDS]`.
//!
//! The unit is CPU time of the whole process, user and system, all threads: what a record costs, whatever else the machine does.

#![expect(clippy::print_stdout, reason = "the benchmark's results")]

mod app;
mod client;
mod measure;
mod ours;
mod theirs;

use std::process::ExitCode;

const USAGE: &str = "bench client [RECORDS]   (KSTREAMS_TEST_BOOTSTRAP names the broker)
bench app BOOTSTRAP map|count|recount[-nocache|-bigcache] GUARANTEE RECORDS THREADS STATEDIR APPID IN";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match args[..] {
        ["client"] => client::run(client::RECORDS),
        ["client", records] => match records.parse() {
            Ok(records) => client::run(records),
            Err(_) => Err(USAGE.into()),
        },
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
        ] => match (records.parse(), threads.parse()) {
            (Ok(records), Ok(threads)) => app::run(&app::Work {
                bootstrap,
                workload,
                guarantee,
                records,
                threads,
                state_dir,
                application,
                input,
            }),
            _ => Err(USAGE.into()),
        },
        _ => Err(USAGE.into()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

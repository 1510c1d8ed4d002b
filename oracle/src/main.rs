//! Runs the topologies of the Java oracle on kstreams, in the oracle's format (`tests/java/README.md`):
//!
//! ```text
//! oracle list
//! oracle describe NAME
//! oracle run NAME [--mode java-4.4|correct] < in.jsonl > out.jsonl
//! ```

mod lines;
mod processors;
mod run;
mod topologies;

use std::io::{BufWriter, Write, stdin, stdout};
use std::process::ExitCode;

const USAGE: &str = "oracle list | describe NAME | run NAME [--mode java-4.4|correct] < in.jsonl";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match oracle(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("oracle: {error}");
            ExitCode::FAILURE
        }
    }
}

fn oracle(args: &[&str]) -> Result<(), Box<dyn std::error::Error>> {
    let mut out = BufWriter::new(stdout().lock());
    match args {
        ["list"] => {
            for case in topologies::all() {
                writeln!(out, "{}", case.name)?;
            }
        }
        ["describe", name] => write!(out, "{}", (topologies::find(name)?.build)()?)?,
        ["run", name] => run::run(&topologies::find(name)?, "java-4.4", stdin().lock(), &mut out)?,
        ["run", name, "--mode", mode @ ("java-4.4" | "correct")] => {
            run::run(&topologies::find(name)?, mode, stdin().lock(), &mut out)?;
        }
        _ => return Err(USAGE.into()),
    }
    Ok(out.flush()?)
}

//! What the example programs of kstreams have in common: the command line, the log, and how they show what came out. Read the
//! programs themselves: `word_count`, and one for each trap that users of Kafka Streams fall into: `rooms`, `ledger`, `sweep`,
//! `outside`.

use kstreams::prelude::*;
use std::fmt::Display;
use std::io::Write;
use std::time::Duration;
use tracing_subscriber::filter::LevelFilter;

/// Logs to standard error: what is wrong, or as much as `RUST_LOG` (`info`, `debug`) says.
pub fn start_log() {
    let level = std::env::var("RUST_LOG").ok().and_then(|level| level.parse().ok());
    let level = level.unwrap_or(LevelFilter::ERROR);
    tracing_subscriber::fmt().with_max_level(level).with_writer(std::io::stderr).init();
}

/// The address behind `--bootstrap`, if there is one.
///
/// # Errors
/// When the command line has anything else.
pub fn bootstrap() -> Result<Option<String>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => Ok(None),
        ["--bootstrap", address] => Ok(Some(address.to_string())),
        _ => {
            let message = "the only option is --bootstrap HOST:PORT";
            Err(Error::new(ErrorKind::InvalidConfig, message))
        }
    }
}

/// Settings of the examples: exactly once, and quick commits to see something happen. The state is where the next run finds it.
pub fn config(application: &str, bootstrap: &str) -> StreamsConfig {
    StreamsConfig::new(application, bootstrap)
        .exactly_once()
        .commit_interval(Duration::from_millis(100))
        .state_dir(std::env::temp_dir().join("kstreams-examples"))
}

/// A directory for the state of a run on the embedded broker: it ends with the run, as the broker does.
///
/// # Errors
/// When it cannot be made.
pub fn scratch() -> Result<tempfile::TempDir> {
    tempfile::tempdir().map_err(|error| {
        Error::new(ErrorKind::State, "cannot make a temporary directory").with_source(error)
    })
}

/// Prints rows under a title.
///
/// # Errors
/// When standard output cannot be written.
pub fn show<K: Display, V: Display>(
    title: &str,
    rows: impl IntoIterator<Item = (K, V)>,
) -> Result<()> {
    let mut out = std::io::stdout().lock();
    let print = || {
        writeln!(out, "{title}:")?;
        rows.into_iter().try_for_each(|(key, value)| writeln!(out, "  {key}  {value}"))
    };
    match print() {
        // A reader that has seen enough is no error.
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Error::new(ErrorKind::InvalidState, "cannot write the output").with_source(error))
        }
        _ => Ok(()),
    }
}

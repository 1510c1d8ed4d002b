//! Real Kafka brokers: one for a run of tests, which goes away with it, and brokers that people start and stop.
//!
//! The broker of a test run has a guard: a small process that waits for the end of a pipe which only xtask holds open.
//! However xtask ends (normally, by Ctrl-C, by kill -9), the pipe ends, and the guard stops the broker by its id and
//! removes its folder.

use crate::args::Args;
use crate::{java, process, workspace};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

/// Where tests find the broker.
pub(crate) const BOOTSTRAP: &str = "KSTREAMS_TEST_BOOTSTRAP";

/// The version that everything is compared with.
pub(crate) const KAFKA: &str = "4.4.0";

/// A broker may lose its port to another program between our look and its start.
const ATTEMPTS: u32 = 3;

/// The script finds a free one.
const ANY_PORT: u16 = 0;

/// The broker that tests use.
pub(crate) enum TestBroker {
    /// One that was there already: it stays.
    Given(String),
    /// One of ours.
    Started(Started),
}

/// A broker that ends with us.
pub(crate) struct Started {
    bootstrap: String,
    dir: PathBuf,
    guard: Child,
}

impl TestBroker {
    /// The broker that the environment names, or else a new one on a free port.
    pub(crate) fn take_or_start() -> Result<TestBroker, String> {
        match std::env::var(BOOTSTRAP) {
            Ok(bootstrap) if !bootstrap.trim().is_empty() => Ok(TestBroker::Given(bootstrap)),
            _ => Started::new(KAFKA).map(TestBroker::Started),
        }
    }

    /// A new one of this version, on a free port.
    pub(crate) fn start(version: &str) -> Result<TestBroker, String> {
        Started::new(version).map(TestBroker::Started)
    }

    /// `host:port` of it.
    pub(crate) fn bootstrap(&self) -> &str {
        match self {
            TestBroker::Given(bootstrap) => bootstrap,
            TestBroker::Started(started) => &started.bootstrap,
        }
    }

    /// Copies the broker's log to a place that stays, to look at after a failure.
    pub(crate) fn keep_log(&self) -> Option<PathBuf> {
        let TestBroker::Started(started) = self else { return None };
        let kept = workspace::target().join("test-broker.log");
        std::fs::copy(started.dir.join("broker.log"), &kept).ok()?;
        Some(kept)
    }

    /// Stops it if it is ours, and waits until it is gone.
    pub(crate) fn stop(self) -> Result<(), String> {
        match self {
            TestBroker::Given(_) => Ok(()),
            TestBroker::Started(mut started) => started.stop(),
        }
    }
}

impl Started {
    fn new(version: &str) -> Result<Started, String> {
        java::check()?;
        let mut why = String::new();
        for attempt in 0..ATTEMPTS {
            let process = std::process::id();
            let name = format!("kstreams-test-{process}-{version}-{attempt}");
            let dir = std::env::temp_dir().join(name);
            match start(&dir, ANY_PORT, 1, version) {
                Ok(bootstrap) => {
                    let guard = guard(&dir)?;
                    return Ok(Started { bootstrap, dir, guard });
                }
                Err(failed) => why = failed,
            }
            eprintln!("the broker did not start: once more, on another port");
            let _ = std::fs::remove_dir_all(&dir);
        }
        Err(format!("no Kafka broker could be started: {why}"))
    }

    fn stop(&mut self) -> Result<(), String> {
        // The end of its input is the guard's sign.
        drop(self.guard.stdin.take());
        let status =
            self.guard.wait().map_err(|why| format!("the broker's guard is lost: {why}"))?;
        if status.success() {
            Ok(())
        } else {
            Err(format!("the broker did not end: look for {} in `ps ax`", self.dir.display()))
        }
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        // After `stop` both of these are known already and cost nothing.
        drop(self.guard.stdin.take());
        let _ = self.guard.wait();
    }
}

fn guard(dir: &Path) -> Result<Child, String> {
    let mut command = java::run(["broker", "guard"]);
    command.arg(dir).arg("remove").stdin(Stdio::piped()).stdout(Stdio::null()).process_group(0);
    command.spawn().map_err(|why| format!("the broker's guard cannot be started: {why}"))
}

fn start(dir: &Path, port: u16, brokers: u16, version: &str) -> Result<String, String> {
    let mut command = java::run(["broker", "start"]);
    command.env(java::VERSION, version).arg(dir).arg(port.to_string()).arg(brokers.to_string());
    Ok(process::output(command)?.trim().to_owned())
}

/// `cargo xtask broker start|stop`: for people, who want one that stays.
pub(crate) fn command(mut args: Args) -> Result<(), String> {
    let port: u16 = args.value("--port")?.unwrap_or(9092);
    let brokers: u16 = args.value("--brokers")?.unwrap_or(1);
    let version: String = args.value("--kafka")?.unwrap_or_else(|| KAFKA.to_owned());
    let default = workspace::target().join("brokers").join(port.to_string());
    let dir = args.value::<PathBuf>("--dir")?.unwrap_or(default);
    let words = args.names()?;
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["start"] => {
            std::fs::create_dir_all(&dir).map_err(|why| format!("{}: {why}", dir.display()))?;
            let bootstrap = start(&dir, port, brokers, &version)?;
            eprintln!(
                "Kafka {version} listens on {bootstrap}; its data and log are in {}",
                dir.display()
            );
            Ok(())
        }
        ["stop"] if !dir.is_dir() => {
            Err(format!("no broker was started in {}: name its --port or --dir", dir.display()))
        }
        ["stop"] => {
            let mut command = java::run(["broker", "stop"]);
            command.arg(&dir);
            process::succeed(command, "the broker did not end")
        }
        _ => Err("say `cargo xtask broker start` or `cargo xtask broker stop`".to_owned()),
    }
}

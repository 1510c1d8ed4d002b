//! Applications of the tests: in this process, and in child processes that can be killed.

use crate::kafka::{Kafka, PATIENCE, unique};
use kstreams::prelude::*;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// Settings for tests: short commits, and no record cache, so that each record has its result.
pub(super) fn config(application: &str, bootstrap: &str, state: &Path) -> StreamsConfig {
    StreamsConfig::new(application, bootstrap)
        .commit_interval(Duration::from_millis(100))
        .cache_max_bytes(0)
        .state_dir(state)
}

/// Starts an application and waits until it runs. `KSTREAMS_TEST_LOG` shows what it logs.
pub(super) fn start(topology: Topology, config: StreamsConfig) -> KafkaStreams {
    if std::env::var_os("KSTREAMS_TEST_LOG").is_some() {
        let _ = tracing_subscriber::fmt().with_ansi(false).with_writer(std::io::stderr).try_init();
    }
    let app = KafkaStreams::start(topology, config).expect("starts");
    let state = app.wait_for(PATIENCE, |state| state == State::Running || state.is_terminal());
    assert_eq!(state, State::Running, "{:?}", app.close(PATIENCE));
    app
}

/// Applications in a process of their own; its log is read line by line.
pub(super) struct AppProcess {
    child: Child,
    log: Arc<(Mutex<Vec<String>>, Condvar)>,
}

const CHILD: &str = "broker::app::the_counting_process";

/// An application that counts in several processes, each with a state directory of its own.
pub(super) struct Counting {
    bootstrap: String,
    application: String,
    pub(super) input: String,
    pub(super) output: String,
    /// `at_least_once`, or `exactly_once_v2`: then without a record cache, so that each record has its result.
    guarantee: &'static str,
    dir: tempfile::TempDir,
}

/// What a child process logs is for [`AppProcess`] to read.
pub(super) fn log_to_parent() {
    tracing_subscriber::fmt().with_ansi(false).with_writer(std::io::stdout).init();
}

/// Not a test: the program of the child processes, which run it by name.
#[test]
#[ignore = "run by other tests as a process of its own"]
fn the_counting_process() {
    log_to_parent();
    let var = |name: &str| std::env::var(name).expect(name);
    let config = config(&var("APP"), &var("BOOTSTRAP"), Path::new(&var("STATE")));
    let config = config.stream_threads(2);
    let config = match var("GUARANTEE").as_str() {
        "exactly_once_v2" => config.exactly_once(),
        _ => config.cache_max_bytes(10 << 20),
    };
    let topology = super::counts(&var("INPUT"), &var("OUTPUT"));
    let app = KafkaStreams::start(topology, config).expect("starts");
    app.run_until_signal().expect("no error");
}

impl Counting {
    /// One with new topics.
    pub(super) fn new(kafka: &mut Kafka, partitions: i32, guarantee: &'static str) -> Self {
        Counting {
            bootstrap: kafka.bootstrap.clone(),
            application: unique("counting"),
            input: kafka.topic("in", partitions),
            output: kafka.topic("out", partitions),
            guarantee,
            dir: tempfile::tempdir().expect("a directory"),
        }
    }

    /// Starts a process, with the state that the last one of this name left.
    pub(super) fn start(&self, name: &str) -> AppProcess {
        let state = self.dir.path().join(name);
        let state = state.to_str().expect("a path that is text");
        AppProcess::spawn(
            CHILD,
            &[
                ("BOOTSTRAP", self.bootstrap.as_str()),
                ("APP", self.application.as_str()),
                ("INPUT", self.input.as_str()),
                ("OUTPUT", self.output.as_str()),
                ("STATE", state),
                ("GUARANTEE", self.guarantee),
            ],
        )
    }
}

impl AppProcess {
    /// Starts a process that runs an ignored test as its program.
    pub(super) fn spawn(test: &str, environment: &[(&str, &str)]) -> Self {
        let program = std::env::current_exe().expect("this program");
        let mut child = Command::new(program)
            .args([test, "--exact", "--ignored", "--nocapture", "--test-threads=1"])
            .envs(environment.iter().copied())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process");
        let log = Arc::<(Mutex<Vec<String>>, Condvar)>::default();
        let (out, lines) = (child.stdout.take().expect("its output"), log.clone());
        std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                lines.0.lock().expect("the log").push(line);
                lines.1.notify_all();
            }
            lines.1.notify_all();
        });
        AppProcess { child, log }
    }

    /// Waits until the log is as `enough` wants it.
    pub(super) fn wait_log(&self, what: &str, enough: impl Fn(&[String]) -> bool) {
        let log = self.log.0.lock().expect("the log");
        let (log, waited) =
            self.log.1.wait_timeout_while(log, PATIENCE, |log| !enough(log)).expect("the log");
        assert!(!waited.timed_out(), "no {what} after {PATIENCE:?}:\n{}", log.join("\n"));
    }

    pub(super) fn log(&self) -> Vec<String> {
        self.log.0.lock().expect("the log").clone()
    }

    /// Sends the process a signal, such as `-STOP`.
    pub(super) fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args([signal, &pid]).status().expect("kill");
        assert!(sent.success(), "kill {signal} {pid}");
    }

    /// Stops the process cleanly, as an operator would, and waits for its end.
    pub(super) fn stop(mut self) {
        self.signal("-TERM");
        assert!(self.end().success(), "{}", self.log().join("\n"));
    }

    /// Waits for its end.
    pub(super) fn end(&mut self) -> ExitStatus {
        self.child.wait().expect("its end")
    }

    /// Kills the process as a crash would; gives its log.
    pub(super) fn kill(mut self) -> Vec<String> {
        self.child.kill().expect("killed");
        self.child.wait().expect("its end");
        self.log()
    }
}

impl Drop for AppProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

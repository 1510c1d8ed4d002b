//! Brokers of a test's own, to stop, kill and start.

use crate::programs::{java, run};
use std::path::Path;
use std::process::Command;

/// A broker of this test's own.
pub(super) struct OwnBroker {
    dir: tempfile::TempDir,
    port: String,
}

fn broker(args: &[&str], settings: &str) -> String {
    let args: Vec<&str> = ["broker"].into_iter().chain(args.iter().copied()).collect();
    let mut command = java(&args);
    command.env("KAFKA_EXTRA", settings);
    String::from_utf8(run(command, b"")).expect("text").trim().to_string()
}

/// Kafka's own values for what `tests/java/run` shortens.
const DEFAULTS: &str = "\
transaction.abort.timed.out.transaction.cleanup.interval.ms=10000
group.streams.initial.rebalance.delay.ms=3000
group.streams.min.session.timeout.ms=45000
group.streams.session.timeout.ms=45000
group.streams.min.heartbeat.interval.ms=5000
group.streams.heartbeat.interval.ms=5000
group.streams.assignment.interval.ms=1000";

fn text(path: &Path) -> &str {
    path.to_str().expect("a path that is text")
}

impl OwnBroker {
    pub(super) fn start() -> Self {
        OwnBroker::with("")
    }

    /// One with Kafka's default sessions, heartbeats and sweeps.
    pub(super) fn with_defaults() -> Self {
        OwnBroker::with(DEFAULTS)
    }

    fn with(settings: &str) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let address = broker(&["start", text(dir.path()), "0"], settings);
        let port = address.rsplit(':').next().expect("a port").to_string();
        OwnBroker { dir, port }
    }

    pub(super) fn bootstrap(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub(super) fn stop(&self) {
        broker(&["stop", text(self.dir.path())], "");
    }

    pub(super) fn restart(&self) {
        self.stop();
        broker(&["start", text(self.dir.path()), &self.port], "");
    }
}

impl Drop for OwnBroker {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Three brokers of this test's own.
pub(super) struct OwnCluster {
    dir: tempfile::TempDir,
    pub(super) bootstrap: String,
}

impl OwnCluster {
    pub(super) fn start() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let bootstrap = broker(&["start", text(dir.path()), "0", "3"], "");
        OwnCluster { dir, bootstrap }
    }

    /// Ends a broker as a crash would.
    pub(super) fn kill(&self, node: u32) {
        let pid = self.dir.path().join(format!("node-{node}/pid"));
        let pid = std::fs::read_to_string(pid).expect("its process");
        let killed = Command::new("kill").args(["-9", pid.trim()]).status().expect("kill");
        assert!(killed.success(), "kill -9 {pid}");
    }

    pub(super) fn start_node(&self, node: u32) {
        broker(&["start-node", text(self.dir.path()), &node.to_string()], "");
    }
}

impl Drop for OwnCluster {
    fn drop(&mut self) {
        broker(&["stop", text(self.dir.path())], "");
    }
}

//! Brokers of a test's own, to stop, kill and start. They end with the test however it ends.

use crate::{java, text_of};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// One broker of Apache Kafka 4.4, or several.
#[derive(Debug)]
pub struct Brokers {
    dir: TempDir,
    count: u32,
    bootstrap: String,
    settings: String,
    /// Stops the brokers once its input ends.
    guard: Child,
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path that is text")
}

impl Brokers {
    /// Starts `count` brokers with further settings of the server, one a line.
    #[must_use]
    pub fn start(count: u32, settings: &str) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let mut guard = java(&["broker", "guard", text(dir.path()), "remove"]);
        let guard = guard.stdin(Stdio::piped()).spawn().expect("a guard");
        let (bootstrap, settings) = (String::new(), settings.to_owned());
        let mut brokers = Brokers { dir, count, bootstrap, settings, guard };
        brokers.bootstrap = brokers.control(&["start"], &["0", &count.to_string()]);
        brokers
    }

    /// `host:port` of each broker, with commas.
    #[must_use]
    pub fn bootstrap(&self) -> &str {
        &self.bootstrap
    }

    /// Ends all brokers well.
    pub fn stop(&self) {
        self.control(&["stop"], &[]);
    }

    /// Ends all brokers well and starts them again, where they were.
    pub fn restart(&self) {
        self.stop();
        let first = self.bootstrap.split(',').next().unwrap_or_default();
        let port = first.rsplit(':').next().unwrap_or_default();
        self.control(&["start"], &[port, &self.count.to_string()]);
    }

    /// Ends a broker, numbered from 1, as a crash would, and waits until it is gone: it keeps its port until then.
    pub fn kill(&self, node: u32) {
        let file = self.node(node).join("pid");
        let process = std::fs::read_to_string(file).expect("its process");
        let process = process.trim();
        let killed = Command::new("kill").args(["-9", process]).status().expect("kill");
        assert!(killed.success(), "kill -9 {process}");
        let gone = format!("--pid={process}");
        Command::new("tail").args([&gone, "-f", "/dev/null"]).status().expect("tail");
    }

    /// Starts one of several brokers again.
    pub fn bring_back(&self, node: u32) {
        self.control(&["start-node"], &[&node.to_string()]);
    }

    fn node(&self, node: u32) -> PathBuf {
        match self.count {
            1 => self.dir.path().to_path_buf(),
            _ => self.dir.path().join(format!("node-{node}")),
        }
    }

    fn control(&self, action: &[&str], more: &[&str]) -> String {
        let args = [&["broker"], action, &[text(self.dir.path())], more].concat();
        let mut command = java(&args);
        command.env("KAFKA_EXTRA", &self.settings);
        text_of(command).trim().to_owned()
    }
}

impl Drop for Brokers {
    fn drop(&mut self) {
        drop(self.guard.stdin.take());
        let _ = self.guard.wait();
    }
}

//! A broker of a test's own, to stop and start.

use crate::programs::{java, run};
use std::path::Path;

/// A broker of this test's own.
pub(super) struct OwnBroker {
    dir: tempfile::TempDir,
    port: String,
}

fn broker(args: &[&str]) -> String {
    let args: Vec<&str> = ["broker"].into_iter().chain(args.iter().copied()).collect();
    String::from_utf8(run(java(&args), b"")).expect("text").trim().to_string()
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path that is text")
}

impl OwnBroker {
    pub(super) fn start() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let address = broker(&["start", text(dir.path()), "0"]);
        let port = address.rsplit(':').next().expect("a port").to_string();
        OwnBroker { dir, port }
    }

    pub(super) fn bootstrap(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub(super) fn stop(&self) {
        broker(&["stop", text(self.dir.path())]);
    }

    pub(super) fn restart(&self) {
        self.stop();
        broker(&["start", text(self.dir.path()), &self.port]);
    }
}

impl Drop for OwnBroker {
    fn drop(&mut self) {
        self.stop();
    }
}

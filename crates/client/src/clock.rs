//! The clock that the driver's thread reads. Everything else is told the time.

use crate::types::Now;
use std::fmt::Debug;
use std::time::Instant;

/// A clock that never goes back.
pub trait Clock: Debug + Send + Sync {
    /// Time since the clock's start.
    fn now(&self) -> Now;
}

/// The real clock.
#[derive(Debug, Clone)]
pub struct SystemClock {
    start: Instant,
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl SystemClock {
    /// A clock that starts now.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "this is the real clock")]
    pub fn new() -> Self {
        Self { start: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Now {
        self.start.elapsed()
    }
}

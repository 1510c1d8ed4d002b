//! Where the broker's time comes from: the machine's clock, or one that a test moves by hand.

use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Tells the time in milliseconds since the Unix epoch; must never go back.
pub trait Clock: Send + Sync + fmt::Debug {
    /// Milliseconds since the Unix epoch.
    fn now_ms(&self) -> i64;
}

/// The machine's wall clock at the start, moved on by its monotonic clock.
#[derive(Debug)]
pub struct SystemClock {
    started: Instant,
    epoch_ms: i64,
}

impl SystemClock {
    /// A clock that agrees with the machine's wall clock now.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "this is the real clock that others are given")]
    pub fn new() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let epoch_ms = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
        Self { started: Instant::now(), epoch_ms }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now_ms(&self) -> i64 {
        let passed = i64::try_from(self.started.elapsed().as_millis()).unwrap_or(i64::MAX);
        self.epoch_ms.saturating_add(passed)
    }
}

/// A clock that stands still until it is told to move.
#[derive(Debug, Default)]
pub struct ManualClock {
    now_ms: AtomicI64,
}

impl ManualClock {
    /// A clock that shows `now_ms`, in milliseconds since the Unix epoch.
    #[must_use]
    pub fn new(now_ms: i64) -> Self {
        Self { now_ms: AtomicI64::new(now_ms) }
    }

    /// Moves the clock on by `by_ms` milliseconds; nothing happens in the broker before its next
    /// request or [`Broker::tick`](crate::Broker::tick).
    pub fn advance(&self, by_ms: u32) {
        self.now_ms.fetch_add(i64::from(by_ms), Ordering::SeqCst);
    }

    /// Sets the clock, if `now_ms` is not in its past.
    pub fn set(&self, now_ms: i64) {
        self.now_ms.fetch_max(now_ms, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now_ms(&self) -> i64 {
        self.now_ms.load(Ordering::SeqCst)
    }
}

//! The two clocks of a stream thread: one that never goes back, and the wall's.

use kstreams_client::Clock as _;
use std::fmt::Debug;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What the clocks show, read once a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Now {
    /// Since the start of the clock.
    pub(crate) monotonic: Duration,
    /// Milliseconds since the epoch.
    pub(crate) wall: i64,
}

/// Tells the time to stream threads.
pub(crate) trait Clock: Debug + Send + Sync {
    fn now(&self) -> Now;
}

/// The real clocks.
#[derive(Debug, Default)]
pub(crate) struct SystemClock(kstreams_client::SystemClock);

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the real clock")]
    fn now(&self) -> Now {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Now { monotonic: self.0.now(), wall: wall.as_millis() as i64 }
    }
}

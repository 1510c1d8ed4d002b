//! Short names of spans of time.

use std::time::Duration;

/// So many milliseconds.
pub const fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// So many seconds.
pub const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// So many minutes.
pub const fn minutes(count: u64) -> Duration {
    Duration::from_secs(count.saturating_mul(60))
}

/// So many hours.
pub const fn hours(count: u64) -> Duration {
    Duration::from_secs(count.saturating_mul(60 * 60))
}

/// So many days of 24 hours.
pub const fn days(count: u64) -> Duration {
    Duration::from_secs(count.saturating_mul(24 * 60 * 60))
}

/// The whole milliseconds; more than there are is for ever.
pub(in crate::dsl) fn ms(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

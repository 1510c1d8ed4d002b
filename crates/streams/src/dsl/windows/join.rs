//! How far apart in time two records may be to join.

use super::ms;
use std::time::Duration;

/// The span around a record of the left stream in which records of the right one join it, both ends included.
///
/// ```
/// use kstreams::prelude::*;
///
/// let around = JoinWindows::of(minutes(5)).grace(minutes(1));
/// let only_after = JoinWindows::of(minutes(5)).before(millis(0));
/// let from_one_to_two_minutes_after = JoinWindows::between(60_000, 120_000);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JoinWindows {
    /// How long before the left record, in milliseconds.
    pub(in crate::dsl) before: i64,
    pub(in crate::dsl) after: i64,
    pub(in crate::dsl) grace: i64,
}

impl JoinWindows {
    /// Up to that long before and after, without grace.
    pub fn of(difference: Duration) -> Self {
        JoinWindows { before: ms(difference), after: ms(difference), grace: 0 }
    }

    /// From `from` to `to` milliseconds after the left record; negative is before it.
    pub fn between(from: i64, to: i64) -> Self {
        JoinWindows { before: from.saturating_neg(), after: to, grace: 0 }
    }

    /// How long before the left record.
    #[must_use]
    pub fn before(self, before: Duration) -> Self {
        JoinWindows { before: ms(before), ..self }
    }

    /// How long after the left record.
    #[must_use]
    pub fn after(self, after: Duration) -> Self {
        JoinWindows { after: ms(after), ..self }
    }

    /// How long records may be late, in stream time.
    #[must_use]
    pub fn grace(self, grace: Duration) -> Self {
        JoinWindows { grace: ms(grace), ..self }
    }

    /// From end to end.
    pub(in crate::dsl) fn size(self) -> i64 {
        self.before.saturating_add(self.after)
    }

    pub(in crate::dsl) fn mistake(self) -> Option<String> {
        (self.size() < 0).then(|| "a join window cannot end before it begins".into())
    }
}

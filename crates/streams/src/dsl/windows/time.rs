//! Tumbling and hopping windows.

use super::{Windows, ms};
use crate::windowed::Window;
use std::time::Duration;

/// Windows of a fixed size, each beginning a fixed time after the one before. They begin at the epoch; the end does not belong to
/// them. Tumbling, unless [`TimeWindows::advance_by`] makes them overlap.
///
/// ```
/// use kstreams::prelude::*;
///
/// let tumbling = TimeWindows::of(minutes(5)).grace(seconds(30));
/// let hopping = TimeWindows::of(minutes(5)).advance_by(minutes(1));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeWindows {
    size: i64,
    advance: i64,
    grace: i64,
}

impl TimeWindows {
    /// Windows of that size, one after the other, without grace.
    pub fn of(size: Duration) -> Self {
        TimeWindows { size: ms(size), advance: ms(size), grace: 0 }
    }

    /// Begins a window every `advance`: more than zero, and not more than the size.
    #[must_use]
    pub fn advance_by(self, advance: Duration) -> Self {
        TimeWindows { advance: ms(advance), ..self }
    }

    /// How long after its end a window still takes records, in stream time.
    #[must_use]
    pub fn grace(self, grace: Duration) -> Self {
        TimeWindows { grace: ms(grace), ..self }
    }
}

impl Windows for TimeWindows {
    fn windows_for(&self, timestamp: i64, windows: &mut Vec<Window>) {
        // A window that would end after the end of time is none.
        let first = timestamp.saturating_sub(self.size).saturating_add(self.advance).max(0);
        let mut start = first / self.advance * self.advance;
        while start <= timestamp
            && let Some(end) = start.checked_add(self.size)
        {
            windows.push(Window::new(start, end));
            start = start.saturating_add(self.advance);
        }
    }

    fn size(&self) -> i64 {
        self.size
    }

    fn grace(&self) -> i64 {
        self.grace
    }

    fn mistake(&self) -> Option<String> {
        if self.size == 0 {
            return Some("a window has to last at least a millisecond".into());
        }
        (self.advance == 0 || self.advance > self.size).then(|| {
            format!(
                "windows of {} ms cannot advance by {} ms: it has to be more than zero and not more than the size",
                self.size, self.advance
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(windows: TimeWindows, timestamp: i64, expected: &str) {
        let mut found = Vec::new();
        windows.windows_for(timestamp, &mut found);
        let text: Vec<String> =
            found.iter().map(|Window { start, end }| format!("{start}/{end}")).collect();
        assert_eq!(text.join(" "), expected, "{windows:?} at {timestamp}");
    }

    fn of(size: u64) -> TimeWindows {
        TimeWindows::of(Duration::from_millis(size))
    }

    #[test]
    fn p18_p35_windows_begin_at_the_epoch() {
        check(of(10), 0, "0/10");
        check(of(10), 9, "0/10");
        check(of(10), 10, "10/20");
        let hour = of(3_600_000);
        check(hour, 39_599_999, "36000000/39600000");
        check(hour, 39_600_000, "39600000/43200000");
        let hopping = of(10).advance_by(Duration::from_millis(3));
        check(hopping, 1, "0/10");
        check(hopping, 5, "0/10 3/13");
        check(hopping, 12, "3/13 6/16 9/19 12/22");
    }

    #[test]
    fn p30_a_window_that_would_end_after_the_end_of_time_is_none() {
        check(of(10), i64::MAX - 5, "");
        check(of(10), i64::MAX, "");
        check(of(10), i64::MAX - 10, "9223372036854775790/9223372036854775800");
    }

    #[test]
    fn what_cannot_be_is_said() {
        assert!(of(0).mistake().is_some_and(|text| text.contains("at least a millisecond")));
        let advance = |by| of(10).advance_by(Duration::from_millis(by)).mistake();
        assert!(advance(0).is_some_and(|text| text.contains("cannot advance by 0 ms")));
        assert!(advance(11).is_some_and(|text| text.contains("cannot advance by 11 ms")));
        assert_eq!(advance(10), None);
    }
}

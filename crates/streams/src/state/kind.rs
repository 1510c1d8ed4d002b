//! The kinds of stores, and what follows from a kind: how it is logged, how long it keeps, how its time is cut into segments.

use std::time::Duration;

/// Java's persistent stores drop whole segments, and none is shorter than this.
const SEGMENT_MIN: i64 = 60_000;

/// What a store keeps. Times are in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StoreKind {
    /// A value a key.
    KeyValue,
    /// A value a key and window start; with `duplicates` as many as are put, and none is ever replaced.
    Window { retention: i64, size: i64, duplicates: bool },
    /// A value a key and session.
    Session { retention: i64 },
    /// The values of a key over time.
    Versioned { history: i64, segment: i64 },
    /// Changes that wait, a change a key, by time.
    ChangeBuffer,
    /// Lists of what waits for the other side of a stream-stream join, by time, side and key.
    JoinList,
}

impl StoreKind {
    /// A versioned store with Java's default segments.
    pub(crate) fn versioned(history: i64) -> Self {
        const SECOND: i64 = 1_000;
        const MINUTE: i64 = 60 * SECOND;
        let segment = if history <= MINUTE {
            (history / 3).max(2 * SECOND)
        } else if history <= 5 * MINUTE {
            (history / 5).max(20 * SECOND)
        } else if history <= 60 * MINUTE {
            (history / 12).max(MINUTE)
        } else {
            (history / 24).max(5 * MINUTE)
        };
        StoreKind::Versioned { history, segment }
    }

    /// How long a window or session is kept after its time.
    pub(crate) fn retention(self) -> Option<i64> {
        match self {
            StoreKind::Window { retention, .. } | StoreKind::Session { retention } => {
                Some(retention)
            }
            _ => None,
        }
    }

    /// The length of the windows; 0 for other kinds.
    pub(super) fn window_size(self) -> i64 {
        match self {
            StoreKind::Window { size, .. } => size,
            _ => 0,
        }
    }

    /// What is wrong with it, if something is.
    pub(crate) fn mistake(self) -> Option<String> {
        match self {
            StoreKind::Window { retention, size, .. } if retention < size => Some(format!(
                "it keeps windows of {size} ms for {retention} ms only: the retention has to be as long as a window"
            )),
            _ => None,
        }
    }

    /// Whether it may forward its changes at commit only.
    pub(super) fn may_cache(self) -> bool {
        match self {
            StoreKind::KeyValue | StoreKind::Session { .. } => true,
            StoreKind::Window { duplicates, .. } => !duplicates,
            StoreKind::Versioned { .. } | StoreKind::ChangeBuffer | StoreKind::JoinList => false,
        }
    }
}

/// The length of Java's segments for a retention.
pub(super) fn segment_interval(retention: i64) -> i64 {
    (retention / 2).max(SEGMENT_MIN)
}

/// Milliseconds; what has no end is the largest number.
pub(super) fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_as_long_as_javas() {
        let versioned = |history| match StoreKind::versioned(history) {
            StoreKind::Versioned { segment, .. } => segment,
            other => panic!("{other:?}"),
        };
        let history = [0, 3_000, 60_000, 60_001, 300_000, 300_001, 3_600_000, 3_600_001];
        let expected = [2_000, 2_000, 20_000, 20_000, 60_000, 60_000, 300_000, 300_000];
        assert_eq!(history.map(versioned), expected);
        assert_eq!(versioned(86_400_000), 3_600_000);
        assert_eq!([10, 120_002].map(segment_interval), [60_000, 60_001]);
        assert_eq!(millis(Duration::MAX), i64::MAX);
    }
}

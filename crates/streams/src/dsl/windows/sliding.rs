//! Windows that slide with the records.

use super::ms;
use std::time::Duration;

/// Windows around each record: the records of a window are at most `difference` apart, both ends belong to it. There is a window
/// wherever its content differs from that of its neighbours.
///
/// ```
/// use kstreams::prelude::*;
///
/// let builder = StreamsBuilder::new();
/// let logins = builder.stream("failed-logins", Consumed::<String, String>::new());
/// logins
///     .group_by_key(Grouped::new())
///     .windowed_by(SlidingWindows::of(minutes(10)).grace(seconds(30)))
///     .count(Materialized::named("failed-logins-10m"))
///     .to_stream();
/// builder.build()?;
/// # Ok::<(), kstreams::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlidingWindows {
    pub(in crate::dsl) difference: i64,
    pub(in crate::dsl) grace: i64,
}

impl SlidingWindows {
    /// Records up to that far apart, without grace.
    pub fn of(difference: Duration) -> Self {
        SlidingWindows { difference: ms(difference), grace: 0 }
    }

    /// How long after its end a window still takes records, in stream time.
    #[must_use]
    pub fn grace(self, grace: Duration) -> Self {
        SlidingWindows { grace: ms(grace), ..self }
    }

    pub(in crate::dsl) fn mistake(self) -> Option<String> {
        const MAX: i64 = i64::MAX / 4;
        (self.difference > MAX || self.grace > MAX)
            .then(|| "sliding windows cannot be that long".into())
    }
}

//! Sessions: windows that grow with activity.

use super::ms;
use crate::dsl::plan::WindowClosing;
use std::time::Duration;

/// A session of a key lasts as long as its records are at most `gap` apart. It begins with its first record and ends with its last.
///
/// ```
/// use kstreams::prelude::*;
///
/// let builder = StreamsBuilder::new();
/// let clicks = builder.stream("clicks", Consumed::<String, String>::new());
/// clicks
///     .group_by_key(Grouped::new())
///     .windowed_by(SessionWindows::of(minutes(30)).grace(minutes(5)))
///     .count(Materialized::named("clicks-per-visit"))
///     .to_stream();
/// builder.build()?;
/// # Ok::<(), kstreams::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionWindows {
    pub(in crate::dsl) gap: i64,
    pub(in crate::dsl) grace: i64,
}

impl SessionWindows {
    /// Sessions with that gap of inactivity between them, without grace.
    pub fn of(gap: Duration) -> Self {
        SessionWindows { gap: ms(gap), grace: 0 }
    }

    /// How long after the gap behind its end a session still takes records, in stream time.
    #[must_use]
    pub fn grace(self, grace: Duration) -> Self {
        SessionWindows { grace: ms(grace), ..self }
    }

    /// How long a session can change after its end.
    pub(in crate::dsl) fn kept(self) -> i64 {
        self.gap.saturating_add(self.grace)
    }

    pub(in crate::dsl) fn closing(self) -> WindowClosing {
        WindowClosing { grace: self.kept(), with_end: true }
    }

    pub(in crate::dsl) fn mistake(self) -> Option<String> {
        (self.gap == 0).then(|| "the gap between sessions has to be more than zero".into())
    }
}

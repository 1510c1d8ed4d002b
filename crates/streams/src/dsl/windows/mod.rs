//! Windows: pure arithmetic of time. All times are in milliseconds since the epoch, and windows begin at the epoch whenever the
//! application was started.

mod duration;
mod join;
mod session;
mod sliding;
mod time;
mod unlimited;

pub(super) use self::duration::ms;
pub use self::duration::{days, hours, millis, minutes, seconds};
pub use self::join::JoinWindows;
pub use self::session::SessionWindows;
pub use self::sliding::SlidingWindows;
pub use self::time::TimeWindows;
pub use self::unlimited::UnlimitedWindows;

use crate::windowed::Window;
use std::fmt::Debug;

/// Windows with boundaries that do not depend on the records: tumbling, hopping, unlimited, and a user's own.
///
/// ```
/// use kstreams::dsl::Windows;
/// use kstreams::prelude::*;
///
/// /// A window a day that begins at six in the morning.
/// #[derive(Debug)]
/// struct WorkingDays;
///
/// const DAY: i64 = 24 * 60 * 60 * 1000;
/// const SIX: i64 = 6 * 60 * 60 * 1000;
///
/// impl Windows for WorkingDays {
///     fn windows_for(&self, timestamp: i64, windows: &mut Vec<Window>) {
///         let start = (timestamp - SIX).div_euclid(DAY) * DAY + SIX;
///         windows.push(Window::new(start.max(0), start + DAY));
///     }
///     fn size(&self) -> i64 {
///         DAY
///     }
///     fn grace(&self) -> i64 {
///         0
///     }
/// }
///
/// let builder = StreamsBuilder::new();
/// let visits = builder.stream("visits", Consumed::<String, String>::new());
/// let visits = visits.group_by_key(Grouped::new()).windowed_by(WorkingDays);
/// visits.count(Materialized::named("visits")).to_stream();
/// builder.build()?;
/// # Ok::<(), kstreams::Error>(())
/// ```
pub trait Windows: Debug + Send + Sync + 'static {
    /// Appends the windows that a record of that time is in, the earliest first.
    fn windows_for(&self, timestamp: i64, windows: &mut Vec<Window>);

    /// The size of a window in milliseconds.
    fn size(&self) -> i64;

    /// How long after its end a window still takes records, in milliseconds of stream time.
    fn grace(&self) -> i64;

    /// What is wrong with these windows, if anything; `build()` then fails with it.
    fn mistake(&self) -> Option<String> {
        None
    }
}

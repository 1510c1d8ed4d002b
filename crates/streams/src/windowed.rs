//! Keys of windowed tables: a key and the window that it was seen in.
//!
//! There are two types, since their bytes differ and a time window needs its size to be read (`serde/windowed.rs`).

use std::fmt;

/// A span of time in milliseconds since the epoch. Whether its end belongs to it, its kind says: a time window ends just before
/// it, a session and a sliding window with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Window {
    /// The first millisecond.
    pub start: i64,
    /// The end.
    pub end: i64,
}

impl Window {
    /// From `start` to `end`, both in milliseconds since the epoch.
    pub const fn new(start: i64, end: i64) -> Self {
        Window { start, end }
    }
}

/// A key in a time window: tumbling, hopping, sliding or unlimited.
///
/// ```
/// use kstreams::prelude::*;
///
/// let hour = TimeWindowed { key: "berlin", window: Window::new(0, 3_600_000) };
/// assert_eq!(hour.to_string(), "[berlin@0/3600000]");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimeWindowed<K> {
    /// The key.
    pub key: K,
    /// The window.
    pub window: Window,
}

/// A key in a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionWindowed<K> {
    /// The key.
    pub key: K,
    /// From the first to the last record of the session, both inclusive.
    pub window: Window,
}

/// A key that has a window: [`TimeWindowed`] or [`SessionWindowed`].
pub trait WindowedKey {
    /// The window.
    fn window(&self) -> Window;
}

impl<K> WindowedKey for TimeWindowed<K> {
    fn window(&self) -> Window {
        self.window
    }
}

impl<K> WindowedKey for SessionWindowed<K> {
    fn window(&self) -> Window {
        self.window
    }
}

/// As Kafka Streams prints it: `[key@start/end]`.
impl<K: fmt::Display> fmt::Display for TimeWindowed<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}@{}/{}]", self.key, self.window.start, self.window.end)
    }
}

/// As Kafka Streams prints it: `[key@start/end]`.
impl<K: fmt::Display> fmt::Display for SessionWindowed<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}@{}/{}]", self.key, self.window.start, self.window.end)
    }
}

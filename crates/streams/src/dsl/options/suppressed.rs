//! How changes of a table are kept back.

use crate::operators::{BufferTime, WhenFull};
use crate::windowed::WindowedKey;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

/// Marks [`Suppressed`] that may let changes go early.
#[derive(Debug)]
pub struct Eager;

/// Marks [`Suppressed`] that never lets a change go early.
#[derive(Debug)]
pub struct Strict;

/// Options of `suppress`. Without a bound the buffer grows as it needs; it is in memory, with a changelog
/// `<application.id>-<name>-store-changelog`.
pub struct Suppressed<K, M> {
    pub(crate) name: Option<String>,
    /// None: until the window is closed.
    pub(crate) wait: Option<Duration>,
    pub(crate) time: BufferTime<K>,
    pub(crate) records_max: u64,
    pub(crate) bytes_max: u64,
    pub(crate) when_full: WhenFull,
    pub(crate) logging: Option<BTreeMap<String, String>>,
    mode: PhantomData<fn() -> M>,
}

impl<K> Suppressed<K, Eager> {
    /// Sends a key's changes on at most once in `wait` of stream time: the last one.
    pub fn until_time_limit(wait: Duration) -> Self {
        Suppressed::new(Some(wait), Arc::new(|_, timestamp| timestamp), WhenFull::Emit)
    }
}

impl<K: WindowedKey> Suppressed<K, Strict> {
    /// Sends one result a window, when it is closed: its end and the grace period have passed. Deletions are left out. The grace is
    /// that of the windows before; if the buffer is bounded and full, the application stops.
    pub fn until_window_closes() -> Self {
        Suppressed::new(None, Arc::new(|key: &K, _| key.window().end), WhenFull::ShutDown)
    }
}

impl<K> Suppressed<K, Eager> {
    /// Stops the application when the buffer is full; by default the first changes leave it early.
    #[must_use]
    pub fn shut_down_when_full(mut self) -> Self {
        self.when_full = WhenFull::ShutDown;
        self
    }
}

impl<K, M> Suppressed<K, M> {
    fn new(wait: Option<Duration>, time: BufferTime<K>, when_full: WhenFull) -> Self {
        Suppressed {
            name: None,
            wait,
            time,
            records_max: u64::MAX,
            bytes_max: u64::MAX,
            when_full,
            logging: Some(BTreeMap::new()),
            mode: PhantomData,
        }
    }

    /// The name of the operator; the buffer is called `<name>-store`.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// The buffer has at most so many changes.
    #[must_use]
    pub fn max_records(mut self, records: u64) -> Self {
        self.records_max = records;
        self
    }

    /// The buffer takes at most so many bytes, as Java estimates them.
    #[must_use]
    pub fn max_bytes(mut self, bytes: u64) -> Self {
        self.bytes_max = bytes;
        self
    }

    /// Without a changelog: what waits is lost when the task moves.
    #[must_use]
    pub fn logging_disabled(mut self) -> Self {
        self.logging = None;
        self
    }

    /// A further setting of the changelog topic.
    #[must_use]
    pub fn changelog_setting(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.logging.get_or_insert_default().insert(key.into(), value.into());
        self
    }
}

impl<K, M> fmt::Debug for Suppressed<K, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Suppressed").field("name", &self.name).field("wait", &self.wait).finish()
    }
}

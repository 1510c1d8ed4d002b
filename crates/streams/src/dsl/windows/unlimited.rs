//! One window without an end.

use super::Windows;
use crate::windowed::Window;

/// One window from a start to the end of time; what is earlier is in none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UnlimitedWindows {
    start: i64,
}

impl UnlimitedWindows {
    /// From the epoch.
    pub fn new() -> Self {
        UnlimitedWindows::default()
    }

    /// From that time on, in milliseconds since the epoch.
    #[must_use]
    pub fn start_on(self, start: i64) -> Self {
        UnlimitedWindows { start }
    }
}

impl Windows for UnlimitedWindows {
    fn windows_for(&self, timestamp: i64, windows: &mut Vec<Window>) {
        if timestamp >= self.start {
            windows.push(Window::new(self.start, i64::MAX));
        }
    }

    fn size(&self) -> i64 {
        i64::MAX
    }

    fn grace(&self) -> i64 {
        0
    }

    fn mistake(&self) -> Option<String> {
        (self.start < 0).then(|| "an unlimited window cannot begin before the epoch".into())
    }
}

//! How far each input partition is: where fetching began, what the broker has, and what the read-ahead still holds.

use kstreams_client::{Credit, Fetched};
use std::collections::VecDeque;

/// One input partition of a running task.
#[derive(Debug, Default)]
pub(super) struct InputPosition {
    /// The offset behind the last record that the broker had, when we last heard.
    end: Option<i64>,
    /// Where what comes next begins; not known before the position is.
    next: Option<i64>,
    /// Shares of the read-ahead budget, each with the position at which its records are used up.
    credits: VecDeque<(i64, Credit)>,
}

impl InputPosition {
    pub(super) fn set_end(&mut self, end: i64) {
        self.end = Some(self.end.unwrap_or(end).max(end));
    }

    /// Reading begins there; what was fetched elsewhere is of no use any more.
    pub(super) fn start_at(&mut self, offset: i64) {
        self.next = Some(offset);
    }

    /// Notes what was fetched, unless it was for an earlier reading of the partition.
    pub(super) fn accepts(&mut self, fetched: &Fetched) -> bool {
        if self.next != Some(fetched.position) {
            return false;
        }
        self.next = Some(fetched.next_offset);
        self.end = Some(fetched.last_stable_offset.max(fetched.next_offset));
        true
    }

    pub(super) fn hold(&mut self, next_offset: i64, credit: Credit) {
        self.credits.push_back((next_offset, credit));
    }

    /// Gives back the budget of everything before `position`.
    pub(super) fn release(&mut self, position: i64) {
        while self.credits.front().is_some_and(|(end, _)| *end <= position) {
            self.credits.pop_front();
        }
    }

    /// Whether the broker has nothing that we do not have.
    pub(super) fn is_caught_up(&self, position: i64) -> bool {
        self.end.is_some_and(|end| position >= end)
    }
}

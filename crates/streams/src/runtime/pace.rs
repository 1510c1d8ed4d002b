//! How many records a turn may process, and how many a transaction: turns stay short when records are slow, and transactions end
//! in time.
//!
//! Both are learnt from what happened, with the one clock reading a turn has: a turn that took long halves the next ones, a quick
//! one doubles them. A transaction that could not be committed is tried again with an eighth of its records, at last with one;
//! each commit that succeeds doubles that, until the commit interval alone decides again.

use super::clock::Now;
use std::time::Duration;

/// Records that a task may process before the thread looks around, at most.
const RECORDS_A_TURN: usize = 1000;
/// A turn that takes longer is too long: commits, closing and other tasks wait.
pub(super) const LONG: Duration = Duration::from_millis(100);
/// A turn that takes less could do more.
const SHORT: Duration = Duration::from_millis(10);
/// Above this a transaction is bounded by the commit interval only.
const UNBOUNDED: usize = 8 * RECORDS_A_TURN;

pub(super) struct Pace {
    turn: usize,
    /// When the last turn began, if it processed something and the thread went on at once.
    began: Option<Duration>,
    transaction: Option<usize>,
    /// Records since the last commit that succeeded.
    uncommitted: usize,
}

impl Pace {
    pub(super) fn new() -> Self {
        Pace { turn: RECORDS_A_TURN, began: None, transaction: None, uncommitted: 0 }
    }

    /// A turn begins.
    pub(super) fn begin_turn(&mut self, now: Now) {
        if let Some(began) = self.began.take() {
            match now.monotonic.saturating_sub(began) {
                took if took > LONG => self.turn = (self.turn / 2).max(1),
                took if took < SHORT => self.turn = (self.turn * 2).min(RECORDS_A_TURN),
                _ => {}
            }
        }
    }

    /// What the next task may process.
    pub(super) fn allowance(&self) -> usize {
        let left =
            self.transaction.map_or(usize::MAX, |most| most.saturating_sub(self.uncommitted));
        self.turn.min(left)
    }

    /// A task has processed `records` in the turn that began at `now`.
    pub(super) fn processed(&mut self, records: usize, now: Now) {
        if records > 0 {
            self.began = Some(now.monotonic);
            self.uncommitted += records;
        }
    }

    /// Whether the transaction holds as many records as it may.
    pub(super) fn is_exhausted(&self) -> bool {
        self.transaction.is_some_and(|most| self.uncommitted >= most)
    }

    pub(super) fn committed(&mut self) {
        self.uncommitted = 0;
        self.transaction = self.transaction.map(|most| most * 2).filter(|most| *most < UNBOUNDED);
    }

    /// The transaction could not be committed: its records come again, fewer at a time.
    pub(super) fn shrink(&mut self) {
        let tried = self.transaction.map_or(self.uncommitted, |most| most.min(self.uncommitted));
        self.transaction = Some((tried / 8).max(1));
    }

    /// Whether no smaller transaction can be tried.
    pub(super) fn is_smallest(&self) -> bool {
        self.uncommitted <= 1
    }

    /// The records since the last commit are given up.
    pub(super) fn discard(&mut self) {
        self.uncommitted = 0;
        self.began = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Now {
        Now { monotonic: Duration::from_millis(ms), wall: 0 }
    }

    #[test]
    fn slow_records_make_turns_short_and_quick_ones_long_again() {
        let mut pace = Pace::new();
        let mut turns = Vec::new();
        let mut time = 0;
        for took in [5, 150, 50, 150, 150, 5, 5, 5, 5] {
            pace.begin_turn(at(time));
            turns.push(pace.allowance());
            pace.processed(1, at(time));
            time += took;
        }
        assert_eq!(turns, [1000, 1000, 500, 500, 250, 125, 250, 500, 1000]);
        // Sleeping between turns says nothing about their length.
        pace.begin_turn(at(time));
        pace.begin_turn(at(time + 10_000));
        assert_eq!(pace.allowance(), 1000);
    }

    #[test]
    fn a_transaction_that_failed_comes_again_in_small_ones() {
        let mut pace = Pace::new();
        pace.processed(100, at(0));
        assert!(!pace.is_exhausted());
        pace.shrink();
        pace.discard();
        assert_eq!(pace.allowance(), 12);
        pace.processed(12, at(0));
        assert!(pace.is_exhausted());
        pace.shrink();
        pace.discard();
        assert_eq!(pace.allowance(), 1);
        let mut sizes = Vec::new();
        while pace.transaction.is_some() {
            sizes.push(pace.allowance());
            pace.processed(pace.allowance(), at(0));
            pace.committed();
        }
        assert_eq!(sizes, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000, 1000, 1000]);
    }
}

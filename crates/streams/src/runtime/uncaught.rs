//! What becomes of a stream thread that failed: the application's answer, and how often a thread is replaced.

use crate::error::Error;
use crate::record::RecordMetadata;
use std::collections::VecDeque;
use std::time::Duration;

/// What [`KafkaStreamsBuilder::on_uncaught`](super::KafkaStreamsBuilder::on_uncaught) decides about a stream thread that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ThreadResponse {
    /// A new thread takes the place of the failed one: it joins the group as a new member and goes on from the last commit, after a
    /// pause that doubles each time (`retry.backoff.ms` at first, 5 s at most). After eight in a row the error is final and the client
    /// shuts down. A thread that ran for ten minutes, or that failed at a record at which none has failed before, ends the row.
    ReplaceThread,
    /// The whole instance stops; its state is [`State::Error`](super::State::Error) then.
    #[default]
    ShutdownClient,
    /// All instances of the application stop.
    ShutdownApplication,
}

/// Decides about errors that no other handler has dealt with.
pub(super) type UncaughtHandler = Box<dyn Fn(&Error) -> ThreadResponse + Send + Sync>;

/// So many replacements in a row are tried.
const REPLACEMENTS: u32 = 8;
/// A thread that ran for so long ends the row.
const GOOD_RUN: Duration = Duration::from_secs(600);
/// So many records at which threads failed are remembered: with less, records that fail in turns would look like progress.
const PLACES: usize = 64;
/// The longest pause before a new thread.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// The replacements of one thread.
pub(super) struct Replacements {
    backoff: Duration,
    in_a_row: u32,
    places: VecDeque<RecordMetadata>,
}

impl Replacements {
    pub(super) fn new(backoff: Duration) -> Self {
        Replacements { backoff, in_a_row: 0, places: VecDeque::new() }
    }

    /// How long to wait before the next thread begins, when the last one ran for `ran` and failed at `place`, if that is known;
    /// `None` if it is no use any more.
    pub(super) fn next(
        &mut self,
        ran: Duration,
        place: Option<RecordMetadata>,
    ) -> Option<Duration> {
        let is_progress = place.is_some_and(|place| self.is_new(place));
        if ran >= GOOD_RUN || is_progress {
            self.in_a_row = 0;
        }
        if self.in_a_row == REPLACEMENTS {
            return None;
        }
        let pause = self.backoff * 2u32.saturating_pow(self.in_a_row);
        self.in_a_row += 1;
        Some(pause.min(LONGEST_PAUSE))
    }

    fn is_new(&mut self, place: RecordMetadata) -> bool {
        if self.places.contains(&place) {
            return false;
        }
        if self.places.len() == PLACES {
            self.places.pop_front();
        }
        self.places.push_back(place);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replacements_slow_down_and_end() {
        let mut replacements = Replacements::new(Duration::from_millis(100));
        let pauses: Vec<Option<u128>> = (0..9)
            .map(|_| Some(replacements.next(Duration::from_secs(1), None)?.as_millis()))
            .collect();
        let expected = [100, 200, 400, 800, 1600, 3200, 5000, 5000].map(Some);
        assert_eq!(pauses[..8], expected);
        assert_eq!(pauses[8], None);
        assert_eq!(replacements.next(GOOD_RUN, None), Some(Duration::from_millis(100)));
    }

    #[test]
    fn a_thread_that_gets_further_is_replaced_for_ever_and_one_that_does_not_is_not() {
        let at = |offset| Some(RecordMetadata { topic: "in".into(), partition: 0, offset });
        let second = Duration::from_secs(1);
        let mut replacements = Replacements::new(Duration::from_millis(100));
        for offset in 0..1000 {
            let pause = replacements.next(second, at(offset));
            assert_eq!(pause, Some(Duration::from_millis(100)));
        }
        // Two records in turns.
        let tries = (0..).take_while(|n| replacements.next(second, at(2000 + n % 2)).is_some());
        assert_eq!(tries.count(), 9);
    }
}

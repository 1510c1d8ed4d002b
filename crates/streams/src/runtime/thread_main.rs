//! The OS thread of a stream thread: turns and sleeps, and another stream thread in place of one that failed.

use super::clock::Clock;
use super::lifecycle::ThreadState;
use super::shared::Shared;
use super::thread::{StreamThread, ThreadParts, Turn};
use super::uncaught::{Replacements, ThreadResponse};
use crate::error::{Error, ErrorKind, Result};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

/// What an OS thread runs.
pub(super) struct ThreadMain<'a> {
    /// Its number among the threads of the process.
    pub(super) index: usize,
    pub(super) shared: &'a Shared,
    pub(super) clock: &'a dyn Clock,
    /// Makes the parts of another stream thread.
    pub(super) renew: &'a dyn Fn() -> Result<ThreadParts>,
}

impl ThreadMain<'_> {
    /// Runs stream threads until one is asked to close, or fails and is not replaced; reports each change of their state.
    pub(super) fn run(&self, mut parts: ThreadParts) {
        let mut replacements = Replacements::new(parts.settings.wire.retry_backoff);
        loop {
            let began = self.clock.now().monotonic;
            let mut thread = StreamThread::new(parts, self.clock.now());
            let turns = AssertUnwindSafe(|| self.turn_until_closed(&mut thread));
            // User code is guarded where it is called; this is for faults of our own, which must not pass in silence.
            let result = catch_unwind(turns).unwrap_or_else(|_| {
                let message = "the stream thread panicked: please report it";
                Err(Error::new(ErrorKind::Processing, message))
            });
            let Err(error) = result else {
                return self.shared.thread_state(self.index, thread.state());
            };
            tracing::error!("stream thread failed: {error}");
            let response = self.response_to(&error);
            let ran = self.clock.now().monotonic.saturating_sub(began);
            let pause = match response {
                ThreadResponse::ReplaceThread => replacements.next(ran, thread.failed_at()),
                _ => None,
            };
            let Some(pause) = pause else {
                return self.fail(thread, error, response);
            };
            match self.replace(thread, pause) {
                Ok(Some(next)) => parts = next,
                Ok(None) => return self.shared.thread_state(self.index, ThreadState::Dead),
                Err(error) => {
                    self.shared.thread_failed(error);
                    return self.shared.thread_state(self.index, ThreadState::Dead);
                }
            }
        }
    }

    fn turn_until_closed(&self, thread: &mut StreamThread) -> Result<()> {
        loop {
            let now = self.clock.now();
            if self.shared.is_closing() {
                thread.request_close(now);
            }
            let turn = thread.run_once(now)?;
            self.shared.thread_state(self.index, thread.state());
            match turn {
                Turn::Again => {}
                Turn::Wait(timeout) => thread.wait(timeout),
                Turn::Finished => return Ok(()),
            }
        }
    }

    fn response_to(&self, error: &Error) -> ThreadResponse {
        // That the application shall stop is not the thread's error.
        match self.shared.is_closing() || error.kind() == ErrorKind::InvalidState {
            true => ThreadResponse::ShutdownClient,
            false => self.shared.response_to(error),
        }
    }

    /// The error is final.
    fn fail(&self, mut thread: StreamThread, error: Error, response: ThreadResponse) {
        self.shared.thread_failed(error);
        thread.abandon(response == ThreadResponse::ShutdownApplication);
        self.shared.thread_state(self.index, thread.state());
    }

    /// The parts of the next thread after a pause; `None` if the application shall close meanwhile.
    fn replace(&self, mut thread: StreamThread, pause: Duration) -> Result<Option<ThreadParts>> {
        tracing::warn!(thread = self.index + 1, ?pause, "the stream thread is replaced");
        self.shared.thread_state(self.index, ThreadState::Starting);
        thread.abandon(false);
        drop(thread);
        if self.shared.pause(pause) {
            return Ok(None);
        }
        let parts = (self.renew)()?;
        self.shared.replace_thread(self.index, parts.client.waker());
        Ok(Some(parts))
    }
}

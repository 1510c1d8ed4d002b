//! A result that the driver gives later.

use crate::error::ClientError;
use crate::mailbox::Waker;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// A result that is on its way. The stream thread looks with [`Self::try_take`] after each
/// [`wait`](crate::Client::wait), which a result ends; tools and tests wait with [`Self::wait`].
#[must_use = "the result comes later"]
pub struct Pending<T> {
    slot: Arc<Slot<T>>,
}

struct Slot<T> {
    state: Mutex<State<T>>,
    filled: Condvar,
}

enum State<T> {
    Waiting,
    Ready(Result<T, ClientError>),
    Taken,
}

impl<T> fmt::Debug for Pending<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pending").field("done", &self.is_done()).finish()
    }
}

impl<T> Pending<T> {
    /// A result to come, and the other end that gives it and then wakes `waker`.
    pub(crate) fn new(waker: Waker) -> (Self, Completer<T>) {
        let slot = Arc::new(Slot { state: Mutex::new(State::Waiting), filled: Condvar::new() });
        (Self { slot: slot.clone() }, Completer { slot, waker, given: false })
    }

    /// A result that is there already.
    pub fn ready(result: Result<T, ClientError>) -> Self {
        let state = Mutex::new(State::Ready(result));
        Self { slot: Arc::new(Slot { state, filled: Condvar::new() }) }
    }

    /// Whether the result is there (or was taken).
    #[must_use]
    pub fn is_done(&self) -> bool {
        !matches!(*self.lock(), State::Waiting)
    }

    /// The result if it is there; once taken, it is gone.
    pub fn try_take(&mut self) -> Option<Result<T, ClientError>> {
        let mut state = self.lock();
        match &*state {
            State::Ready(_) => match std::mem::replace(&mut *state, State::Taken) {
                State::Ready(result) => Some(result),
                State::Waiting | State::Taken => None,
            },
            State::Waiting | State::Taken => None,
        }
    }

    /// Blocks until the result is there, at most `timeout`. Not for a stream thread, and not where
    /// the same thread steps the driver.
    ///
    /// # Errors
    /// The operation's own error, or a retriable one when the time is over.
    pub fn wait(mut self, timeout: Duration) -> Result<T, ClientError> {
        let state = self.lock();
        let waited =
            self.slot.filled.wait_timeout_while(state, timeout, |s| matches!(s, State::Waiting));
        drop(waited);
        self.try_take().unwrap_or_else(|| {
            Err(ClientError::retriable(format!("no result after {} ms", timeout.as_millis())))
        })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State<T>> {
        self.slot.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The driver's end of a [`Pending`]. Dropped without a result, it gives "the client is closed".
pub(crate) struct Completer<T> {
    slot: Arc<Slot<T>>,
    waker: Waker,
    given: bool,
}

impl<T> fmt::Debug for Completer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Completer")
    }
}

impl<T> Completer<T> {
    pub(crate) fn complete(mut self, result: Result<T, ClientError>) {
        self.give(result);
    }

    fn give(&mut self, result: Result<T, ClientError>) {
        self.given = true;
        *self.slot.state.lock().unwrap_or_else(PoisonError::into_inner) = State::Ready(result);
        self.slot.filled.notify_all();
        self.waker.wake();
    }
}

impl<T> Drop for Completer<T> {
    fn drop(&mut self) {
        if !self.given {
            self.give(Err(ClientError::closed()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use crate::mailbox::Mailbox;

    #[test]
    fn a_result_is_taken_once() {
        let (mut pending, completer) = Pending::new(Mailbox::<()>::new().waker());
        assert!(pending.try_take().is_none() && !pending.is_done());
        completer.complete(Ok(5));
        assert!(pending.is_done());
        assert_eq!(pending.try_take(), Some(Ok(5)));
        assert!(pending.try_take().is_none() && pending.is_done());
    }

    #[test]
    fn a_lost_driver_is_an_error() {
        let (mut pending, completer) = Pending::<()>::new(Mailbox::<()>::new().waker());
        drop(completer);
        assert_eq!(pending.try_take().unwrap().unwrap_err().kind(), ErrorKind::Closed);
    }

    #[test]
    fn waiting_ends_with_the_time() {
        let (pending, _completer) = Pending::<()>::new(Mailbox::<()>::new().waker());
        assert!(pending.wait(Duration::from_millis(1)).unwrap_err().is_retriable());
    }
}

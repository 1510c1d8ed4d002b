//! The answers of one connection on their way from the node to its front.
//!
//! The node puts answers in while it is locked, so they keep its order; the front takes them out
//! (a TCP thread waits here, a memory connection looks) and is woken after the node is free again.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

/// One thing for the front to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outgoing {
    /// Write this frame; the request is done.
    Answer(Bytes),
    /// The request is done and has no answer (acks = 0, or an answer lost on purpose).
    Nothing,
    /// Close the connection.
    Close,
}

type Wake = Arc<dyn Fn() + Send + Sync>;

#[derive(Default)]
struct Held {
    outgoing: VecDeque<Outgoing>,
    wake: Option<Wake>,
}

/// The answers that wait for one connection's front.
#[derive(Default)]
pub(crate) struct Mailbox {
    held: Mutex<Held>,
    filled: Condvar,
}

impl fmt::Debug for Mailbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mailbox").field("waiting", &self.held().outgoing.len()).finish()
    }
}

impl Mailbox {
    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn put(&self, outgoing: Outgoing) {
        self.held().outgoing.push_back(outgoing);
        self.filled.notify_all();
    }

    /// The next thing to do, if there is one.
    pub(crate) fn take(&self) -> Option<Outgoing> {
        self.held().outgoing.pop_front()
    }

    /// The next thing to do; blocks until there is one.
    pub(crate) fn wait(&self) -> Outgoing {
        let mut held = self.held();
        loop {
            if let Some(outgoing) = held.outgoing.pop_front() {
                return outgoing;
            }
            held = self.filled.wait(held).unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub(crate) fn set_wake(&self, wake: Wake) {
        self.held().wake = Some(wake);
    }

    /// Calls what the front asked to be called; never with the node locked.
    pub(crate) fn wake(&self) {
        let wake = self.held().wake.clone();
        if let Some(wake) = wake {
            wake();
        }
    }
}

//! How the two threads of a member hand things to each other: a queue with somebody to wake.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Wakes the thread that waits in [`Client::wait`](crate::Client::wait); a wake-up that comes
/// before the wait ends the wait.
#[derive(Clone)]
pub struct Waker {
    bell: Arc<Bell>,
}

impl fmt::Debug for Waker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Waker")
    }
}

impl Waker {
    /// Wakes it.
    pub fn wake(&self) {
        *lock(&self.bell.rung) = true;
        self.bell.sound.notify_all();
    }
}

struct Bell {
    rung: Mutex<bool>,
    sound: Condvar,
}

/// A queue from one thread to another.
pub(crate) struct Mailbox<T> {
    queue: Mutex<VecDeque<T>>,
    bell: Arc<Bell>,
}

impl<T> fmt::Debug for Mailbox<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mailbox").field("waiting", &lock(&self.queue).len()).finish()
    }
}

impl<T> Mailbox<T> {
    pub(crate) fn new() -> Self {
        let bell = Arc::new(Bell { rung: Mutex::new(false), sound: Condvar::new() });
        Self { queue: Mutex::new(VecDeque::new()), bell }
    }

    /// Adds `item`; gives whether the queue was empty before, so that a wake-up is due.
    pub(crate) fn push(&self, item: T) -> bool {
        let mut queue = lock(&self.queue);
        queue.push_back(item);
        queue.len() == 1
    }

    /// Moves all items to `into`.
    pub(crate) fn drain(&self, into: &mut VecDeque<T>) {
        into.append(&mut lock(&self.queue));
    }

    pub(crate) fn waker(&self) -> Waker {
        Waker { bell: self.bell.clone() }
    }

    /// Blocks until somebody wakes, at most `timeout`.
    pub(crate) fn wait(&self, timeout: Duration) {
        let rung = lock(&self.bell.rung);
        let waited = self.bell.sound.wait_timeout_while(rung, timeout, |rung| !*rung);
        *waited.unwrap_or_else(PoisonError::into_inner).0 = false;
    }
}

/// A panic of another thread leaves nothing half done behind our short locks.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

//! What the handle and the threads of an application share: its state, and that it shall close.

use super::lifecycle::{State, ThreadState, of_threads};
use super::uncaught::{ThreadResponse, UncaughtHandler};
use crate::error::Error;
use crate::topology::erased::catch_panic;
use kstreams_client::Waker;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Is told each change of the state: the new one and the one before.
pub(super) type Listener = Box<dyn Fn(State, State) + Send + Sync>;

/// What the handle and the threads share.
pub(super) struct Shared {
    inner: Mutex<Inner>,
    changed: Condvar,
    listener: Option<Listener>,
    uncaught: Option<UncaughtHandler>,
}

struct Inner {
    state: State,
    threads: Vec<ThreadState>,
    closing: bool,
    error: Option<Error>,
    wakers: Vec<Waker>,
    /// Threads that were started and have not ended, with their last words to the listener.
    living: usize,
    /// Changes of the state that the listener was not told yet.
    untold: VecDeque<(State, State)>,
    telling: bool,
}

impl Shared {
    pub(super) fn new(listener: Option<Listener>, uncaught: Option<UncaughtHandler>) -> Self {
        let inner = Inner {
            state: State::Created,
            threads: Vec::new(),
            closing: false,
            error: None,
            wakers: Vec::new(),
            living: 0,
            untold: VecDeque::new(),
            telling: false,
        };
        Shared { inner: Mutex::new(inner), changed: Condvar::new(), listener, uncaught }
    }

    pub(super) fn state(&self) -> State {
        self.lock().state
    }

    /// Waits until the state is `wanted`, at most `timeout`; gives the state at that moment.
    pub(super) fn wait_for(&self, timeout: Duration, wanted: impl Fn(State) -> bool) -> State {
        let waited =
            self.changed.wait_timeout_while(self.lock(), timeout, |inner| !wanted(inner.state));
        waited.unwrap_or_else(PoisonError::into_inner).0.state
    }

    /// The first fatal error, with its causes for who asks first; others get its text.
    pub(super) fn take_error(&self) -> Option<Error> {
        let mut inner = self.lock();
        let error = inner.error.take()?;
        inner.error = Some(Error::new(error.kind(), error.to_string()));
        Some(error)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add_thread(&self, waker: Waker) {
        let mut inner = self.lock();
        inner.threads.push(ThreadState::Starting);
        inner.wakers.push(waker);
    }

    /// Another thread is about to take the place of one.
    pub(super) fn replace_thread(&self, index: usize, waker: Waker) {
        self.lock().wakers[index] = waker;
    }

    /// What shall become of a stream thread that failed. A handler that panics has no say.
    pub(super) fn response_to(&self, error: &Error) -> ThreadResponse {
        let Some(handler) = &self.uncaught else { return ThreadResponse::default() };
        catch_panic(|| handler(error)).unwrap_or_else(|panic| {
            tracing::error!("in the handler of uncaught errors: {panic}");
            ThreadResponse::default()
        })
    }

    /// Waits for `pause`, or until the application shall close; whether it shall.
    pub(super) fn pause(&self, pause: Duration) -> bool {
        let waited = self.changed.wait_timeout_while(self.lock(), pause, |inner| !inner.closing);
        waited.unwrap_or_else(PoisonError::into_inner).0.closing
    }

    /// A thread is about to start; it lives as long as the guard.
    pub(super) fn thread_begins(self: &Arc<Self>) -> Living {
        self.lock().living += 1;
        Living(self.clone())
    }

    /// Waits until all threads have ended; whether they have.
    pub(super) fn wait_ended(&self, timeout: Duration) -> bool {
        let waited =
            self.changed.wait_timeout_while(self.lock(), timeout, |inner| inner.living > 0);
        waited.unwrap_or_else(PoisonError::into_inner).0.living == 0
    }

    pub(super) fn is_closing(&self) -> bool {
        self.lock().closing
    }

    pub(super) fn request_close(&self) {
        self.become_state(State::PendingShutdown);
        let mut inner = self.lock();
        inner.closing = true;
        self.changed.notify_all();
        inner.wakers.iter().for_each(Waker::wake);
        let has_threads = !inner.threads.is_empty();
        drop(inner);
        if !has_threads {
            self.become_state(State::NotRunning);
        }
    }

    /// A thread failed: the whole instance stops.
    pub(super) fn thread_failed(&self, error: Error) {
        self.lock().error.get_or_insert(error);
        self.become_state(State::PendingError);
        let mut inner = self.lock();
        inner.closing = true;
        self.changed.notify_all();
        inner.wakers.iter().for_each(Waker::wake);
    }

    pub(super) fn thread_state(&self, index: usize, state: ThreadState) {
        let next = {
            let mut inner = self.lock();
            if inner.threads[index] == state {
                return;
            }
            inner.threads[index] = state;
            match inner.threads.iter().all(|thread| *thread == ThreadState::Dead) {
                true if inner.state == State::PendingError => Some(State::Error),
                true => Some(State::NotRunning),
                false => of_threads(&inner.threads),
            }
        };
        if let Some(next) = next {
            self.become_state(next);
        }
    }

    pub(super) fn become_state(&self, next: State) {
        let mut inner = self.lock();
        if !inner.state.may_become(next) {
            return;
        }
        let before = std::mem::replace(&mut inner.state, next);
        tracing::info!(from = %before, to = %next, "application");
        inner.untold.push_back((next, before));
        self.changed.notify_all();
        if std::mem::replace(&mut inner.telling, true) {
            return;
        }
        // One thread at a time tells, outside the lock and in order; the listener may use the handle.
        while let Some((next, before)) = inner.untold.pop_front() {
            drop(inner);
            let told =
                self.listener.as_ref().map(|listener| catch_panic(|| listener(next, before)));
            if let Some(Err(panic)) = told {
                tracing::error!(from = %before, to = %next, "in the listener of state changes: {panic}");
            }
            inner = self.lock();
        }
        inner.telling = false;
    }
}

/// A thread of the application. When it is dropped, nothing more is heard of the thread.
pub(super) struct Living(Arc<Shared>);

impl Living {
    pub(super) fn shared(&self) -> &Shared {
        &self.0
    }
}

impl Drop for Living {
    fn drop(&mut self) {
        self.0.lock().living -= 1;
        self.0.changed.notify_all();
    }
}

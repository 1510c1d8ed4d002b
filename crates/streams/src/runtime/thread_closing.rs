//! The end of a stream thread: a last commit, no tasks, no member.

use super::clock::Now;
use super::lifecycle::ThreadState;
use super::thread::{StreamThread, Turn};
use crate::config::Guarantee;
use crate::error::{Error, ErrorKind, Result};
use kstreams_client::Pending;
use std::time::Duration;

/// How long the group has to take notice of a member that leaves; if no broker can be reached, its session ends by itself.
const LEAVE: Duration = Duration::from_secs(5);
/// How long the last commit may take while closing.
const LAST_COMMIT: Duration = Duration::from_secs(20);

/// How far the end is.
pub(super) enum Closing {
    No,
    /// Since then.
    Requested(Duration),
    Leaving(Pending<()>, Duration),
    Left,
}

impl StreamThread {
    /// Asks the thread to commit, close its tasks and leave the group.
    pub(super) fn request_close(&mut self, now: Now) {
        if !self.is_closing() {
            self.closing = Closing::Requested(now.monotonic);
            self.become_state(ThreadState::PendingShutdown);
        }
    }

    /// A last commit does not wait for brokers for ever.
    pub(super) fn check_closing(&self, now: Now) -> Result<()> {
        match self.closing {
            Closing::Requested(since) if now.monotonic - since > LAST_COMMIT => {
                let message = format!(
                    "the brokers did not confirm the last commit within {LAST_COMMIT:?}: \
                     what came after the one before is processed again"
                );
                Err(Error::new(ErrorKind::Timeout, message))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn is_closing(&self) -> bool {
        !matches!(self.closing, Closing::No)
    }

    /// Commits, closes all tasks, leaves the group.
    pub(super) fn close_tasks(&mut self, now: Now) -> Result<Turn> {
        match &mut self.closing {
            Closing::No | Closing::Left => Ok(Turn::Finished),
            Closing::Requested(_) => {
                if self.slots.keys().any(|task| self.needs_commit(*task)) {
                    self.begin_commit(now)?;
                    return Ok(Turn::Again);
                }
                self.drop_tasks();
                let limit = now.monotonic + LEAVE;
                self.closing = Closing::Leaving(self.client.leave(), limit);
                Ok(Turn::Again)
            }
            Closing::Leaving(pending, limit) => {
                if !pending.is_done() && now.monotonic < *limit {
                    return Ok(Turn::Wait(self.settings.poll));
                }
                if let Some(Err(error)) = pending.try_take() {
                    tracing::warn!("cannot leave the group, its session has to end: {error}");
                }
                self.closing = Closing::Left;
                self.become_state(ThreadState::Dead);
                Ok(Turn::Finished)
            }
        }
    }

    /// After a fatal error: tasks are dropped as they are, the group is left.
    pub(super) fn abandon(&mut self) {
        self.drop_tasks();
        if self.settings.guarantee == Guarantee::ExactlyOnce
            && let Err(error) = self.collector.borrow_mut().undo(false).wait(LEAVE)
        {
            tracing::warn!("cannot abort the transaction, its timeout has to end it: {error}");
        }
        self.become_state(ThreadState::PendingShutdown);
        if let Err(error) = self.client.leave().wait(LEAVE) {
            tracing::warn!("cannot leave the group, its session has to end: {error}");
        }
        self.become_state(ThreadState::Dead);
    }
}

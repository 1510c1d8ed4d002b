//! The end of a stream thread: a last commit, no tasks, no member.

use super::clock::Now;
use super::lifecycle::ThreadState;
use super::task_slot::client_error;
use super::thread::{StreamThread, Turn};
use crate::config::Guarantee;
use crate::error::{Error, ErrorKind, Result};
use crate::task::send_dead_letter;
use kstreams_client::{Event, GroupStatusKind, Pending};
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

    /// After a fatal error: tasks are dropped as they are, the group is left. `everywhere`: the other members are asked to stop too.
    pub(super) fn abandon(&mut self, everywhere: bool) {
        self.drop_tasks();
        match self.settings.guarantee {
            Guarantee::ExactlyOnce => {
                if let Err(error) = self.collector.borrow_mut().undo(false).wait(LEAVE) {
                    tracing::warn!(
                        "cannot abort the transaction, its timeout has to end it: {error}"
                    );
                }
            }
            Guarantee::AtLeastOnce => self.leave_dead_letters(),
        }
        if everywhere {
            self.shut_down_application();
        }
        self.become_state(ThreadState::PendingShutdown);
        if let Err(error) = self.client.leave().wait(LEAVE) {
            tracing::warn!("cannot leave the group, its session has to end: {error}");
        }
        self.become_state(ThreadState::Dead);
    }

    /// Writes the dead letters of what ended the thread, as far as the brokers take them in time.
    fn leave_dead_letters(&mut self) {
        let letters = std::mem::take(&mut self.failing.dead_letters);
        if letters.is_empty() {
            return;
        }
        let sent = letters
            .iter()
            .try_for_each(|letter| send_dead_letter(&mut *self.collector.borrow_mut(), letter))
            .and_then(|()| self.learn_topics())
            .and_then(|()| self.collector.borrow_mut().flush().wait(LEAVE).map_err(client_error));
        if let Err(error) = sent {
            tracing::error!("dead letters are lost: {error}");
        }
    }

    /// Records without a partition wait until those of their topic are known.
    fn learn_topics(&mut self) -> Result<()> {
        let since = self.clock.now().monotonic;
        while self.collector.borrow().has_deferred() {
            let now = self.clock.now();
            if now.monotonic - since > LEAVE {
                return Err(Error::new(ErrorKind::Timeout, "their topic is not known"));
            }
            self.send_output(now)?;
            while let Some(event) = self.client.next_event() {
                if let Event::MetadataChanged(changed) = event {
                    for (topic, state) in changed {
                        self.collector.borrow_mut().learn(&topic, state, now.monotonic)?;
                    }
                }
            }
            self.client.wait(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Asks all members of the group to stop, and waits until the group has heard it.
    fn shut_down_application(&mut self) {
        self.client.shut_down_application();
        let since = self.clock.now().monotonic;
        while self.clock.now().monotonic - since < LEAVE {
            while let Some(event) = self.client.next_event() {
                if let Event::GroupStatus(status) = event
                    && status.iter().any(|s| s.kind == GroupStatusKind::ShutdownApplication)
                {
                    return;
                }
            }
            self.client.wait(Duration::from_millis(100));
        }
        tracing::warn!("the group could not be asked to stop");
    }
}

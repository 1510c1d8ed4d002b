//! Back to the last commit, when what came after it cannot be committed.
//!
//! ```text
//! None --(a commit fails)--> Undoing --(aborted, or a new epoch)--> Waiting --(back-off)--> None
//!                               ^  '--(that failed as well)-----------'|
//!                               '--------------------------------------'
//! ```
//! The engines hold the last commit, the group has its offsets. So nothing has to be repaired: the tasks are dropped as they are,
//! what the producer has is aborted, and then the same tasks are opened again, restore what their engines lack (nothing, as a
//! rule) and process the same records again. What failed decides only how the producer starts again:
//!
//! - the transaction can be aborted: it is;
//! - the producer is fenced, as the coordinator gave the transaction up or another one has its id: it asks for a new epoch;
//! - the group does not know the member any more: the same; its next heartbeat says so too, and it joins again without tasks;
//! - the outcome of a commit is not known: there is no such end, the producer asks until a coordinator answers.
//!
//! This ends: when no commit has succeeded for `task.timeout.ms`, the last failure is fatal. Failures that another try cannot
//! change are fatal: no authorization at once, a record that is too large when everything before it is committed
//! ([`super::thread_failure`]).

use super::clock::Now;
use super::task_slot::client_error;
use super::thread::StreamThread;
use crate::config::Guarantee;
use crate::error::Result;
use kstreams_client::{ClientError, ErrorKind as ClientErrorKind, Pending};
use std::time::Duration;

/// The longest pause between two tries.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

pub(super) struct Recovery {
    step: Step,
    /// When the first of the failures in a row happened.
    since: Option<Duration>,
    failures: u32,
}

enum Step {
    None,
    /// The producer aborts or starts anew.
    Undoing(Pending<()>),
    Waiting {
        until: Duration,
        /// Whether the producer has to start anew then.
        init: bool,
    },
}

impl Recovery {
    pub(super) fn new() -> Self {
        Recovery { step: Step::None, since: None, failures: 0 }
    }

    /// Here ends a row of failures: a commit succeeded, or the tasks are others' now, and what failed with them says nothing of
    /// those to come.
    pub(super) fn end_failures(&mut self) {
        self.since = None;
        self.failures = 0;
    }

    fn pause(&self, backoff: Duration) -> Duration {
        (backoff * 2u32.saturating_pow(self.failures.saturating_sub(1))).min(LONGEST_PAUSE)
    }

    /// How long the thread may sleep; results wake it.
    pub(super) fn wait(&self, now: Now) -> Duration {
        match self.step {
            Step::Waiting { until, .. } => until.saturating_sub(now.monotonic),
            _ => Duration::from_millis(100),
        }
    }
}

impl StreamThread {
    /// Goes back to the last commit after `error`, if another try can help.
    pub(super) fn roll_back(&mut self, error: ClientError, now: Now) -> Result<()> {
        if !self.can_be_tried_again(error.kind()) {
            return self.records_refused(error, now);
        }
        self.count_failure(&error, now)?;
        if self.is_closing() {
            let why = "the last commit failed while closing: what came after the one before is processed again";
            return Err(client_error(error).context(why));
        }
        tracing::warn!("a commit failed, the tasks go back to the one before: {error}");
        self.reopen_tasks();
        self.pace.shrink();
        self.undo(error.kind() == ClientErrorKind::ProducerFenced, now);
        Ok(())
    }

    /// Has the tasks that are about to be dropped opened again.
    pub(super) fn reopen_tasks(&mut self) {
        if self.target.is_none() {
            // Should the member be gone, it hears so with its next heartbeat, before they run again.
            let epoch = self.client.group_metadata().map_or(0, |group| group.member_epoch);
            self.target = Some((epoch, self.slots.keys().copied().collect()));
        }
    }

    /// Drops all tasks and what was written since the last commit.
    pub(super) fn undo(&mut self, fenced: bool, now: Now) {
        self.drop_tasks();
        self.pace.discard();
        self.collector.borrow_mut().discard();
        self.recovery.step = match self.settings.guarantee {
            Guarantee::ExactlyOnce => Step::Undoing(self.collector.borrow_mut().undo(fenced)),
            Guarantee::AtLeastOnce => {
                // What the dropped tasks wrote is written again, by whoever has them: coming late it would undo that.
                let producer = self.client.producer(self.producer.clone());
                self.collector.borrow_mut().replace_producer(producer);
                self.pause(false, now)
            }
        };
    }

    /// Whether the producer can be used.
    pub(super) fn advance_recovery(&mut self, now: Now) -> Result<bool> {
        loop {
            let step = std::mem::replace(&mut self.recovery.step, Step::None);
            self.recovery.step = match step {
                Step::None => return Ok(true),
                Step::Undoing(mut pending) => match pending.try_take() {
                    None => {
                        self.recovery.step = Step::Undoing(pending);
                        return Ok(false);
                    }
                    Some(Ok(())) => self.pause(false, now),
                    Some(Err(error)) => {
                        if !self.can_be_tried_again(error.kind()) {
                            return Err(
                                client_error(error).context("going back to the last commit")
                            );
                        }
                        self.count_failure(&error, now)?;
                        self.pause(true, now)
                    }
                },
                Step::Waiting { until, init } if now.monotonic < until => {
                    self.recovery.step = Step::Waiting { until, init };
                    return Ok(false);
                }
                Step::Waiting { init: true, .. } => {
                    Step::Undoing(self.collector.borrow_mut().undo(true))
                }
                Step::Waiting { .. } => Step::None,
            };
        }
    }

    fn pause(&self, init: bool, now: Now) -> Step {
        let pause = self.recovery.pause(self.settings.wire.retry_backoff);
        Step::Waiting { until: now.monotonic + pause, init }
    }

    pub(super) fn count_failure(&mut self, error: &ClientError, now: Now) -> Result<()> {
        let since = *self.recovery.since.get_or_insert(now.monotonic);
        self.recovery.failures += 1;
        if now.monotonic - since < self.settings.task_timeout {
            return Ok(());
        }
        let mut why = format!(
            "no commit has succeeded for task.timeout.ms, in {} tries",
            self.recovery.failures
        );
        if matches!(error.kind(), ClientErrorKind::ProducerFenced | ClientErrorKind::Abortable) {
            why += " with ever smaller transactions; if records take long, transaction.timeout.ms has to be more than the longest of them";
        }
        Err(client_error(error.clone()).context(why))
    }

    fn can_be_tried_again(&self, kind: ClientErrorKind) -> bool {
        match self.settings.guarantee {
            Guarantee::AtLeastOnce => {
                matches!(
                    kind,
                    ClientErrorKind::Retriable
                        | ClientErrorKind::Fenced
                        | ClientErrorKind::StaleMemberEpoch
                )
            }
            Guarantee::ExactlyOnce => !matches!(
                kind,
                ClientErrorKind::Authorization
                    | ClientErrorKind::TooLarge
                    | ClientErrorKind::Invalid
                    | ClientErrorKind::Unsupported
                    | ClientErrorKind::NotFound
                    | ClientErrorKind::Closed
            ),
        }
    }
}

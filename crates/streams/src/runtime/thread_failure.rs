//! A task that fails for good: what comes before the record that fails is committed first.
//!
//! When a record fails, the stores hold a part of what it did, and so may the transaction; neither can be committed, and with
//! them goes everything since the last commit. So the thread goes back to that commit, as after a commit that failed
//! ([`super::recovery`]), and processes again up to the record, which the task *halts* at. That is committed, and only then the
//! error ends the thread: with exactly-once and without, and the failing record is met by user code once.
//!
//! ```text
//! processing --(a record fails)--> back to the last commit --> processing up to the record --> commit --> the error
//! ```
//! If nothing was processed since the last commit there is nothing to save, and the error comes at once. A failure that belongs to
//! no record that is still to come (a flush at a commit, a changelog record that is too large, a record that the brokers refuse) is
//! cornered with ever smaller transactions ([`super::pace`]). When a refused record is alone, the task is told of it, goes back once
//! more, and its sink asks the handler before it writes the record again. A punctuator's failure ends the thread as it is.

use super::clock::Now;
use super::task_slot::client_error;
use super::thread::StreamThread;
use crate::error::{Error, ErrorKind, Result};
use crate::handlers::{DeadLetter, WriteProblem};
use crate::processor::{Refusal, TaskId};
use crate::record::RecordMetadata;
use crate::task::Remains;
use kstreams_client::{ClientError, ErrorKind as ClientErrorKind};

/// How often the thread goes back without a commit in between.
const ROUNDS: u32 = 16;

/// A record that will end the thread when its turn has come.
pub(super) struct Doomed {
    task: TaskId,
    place: RecordMetadata,
    error: Error,
    dead_letters: Vec<DeadLetter>,
}

/// The failures of a thread.
#[derive(Default)]
pub(super) struct Failing {
    doomed: Vec<Doomed>,
    /// What brokers refused of records that are processed again.
    refused: Vec<(TaskId, Refusal)>,
    /// The task that processed a record last.
    pub(super) last: Option<TaskId>,
    rounds: u32,
    /// The record that ended the thread, if it was one.
    at: Option<RecordMetadata>,
    /// Dead letters of what ended the thread.
    pub(super) dead_letters: Vec<DeadLetter>,
}

impl Failing {
    /// A commit succeeded: another row of failures may begin.
    pub(super) fn committed(&mut self) {
        self.rounds = 0;
    }
}

impl StreamThread {
    /// The record that ended the thread, if it was one.
    pub(super) fn failed_at(&mut self) -> Option<RecordMetadata> {
        self.failing.at.take()
    }

    /// A task failed while it processed.
    pub(super) fn task_failed(&mut self, task: TaskId, error: Error, now: Now) -> Result<()> {
        let remains = self.remains(task);
        let (place, dead_letters) = match remains {
            Some(Remains { place: Some(place), dead_letters }) => (place, dead_letters),
            remains => {
                self.failing.dead_letters = letters(remains);
                return Err(error);
            }
        };
        let known = self.failing.doomed.iter().any(|doomed| doomed.task == task);
        if known || !self.may_go_back(&error) {
            self.failing.dead_letters = dead_letters;
            self.failing.at = Some(place);
            return Err(error);
        }
        tracing::warn!("what comes before it is committed first: {error}");
        self.failing.doomed.push(Doomed { task, place, error, dead_letters });
        self.go_back(now);
        Ok(())
    }

    /// A task failed while it wrote what a commit needs: fewer records are tried, at last a single one.
    pub(super) fn flush_failed(&mut self, task: TaskId, error: Error, now: Now) -> Result<()> {
        if self.pace.is_smallest() || !self.may_go_back(&error) {
            self.failing.dead_letters = letters(self.remains(task));
            return Err(error);
        }
        tracing::warn!("what comes before it is committed first, in small transactions: {error}");
        self.pace.shrink();
        self.go_back(now);
        Ok(())
    }

    /// Brokers refused records of a commit, and will do so again.
    pub(super) fn records_refused(&mut self, error: ClientError, now: Now) -> Result<()> {
        let problem = match error.kind() {
            ClientErrorKind::TooLarge => WriteProblem::TooLarge,
            _ => WriteProblem::Refused,
        };
        let of_record =
            matches!(error.kind(), ClientErrorKind::TooLarge | ClientErrorKind::Invalid);
        let topic = error.topic().filter(|_| of_record && !self.is_closing()).cloned();
        let Some(topic) = topic.filter(|_| self.failing.rounds < ROUNDS) else {
            return Err(client_error(error).context("committing"));
        };
        if self.pace.is_smallest() {
            let Some((task, place)) = self.last_record() else {
                return Err(client_error(error).context("committing"));
            };
            let known = self
                .failing
                .refused
                .iter()
                .any(|(_, known)| known.place == place && known.topic == topic);
            match known {
                // The handler wants it written again: time is the bound, not the number of tries.
                true if self.takes_retry(task) => {
                    self.count_failure(&error, now)?;
                    self.failing.rounds = 0;
                }
                // No sink has written it: it went to a changelog, or it is a dead letter.
                true => return Err(client_error(error).context("committing")),
                false => {
                    let message = error.to_string();
                    let refusal = Refusal { place, topic, problem, message };
                    self.failing.refused.push((task, refusal));
                }
            }
        }
        tracing::warn!("the record that the brokers refused is looked for: {error}");
        self.pace.shrink();
        self.go_back(now);
        Ok(())
    }

    /// The record that was processed last.
    fn last_record(&self) -> Option<(TaskId, RecordMetadata)> {
        let task = self.failing.last?;
        let context = self.slots.get(&task)?.running()?.context();
        Some((task, context.metadata()?))
    }

    fn takes_retry(&self, task: TaskId) -> bool {
        let task = self.slots.get(&task).and_then(|slot| slot.running());
        task.is_some_and(|task| task.context().failures.take_retry())
    }

    fn remains(&mut self, task: TaskId) -> Option<Remains> {
        self.slots.get_mut(&task)?.running_mut()?.take_remains()
    }

    /// Whether there is something to save, and a try left.
    fn may_go_back(&self, error: &Error) -> bool {
        // A store that fails may have a part of what came before as well.
        let is_of_record = matches!(error.kind(), ErrorKind::Processing | ErrorKind::BadRecord);
        is_of_record
            && self.slots.keys().any(|task| self.needs_commit(*task))
            && !self.is_closing()
            && self.failing.rounds < ROUNDS
    }

    fn go_back(&mut self, now: Now) {
        self.failing.rounds += 1;
        self.reopen_tasks();
        self.undo(false, now);
    }

    /// Tells tasks what brokers refuse, until it is behind them.
    fn advance_refused(&mut self) {
        let (slots, settled) = (&self.slots, self.target.is_none());
        self.failing.refused.retain(|(task, refusal)| match slots.get(task) {
            None => !settled,
            Some(slot) => slot
                .running()
                .is_none_or(|task| task.needs_commit() || !task.is_behind(&refusal.place)),
        });
        for (id, slot) in slots {
            let of_task = self.failing.refused.iter().filter(|(task, _)| task == id);
            let of_task = of_task.map(|(_, refusal)| refusal.clone()).collect();
            if let Some(task) = slot.running() {
                task.context().failures.refuse(of_task);
            }
        }
    }

    /// Has tasks halt before records that are known to fail, and ends the thread when one is at its record and everything before
    /// it is committed. Whether the tasks may go on.
    pub(super) fn advance_failing(&mut self, now: Now) -> Result<bool> {
        if self.failing.doomed.is_empty() && self.failing.refused.is_empty() {
            return Ok(true);
        }
        self.advance_refused();
        let slots = &mut self.slots;
        let settled = self.target.is_none();
        self.failing.doomed.retain(|doomed| match slots.get(&doomed.task) {
            // A task that is elsewhere by now is somebody else's to fail.
            None => !settled,
            // A handler may think better of it when it is asked again.
            Some(slot) => slot.running().is_none_or(|task| !task.is_behind(&doomed.place)),
        });
        let mut reached = None;
        for (place, doomed) in self.failing.doomed.iter().enumerate() {
            let Some(task) = slots.get_mut(&doomed.task).and_then(|slot| slot.running_mut()) else {
                continue;
            };
            task.halt_at(doomed.place.clone());
            if task.is_halted() {
                reached = Some(place);
            }
        }
        let Some(reached) = reached else { return Ok(true) };
        if self.slots.keys().any(|task| self.needs_commit(*task)) {
            self.begin_commit(now)?;
            return Ok(false);
        }
        let doomed = self.failing.doomed.swap_remove(reached);
        self.failing.dead_letters = doomed.dead_letters;
        self.failing.at = Some(doomed.place);
        Err(doomed.error)
    }
}

fn letters(remains: Option<Remains>) -> Vec<DeadLetter> {
    remains.map_or(Vec::new(), |remains| remains.dead_letters)
}

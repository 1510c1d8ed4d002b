//! Inputs in the order of their times: when a task that has records waits for an input that has none.
//!
//! `max.task.idle.ms` below zero: it never waits. Otherwise it waits for records that the broker is known to have, and, once it
//! knows of none, for those that may come within so long. The thread goes on meanwhile: it polls, serves its other tasks, and stays in
//! the group.

use super::clock::Now;
use super::positions::InputPosition;
use crate::task::{InputPartition, StreamTask};
use kstreams_client::TopicPartition;
use std::collections::BTreeMap;
use std::time::Duration;

/// A wait that lasts so long is logged.
const LONG: Duration = Duration::from_secs(5);

/// Why a task that has records does not process them: one that it does not have yet may be earlier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskWaiting {
    /// The brokers have records of these inputs, topic and partition, that are not fetched yet.
    Fetching(Vec<(String, i32)>),
    /// The brokers have no more of these inputs. It waits for them up to `max.task.idle.ms`.
    Idle {
        /// Topic and partition.
        inputs: Vec<(String, i32)>,
        /// Since when, in milliseconds since the epoch.
        since: i64,
    },
}

/// The waiting of one task.
#[derive(Debug, Default)]
pub(super) struct Idling {
    began: Option<Now>,
    /// When it began to wait for inputs that are known to be empty.
    idle: Option<Now>,
    is_logged: bool,
}

impl Idling {
    /// Whether the task may process although inputs are empty; if not, why.
    pub(super) fn check(
        &mut self,
        task: &StreamTask,
        inputs: &BTreeMap<TopicPartition, InputPosition>,
        most: Option<Duration>,
        now: Now,
    ) -> Result<(), TaskWaiting> {
        let Some(most) = most else { return Ok(()) };
        let is_behind = |input: &dyn InputPartition| {
            let mut books = inputs.iter();
            let books = books.find(|(partition, _)| {
                *partition.topic == **input.topic() && partition.partition == input.partition()
            });
            !books.is_some_and(|(_, books)| books.is_caught_up(input.position().0))
        };
        let is_fetching = task.group().empty_inputs().any(is_behind);
        let idle = match is_fetching {
            true => None,
            false => Some(self.idle.unwrap_or(now)),
        };
        self.idle = idle;
        if idle.is_some_and(|since| now.monotonic - since.monotonic >= most) {
            return Ok(());
        }
        let awaited = task.group().empty_inputs().filter(|input| !is_fetching || is_behind(*input));
        let awaited = awaited.map(|input| (input.topic().to_string(), input.partition())).collect();
        let waiting = match idle {
            None => TaskWaiting::Fetching(awaited),
            Some(since) => TaskWaiting::Idle { inputs: awaited, since: since.wall },
        };
        let began = *self.began.get_or_insert(now);
        if now.monotonic - began.monotonic >= LONG && !self.is_logged {
            self.is_logged = true;
            tracing::info!(task = %task.id(), ?waiting, "a task with records waits for others that may be earlier");
        }
        Err(waiting)
    }

    /// The task processes, or has nothing to process; whether it waited.
    pub(super) fn end(&mut self) -> bool {
        std::mem::take(self).began.is_some()
    }

    /// How long it waits at most, if nothing comes.
    pub(super) fn left(&self, most: Option<Duration>, now: Now) -> Option<Duration> {
        Some(most?.saturating_sub(now.monotonic - self.idle?.monotonic))
    }
}

//! Inputs in the order of their times: when a task that has records waits for an input that has none.
//!
//! `max.task.idle.ms` below zero: it never waits. Otherwise it waits for records that the broker is known to have, and, once it
//! knows of none, for those that may come within so long. The thread goes on meanwhile: it polls, serves its other tasks, and stays in
//! the group.

use super::clock::Now;
use super::positions::InputPosition;
use crate::task::StreamTask;
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
        let behind: Vec<_> = task
            .group()
            .empty_inputs()
            .map(|input| {
                let partition = TopicPartition::new(&**input.topic(), input.partition());
                let books = inputs.get(&partition);
                let is_behind = !books.is_some_and(|books| books.is_caught_up(input.position().0));
                (is_behind, (partition.topic.to_string(), partition.partition))
            })
            .collect();
        let began = *self.began.get_or_insert(now);
        let waiting = match behind.iter().any(|(is_behind, _)| *is_behind) {
            true => {
                self.idle = None;
                let behind = behind.into_iter().filter(|(is_behind, _)| *is_behind);
                TaskWaiting::Fetching(behind.map(|(_, input)| input).collect())
            }
            false => {
                let idle = *self.idle.get_or_insert(now);
                if now.monotonic - idle.monotonic >= most {
                    return Ok(());
                }
                let inputs = behind.into_iter().map(|(_, input)| input).collect();
                TaskWaiting::Idle { inputs, since: idle.wall }
            }
        };
        if now.monotonic - began.monotonic >= LONG && !self.is_logged {
            self.is_logged = true;
            tracing::info!(task = %task.id(), ?waiting, "a task with records waits for others that may be earlier");
        }
        Err(waiting)
    }

    /// The task processes, or has nothing to process; whether it waited.
    pub(super) fn end(&mut self) -> bool {
        let waited = self.began.is_some();
        if waited {
            *self = Idling::default();
        }
        waited
    }

    /// How long it waits at most, if nothing comes.
    pub(super) fn left(&self, most: Option<Duration>, now: Now) -> Option<Duration> {
        Some(most?.saturating_sub(now.monotonic - self.idle?.monotonic))
    }
}

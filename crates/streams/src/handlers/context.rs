//! What handlers are told of a failure.

use super::DeadLetter;
use crate::error::{BoxError, ErrorKind};
use crate::processor::TaskId;
use crate::record::{Headers, RecordMetadata};
use std::error::Error as StdError;

const EXCEPTION: &str = "__streams.errors.exception";
const MESSAGE: &str = "__streams.errors.message";
const STACKTRACE: &str = "__streams.errors.stacktrace";
const TOPIC: &str = "__streams.errors.topic";
const PARTITION: &str = "__streams.errors.partition";
const OFFSET: &str = "__streams.errors.offset";

/// Where something failed, and the source record that led there, as it was on the wire.
#[derive(Debug)]
pub struct ErrorContext<'a> {
    /// The task.
    pub task: TaskId,
    /// The name of the node that failed.
    pub operator: &'a str,
    /// Where the record was read; `None` in a punctuator, where there is no record.
    pub metadata: Option<RecordMetadata>,
    /// The time of the record, or of the punctuation, in milliseconds since the epoch.
    pub timestamp: i64,
    /// The record's headers, as they were on the wire: what user code did with its own ones is not seen here.
    pub headers: &'a Headers,
    /// The key's bytes as they were read. `None` as well where a record cache forwards what an earlier record left in it.
    pub key: Option<&'a [u8]>,
    /// The value's bytes, likewise.
    pub value: Option<&'a [u8]>,
    /// The setting `errors.dead.letter.queue.topic.name`.
    pub(crate) dead_letters: Option<&'a str>,
    /// What kind of failure it is.
    pub(crate) kind: ErrorKind,
}

impl ErrorContext<'_> {
    /// The source record as a dead letter for `errors.dead.letter.queue.topic.name`; `None` if that is not set.
    pub fn dead_letter(&self, error: &BoxError) -> Option<DeadLetter> {
        Some(self.dead_letter_to(self.dead_letters?, error))
    }

    /// The source record as a dead letter for `topic`: key, value, headers and time as they were read, and what happened in the
    /// headers that Java writes: `__streams.errors.exception`, `.message`, `.stacktrace`, `.topic`, `.partition` and `.offset`.
    pub fn dead_letter_to(&self, topic: &str, error: &BoxError) -> DeadLetter {
        let (source, partition, offset) = match &self.metadata {
            Some(place) => (Some(&*place.topic), place.partition, place.offset),
            None => (None, -1, -1),
        };
        let mut headers = self.headers.clone();
        headers.add(EXCEPTION, format!("kstreams::ErrorKind::{:?}", self.kind));
        headers.add(MESSAGE, error.to_string());
        headers.add(STACKTRACE, self.stacktrace(&**error));
        match source {
            Some(topic) => headers.add(TOPIC, topic),
            None => headers.add_null(TOPIC),
        }
        headers.add(PARTITION, partition.to_string());
        headers.add(OFFSET, offset.to_string());
        DeadLetter {
            topic: topic.into(),
            partition: None,
            key: self.key.map(Into::into),
            value: self.value.map(Into::into),
            timestamp: self.timestamp,
            headers,
        }
    }

    /// The error and its causes, a line each, and where it happened.
    fn stacktrace(&self, error: &dyn StdError) -> String {
        let mut text = format!("{:?}: {error}", self.kind);
        let mut cause = error.source();
        while let Some(error) = cause {
            text += &format!("\nCaused by: {error}");
            cause = error.source();
        }
        text + &format!("\n\tat operator {}, task {}\n", self.operator, self.task)
    }
}

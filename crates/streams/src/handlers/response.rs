//! What handlers decide.

use super::DeadLetter;

/// What becomes of a record that could not be read or processed, with the dead letters that are left of it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct HandlerResponse {
    pub(crate) resumes: bool,
    pub(crate) dead_letters: Vec<DeadLetter>,
}

impl HandlerResponse {
    /// Leave the record out and go on.
    pub fn resume() -> Self {
        HandlerResponse { resumes: true, dead_letters: Vec::new() }
    }

    /// Stop: what [`KafkaStreamsBuilder::on_uncaught`](crate::runtime::KafkaStreamsBuilder::on_uncaught) says takes over.
    pub fn fail() -> Self {
        HandlerResponse { resumes: false, dead_letters: Vec::new() }
    }

    /// The same with one or more dead letters. Those of a failure are no part of a transaction that is committed: the record is
    /// not dealt with yet.
    pub fn with_dead_letters(mut self, letters: impl IntoIterator<Item = DeadLetter>) -> Self {
        self.dead_letters.extend(letters);
        self
    }
}

/// What becomes of a record that could not be written, with the dead letters that are left of its source.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct ProductionResponse {
    pub(crate) choice: Choice,
    pub(crate) dead_letters: Vec<DeadLetter>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Choice {
    Resume,
    Fail,
    Retry,
}

impl ProductionResponse {
    /// Leave the record unwritten and go on.
    pub fn resume() -> Self {
        ProductionResponse { choice: Choice::Resume, dead_letters: Vec::new() }
    }

    /// Stop.
    pub fn fail() -> Self {
        ProductionResponse { choice: Choice::Fail, dead_letters: Vec::new() }
    }

    /// Write it again: for what a broker refused and may take soon, a record over the topic's `max.message.bytes` for instance, while
    /// somebody raises that. It is tried for `task.timeout.ms`, with growing pauses. Where another try cannot help this is the same
    /// as [`Self::fail`].
    pub fn retry() -> Self {
        ProductionResponse { choice: Choice::Retry, dead_letters: Vec::new() }
    }

    /// As [`HandlerResponse::with_dead_letters`].
    pub fn with_dead_letters(mut self, letters: impl IntoIterator<Item = DeadLetter>) -> Self {
        self.dead_letters.extend(letters);
        self
    }
}

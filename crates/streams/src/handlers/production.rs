//! What happens to a record that cannot be written.

use super::{ErrorContext, ProductionResponse};
use crate::error::BoxError;
use std::ops::Deref;

/// Why a record could not be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum WriteProblem {
    /// The serde of the key failed.
    Key,
    /// The serde of the value failed.
    Value,
    /// The record is larger than `max.request.size`, or than the topic takes.
    TooLarge,
    /// The brokers refused it, or it cannot be written at all: no such partition, a negative timestamp.
    Refused,
}

/// A record that could not be written to the topic of a sink: everything that [`ErrorContext`] tells of the sink and of the source
/// record, and what it would have been.
#[derive(Debug)]
pub struct FailedWrite<'a> {
    /// The sink, and the source record.
    pub context: ErrorContext<'a>,
    /// The topic that it was for.
    pub topic: &'a str,
    /// Why.
    pub problem: WriteProblem,
    /// Bytes of its key, if it got that far.
    pub key_size: Option<usize>,
    /// Bytes of its value, likewise.
    pub value_size: Option<usize>,
}

impl<'a> Deref for FailedWrite<'a> {
    type Target = ErrorContext<'a>;

    fn deref(&self) -> &Self::Target {
        &self.context
    }
}

/// Decides about records that cannot be written to the topic of a sink. It is never asked about changelogs and repartition topics:
/// what goes there is the application's own state, and leaving it out would make the state wrong. Such a failure stops the task.
/// Nor is it asked about what may pass, brokers out of reach for instance: that is tried again for `task.timeout.ms`.
///
/// What a broker refuses is known at the commit only. The task then goes back to the last commit and corners the record with ever
/// smaller transactions; when the record is alone and is processed again, the handler is asked at its sink, for each write of it to that topic.
pub trait ProductionHandler: Send + Sync + 'static {
    /// Called once for each such record.
    fn handle(&self, write: &FailedWrite<'_>, error: &BoxError) -> ProductionResponse;
}

//! The handlers in use, and those that settings name.

use super::{
    BadRecord, DeadLetter, DeserializationHandler, ErrorContext, FailedWrite, HandlerResponse,
    ProcessingHandler, ProductionHandler, ProductionResponse,
};
use crate::error::{BoxError, Error, ErrorKind};
use crate::record::RecordMetadata;
use crate::topology::erased::catch_panic;
use std::fmt;
use std::sync::Arc;

/// Stops: the default. If `errors.dead.letter.queue.topic.name` is set, a dead letter is left.
#[derive(Debug, Clone, Copy, Default)]
pub struct LogAndFail;

/// Logs a record and leaves it out. If `errors.dead.letter.queue.topic.name` is set, a dead letter is left.
#[derive(Debug, Clone, Copy, Default)]
pub struct LogAndContinue;

impl DeserializationHandler for LogAndFail {
    fn handle(&self, record: &BadRecord<'_>, error: &BoxError) -> HandlerResponse {
        HandlerResponse::fail().with_dead_letters(record.dead_letter(error))
    }
}

impl ProcessingHandler for LogAndFail {
    fn handle(&self, context: &ErrorContext<'_>, error: &BoxError) -> HandlerResponse {
        HandlerResponse::fail().with_dead_letters(context.dead_letter(error))
    }
}

impl ProductionHandler for LogAndFail {
    fn handle(&self, write: &FailedWrite<'_>, error: &BoxError) -> ProductionResponse {
        ProductionResponse::fail().with_dead_letters(write.dead_letter(error))
    }
}

impl DeserializationHandler for LogAndContinue {
    fn handle(&self, record: &BadRecord<'_>, error: &BoxError) -> HandlerResponse {
        let part = if record.is_key { "key" } else { "value" };
        left_out(record, &format!("cannot read its {part}"), error);
        HandlerResponse::resume().with_dead_letters(record.dead_letter(error))
    }
}

impl ProcessingHandler for LogAndContinue {
    fn handle(&self, context: &ErrorContext<'_>, error: &BoxError) -> HandlerResponse {
        left_out(context, "the operator failed", error);
        HandlerResponse::resume().with_dead_letters(context.dead_letter(error))
    }
}

impl ProductionHandler for LogAndContinue {
    fn handle(&self, write: &FailedWrite<'_>, error: &BoxError) -> ProductionResponse {
        left_out(write, &format!("cannot write it to topic {}", write.topic), error);
        ProductionResponse::resume().with_dead_letters(write.dead_letter(error))
    }
}

fn left_out(context: &ErrorContext<'_>, why: &str, error: &BoxError) {
    let place = context.metadata.as_ref();
    tracing::warn!(
        task = %context.task,
        operator = context.operator,
        topic = place.map(|place| &*place.topic),
        partition = place.map(|place| place.partition),
        offset = place.map(|place| place.offset),
        "record left out: {why}: {error}"
    );
}

/// The handlers in use, and where dead letters go by default.
#[derive(Clone)]
pub(crate) struct ErrorPolicy {
    pub(crate) deserialization: Arc<dyn DeserializationHandler>,
    pub(crate) processing: Arc<dyn ProcessingHandler>,
    pub(crate) production: Arc<dyn ProductionHandler>,
    pub(crate) dead_letters: Option<Arc<str>>,
}

impl ErrorPolicy {
    /// Asks about a record that cannot be read: what is left of it if it is left out, else the error as well.
    pub(crate) fn unreadable(
        &self,
        record: BadRecord<'_>,
        error: BoxError,
    ) -> Result<Vec<DeadLetter>, (Error, Vec<DeadLetter>)> {
        let place = record.metadata.as_ref().map_or(String::new(), |place| {
            let RecordMetadata { topic, partition, offset } = place;
            format!("topic {topic}, partition {partition}, offset {offset}")
        });
        let response = match catch_panic(|| self.deserialization.handle(&record, &error)) {
            Ok(response) => response,
            Err(panic) => {
                let panic = panic.context(format!("in the handler that was asked about: {error}"));
                return Err((panic.context(place), Vec::new()));
            }
        };
        if response.resumes {
            return Ok(response.dead_letters);
        }
        let part = if record.is_key { "key" } else { "value" };
        let error = Error::new(ErrorKind::BadRecord, format!("cannot read the {part} of a record"))
            .with_source(error)
            .context(place)
            .context(format!("task {}", record.task))
            .context(
                "deserialization.exception.handler=log-and-continue would leave such records out",
            );
        Err((error, response.dead_letters))
    }
}

impl Default for ErrorPolicy {
    fn default() -> Self {
        ErrorPolicy {
            deserialization: Arc::new(LogAndFail),
            processing: Arc::new(LogAndFail),
            production: Arc::new(LogAndFail),
            dead_letters: None,
        }
    }
}

impl fmt::Debug for ErrorPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ErrorPolicy")
            .field("dead_letters", &self.dead_letters)
            .finish_non_exhaustive()
    }
}

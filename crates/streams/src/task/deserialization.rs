//! What happens to a record that cannot be read.

use crate::error::{BoxError, Error, ErrorKind};
use crate::processor::TaskId;
use crate::record::Headers;
use std::fmt;
use std::sync::Arc;

/// A record whose key or value could not be read.
#[derive(Debug)]
pub struct BadRecord<'a> {
    /// The task.
    pub task: TaskId,
    /// The topic.
    pub topic: &'a str,
    /// The partition.
    pub partition: i32,
    /// The offset.
    pub offset: i64,
    /// The timestamp in milliseconds since the epoch.
    pub timestamp: i64,
    /// The key's bytes.
    pub key: Option<&'a [u8]>,
    /// The value's bytes.
    pub value: Option<&'a [u8]>,
    /// The headers, as they were on the wire: serdes read them and cannot change them.
    pub headers: &'a Headers,
    /// Whether it is the key that could not be read (else: the value).
    pub is_key: bool,
}

/// What a handler decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HandlerResponse {
    /// Leave the record out and go on.
    Continue,
    /// Stop: the application's error handling takes over.
    Fail,
}

/// Decides about records that cannot be read.
pub trait DeserializationHandler: Send + Sync + 'static {
    /// Called once for each such record.
    fn handle(&self, record: &BadRecord<'_>, error: &BoxError) -> HandlerResponse;
}

/// Stops at a bad record: the default.
#[derive(Debug, Clone, Copy, Default)]
pub struct LogAndFail;

impl DeserializationHandler for LogAndFail {
    fn handle(&self, _: &BadRecord<'_>, _: &BoxError) -> HandlerResponse {
        HandlerResponse::Fail
    }
}

/// Logs a bad record and leaves it out.
#[derive(Debug, Clone, Copy, Default)]
pub struct LogAndContinue;

impl DeserializationHandler for LogAndContinue {
    fn handle(&self, record: &BadRecord<'_>, error: &BoxError) -> HandlerResponse {
        tracing::warn!(
            task = %record.task,
            topic = record.topic,
            partition = record.partition,
            offset = record.offset,
            "record left out: cannot read its {}: {error}",
            part(record.is_key)
        );
        HandlerResponse::Continue
    }
}

/// The handler in use.
#[derive(Clone)]
pub(crate) struct DeserializationPolicy(Arc<dyn DeserializationHandler>);

impl DeserializationPolicy {
    pub(crate) fn new(handler: impl DeserializationHandler) -> Self {
        DeserializationPolicy(Arc::new(handler))
    }

    /// `Ok` to leave the record out.
    pub(crate) fn decide(&self, record: &BadRecord<'_>, error: BoxError) -> Result<(), Error> {
        match self.0.handle(record, &error) {
            HandlerResponse::Continue => Ok(()),
            HandlerResponse::Fail => Err(Error::new(
                ErrorKind::BadRecord,
                format!("cannot read the {} of a record", part(record.is_key)),
            )
            .with_source(error)
            .context(format!(
                "topic {}, partition {}, offset {}",
                record.topic, record.partition, record.offset
            ))
            .context(format!("task {}", record.task))
            .context(
                "deserialization.exception.handler=log-and-continue would leave such records out",
            )),
        }
    }
}

impl fmt::Debug for DeserializationPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DeserializationPolicy")
    }
}

fn part(is_key: bool) -> &'static str {
    if is_key { "key" } else { "value" }
}

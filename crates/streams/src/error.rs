//! The one error of the library: what happened, where, and what to do about it.
//!
//! `Error` is opaque; its [`ErrorKind`] says which remedy fits, its text names topic, partition, offset, task and
//! operator as far as they are known.

use std::error::Error as StdError;
use std::fmt;

/// Any error of user code: `?` takes every error type into it.
pub type BoxError = Box<dyn StdError + Send + Sync>;

/// The result of nearly every call of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What kind of remedy an error asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The topology is wrong: change the program.
    InvalidTopology,
    /// A setting is unknown, ill-typed or out of range: change the configuration.
    InvalidConfig,
    /// A record could not be read or written with the serde in use: fix the data, the serde, or the handler.
    BadRecord,
    /// User code (an operator, a processor, a handler) failed or panicked.
    Processing,
    /// A state store or its directory failed: see the text for the file.
    State,
    /// The cluster refused something or cannot be reached: see the text for topic, group or address.
    Broker,
    /// The task belongs to another member now; the thread rejoins by itself.
    Migrated,
    /// Something did not finish in its time.
    Timeout,
    /// The topology has no such store: check the name.
    UnknownStore,
    /// A store was asked for before its tasks run for the first time: wait for [`State::Running`](crate::runtime::State::Running).
    Starting,
    /// A partition of a store is on its way to this instance or comes back: try again in a moment.
    Rebalancing,
    /// A partition of a store is not on this instance: ask the one that the text names, or look for it with
    /// [`KafkaStreams::key_owner`](crate::runtime::KafkaStreams::key_owner).
    Moved,
    /// The application is closed or closing: its stores can be read no more.
    Stopped,
    /// The call does not fit the state of the application (for example: already closed).
    InvalidState,
}

/// An error of kstreams. `Display` gives the whole story in one line.
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    message: String,
    context: Vec<String>,
    source: Option<BoxError>,
}

impl Error {
    /// An error with its kind and text.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Error(Box::new(Inner { kind, message: message.into(), context: Vec::new(), source: None }))
    }

    /// The kind, named by remedy.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Attaches the error that caused this one.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<BoxError>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// Adds where it happened, from the inside out.
    #[must_use]
    pub fn context(mut self, place: impl Into<String>) -> Self {
        self.0.context.push(place.into());
        self
    }

    pub(crate) fn topology(message: impl Into<String>) -> Self {
        Error::new(ErrorKind::InvalidTopology, message)
    }

    pub(crate) fn config(message: impl Into<String>) -> Self {
        Error::new(ErrorKind::InvalidConfig, message)
    }

    pub(crate) fn state(message: impl Into<String>) -> Self {
        Error::new(ErrorKind::State, message)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        let mut source = self.0.source.as_deref().map(|error| error as &dyn StdError);
        while let Some(cause) = source {
            write!(f, ": {cause}")?;
            // An error of ours already tells its own causes.
            source = if cause.is::<Error>() { None } else { cause.source() };
        }
        for place in &self.0.context {
            write!(f, " ({place})")?;
        }
        Ok(())
    }
}

/// The same as `Display`, so that `fn main() -> Result<()>` prints a sentence.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|error| error as &(dyn StdError + 'static))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_message_causes_and_places() {
        let cause = "x".parse::<i32>().expect_err("not a number");
        let error = Error::new(ErrorKind::BadRecord, "cannot read the value")
            .with_source(cause)
            .context("topic a, partition 0, offset 7")
            .context("task 0_0");
        assert_eq!(
            error.to_string(),
            "cannot read the value: invalid digit found in string \
             (topic a, partition 0, offset 7) (task 0_0)"
        );
        assert_eq!(error.kind(), ErrorKind::BadRecord);
    }
}

//! What can go wrong with the broker itself (not with a request: those answer Kafka's error codes).

use std::path::PathBuf;
use std::{fmt, io};

use kstreams_protocol::ResponseError;

/// Why the broker could not start, or could not do what was asked of its handle.
#[derive(Debug)]
#[non_exhaustive]
pub enum BrokerError {
    /// The listener could not be opened.
    Listen {
        /// The address that was asked for.
        address: String,
        /// Why it could not be had.
        source: io::Error,
    },
    /// A file of the broker's directory could not be read or written.
    Storage {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another broker uses the directory.
    DirectoryInUse {
        /// The broker's directory.
        path: PathBuf,
    },
    /// The broker refused what its handle was asked to do.
    Refused {
        /// Kafka's error.
        error: ResponseError,
        /// What was refused and why.
        message: String,
    },
    /// The broker was stopped.
    Stopped,
}

impl fmt::Display for BrokerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Listen { address, source } => write!(f, "cannot listen on {address}: {source}"),
            Self::Storage { path, source } => write!(f, "{}: {source}", path.display()),
            Self::DirectoryInUse { path } => {
                write!(f, "another broker uses the directory {}", path.display())
            }
            Self::Refused { error, message } => write!(f, "{message} ({error:?})"),
            Self::Stopped => write!(f, "the broker was stopped"),
        }
    }
}

impl std::error::Error for BrokerError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Listen { source, .. } | Self::Storage { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// Why a request, or a part of one, is refused: what the answer's error fields say.
#[derive(Debug, Clone)]
pub(crate) struct Refusal {
    pub(crate) error: ResponseError,
    pub(crate) message: Option<String>,
}

impl Refusal {
    pub(crate) fn new(error: ResponseError, message: impl Into<String>) -> Self {
        Self { error, message: Some(message.into()) }
    }

    pub(crate) fn code(&self) -> i16 {
        self.error.code()
    }
}

impl From<ResponseError> for Refusal {
    fn from(error: ResponseError) -> Self {
        Self { error, message: None }
    }
}

impl From<Refusal> for BrokerError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused { error: refusal.error, message: refusal.message.unwrap_or_default() }
    }
}

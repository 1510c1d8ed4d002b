//! The one error of the client, its kinds named by what its user can do.

use crate::types::Topic;
use kstreams_protocol::{ResponseError, error_code};
use std::fmt;

/// What can be done about a [`ClientError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// It may pass: try again later. Deadlines of operations and brokers out of reach end here.
    Retriable,
    /// The member epoch of a commit is not the member's (113): heartbeat, then try again.
    StaleMemberEpoch,
    /// The group does not know the member any more (25), or another took its place: all its tasks
    /// are lost.
    Fenced,
    /// Another producer took the transactional id, or the coordinator gave the transaction up, for
    /// instance as it took longer than its timeout (47, 49, 90): everything since the last commit
    /// is gone; take a new epoch with [`Producer::init`](crate::Producer::init).
    ProducerFenced,
    /// The transaction cannot be committed (120): abort it, then go on.
    Abortable,
    /// The cluster refuses this user: grant the right that the message names.
    Authorization,
    /// The cluster cannot do it: it is too old, or set up otherwise.
    Unsupported,
    /// A topic, partition, group or offset does not exist.
    NotFound,
    /// A topic exists already.
    Exists,
    /// A record is too large for the topic or the settings.
    TooLarge,
    /// The request contradicts what the cluster holds; the message says what to change.
    Invalid,
    /// Bytes from a broker that make no sense, or a batch with a wrong checksum.
    Corrupt,
    /// The client was closed.
    Closed,
    /// Nothing to be done about it but to start anew.
    Fatal,
}

/// An error with its remedy's kind and a message that names topic, partition, group or broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientError {
    kind: ErrorKind,
    code: Option<i16>,
    topic: Option<Topic>,
    message: String,
}

impl ClientError {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, code: None, topic: None, message: message.into() }
    }

    /// The error `code` that a broker answered to what `context` names.
    pub(crate) fn broker(code: i16, context: impl fmt::Display, detail: Option<&str>) -> Self {
        let kind = ResponseError::try_from_code(code).map_or(ErrorKind::Fatal, kind_of);
        let why = detail.filter(|detail| !detail.is_empty()).unwrap_or(error_code::text(code));
        let name = error_code::name(code);
        let why = why.trim_end_matches('.');
        let message = format!("{context}: {why} ({name}, {code})");
        Self { kind, code: Some(code), topic: None, message }
    }

    pub(crate) fn retriable(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Retriable, message)
    }

    pub(crate) fn closed() -> Self {
        Self::new(ErrorKind::Closed, "the client is closed")
    }

    /// What can be done about it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Kafka's error code, if a broker answered with one.
    #[must_use]
    pub fn code(&self) -> Option<i16> {
        self.code
    }

    /// The topic whose records were refused, if it is about records.
    #[must_use]
    pub fn topic(&self) -> Option<&Topic> {
        self.topic.as_ref()
    }

    /// The same error, about records of `topic`.
    #[must_use]
    pub(crate) fn about(mut self, topic: &Topic) -> Self {
        self.topic = Some(topic.clone());
        self
    }

    /// Whether trying again later can help.
    #[must_use]
    pub fn is_retriable(&self) -> bool {
        self.kind == ErrorKind::Retriable
    }

    /// The same error, its message preceded by `context`.
    #[must_use]
    pub fn within(mut self, context: impl fmt::Display) -> Self {
        self.message = format!("{context}: {}", self.message);
        self
    }

    /// The same error, its message followed by what to do.
    #[must_use]
    pub(crate) fn advising(mut self, advice: &str) -> Self {
        self.message = format!("{}. {advice}", self.message.trim_end_matches('.'));
        self
    }

    /// The same error with another kind.
    #[must_use]
    pub(crate) fn of_kind(mut self, kind: ErrorKind) -> Self {
        self.kind = kind;
        self
    }
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ClientError {}

fn kind_of(error: ResponseError) -> ErrorKind {
    use ResponseError as E;
    match error {
        E::StaleMemberEpoch => ErrorKind::StaleMemberEpoch,
        E::UnknownMemberId | E::FencedMemberEpoch | E::IllegalGeneration | E::FencedInstanceId => {
            ErrorKind::Fenced
        }
        E::ProducerFenced | E::InvalidProducerEpoch | E::InvalidProducerIdMapping => {
            ErrorKind::ProducerFenced
        }
        E::TransactionAbortable | E::InvalidTxnState => ErrorKind::Abortable,
        E::TopicAuthorizationFailed
        | E::GroupAuthorizationFailed
        | E::ClusterAuthorizationFailed
        | E::TransactionalIdAuthorizationFailed
        | E::SaslAuthenticationFailed => ErrorKind::Authorization,
        E::UnsupportedVersion | E::UnsupportedForMessageFormat | E::InvalidReplicationFactor => {
            ErrorKind::Unsupported
        }
        E::UnknownTopicOrPartition
        | E::UnknownTopicId
        | E::GroupIdNotFound
        | E::OffsetOutOfRange => ErrorKind::NotFound,
        E::TopicAlreadyExists => ErrorKind::Exists,
        E::MessageTooLarge | E::RecordListTooLarge => ErrorKind::TooLarge,
        E::CorruptMessage => ErrorKind::Corrupt,
        E::InvalidRequest
        | E::InvalidTransactionTimeout
        | E::InvalidTopicException
        | E::InvalidConfig
        | E::InvalidPartitions
        | E::InvalidTimestamp
        | E::InvalidRecord
        | E::PolicyViolation
        | E::InvalidGroupId
        | E::GroupMaxSizeReached
        | E::NonEmptyGroup
        | E::StreamsInvalidTopology
        | E::StreamsInvalidTopologyEpoch
        | E::StreamsTopologyFenced
        | E::InvalidRegularExpression => ErrorKind::Invalid,
        other if other.is_retriable() => ErrorKind::Retriable,
        _ => ErrorKind::Fatal,
    }
}

/// Whether the broker's answer means "ask again, perhaps elsewhere", for operations that Kafka
/// itself repeats: its own retriable codes and topics that are just being created.
pub(crate) fn is_retriable(code: i16) -> bool {
    ResponseError::try_from_code(code).is_some_and(|error| error.is_retriable())
}

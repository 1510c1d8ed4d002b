//! Who a producer is to the brokers, its id and epoch, and where it stands with its transaction.
//!
//! ```text
//! Unset --(first batch)--> Asked --> Known --(epochs used up)--> Unset
//!                            |
//!                            '--(refused)--> Failed
//! ```
//! A producer with a transactional id asks at once, as this is what ends the transaction of the one
//! before it. Then
//!
//! ```text
//!    .------------------------- ended, or nothing was sent -----------------------------.
//!    v                                                                                  |
//! Ready --commit--> Flushing --written--> [Enlisting, v1] --> Offsets --> Committing ---'
//!    |  sent           ^   '---written, no offsets---------------'----------^
//!    '------> Open ----'commit                                   | stale: Open again,
//!              |                                                 v the commit can be repeated
//!              | refused, from any state of a transaction
//!              v
//!           Failed --abort (also from Ready, Open)--> Draining --> Aborting --> [Renewing, v1] --> Ready
//!
//!           Fenced <-- fenced, from any state;  init, from any state --> Ready, without identity
//! ```
//! `v1` and `v2` are Kafka's transaction versions (KIP-890). With version 2 brokers add partitions
//! and groups to the transaction by themselves, and its end gives the producer its next epoch, so
//! that nothing late can slip into the transaction after it. With version 1 both have to be said
//! before, and an abort is followed by the request for a new epoch.

use crate::error::ClientError;
use crate::types::Now;

/// Id and epoch that a producer writes under.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProducerIdentity {
    pub(crate) id: i64,
    pub(crate) epoch: i16,
}

/// Where a producer stands with its identity.
#[derive(Debug)]
pub(crate) enum Identity {
    Unset { not_before: Now },
    Asked,
    Known(ProducerIdentity),
    Failed(ClientError),
}

/// Kafka's transaction version, as far as it matters to a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TransactionVersion {
    V1,
    V2,
}

/// Where a producer stands with its transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// Nothing of a transaction was sent.
    Ready,
    /// Something was sent.
    Open,
    /// It cannot be committed.
    Failed,
    /// Another producer took the transactional id, or the coordinator gave the transaction up.
    Fenced,
    /// To be committed: its records go out first.
    Flushing,
    /// The group is added to the transaction.
    Enlisting,
    /// The offsets go to the group.
    Offsets,
    /// Its commit is asked for until there is an answer.
    Committing,
    /// To be aborted: what is in flight comes back first.
    Draining,
    /// Its abort is asked for until there is an answer.
    Aborting,
    /// Asks for the next epoch.
    Renewing,
}

/// What happens to a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// A request that belongs to it was sent.
    Sent,
    /// The stream thread asks for its commit.
    Commit,
    /// All its records are written.
    Written { offsets: bool },
    /// Nothing of it was sent, so there is nothing to end.
    Nothing,
    /// The group is part of it.
    Enlisted,
    /// The group has the offsets.
    OffsetsTaken,
    /// The group refused the offsets for an old member epoch.
    Stale,
    /// The stream thread asks for its abort.
    Abort,
    /// Nothing is in flight.
    Drained,
    /// The coordinator ended it.
    Ended,
    /// There is a new epoch.
    Renewed,
    /// A broker refused something for good.
    Refused,
    /// A broker knows a newer epoch of the producer.
    Fenced,
    /// The stream thread asks to start anew.
    Init,
}

impl State {
    /// Where `event` leads; nowhere if it does not concern this state.
    pub(crate) fn after(self, event: Event, version: TransactionVersion) -> Option<Self> {
        let v1 = version == TransactionVersion::V1;
        Some(match (self, event) {
            (_, Event::Init) => Self::Ready,
            (_, Event::Fenced) => Self::Fenced,
            (Self::Ready, Event::Sent) => Self::Open,
            (Self::Open | Self::Flushing, Event::Sent) => self,
            (Self::Ready | Self::Open, Event::Commit) => Self::Flushing,
            (Self::Flushing, Event::Written { offsets: false }) => Self::Committing,
            (Self::Flushing, Event::Written { offsets: true }) if v1 => Self::Enlisting,
            (Self::Flushing, Event::Written { offsets: true }) => Self::Offsets,
            (Self::Flushing | Self::Draining, Event::Nothing) => Self::Ready,
            (Self::Enlisting, Event::Enlisted) => Self::Offsets,
            (Self::Offsets, Event::OffsetsTaken) => Self::Committing,
            (Self::Offsets, Event::Stale) => Self::Open,
            (Self::Ready | Self::Open | Self::Failed, Event::Abort) => Self::Draining,
            (Self::Draining, Event::Drained) => Self::Aborting,
            (Self::Committing, Event::Ended) => Self::Ready,
            (Self::Aborting, Event::Ended) if v1 => Self::Renewing,
            (Self::Aborting, Event::Ended) => Self::Ready,
            (Self::Renewing, Event::Renewed) => Self::Ready,
            (
                Self::Ready
                | Self::Open
                | Self::Failed
                | Self::Flushing
                | Self::Enlisting
                | Self::Offsets
                | Self::Committing,
                Event::Refused,
            ) => Self::Failed,
            // What cannot even be aborted has to start anew.
            (Self::Draining | Self::Aborting | Self::Renewing, Event::Refused) => Self::Fenced,
            _ => return None,
        })
    }

    /// Whether records may be sent now.
    pub(crate) fn writes(self) -> bool {
        matches!(self, Self::Ready | Self::Open | Self::Flushing)
    }

    /// Whether nothing can become of records that are appended now.
    pub(crate) fn is_lost(self) -> bool {
        matches!(self, Self::Failed | Self::Fenced)
    }
}

/// What can be done about a broker's refusal of a request that belongs to a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Remedy {
    /// Soon: the transaction before it is still being ended.
    Soon,
    /// Ask for the coordinator, then again.
    Coordinator,
    /// Again.
    Retry,
    /// Under a newer member epoch.
    MemberEpoch,
    /// A new epoch of the producer.
    Init,
    /// Abort it.
    Abort,
}

/// The remedy for an error code.
pub(crate) fn remedy(code: i16) -> Remedy {
    match code {
        CONCURRENT_TRANSACTIONS => Remedy::Soon,
        COORDINATOR_NOT_AVAILABLE | NOT_COORDINATOR => Remedy::Coordinator,
        ILLEGAL_GENERATION | STALE_MEMBER_EPOCH => Remedy::MemberEpoch,
        INVALID_PRODUCER_EPOCH | INVALID_PRODUCER_ID_MAPPING | PRODUCER_FENCED => Remedy::Init,
        UNKNOWN_PRODUCER_ID | OUT_OF_ORDER_SEQUENCE => Remedy::Abort,
        code if crate::error::is_retriable(code) => Remedy::Retry,
        _ => Remedy::Abort,
    }
}

const COORDINATOR_NOT_AVAILABLE: i16 = 15;
const NOT_COORDINATOR: i16 = 16;
const ILLEGAL_GENERATION: i16 = 22;
const OUT_OF_ORDER_SEQUENCE: i16 = 45;
const INVALID_PRODUCER_EPOCH: i16 = 47;
const INVALID_PRODUCER_ID_MAPPING: i16 = 49;
const CONCURRENT_TRANSACTIONS: i16 = 51;
const UNKNOWN_PRODUCER_ID: i16 = 59;
const PRODUCER_FENCED: i16 = 90;
const STALE_MEMBER_EPOCH: i16 = 113;

#[cfg(test)]
mod tests;

//! Who a producer is to the brokers: its id and epoch, and the transaction it is in.
//!
//! ```text
//! Unset --(first batch)--> Asked --> Known --(epochs used up)--> Unset
//!                            |
//!                            '--(refused)--> Failed
//! ```
//! A producer without a transactional id stays `NoTransaction`; a transactional one will walk
//! `Ready -> Open -> Committing | Aborting -> Ready` and take the same id and epoch through it.

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

/// Where a producer stands with its transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Transaction {
    /// It is idempotent only: batches carry no transactional mark.
    #[default]
    NoTransaction,
}

impl Transaction {
    /// Whether batches are written as part of a transaction.
    pub(crate) fn marks_batches(self) -> bool {
        match self {
            Self::NoTransaction => false,
        }
    }
}

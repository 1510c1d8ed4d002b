//! Dead letters: what is kept of a record that could not be dealt with.

use crate::record::Headers;
use std::sync::Arc;

/// A record for a topic of dead letters. A topic that does not exist fails the task: nothing is lost in silence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    /// The topic.
    pub topic: Arc<str>,
    /// The partition; by default the one of the key.
    pub partition: Option<i32>,
    /// The key's bytes.
    pub key: Option<Vec<u8>>,
    /// The value's bytes.
    pub value: Option<Vec<u8>>,
    /// Milliseconds since the epoch.
    pub timestamp: i64,
    /// The headers.
    pub headers: Headers,
}

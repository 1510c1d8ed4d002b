//! Control records: the marks that end a transaction in a partition's log.

/// What a control record says about the transaction of its batch's producer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ControlType {
    /// The records before it are void.
    Abort,
    /// The records before it count.
    Commit,
    /// Another mark (of the controller's log, or of a later version).
    Other(i16),
}

impl ControlType {
    /// Reads the type from the key of a record in a control batch; `None` if that is no control
    /// record's key.
    #[must_use]
    pub fn from_key(key: &[u8]) -> Option<Self> {
        let id = i16::from_be_bytes(key.get(2..4)?.try_into().ok()?);
        Some(match id {
            0 => Self::Abort,
            1 => Self::Commit,
            other => Self::Other(other),
        })
    }

    /// The key of such a control record (version 0).
    #[must_use]
    pub fn key(self) -> [u8; 4] {
        let id: i16 = match self {
            Self::Abort => 0,
            Self::Commit => 1,
            Self::Other(id) => id,
        };
        let [high, low] = id.to_be_bytes();
        [0, 0, high, low]
    }

    /// The value of the mark that ends a transaction: version 0 and the coordinator's epoch.
    #[must_use]
    pub fn value(coordinator_epoch: i32) -> [u8; 6] {
        let [a, b, c, d] = coordinator_epoch.to_be_bytes();
        [0, 0, a, b, c, d]
    }
}

//! What can be wrong with the bytes of a record batch.

use std::fmt;

/// The bytes are not a record batch as Kafka writes it. Nothing of the batch was used.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum BatchError {
    /// The batch has a format other than 2 (the only one that brokers since 4.0 keep).
    UnsupportedMagic(i8),
    /// A field contradicts the bytes around it.
    Malformed(&'static str),
    /// The checksum does not fit the bytes: they were changed on the way or on disk.
    Checksum {
        /// What the header says.
        stored: u32,
        /// What the bytes give.
        computed: u32,
    },
    /// The compression type is unknown.
    UnknownCompression(i8),
    /// The compressed records could not be unpacked.
    Decompression(String),
    /// The records would be larger than the bound when unpacked.
    TooLarge {
        /// The bound, in bytes.
        limit: usize,
    },
}

impl fmt::Display for BatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnsupportedMagic(magic) => {
                write!(f, "record batch of format {magic}; only format 2 is supported")
            }
            Self::Malformed(what) => write!(f, "malformed record batch: {what}"),
            Self::Checksum { stored, computed } => {
                write!(
                    f,
                    "corrupt record batch: checksum {stored:#010x}, its bytes give {computed:#010x}"
                )
            }
            Self::UnknownCompression(id) => write!(f, "unknown compression type {id}"),
            Self::Decompression(why) => write!(f, "records could not be unpacked: {why}"),
            Self::TooLarge { limit } => write!(f, "records unpack to more than {limit} bytes"),
        }
    }
}

impl std::error::Error for BatchError {}

//! Record batches (format 2), the unit in which records travel and are stored: the first and the
//! last thing on a record's way.
//!
//! A [`Batch`] is a validated view on bytes that came from a broker or a log; its records are read
//! by borrowing from them ([`RecordReader`]). A [`BatchWriter`] writes records straight into the
//! bytes that go out. In between nothing is copied but by compression.
//!
//! ```text
//! 0 base offset i64 | 8 length i32 | 12 leader epoch i32 | 16 magic i8 = 2 |
//! 17 CRC32C u32 of all that follows | 21 attributes i16 | 23 last offset delta i32 |
//! 27 base timestamp i64 | 35 max timestamp i64 | 43 producer id i64 | 51 producer epoch i16 |
//! 53 base sequence i32 | 57 count i32 | 61 records, maybe compressed
//! ```
//! Attributes: bits 0-2 compression, 3 timestamp type (1: log append time), 4 transactional, 5
//! control.

mod compression;
mod control;
mod error;
mod header;
mod reader;
mod varint;
mod writer;

pub use compression::{Compression, DECOMPRESSED_MAX};
pub use control::ControlType;
pub use error::BatchError;
pub use header::{Batch, Batches, TimestampType, batches, set_appended, with_producer};
pub use reader::{HeadersIter, HeadersRef, RecordReader, RecordRef};
pub use writer::{BatchHead, BatchWriter};

/// Bytes of a batch before its first record.
pub const HEADER_LENGTH: usize = 61;

/// The sequence number `by` records after `sequence`; sequences wrap from `i32::MAX` to 0.
#[must_use]
pub fn sequence_after(sequence: i32, by: i32) -> i32 {
    let sum = i64::from(sequence) + i64::from(by);
    (sum % (i64::from(i32::MAX) + 1)) as i32
}

#[cfg(test)]
mod tests;

//! Records written straight into the batch that goes out.

use super::header::{write_checksum, write_producer};
use super::{BatchError, Compression, HEADER_LENGTH, varint};
use bytes::Bytes;

/// What the header of a batch says besides what its records give.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchHead {
    /// Id of the producer, -1 for none.
    pub producer_id: i64,
    /// Epoch of the producer, -1 for none.
    pub producer_epoch: i16,
    /// Sequence number of the first record, -1 for none.
    pub base_sequence: i32,
    /// Whether the records are part of a transaction.
    pub transactional: bool,
    /// Whether they are control records.
    pub control: bool,
    /// How to compress the records.
    pub compression: Compression,
    /// Level for gzip, lz4 and zstd; `None` is the codec's default.
    pub compression_level: Option<i32>,
    /// Offset of the first record; brokers set it when they append.
    pub base_offset: i64,
    /// Epoch of the leader, -1 for none; brokers set it when they append.
    pub leader_epoch: i32,
}

impl Default for BatchHead {
    fn default() -> Self {
        Self {
            producer_id: -1,
            producer_epoch: -1,
            base_sequence: -1,
            transactional: false,
            control: false,
            compression: Compression::None,
            compression_level: None,
            base_offset: 0,
            leader_epoch: -1,
        }
    }
}

/// A batch under construction.
///
/// ```
/// use kstreams_protocol::batch::{BatchHead, BatchWriter, batches};
///
/// let mut writer = BatchWriter::new();
/// writer.append(1_000, Some(b"key"), Some(b"value"), &[("trace", Some(b"1"))]);
/// let bytes = writer.seal(&BatchHead::default()).unwrap();
/// let mut records = batches(&bytes).next().unwrap().unwrap().into_records().unwrap();
/// assert_eq!(records.next_record().unwrap().unwrap().value, Some(&b"value"[..]));
/// ```
#[derive(Debug, Clone)]
pub struct BatchWriter {
    bytes: Vec<u8>,
    count: i32,
    first_timestamp: i64,
    max_timestamp: i64,
}

impl Default for BatchWriter {
    fn default() -> Self {
        Self::new()
    }
}

impl BatchWriter {
    /// An empty batch.
    #[must_use]
    pub fn new() -> Self {
        Self::with_capacity(0)
    }

    /// An empty batch with room for `bytes` bytes.
    #[must_use]
    pub fn with_capacity(bytes: usize) -> Self {
        let mut buffer = Vec::with_capacity(bytes.max(HEADER_LENGTH));
        buffer.resize(HEADER_LENGTH, 0);
        Self { bytes: buffer, count: 0, first_timestamp: 0, max_timestamp: -1 }
    }

    /// Bytes so far, uncompressed, with the header.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether there is no record yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Records so far.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.count as u32
    }

    /// Largest timestamp so far, ms.
    #[must_use]
    pub fn max_timestamp(&self) -> i64 {
        self.max_timestamp
    }

    /// Bytes by which [`Self::append`] of the same record would grow the batch.
    #[must_use]
    pub fn would_grow_by(
        &self,
        timestamp: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[(&str, Option<&[u8]>)],
    ) -> usize {
        let first = if self.count == 0 { timestamp } else { self.first_timestamp };
        let body = self.body_length(timestamp.wrapping_sub(first), key, value, headers);
        varint::width(body as i64) + body
    }

    /// Adds a record: `timestamp` in ms, null as `None`.
    #[inline]
    pub fn append(
        &mut self,
        timestamp: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[(&str, Option<&[u8]>)],
    ) {
        if self.count == 0 {
            self.first_timestamp = timestamp;
        }
        self.max_timestamp = self.max_timestamp.max(timestamp);
        let time = timestamp.wrapping_sub(self.first_timestamp);
        let body = self.body_length(time, key, value, headers);
        let mut start = [0; 40];
        let mut end = varint::put(&mut start, 0, body as i64);
        end += 1; // attributes, unused
        end = varint::put(&mut start, end, time);
        end = varint::put(&mut start, end, i64::from(self.count));
        end = varint::put(&mut start, end, length_of(key));
        self.bytes.reserve(body + 10);
        self.bytes.extend_from_slice(&start[..end]);
        self.bytes.extend_from_slice(key.unwrap_or_default());
        self.field(value);
        self.number(headers.len() as i64);
        for (key, value) in headers {
            self.field(Some(key.as_bytes()));
            self.field(*value);
        }
        self.count += 1;
    }

    /// Ends the batch and gives its bytes. Sequence, epoch and producer can be set again later with
    /// [`with_producer`](super::with_producer).
    ///
    /// # Errors
    /// When compression fails or the batch is over 2 GiB.
    pub fn seal(self, head: &BatchHead) -> Result<Bytes, BatchError> {
        let mut bytes = match head.compression {
            Compression::None => self.bytes,
            packed => {
                let mut out = Vec::with_capacity(HEADER_LENGTH + self.bytes.len() / 2);
                out.resize(HEADER_LENGTH, 0);
                packed.compress(&self.bytes[HEADER_LENGTH..], head.compression_level, &mut out)?;
                out
            }
        };
        let length = i32::try_from(bytes.len() - 12)
            .map_err(|_| BatchError::TooLarge { limit: i32::MAX as usize })?;
        let mut attributes = head.compression.attribute();
        if head.transactional {
            attributes |= 16;
        }
        if head.control {
            attributes |= 32;
        }
        bytes[0..8].copy_from_slice(&head.base_offset.to_be_bytes());
        bytes[8..12].copy_from_slice(&length.to_be_bytes());
        bytes[12..16].copy_from_slice(&head.leader_epoch.to_be_bytes());
        bytes[16] = 2;
        bytes[21..23].copy_from_slice(&attributes.to_be_bytes());
        bytes[23..27].copy_from_slice(&(self.count - 1).max(0).to_be_bytes());
        bytes[27..35].copy_from_slice(&self.first_timestamp.to_be_bytes());
        bytes[35..43].copy_from_slice(&self.max_timestamp.to_be_bytes());
        write_producer(&mut bytes, head.producer_id, head.producer_epoch, head.base_sequence);
        bytes[57..61].copy_from_slice(&self.count.to_be_bytes());
        write_checksum(&mut bytes);
        Ok(bytes.into())
    }

    #[inline]
    fn body_length(
        &self,
        time: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[(&str, Option<&[u8]>)],
    ) -> usize {
        let mut length = 1 + varint::width(time) + varint::width(i64::from(self.count));
        length += width_of(key) + width_of(value) + varint::width(headers.len() as i64);
        for (key, value) in headers {
            length += width_of(Some(key.as_bytes())) + width_of(*value);
        }
        length
    }

    #[inline]
    fn field(&mut self, bytes: Option<&[u8]>) {
        self.number(length_of(bytes));
        self.bytes.extend_from_slice(bytes.unwrap_or_default());
    }

    #[inline]
    fn number(&mut self, number: i64) {
        let mut short = [0; 10];
        let end = varint::put(&mut short, 0, number);
        self.bytes.extend_from_slice(&short[..end]);
    }
}

#[inline]
fn length_of(bytes: Option<&[u8]>) -> i64 {
    bytes.map_or(-1, |bytes| bytes.len() as i64)
}

#[inline]
fn width_of(bytes: Option<&[u8]>) -> usize {
    varint::width(length_of(bytes)) + bytes.map_or(0, <[u8]>::len)
}

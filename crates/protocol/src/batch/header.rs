//! Whole batches: finding them in fetched bytes, reading and rewriting their headers.

use super::{
    BatchError, Compression, DECOMPRESSED_MAX, HEADER_LENGTH, RecordReader, sequence_after,
};
use bytes::{Bytes, BytesMut};

/// Whose clock the timestamps of a batch are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimestampType {
    /// Each record carries the time its producer gave it.
    CreateTime,
    /// All records have the time at which the broker appended the batch.
    LogAppendTime,
}

/// The whole batches in `bytes`, one after the other. A batch that is cut off at the end is left
/// out silently, as a fetch may end anywhere; after an error the iterator ends.
#[must_use]
pub fn batches(bytes: &Bytes) -> Batches {
    Batches { rest: bytes.clone() }
}

/// Iterator of [`batches`].
#[derive(Debug, Clone)]
pub struct Batches {
    rest: Bytes,
}

impl Iterator for Batches {
    type Item = Result<Batch, BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        let total = match whole_length(&self.rest) {
            Ok(Some(total)) => total,
            Ok(None) => return None,
            Err(error) => {
                self.rest = Bytes::new();
                return Some(Err(error));
            }
        };
        let batch = Batch::new(self.rest.split_to(total));
        if batch.is_err() {
            self.rest = Bytes::new();
        }
        Some(batch)
    }
}

/// The length of the batch at the start of `bytes`; `None` if it is not all there.
fn whole_length(bytes: &[u8]) -> Result<Option<usize>, BatchError> {
    // The length and the magic are read first: a foreign format must be an error even when its end
    // is missing.
    if bytes.len() < 17 {
        return Ok(None);
    }
    let magic = bytes[16] as i8;
    if magic != 2 {
        return Err(BatchError::UnsupportedMagic(magic));
    }
    let length = usize::try_from(i32_at(bytes, 8)).unwrap_or(0);
    if length < HEADER_LENGTH - 12 {
        return Err(BatchError::Malformed("its length is less than its header's"));
    }
    Ok((bytes.len() - 12 >= length).then_some(12 + length))
}

/// One whole batch with a valid header: a cheap, reference-counted view. The records inside are
/// checked when read.
#[derive(Debug, Clone)]
pub struct Batch {
    bytes: Bytes,
}

impl Batch {
    /// Takes `bytes`, which must be exactly one batch.
    ///
    /// # Errors
    /// When the header does not fit the bytes or itself. The checksum is not looked at,
    /// see [`Self::verify_checksum`].
    pub fn new(bytes: Bytes) -> Result<Self, BatchError> {
        if whole_length(&bytes)? != Some(bytes.len()) {
            return Err(BatchError::Malformed("its length is not that of the bytes"));
        }
        let batch = Self { bytes };
        batch.compression()?;
        let (count, delta) = (batch.i32(57), batch.i32(23));
        if count < 0 || delta < 0 || i64::from(delta) + 1 < i64::from(count) {
            return Err(BatchError::Malformed("it counts more records than offsets"));
        }
        if batch.base_offset().checked_add(i64::from(delta) + 1).is_none() {
            return Err(BatchError::Malformed("its offsets are out of range"));
        }
        if count as usize > batch.bytes.len() - HEADER_LENGTH
            && batch.compression()? == Compression::None
        {
            return Err(BatchError::Malformed("it counts more records than bytes"));
        }
        Ok(batch)
    }

    /// Offset of the first record (or where it was, before compaction).
    #[must_use]
    pub fn base_offset(&self) -> i64 {
        self.i64(0)
    }

    /// Offset of the last record (or where it was, before compaction).
    #[must_use]
    pub fn last_offset(&self) -> i64 {
        self.base_offset() + i64::from(self.i32(23))
    }

    /// The offset after the batch: where to read on.
    #[must_use]
    pub fn next_offset(&self) -> i64 {
        self.last_offset() + 1
    }

    /// Epoch of the leader that appended the batch, -1 if not known.
    #[must_use]
    pub fn leader_epoch(&self) -> i32 {
        self.i32(12)
    }

    /// Id of the idempotent or transactional producer, -1 if it has none.
    #[must_use]
    pub fn producer_id(&self) -> i64 {
        self.i64(43)
    }

    /// Epoch of the producer, -1 if it has none.
    #[must_use]
    pub fn producer_epoch(&self) -> i16 {
        i16::from_be_bytes([self.bytes[51], self.bytes[52]])
    }

    /// Sequence number of the first record, -1 if it has none.
    #[must_use]
    pub fn base_sequence(&self) -> i32 {
        self.i32(53)
    }

    /// Sequence number of the last record, -1 if it has none.
    #[must_use]
    pub fn last_sequence(&self) -> i32 {
        match self.base_sequence() {
            -1 => -1,
            base => sequence_after(base, self.i32(23)),
        }
    }

    /// Number of records.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.i32(57) as u32
    }

    /// Timestamp that the records' timestamps are relative to, ms.
    #[must_use]
    pub fn base_timestamp(&self) -> i64 {
        self.i64(27)
    }

    /// Largest timestamp of the records, ms.
    #[must_use]
    pub fn max_timestamp(&self) -> i64 {
        self.i64(35)
    }

    /// How the records are compressed.
    ///
    /// # Errors
    /// The type is unknown; never for a batch that [`Self::new`] took.
    pub fn compression(&self) -> Result<Compression, BatchError> {
        Compression::from_attributes(self.attributes())
    }

    /// Whose clock the timestamps are.
    #[must_use]
    pub fn timestamp_type(&self) -> TimestampType {
        if self.attributes() & 8 == 0 {
            TimestampType::CreateTime
        } else {
            TimestampType::LogAppendTime
        }
    }

    /// Whether the records are part of a transaction.
    #[must_use]
    pub fn is_transactional(&self) -> bool {
        self.attributes() & 16 != 0
    }

    /// Whether the batch holds control records, which users never see.
    #[must_use]
    pub fn is_control(&self) -> bool {
        self.attributes() & 32 != 0
    }

    /// Compares the checksum with the bytes.
    ///
    /// # Errors
    /// [`BatchError::Checksum`] when they do not fit.
    pub fn verify_checksum(&self) -> Result<(), BatchError> {
        let stored = self.i32(17) as u32;
        let computed = crc32c::crc32c(&self.bytes[21..]);
        if stored == computed { Ok(()) } else { Err(BatchError::Checksum { stored, computed }) }
    }

    /// The bytes of the batch.
    #[must_use]
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The bytes of the batch.
    #[must_use]
    pub fn into_bytes(self) -> Bytes {
        self.bytes
    }

    /// A cursor over the records, unpacked if need be (to at most [`DECOMPRESSED_MAX`] bytes).
    ///
    /// # Errors
    /// When the records cannot be unpacked.
    pub fn into_records(self) -> Result<RecordReader, BatchError> {
        self.into_records_within(DECOMPRESSED_MAX)
    }

    /// Like [`Self::into_records`] with another bound, in bytes, on the unpacked records.
    ///
    /// # Errors
    /// When the records cannot be unpacked within `limit`.
    pub fn into_records_within(self, limit: usize) -> Result<RecordReader, BatchError> {
        let records = match self.compression()? {
            Compression::None => self.bytes.slice(HEADER_LENGTH..),
            packed => packed.decompress(&self.bytes[HEADER_LENGTH..], limit)?.into(),
        };
        RecordReader::new(&self, records)
    }

    fn attributes(&self) -> i16 {
        i16::from_be_bytes([self.bytes[21], self.bytes[22]])
    }

    fn i32(&self, at: usize) -> i32 {
        i32_at(&self.bytes, at)
    }

    fn i64(&self, at: usize) -> i64 {
        let mut field = [0; 8];
        field.copy_from_slice(&self.bytes[at..at + 8]);
        i64::from_be_bytes(field)
    }
}

/// What a broker writes into a batch when it appends it to a log: the base offset, its leader epoch
/// and, for topics with log append time, the timestamp of all records (ms).
///
/// # Errors
/// When `batch` is not exactly one batch.
pub fn set_appended(
    batch: &mut [u8],
    base_offset: i64,
    leader_epoch: i32,
    append_time: Option<i64>,
) -> Result<(), BatchError> {
    if whole_length(batch)? != Some(batch.len()) {
        return Err(BatchError::Malformed("its length is not that of the bytes"));
    }
    batch[0..8].copy_from_slice(&base_offset.to_be_bytes());
    batch[12..16].copy_from_slice(&leader_epoch.to_be_bytes());
    if let Some(time) = append_time {
        batch[22] |= 8;
        batch[35..43].copy_from_slice(&time.to_be_bytes());
        write_checksum(batch);
    }
    Ok(())
}

/// The same batch under another producer id, epoch and base sequence: for a retry after the
/// producer's epoch was raised. Copies only when `batch` is still shared.
#[must_use]
pub fn with_producer(
    batch: Batch,
    producer_id: i64,
    producer_epoch: i16,
    base_sequence: i32,
) -> Batch {
    let mut bytes = batch.bytes.try_into_mut().unwrap_or_else(|shared| BytesMut::from(&shared[..]));
    write_producer(&mut bytes, producer_id, producer_epoch, base_sequence);
    write_checksum(&mut bytes);
    Batch { bytes: bytes.freeze() }
}

pub(super) fn write_producer(bytes: &mut [u8], id: i64, epoch: i16, base_sequence: i32) {
    bytes[43..51].copy_from_slice(&id.to_be_bytes());
    bytes[51..53].copy_from_slice(&epoch.to_be_bytes());
    bytes[53..57].copy_from_slice(&base_sequence.to_be_bytes());
}

pub(super) fn write_checksum(bytes: &mut [u8]) {
    let crc = crc32c::crc32c(&bytes[21..]);
    bytes[17..21].copy_from_slice(&crc.to_be_bytes());
}

fn i32_at(bytes: &[u8], at: usize) -> i32 {
    let mut field = [0; 4];
    field.copy_from_slice(&bytes[at..at + 4]);
    i32::from_be_bytes(field)
}

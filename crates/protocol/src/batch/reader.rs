//! Records of one batch, read one at a time by borrowing from its bytes.

use super::{Batch, BatchError, TimestampType, varint};
use bytes::Bytes;

/// One record, borrowed from its batch.
#[derive(Debug, Clone, Copy)]
pub struct RecordRef<'a> {
    /// Place in the partition.
    pub offset: i64,
    /// Milliseconds since 1970; the broker's append time where the topic is set so.
    pub timestamp: i64,
    /// The key, `None` where it is null.
    pub key: Option<&'a [u8]>,
    /// The value, `None` where it is null (a tombstone).
    pub value: Option<&'a [u8]>,
    /// The headers, read on demand.
    pub headers: HeadersRef<'a>,
}

/// A cursor over the records of one batch. It owns (a share of) the bytes, so it can wait in a
/// queue and give one record at a time for as long as it takes.
#[derive(Debug, Clone)]
pub struct RecordReader {
    records: Bytes,
    at: usize,
    /// Where the record begins that was given last.
    last: Option<usize>,
    left: u32,
    from: i64,
    base_offset: i64,
    next_offset: i64,
    base_timestamp: i64,
    append_time: Option<i64>,
    leader_epoch: i32,
}

impl RecordReader {
    pub(super) fn new(batch: &Batch, records: Bytes) -> Result<Self, BatchError> {
        // The shortest record takes seven bytes: a count that cannot be is refused before anybody
        // reserves for it.
        if batch.count() as usize > records.len() / 7 {
            return Err(BatchError::Malformed("it counts more records than its bytes can hold"));
        }
        Ok(Self {
            records,
            at: 0,
            last: None,
            left: batch.count(),
            from: i64::MIN,
            base_offset: batch.base_offset(),
            next_offset: batch.next_offset(),
            base_timestamp: batch.base_timestamp(),
            append_time: (batch.timestamp_type() == TimestampType::LogAppendTime)
                .then(|| batch.max_timestamp()),
            leader_epoch: batch.leader_epoch(),
        })
    }

    /// Leaves out the records before `offset`: a fetch from the middle of a batch brings all of it.
    #[must_use]
    pub fn starting_at(mut self, offset: i64) -> Self {
        self.from = offset;
        self
    }

    /// The next record, `None` behind the last.
    ///
    /// # Errors
    /// When a length inside the record does not fit the bytes. All later calls give the
    /// same error or `None`.
    #[inline]
    pub fn next_record(&mut self) -> Result<Option<RecordRef<'_>>, BatchError> {
        while self.left > 0 {
            let parsed = parse(&self.records, self.at).inspect_err(|_| self.left = 0)?;
            let offset = self.base_offset.wrapping_add(parsed.offset);
            if offset >= self.next_offset || offset < self.base_offset {
                self.left = 0;
                return Err(BatchError::Malformed("a record's offset is outside its batch"));
            }
            self.last = Some(self.at);
            self.at = parsed.end;
            self.left -= 1;
            if offset < self.from {
                continue;
            }
            return Ok(Some(self.record(parsed)));
        }
        Ok(None)
    }

    /// The record that was given last, once more.
    #[must_use]
    pub fn last_record(&self) -> Option<RecordRef<'_>> {
        let parsed = parse(&self.records, self.last?).ok()?;
        Some(self.record(parsed))
    }

    #[inline]
    fn record(&self, parsed: Parsed) -> RecordRef<'_> {
        let Parsed { offset, timestamp, key, value, headers, end } = parsed;
        let bytes = &self.records[..];
        RecordRef {
            offset: self.base_offset.wrapping_add(offset),
            timestamp: match self.append_time {
                Some(time) => time,
                None => self.base_timestamp.wrapping_add(timestamp),
            },
            key: key.map(|(from, to)| &bytes[from..to]),
            value: value.map(|(from, to)| &bytes[from..to]),
            headers: HeadersRef { count: headers.0, bytes: &bytes[headers.1..end] },
        }
    }

    /// Records that were not read yet, those before [`Self::starting_at`] included.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.left as usize
    }

    /// Bytes that were not read yet.
    #[must_use]
    pub fn remaining_bytes(&self) -> usize {
        self.records.len() - self.at
    }

    /// The offset behind the batch: where to read on when it is used up, whatever was left out of
    /// it.
    #[must_use]
    pub fn next_offset(&self) -> i64 {
        self.next_offset
    }

    /// Epoch of the leader that appended the batch, -1 if not known.
    #[must_use]
    pub fn leader_epoch(&self) -> i32 {
        self.leader_epoch
    }
}

struct Parsed {
    offset: i64,
    timestamp: i64,
    key: Option<(usize, usize)>,
    value: Option<(usize, usize)>,
    headers: (u32, usize),
    end: usize,
}

#[inline]
fn parse(bytes: &[u8], mut at: usize) -> Result<Parsed, BatchError> {
    let length = varint::int(bytes, &mut at)?;
    let end = usize::try_from(length)
        .ok()
        .and_then(|length| at.checked_add(length))
        .filter(|end| *end <= bytes.len())
        .ok_or(BatchError::Malformed("a record is longer than its batch"))?;
    let bytes = &bytes[..end];
    at += 1; // attributes, unused
    let timestamp = varint::long(bytes, &mut at)?;
    let offset = i64::from(varint::int(bytes, &mut at)?);
    let key = field(bytes, &mut at)?;
    let value = field(bytes, &mut at)?;
    let count = varint::int(bytes, &mut at)?;
    let headers = at;
    if count == 0 {
        if at != end {
            return Err(BatchError::Malformed("bytes are left behind a record"));
        }
    } else {
        check_headers(bytes, at, count)?;
    }
    Ok(Parsed { offset, timestamp, key, value, headers: (count as u32, headers), end })
}

/// Where a key or value is; `None` if it is null.
#[inline]
fn field(bytes: &[u8], at: &mut usize) -> Result<Option<(usize, usize)>, BatchError> {
    let length = varint::int(bytes, at)?;
    if length < 0 {
        return if length == -1 { Ok(None) } else { Err(NEGATIVE) };
    }
    let from = *at;
    let to = from + length as usize;
    if to > bytes.len() {
        return Err(BatchError::Malformed("a key, value or header is longer than its record"));
    }
    *at = to;
    Ok(Some((from, to)))
}

const NEGATIVE: BatchError = BatchError::Malformed("a length is negative");

/// Walks the headers once, so that reading them later cannot fail.
#[cold]
fn check_headers(bytes: &[u8], mut at: usize, count: i32) -> Result<(), BatchError> {
    if count < 0 {
        return Err(NEGATIVE);
    }
    for _ in 0..count {
        if field(bytes, &mut at)?.is_none() {
            return Err(BatchError::Malformed("a header has no key"));
        }
        field(bytes, &mut at)?;
    }
    if at == bytes.len() {
        Ok(())
    } else {
        Err(BatchError::Malformed("bytes are left behind a record"))
    }
}

/// The headers of a record, in order; a key can stand several times.
#[derive(Debug, Clone, Copy)]
pub struct HeadersRef<'a> {
    count: u32,
    bytes: &'a [u8],
}

impl<'a> HeadersRef<'a> {
    /// No headers.
    pub const EMPTY: HeadersRef<'static> = HeadersRef { count: 0, bytes: &[] };

    /// Number of headers.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Key (UTF-8 by convention) and value of each header.
    #[must_use]
    pub fn iter(&self) -> HeadersIter<'a> {
        HeadersIter { left: self.count, at: 0, bytes: self.bytes }
    }
}

impl<'a> IntoIterator for HeadersRef<'a> {
    type Item = (&'a [u8], Option<&'a [u8]>);
    type IntoIter = HeadersIter<'a>;
    fn into_iter(self) -> HeadersIter<'a> {
        self.iter()
    }
}

/// Iterator of [`HeadersRef::iter`].
#[derive(Debug, Clone)]
pub struct HeadersIter<'a> {
    left: u32,
    at: usize,
    bytes: &'a [u8],
}

impl<'a> Iterator for HeadersIter<'a> {
    type Item = (&'a [u8], Option<&'a [u8]>);

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        // The bytes were walked when the record was read, so neither fails.
        let (from, to) = field(self.bytes, &mut self.at).ok()??;
        let value = field(self.bytes, &mut self.at).ok()?;
        Some((&self.bytes[from..to], value.map(|(from, to)| &self.bytes[from..to])))
    }
}

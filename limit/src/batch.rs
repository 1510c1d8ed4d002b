//! Record batches, format 2: read by borrowing, written in place.

const HEADER: usize = 61;

pub(crate) struct Record<'a> {
    pub(crate) timestamp: i64,
    pub(crate) key: &'a [u8],
    pub(crate) value: &'a [u8],
}

/// All records of the whole batches in `bytes`; a cut batch at the end is left out.
pub(crate) fn records(bytes: &[u8]) -> impl Iterator<Item = Record<'_>> {
    batches(bytes).flat_map(|batch| {
        let crc = u32::from_be_bytes(batch[17..21].try_into().unwrap());
        assert_eq!(crc32c::crc32c(&batch[21..]), crc, "checksum");
        let (base, count) = (i64_at(batch, 27), i32_at(batch, 57));
        let mut at = HEADER;
        (0..count).map(move |_| {
            varint(batch, &mut at);
            at += 1;
            let timestamp = base + varint(batch, &mut at);
            varint(batch, &mut at);
            let key = slice(batch, &mut at);
            let value = slice(batch, &mut at);
            assert_eq!(varint(batch, &mut at), 0, "no headers here");
            Record { timestamp, key, value }
        })
    })
}

/// The offset after the last record of the last whole batch, if there is one.
pub(crate) fn next_offset(bytes: &[u8]) -> Option<i64> {
    batches(bytes).last().map(|batch| i64_at(batch, 0) + i64::from(i32_at(batch, 23)) + 1)
}

fn batches(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        if bytes.len() < HEADER {
            return None;
        }
        let length = 12 + i32_at(bytes, 8) as usize;
        if bytes.len() < length {
            return None;
        }
        let (batch, rest) = bytes.split_at(length);
        bytes = rest;
        Some(batch)
    })
}

pub(crate) struct BatchWriter {
    bytes: Vec<u8>,
    count: i32,
    first_timestamp: i64,
    max_timestamp: i64,
}

impl BatchWriter {
    pub(crate) fn new() -> Self {
        BatchWriter { bytes: vec![0; HEADER], count: 0, first_timestamp: 0, max_timestamp: 0 }
    }
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }
    pub(crate) fn append(&mut self, timestamp: i64, key: &[u8], value: &[u8]) {
        if self.count == 0 {
            self.first_timestamp = timestamp;
        }
        self.max_timestamp = self.max_timestamp.max(timestamp);
        let (time, offset) = (timestamp - self.first_timestamp, i64::from(self.count));
        let (key_len, value_len) = (key.len() as i64, value.len() as i64);
        let length = 1
            + width(time)
            + width(offset)
            + width(key_len)
            + key.len()
            + width(value_len)
            + value.len()
            + 1;
        let bytes = &mut self.bytes;
        put_varint(bytes, length as i64);
        bytes.push(0);
        put_varint(bytes, time);
        put_varint(bytes, offset);
        put_varint(bytes, key_len);
        bytes.extend_from_slice(key);
        put_varint(bytes, value_len);
        bytes.extend_from_slice(value);
        bytes.push(0);
        self.count += 1;
    }
    pub(crate) fn seal(mut self) -> Vec<u8> {
        let length = (self.bytes.len() - 12) as i32;
        let bytes = &mut self.bytes;
        bytes[8..12].copy_from_slice(&length.to_be_bytes());
        bytes[12..16].copy_from_slice(&(-1i32).to_be_bytes());
        bytes[16] = 2;
        bytes[23..27].copy_from_slice(&(self.count - 1).to_be_bytes());
        bytes[27..35].copy_from_slice(&self.first_timestamp.to_be_bytes());
        bytes[35..43].copy_from_slice(&self.max_timestamp.to_be_bytes());
        bytes[43..51].copy_from_slice(&(-1i64).to_be_bytes());
        bytes[51..53].copy_from_slice(&(-1i16).to_be_bytes());
        bytes[53..57].copy_from_slice(&(-1i32).to_be_bytes());
        bytes[57..61].copy_from_slice(&self.count.to_be_bytes());
        let crc = crc32c::crc32c(&bytes[21..]);
        bytes[17..21].copy_from_slice(&crc.to_be_bytes());
        self.bytes
    }
}

pub(crate) fn i32_at(bytes: &[u8], at: usize) -> i32 {
    i32::from_be_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn i64_at(bytes: &[u8], at: usize) -> i64 {
    i64::from_be_bytes(bytes[at..at + 8].try_into().unwrap())
}

fn slice<'a>(bytes: &'a [u8], at: &mut usize) -> &'a [u8] {
    let length = varint(bytes, at) as usize;
    *at += length;
    &bytes[*at - length..*at]
}

#[inline]
fn varint(bytes: &[u8], at: &mut usize) -> i64 {
    let (mut raw, mut shift) = (0u64, 0);
    loop {
        let byte = bytes[*at];
        *at += 1;
        raw |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return (raw >> 1) as i64 ^ -((raw & 1) as i64);
        }
        shift += 7;
    }
}

#[inline]
fn put_varint(bytes: &mut Vec<u8>, value: i64) {
    let mut raw = zigzag(value);
    while raw >= 0x80 {
        bytes.push(raw as u8 | 0x80);
        raw >>= 7;
    }
    bytes.push(raw as u8);
}

fn width(value: i64) -> usize {
    (70 - (zigzag(value) | 1).leading_zeros() as usize) / 7
}

fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

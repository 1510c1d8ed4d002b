//! A value with its record's timestamp: `timestamp (8, big-endian) ‖ value`. The changelog has the bare value.

const TIMESTAMP: usize = 8;

/// Writes the timestamp; the value follows.
pub(in crate::state) fn put_timestamp(timestamp: i64, out: &mut Vec<u8>) {
    out.extend_from_slice(&timestamp.to_be_bytes());
}

/// Timestamp and value; `None` when the bytes are too short to be both.
pub(in crate::state) fn split(bytes: &[u8]) -> Option<(i64, &[u8])> {
    let (timestamp, value) = bytes.split_first_chunk::<TIMESTAMP>()?;
    Some((i64::from_be_bytes(*timestamp), value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamp_comes_first() {
        let mut bytes = Vec::new();
        put_timestamp(258, &mut bytes);
        bytes.extend_from_slice(b"v");
        assert_eq!(bytes, b"\0\0\0\0\0\0\x01\x02v");
        assert_eq!(split(&bytes), Some((258, &b"v"[..])));
        assert_eq!(split(b"short"), None);
    }
}

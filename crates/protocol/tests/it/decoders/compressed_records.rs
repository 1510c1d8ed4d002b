//! Compressed records: a good header before bytes that may be anything, for each compression. The first byte chooses the
//! compression, the second says how many records there are.

use kstreams_protocol::batch::{Batch, HEADER_LENGTH};

/// Bytes that the records may take when they are unpacked.
const UNPACKED_MAX: usize = 1 << 20;

/// Unpacks and reads.
pub(crate) fn run(data: &[u8]) {
    let [compression, count, body @ ..] = data else { return };
    let mut bytes = vec![0; HEADER_LENGTH];
    let length = (HEADER_LENGTH - 12 + body.len()) as i32;
    bytes[8..12].copy_from_slice(&length.to_be_bytes());
    bytes[16] = 2;
    bytes[22] = compression % 5;
    bytes[26] = count.saturating_sub(1);
    bytes[60] = *count;
    bytes.extend_from_slice(body);
    let Ok(batch) = Batch::new(bytes.into()) else { return };
    let Ok(mut reader) = batch.into_records_within(UNPACKED_MAX) else { return };
    let packed = compression % 5 != 0;
    assert!(!packed || reader.remaining_bytes() <= UNPACKED_MAX);
    while let Ok(Some(record)) = reader.next_record() {
        assert!((0..i64::from(*count).max(1)).contains(&record.offset));
        assert_eq!(record.headers.iter().count(), record.headers.len());
    }
}

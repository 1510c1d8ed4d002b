//! Bytes as they are fetched: batches, their headers, their records, control records.

use bytes::Bytes;
use kstreams_protocol::batch::{Batch, ControlType, batches, set_appended, with_producer};

/// Bytes that the records of a batch may take when they are unpacked.
const UNPACKED_MAX: usize = 1 << 20;

/// Reads all that can be read, and checks that it agrees with itself.
pub(crate) fn run(data: &[u8]) {
    for batch in batches(&Bytes::copy_from_slice(data)) {
        let Ok(batch) = batch else { return };
        let _ = batch.verify_checksum();
        rewrite(&batch);
        read(batch);
    }
}

/// Reads the records of a batch.
pub(crate) fn read(batch: Batch) {
    let (count, control) = (batch.count(), batch.is_control());
    let offsets = batch.base_offset()..batch.next_offset();
    assert!(count as usize <= offsets.clone().count());
    let Ok(mut reader) = batch.into_records_within(UNPACKED_MAX) else { return };
    assert_eq!(reader.remaining(), count as usize);
    let mut seen = 0;
    while let Ok(Some(record)) = reader.next_record() {
        seen += 1;
        assert!(offsets.contains(&record.offset));
        assert_eq!(record.headers.iter().count(), record.headers.len());
        if let Some(key) = record.key.filter(|_| control) {
            let kind = ControlType::from_key(key);
            assert!(kind.is_none_or(|kind| key[2..4] == kind.key()[2..4]));
        }
    }
    assert!(seen <= count);
    assert!(matches!(reader.next_record(), Ok(None)), "behind its end a reader stays there");
}

/// What a broker and a retry write into a header keeps the batch whole.
fn rewrite(batch: &Batch) {
    let again = with_producer(batch.clone(), 5, 6, 7);
    again.verify_checksum().expect("a new checksum");
    assert_eq!((again.producer_id(), again.base_sequence()), (5, 7));
    let mut appended = batch.bytes().to_vec();
    set_appended(&mut appended, 1_000, 3, Some(9)).expect("it is one batch");
    let appended = Batch::new(appended.into()).expect("it still is");
    appended.verify_checksum().expect("a new checksum");
    assert_eq!((appended.base_offset(), appended.max_timestamp()), (1_000, 9));
}

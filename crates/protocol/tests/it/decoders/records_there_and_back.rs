//! Whatever is written is read again as it was, in every compression. The bytes say what to write.

use kstreams_protocol::batch::{BatchHead, BatchWriter, Compression, batches};

const COMPRESSIONS: [Compression; 5] = [
    Compression::None,
    Compression::Gzip,
    Compression::Snappy,
    Compression::Lz4,
    Compression::Zstd,
];

type Field<'a> = Option<&'a [u8]>;

struct Record<'a> {
    timestamp: i64,
    key: Field<'a>,
    value: Field<'a>,
    headers: Vec<(String, Field<'a>)>,
}

/// Writes, reads and compares.
pub(crate) fn run(data: &[u8]) {
    let Some((choice, mut rest)) = data.split_first() else { return };
    let mut written = Vec::new();
    while let Some(record) = record(&mut rest) {
        written.push(record);
    }
    if written.is_empty() {
        return;
    }
    let mut writer = BatchWriter::new();
    for Record { timestamp, key, value, headers } in &written {
        let headers: Vec<(&str, Field)> =
            headers.iter().map(|(name, value)| (&**name, *value)).collect();
        let growth = writer.would_grow_by(*timestamp, *key, *value, &headers);
        let before = writer.len();
        writer.append(*timestamp, *key, *value, &headers);
        assert_eq!(writer.len() - before, growth);
    }
    let compression = COMPRESSIONS[usize::from(*choice) % COMPRESSIONS.len()];
    let head = BatchHead { compression, base_offset: 40, ..BatchHead::default() };
    let sealed = writer.seal(&head).expect("sealed");

    let mut batches = batches(&sealed);
    let batch = batches.next().expect("a batch").expect("a good one");
    assert!(batches.next().is_none());
    batch.verify_checksum().expect("its checksum");
    assert_eq!(batch.count() as usize, written.len());
    let mut reader = batch.into_records().expect("unpacked");
    for (offset, record) in (40..).zip(&written) {
        let read = reader.next_record().expect("readable").expect("there");
        assert_eq!(read.offset, offset);
        assert_eq!(read.timestamp, record.timestamp);
        assert_eq!((read.key, read.value), (record.key, record.value));
        let headers = record.headers.iter().map(|(name, value)| (name.as_bytes(), *value));
        assert!(read.headers.iter().eq(headers));
    }
    assert!(reader.next_record().expect("readable").is_none());
}

fn record<'a>(data: &mut &'a [u8]) -> Option<Record<'a>> {
    let (timestamp, rest) = data.split_first_chunk::<8>()?;
    *data = rest;
    let (key, value) = (field(data)?, field(data)?);
    let (count, rest) = data.split_first()?;
    *data = rest;
    let headers = (0..count % 4).map(|_| {
        let name = String::from_utf8_lossy(field(data)?.unwrap_or_default()).into_owned();
        Some((name, field(data)?))
    });
    let headers = headers.collect::<Option<_>>()?;
    Some(Record { timestamp: i64::from_be_bytes(*timestamp), key, value, headers })
}

/// A length, 0 for null, and bytes.
fn field<'a>(data: &mut &'a [u8]) -> Option<Field<'a>> {
    let (length, rest) = data.split_first()?;
    let Some(length) = length.checked_sub(1) else {
        *data = rest;
        return Some(None);
    };
    let (field, rest) = rest.split_at_checked(usize::from(length))?;
    *data = rest;
    Some(Some(field))
}

//! Batches there and back, against Java's bytes, and against damage.

use super::*;
use bytes::Bytes;

/// One record as plain values.
type Record = (i64, i64, Option<Vec<u8>>, Option<Vec<u8>>, Vec<(Vec<u8>, Option<Vec<u8>>)>);

const ALL: [Compression; 5] = [
    Compression::None,
    Compression::Gzip,
    Compression::Snappy,
    Compression::Lz4,
    Compression::Zstd,
];

fn golden(name: &str) -> Bytes {
    let path = format!("{}/testdata/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(path).unwrap().into()
}

/// What `testdata/Golden.java` appends.
fn java_writer() -> BatchWriter {
    let mut writer = BatchWriter::new();
    for i in 0..200i64 {
        let key = (i % 7 != 0).then(|| format!("key-{i}"));
        let value = (i % 11 != 0).then(|| format!("value-{}", "x".repeat(i as usize * 3)));
        let header = format!("hv{i}");
        let headers = [("h0", Some(header.as_bytes())), ("h1", None)];
        let timestamp = 1_700_000_000_000 + (i * 37 % 100) - 50;
        let before = writer.len();
        let (key, value) =
            (key.as_ref().map(String::as_bytes), value.as_ref().map(String::as_bytes));
        let growth = writer.would_grow_by(timestamp, key, value, &headers[..i as usize % 3]);
        writer.append(timestamp, key, value, &headers[..i as usize % 3]);
        assert_eq!(writer.len() - before, growth);
    }
    writer
}

fn head(compression: Compression) -> BatchHead {
    BatchHead {
        producer_id: 77,
        producer_epoch: 4,
        base_sequence: 9,
        transactional: compression == Compression::Gzip,
        compression,
        base_offset: 40,
        leader_epoch: 3,
        ..BatchHead::default()
    }
}

fn read_all(bytes: &Bytes) -> Result<Vec<Record>, BatchError> {
    let mut all = Vec::new();
    for batch in batches(bytes) {
        let batch = batch?;
        batch.verify_checksum()?;
        let mut reader = batch.into_records()?;
        while let Some(record) = reader.next_record()? {
            let headers = record.headers.iter().map(|(k, v)| (k.to_vec(), v.map(<[u8]>::to_vec)));
            all.push((
                record.offset,
                record.timestamp,
                record.key.map(<[u8]>::to_vec),
                record.value.map(<[u8]>::to_vec),
                headers.collect(),
            ));
        }
    }
    Ok(all)
}

#[test]
fn uncompressed_bytes_are_javas() {
    assert_eq!(java_writer().seal(&head(Compression::None)).unwrap(), golden("none.batch"));
}

#[test]
fn every_compression_reads_what_java_wrote_and_what_we_write() {
    let expected = read_all(&java_writer().seal(&head(Compression::None)).unwrap()).unwrap();
    assert_eq!(expected.len(), 200);
    assert_eq!((expected[0].0, expected[199].0), (40, 239));
    for compression in ALL {
        let name = format!("{}.batch", compression.name());
        assert_eq!(read_all(&golden(&name)).unwrap(), expected, "{name}");
        let ours = java_writer().seal(&head(compression)).unwrap();
        assert_eq!(read_all(&ours).unwrap(), expected, "{name}");
        for bytes in [golden(&name), ours] {
            let batch = Batch::new(bytes).unwrap();
            assert_eq!(batch.compression(), Ok(compression));
            assert_eq!(batch.is_transactional(), compression == Compression::Gzip);
            assert!(!batch.is_control());
            assert_eq!(
                (batch.base_offset(), batch.last_offset(), batch.next_offset()),
                (40, 239, 240)
            );
            assert_eq!((batch.producer_id(), batch.producer_epoch()), (77, 4));
            assert_eq!((batch.base_sequence(), batch.last_sequence()), (9, 208));
            assert_eq!((batch.leader_epoch(), batch.count()), (3, 200));
            assert_eq!(batch.max_timestamp(), 1_700_000_000_049);
            assert_eq!(batch.timestamp_type(), TimestampType::CreateTime);
        }
    }
}

#[test]
fn plain_snappy_is_read_too() {
    let writer = java_writer();
    let sealed = writer.seal(&head(Compression::None)).unwrap();
    let packed = snap::raw::Encoder::new().compress_vec(&sealed[HEADER_LENGTH..]).unwrap();
    let mut bytes = sealed[..HEADER_LENGTH].to_vec();
    bytes.extend_from_slice(&packed);
    bytes[22] |= 2;
    let length = (bytes.len() - 12) as i32;
    bytes[8..12].copy_from_slice(&length.to_be_bytes());
    header::write_checksum(&mut bytes);
    assert_eq!(read_all(&bytes.into()).unwrap(), read_all(&sealed).unwrap());
}

#[test]
fn control_records_are_recognised() {
    let batch = Batch::new(golden("control.batch")).unwrap();
    assert!(batch.is_control() && batch.is_transactional());
    assert_eq!((batch.base_offset(), batch.producer_id()), (7, 77));
    let mut records = batch.into_records().unwrap();
    let record = records.next_record().unwrap().unwrap();
    assert_eq!(ControlType::from_key(record.key.unwrap()), Some(ControlType::Commit));
    assert_eq!(record.key.unwrap(), ControlType::Commit.key());
    assert_eq!(record.value.unwrap(), ControlType::value(9));
    assert_eq!(ControlType::from_key(&[0, 0, 0]), None);
    assert_eq!(ControlType::from_key(&ControlType::Abort.key()), Some(ControlType::Abort));
}

#[test]
fn a_cut_off_batch_at_the_end_is_left_out() {
    let one = golden("none.batch");
    let two = Bytes::from([&one[..], &one[..]].concat());
    for cut in 0..two.len() {
        let whole = usize::from(cut >= one.len());
        assert_eq!(batches(&two.slice(..cut)).filter(Result::is_ok).count(), whole, "{cut}");
        assert!(batches(&two.slice(..cut)).all(|b| b.is_ok()), "{cut}");
    }
    assert_eq!(batches(&two).count(), 2);
}

#[test]
fn a_reader_starts_where_it_is_told() {
    let batch = Batch::new(golden("zstd.batch")).unwrap();
    let mut reader = batch.into_records().unwrap().starting_at(238);
    assert_eq!(reader.remaining(), 200);
    assert_eq!(reader.next_record().unwrap().unwrap().offset, 238);
    assert_eq!(reader.next_record().unwrap().unwrap().offset, 239);
    assert!(reader.next_record().unwrap().is_none());
    assert_eq!((reader.remaining(), reader.next_offset()), (0, 240));
}

#[test]
fn a_broker_and_a_retry_rewrite_the_header() {
    let mut bytes = golden("none.batch").to_vec();
    set_appended(&mut bytes, 1_000, 8, Some(5)).unwrap();
    let batch = Batch::new(bytes.into()).unwrap();
    batch.verify_checksum().unwrap();
    assert_eq!((batch.base_offset(), batch.leader_epoch()), (1_000, 8));
    assert_eq!(batch.timestamp_type(), TimestampType::LogAppendTime);
    let kept = batch.clone();
    let again = with_producer(batch, 78, 0, i32::MAX);
    again.verify_checksum().unwrap();
    assert_eq!((again.producer_id(), again.producer_epoch()), (78, 0));
    assert_eq!((again.base_sequence(), again.last_sequence()), (i32::MAX, 198));
    assert_eq!(kept.producer_id(), 77, "a shared batch is copied");
    let mut records = again.into_records().unwrap();
    let record = records.next_record().unwrap().unwrap();
    assert_eq!((record.offset, record.timestamp), (1_000, 5));
    assert!(set_appended(&mut [0; 70], 0, 0, None).is_err());
}

/// A small generator with a seed, enough to damage bytes.
struct Seeded(u64);

impl Seeded {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end as u64) as usize
    }
}

#[test]
fn damage_is_an_error_and_never_a_panic() {
    let mut random = Seeded(0x9e37_79b9_7f4a_7c15);
    for compression in ALL {
        let whole = golden(&format!("{}.batch", compression.name()));
        for _ in 0..2_000 {
            let mut bytes = whole.to_vec();
            for _ in 0..=random.below(3) {
                let at = random.below(bytes.len());
                bytes[at] ^= 1 << random.below(8);
            }
            bytes.truncate(bytes.len() - random.below(2) * random.below(bytes.len()));
            // With the checksum as it is, and with one that makes the damage look genuine.
            let noticed = read_all(&bytes.clone().into());
            if bytes.len() == whole.len() && bytes[21..] != whole[21..] {
                assert!(noticed.is_err() || bytes[8..12] != whole[8..12]);
            }
            if bytes.len() > HEADER_LENGTH {
                header::write_checksum(&mut bytes);
                let _ = read_all(&bytes.into());
            }
        }
    }
}

#[test]
fn noise_is_an_error_and_never_a_panic() {
    let mut random = Seeded(42);
    for _ in 0..5_000 {
        let mut bytes = vec![0; random.below(300)];
        bytes.iter_mut().for_each(|byte| *byte = random.below(256) as u8);
        if bytes.len() > HEADER_LENGTH {
            let length = (bytes.len() - 12) as i32;
            bytes[8..12].copy_from_slice(&length.to_be_bytes());
            bytes[16] = 2;
            bytes[21] = 0;
            bytes[57..60].fill(0);
            header::write_checksum(&mut bytes);
        }
        let _ = read_all(&bytes.into());
    }
}

#[test]
fn a_batch_that_unpacks_beyond_the_bound_is_refused() {
    for compression in ALL.into_iter().skip(1) {
        let mut writer = BatchWriter::new();
        writer.append(0, None, Some(&vec![0; 4 << 20]), &[]);
        let batch = Batch::new(writer.seal(&head(compression)).unwrap()).unwrap();
        assert!(batch.bytes().len() < 1 << 19);
        let refused = batch.clone().into_records_within(1 << 20);
        assert_eq!(refused.unwrap_err(), BatchError::TooLarge { limit: 1 << 20 });
        assert_eq!(
            batch.into_records().unwrap().next_record().unwrap().unwrap().value.unwrap().len(),
            4 << 20
        );
    }
}

#[test]
fn random_records_survive_the_way_there_and_back() {
    let mut random = Seeded(7);
    for round in 0..200 {
        let compression = ALL[round % ALL.len()];
        let mut writer = BatchWriter::with_capacity(random.below(1000));
        let mut expected: Vec<Record> = Vec::new();
        for i in 0..random.below(50) {
            let field = |random: &mut Seeded| {
                (random.below(5) != 0).then(|| vec![random.below(256) as u8; random.below(400)])
            };
            let (key, value) = (field(&mut random), field(&mut random));
            let timestamp = random.below(1 << 40) as i64 - (1 << 39);
            let header = field(&mut random);
            let headers = vec![("name", header.as_deref()); random.below(3)];
            writer.append(timestamp, key.as_deref(), value.as_deref(), &headers);
            let headers =
                headers.iter().map(|(k, v)| (k.as_bytes().to_vec(), v.map(<[u8]>::to_vec)));
            expected.push((40 + i as i64, timestamp, key, value, headers.collect()));
        }
        if writer.is_empty() {
            continue;
        }
        let bytes = writer.seal(&head(compression)).unwrap();
        assert_eq!(read_all(&bytes).unwrap(), expected);
    }
}

#[test]
fn sequences_wrap_behind_the_largest() {
    assert_eq!(sequence_after(0, 5), 5);
    assert_eq!(sequence_after(i32::MAX, 1), 0);
    assert_eq!(sequence_after(i32::MAX - 1, 3), 1);
}

//! Writing.

use crate::support::*;
use kstreams_client::{
    AppendError, Compression, ErrorKind, Event, ProducerConfig, Reader, ResetPolicy, Start,
    TopicPartition,
};
use std::time::Duration;

#[test]
fn every_compression_comes_back_with_headers_and_nulls() {
    let mut client = client();
    for compression in [
        Compression::None,
        Compression::Gzip,
        Compression::Snappy,
        Compression::Lz4,
        Compression::Zstd,
    ] {
        let partition = TopicPartition::new(topic(&mut client, 1), 0);
        let mut producer = client.producer(ProducerConfig { compression, ..Default::default() });
        let handle = producer.partition(&partition);
        let large = vec![7; 900_000];
        producer.append(handle, 5, None, Some(b"v"), &[("h", Some(b"1")), ("n", None)]).unwrap();
        producer.append(handle, 6, Some(b"k"), None, &[]).unwrap();
        producer.append(handle, 7, Some(b""), Some(&large), &[]).unwrap();
        let flushed = done(producer.flush());
        assert_eq!(flushed.end_offsets, [(handle, 3)]);
        client.fetch(Reader::Source, partition.clone(), Start::Reset, ResetPolicy::Earliest);
        let mut seen = 0;
        events_until(&mut client, |event| {
            let Event::Fetched(fetched) = event else { return false };
            for mut batch in fetched.batches {
                while let Some(record) = batch.next_record().unwrap() {
                    match record.offset {
                        0 => {
                            assert_eq!((record.key, record.value), (None, Some(&b"v"[..])));
                            let headers: Vec<_> = record.headers.iter().collect();
                            assert_eq!(headers, [(&b"h"[..], Some(&b"1"[..])), (b"n", None)]);
                        }
                        1 => assert_eq!((record.key, record.value), (Some(&b"k"[..]), None)),
                        _ => assert_eq!(
                            (record.key, record.value),
                            (Some(&b""[..]), Some(&large[..]))
                        ),
                    }
                    assert_eq!(record.timestamp, 5 + record.offset);
                    seen += 1;
                }
            }
            seen == 3
        });
    }
}

#[test]
fn many_batches_keep_their_order() {
    let mut client = client();
    let topic = topic(&mut client, 4);
    let config = ProducerConfig { batch_size: 4_000, ..Default::default() };
    let mut producer = client.producer(config);
    let partitions: Vec<_> = (0..4).map(|p| TopicPartition::new(topic.clone(), p)).collect();
    let handles: Vec<_> = partitions.iter().map(|p| producer.partition(p)).collect();
    for at in 0..40_000 {
        let value = at.to_string();
        while producer.append(handles[at % 4], 0, None, Some(value.as_bytes()), &[]).is_err() {
            client.wait(Duration::from_millis(10));
        }
    }
    let flushed = done(producer.flush());
    assert_eq!(flushed.end_offsets, handles.iter().map(|h| (*h, 10_000)).collect::<Vec<_>>());
    assert_eq!(producer.buffered_bytes(), 0);
    for (at, partition) in partitions.iter().enumerate() {
        let all = read(&mut client, partition, 10_000);
        assert_eq!(all.len(), 10_000);
        for (nth, (offset, _, value)) in all.iter().enumerate() {
            assert_eq!(
                (*offset, value.as_str()),
                (nth as i64, (nth * 4 + at).to_string().as_str())
            );
        }
    }
}

#[test]
fn lingering_batches_go_out_by_themselves() {
    let mut client = client();
    let partition = TopicPartition::new(topic(&mut client, 1), 0);
    let mut producer = client.producer(ProducerConfig::default());
    let handle = producer.partition(&partition);
    producer.append(handle, 0, None, Some(b"x"), &[]).unwrap();
    let due = producer.poll(Duration::from_secs(1)).unwrap();
    assert_eq!(due, Duration::from_secs(1) + ProducerConfig::default().linger);
    assert_eq!(producer.poll(due), None);
    assert_eq!(read(&mut client, &partition, 1).len(), 1);
}

#[test]
fn a_batch_over_the_topics_limit_is_split() {
    let mut client = client();
    let topic = topic_with(&mut client, 1, &[("max.message.bytes", "2000")]);
    let partition = TopicPartition::new(topic, 0);
    let mut producer = client.producer(ProducerConfig::default());
    let records: Vec<(String, String)> =
        (0..500).map(|at| (format!("{at}"), "v".repeat(50))).collect();
    let records: Vec<(&str, &str)> =
        records.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    write(&mut producer, &partition, &records);
    let all = read(&mut client, &partition, 500);
    let keys: Vec<&str> = all.iter().map(|(_, key, _)| key.as_str()).collect();
    assert_eq!(keys, records.iter().map(|(key, _)| *key).collect::<Vec<_>>());
    // One record alone that is too large is an error that names the remedy; what follows goes on.
    let handle = producer.partition(&partition);
    producer.append(handle, 0, None, Some(&[0; 3_000]), &[]).unwrap();
    let error = producer.flush().wait(LONG).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    let message = error.to_string();
    assert!(
        message.contains(&partition.to_string()) && message.contains("max.message.bytes"),
        "{message}"
    );
    write(&mut producer, &partition, &[("after", "x")]);
    assert_eq!(read(&mut client, &partition, 501).last().unwrap().1, "after");
}

#[test]
fn the_buffer_is_bounded_and_large_records_are_refused() {
    let mut client = client();
    let partition = TopicPartition::new(topic(&mut client, 1), 0);
    let config = ProducerConfig { batch_size: 1_000, buffer_memory: 10_000, ..Default::default() };
    let mut producer = client.producer(config);
    let handle = producer.partition(&partition);
    let refused = producer.append(handle, 0, None, Some(&vec![0; 2 << 20]), &[]);
    assert!(matches!(refused, Err(AppendError::RecordTooLarge { .. })));
    let mut written = 0;
    let mut full = 0;
    while written < 2_000 {
        match producer.append(handle, 0, None, Some(&[1; 500]), &[]) {
            Ok(()) => written += 1,
            Err(error) => {
                assert_eq!(error, AppendError::BufferFull);
                assert!(producer.buffered_bytes() <= 10_000);
                full += 1;
                client.wait(Duration::from_millis(20));
            }
        }
    }
    done(producer.flush());
    assert!(full > 0);
    assert_eq!(read(&mut client, &partition, 2_000).len(), 2_000);
}

#[test]
fn a_topic_that_does_not_exist_fails_at_the_flush() {
    let mut client = client();
    let config =
        ProducerConfig { delivery_timeout: Duration::from_millis(500), ..Default::default() };
    let mut producer = client.producer(config);
    let handle = producer.partition(&TopicPartition::new("none-such", 0));
    producer.append(handle, 0, None, Some(b"x"), &[]).unwrap();
    let error = producer.flush().wait(LONG).unwrap_err();
    assert!(error.to_string().contains("none-such-0"), "{error}");
    assert!(error.to_string().contains("UNKNOWN_TOPIC_OR_PARTITION"), "{error}");
}

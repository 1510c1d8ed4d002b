//! The work with kstreams-client.

use crate::client::{KEY_BYTES, VALUE_BYTES, record};
use crate::measure::Failure;
use crate::topics::{PARTITIONS, PATIENCE, client};
use kstreams_client::{
    AppendError, Event, ProducerConfig, Reader, ResetPolicy, Start, TopicPartition,
};
use std::time::Duration;

pub(crate) fn produce(bootstrap: &str, topic: &str, records: usize) -> Result<(), Failure> {
    let mut client = client(bootstrap)?;
    let mut producer = client.producer(ProducerConfig::default());
    let partitions: Vec<_> = (0..PARTITIONS)
        .map(|partition| producer.partition(&TopicPartition::new(topic, partition)))
        .collect();
    let (mut key, mut value) = ([0; KEY_BYTES], [b'x'; VALUE_BYTES]);
    for number in 0..records {
        record(number, &mut key, &mut value);
        let partition = partitions[number % PARTITIONS as usize];
        while let Err(error) =
            producer.append(partition, number as i64, Some(&key), Some(&value), &[])
        {
            match error {
                AppendError::BufferFull => client.wait(Duration::from_millis(5)),
                AppendError::RecordTooLarge { .. } => return Err(error.into()),
            }
        }
    }
    producer.flush().wait(PATIENCE)?;
    Ok(())
}

pub(crate) fn fetch(bootstrap: &str, topic: &str, records: usize) -> Result<(), Failure> {
    let mut client = client(bootstrap)?;
    for partition in 0..PARTITIONS {
        let partition = TopicPartition::new(topic, partition);
        client.fetch(Reader::Source, partition, Start::Reset, ResetPolicy::Earliest);
    }
    let (mut seen, mut bytes) = (0, 0);
    while seen < records {
        client.wait(Duration::from_millis(100));
        while let Some(event) = client.next_event() {
            let Event::Fetched(fetched) = event else { continue };
            for mut batch in fetched.batches {
                while let Some(record) = batch.next_record()? {
                    seen += 1;
                    bytes +=
                        record.key.map_or(0, <[u8]>::len) + record.value.map_or(0, <[u8]>::len);
                }
            }
        }
    }
    check(seen, bytes, records)
}

/// The work is done when all bytes were there.
pub(crate) fn check(seen: usize, bytes: usize, records: usize) -> Result<(), Failure> {
    if (seen, bytes) == (records, records * (KEY_BYTES + VALUE_BYTES)) {
        return Ok(());
    }
    Err(format!("{seen} records of {bytes} bytes instead of {records}").into())
}

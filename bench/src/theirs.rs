//! The same work with rdkafka.

use crate::client::{KEY_BYTES, VALUE_BYTES, record};
use crate::measure::Failure;
use crate::ours::check;
use crate::topics::PARTITIONS;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::Message;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{Offset, TopicPartitionList};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn produce(bootstrap: &str, topic: &str, records: usize) -> Result<(), Failure> {
    let producer: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .set("enable.idempotence", "true")
        .set("linger.ms", "100")
        .set("batch.size", "262144")
        .set("queue.buffering.max.messages", "1000000")
        .create()?;
    let (mut key, mut value) = ([0; KEY_BYTES], [b'x'; VALUE_BYTES]);
    for number in 0..records {
        record(number, &mut key, &mut value);
        let mut next = BaseRecord::to(topic)
            .key(&key[..])
            .payload(&value[..])
            .partition((number % PARTITIONS as usize) as i32)
            .timestamp(number as i64);
        loop {
            match producer.send(next) {
                Ok(()) => break,
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), back)) => {
                    next = back;
                    producer.poll(Duration::from_millis(10));
                }
                Err((error, _)) => return Err(error.into()),
            }
        }
        if number % 1000 == 0 {
            producer.poll(Duration::ZERO);
        }
    }
    Ok(producer.flush(PATIENCE)?)
}

pub(crate) fn fetch(bootstrap: &str, topic: &str, records: usize) -> Result<(), Failure> {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .set("group.id", "bench")
        .set("enable.auto.commit", "false")
        .set("check.crcs", "true")
        .create()?;
    let mut assignment = TopicPartitionList::new();
    for partition in 0..PARTITIONS {
        assignment.add_partition_offset(topic, partition, Offset::Beginning)?;
    }
    consumer.assign(&assignment)?;
    let (mut seen, mut bytes) = (0, 0);
    while seen < records {
        let Some(message) = consumer.poll(PATIENCE) else { break };
        let message = message?;
        seen += 1;
        bytes += message.key().map_or(0, <[u8]>::len) + message.payload().map_or(0, <[u8]>::len);
    }
    check(seen, bytes, records)
}

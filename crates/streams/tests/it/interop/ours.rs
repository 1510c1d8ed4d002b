//! Our side: records written and read by our client, and how the batches in a log are compressed.

use super::partitions;
use super::record::{Record, sorted};
use crate::kafka::{Kafka, PATIENCE};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use kstreams_client::{
    Clock, Compression, Event, ProducerConfig, Reader, ResetPolicy, Start, SystemClock,
    TopicPartition,
};
use kstreams_protocol::batch::batches;
use kstreams_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kstreams_protocol::messages::metadata_request::MetadataRequestTopic;
use kstreams_protocol::messages::{
    FetchRequest, MetadataRequest, RequestHeader, ResponseHeader, TopicName,
};
use kstreams_protocol::protocol::{Decodable, Encodable, HeaderVersion, Request, StrBytes};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Writes records with one compression.
pub(super) fn write(kafka: &mut Kafka, topic: &str, compression: Compression, records: &[Record]) {
    let config = ProducerConfig { compression, ..ProducerConfig::default() };
    let mut producer = kafka.client().producer(config);
    for record in records {
        let handle = producer.partition(&TopicPartition::new(topic, record.partition));
        let headers: Vec<(&str, Option<&[u8]>)> =
            record.headers.iter().map(|(name, value)| (&**name, value.as_deref())).collect();
        let (key, value) = (record.key.as_deref(), record.value.as_deref());
        producer.append(handle, record.timestamp, key, value, &headers).expect("appended");
    }
    producer.flush().wait(PATIENCE).expect("written");
}

/// Reads the first `count` records of a topic with a partition for each compression, or of one with a single partition.
pub(super) fn read(kafka: &Kafka, topic: &str, partitions: i32, count: usize) -> Vec<Record> {
    let clock = SystemClock::new();
    let deadline = clock.now() + PATIENCE;
    let mut kafka = Kafka::at(&kafka.bootstrap);
    let client = kafka.client();
    for partition in 0..partitions {
        let partition = TopicPartition::new(topic, partition);
        client.fetch(Reader::Source, partition, Start::Reset, ResetPolicy::Earliest);
    }
    let mut read = Vec::new();
    while read.len() < count {
        assert!(clock.now() < deadline, "{topic}: {} of {count} records", read.len());
        client.wait(Duration::from_millis(100));
        while let Some(event) = client.next_event() {
            let Event::Fetched(fetched) = event else { continue };
            for mut batch in fetched.batches {
                while let Some(record) = batch.next_record().expect("a record") {
                    let name = |name: &[u8]| String::from_utf8(name.to_vec()).expect("UTF-8");
                    let headers = record.headers.iter();
                    read.push(Record {
                        partition: fetched.partition.partition,
                        offset: record.offset,
                        timestamp: record.timestamp,
                        key: record.key.map(<[u8]>::to_vec),
                        value: record.value.map(<[u8]>::to_vec),
                        headers: headers
                            .map(|(key, value)| (name(key), value.map(<[u8]>::to_vec)))
                            .collect(),
                    });
                }
            }
        }
    }
    sorted(read)
}

/// Checks that each partition has batches of its compression. A client may send a batch as it is where compression
/// would not make it smaller.
pub(super) fn assert_compressed(kafka: &Kafka, topic: &str) {
    let broker = leaders(&kafka.bootstrap, topic);
    for ((partition, wanted), leader) in partitions().zip(broker) {
        let found = compressions(&leader, topic, partition);
        assert!(found.contains(&wanted), "{topic}-{partition}: {found:?}, not {wanted:?}");
        let fits = |found: &Compression| [wanted, Compression::None].contains(found);
        assert!(found.iter().all(fits), "{topic}-{partition}: {found:?}, not {wanted:?}");
    }
}

/// The addresses of the leaders of the partitions.
fn leaders(bootstrap: &str, topic: &str) -> Vec<String> {
    let name = MetadataRequestTopic::default().with_name(Some(topic_name(topic)));
    let answer = call(bootstrap, 9, &MetadataRequest::default().with_topics(Some(vec![name])));
    let mut partitions = answer.topics[0].partitions.clone();
    partitions.sort_by_key(|partition| partition.partition_index);
    let address = |leader| {
        let broker = answer.brokers.iter().find(|broker| broker.node_id == leader);
        let broker = broker.expect("a leader");
        format!("{}:{}", &*broker.host, broker.port)
    };
    partitions.iter().map(|partition| address(partition.leader_id)).collect()
}

/// The compression of each batch of a partition, as its leader has it.
fn compressions(leader: &str, topic: &str, partition: i32) -> Vec<Compression> {
    let all = 16 << 20;
    let part = FetchPartition::default().with_partition(partition).with_partition_max_bytes(all);
    let topic = FetchTopic::default().with_topic(topic_name(topic)).with_partitions(vec![part]);
    let request = FetchRequest::default()
        .with_replica_id((-1).into())
        .with_max_wait_ms(1_000)
        .with_min_bytes(1)
        .with_max_bytes(all)
        .with_topics(vec![topic]);
    let answer = call(leader, 12, &request);
    let partition = &answer.responses[0].partitions[0];
    assert_eq!(partition.error_code, 0);
    let records = partition.records.clone().expect("records");
    batches(&records).map(|batch| batch.expect("a batch").compression().expect("known")).collect()
}

fn topic_name(topic: &str) -> TopicName {
    TopicName(StrBytes::from_string(topic.to_owned()))
}

/// One request on a connection of its own.
fn call<R: Request>(address: &str, version: i16, request: &R) -> R::Response {
    let mut frame = BytesMut::new();
    RequestHeader::default()
        .with_request_api_key(R::KEY)
        .with_request_api_version(version)
        .encode(&mut frame, R::header_version(version))
        .and_then(|()| request.encode(&mut frame, version))
        .expect("encoded");
    let mut sent = BytesMut::new();
    sent.put_u32(frame.len() as u32);
    sent.put(frame);
    let mut stream = TcpStream::connect(address).expect("a connection");
    stream.write_all(&sent).expect("sent");
    let mut size = [0; 4];
    stream.read_exact(&mut size).expect("an answer");
    let mut answer = vec![0; (&size[..]).get_u32() as usize];
    stream.read_exact(&mut answer).expect("an answer");
    let mut answer = Bytes::from(answer);
    ResponseHeader::decode(&mut answer, R::Response::header_version(version)).expect("a header");
    R::Response::decode(&mut answer, version).expect("an answer")
}

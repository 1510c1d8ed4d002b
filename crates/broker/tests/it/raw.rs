//! A client that speaks raw messages, over memory or TCP, one request at a time.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use kstreams_broker::{Broker, MemoryConnection};
use kstreams_protocol::batch::{BatchHead, BatchWriter};
use kstreams_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kstreams_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kstreams_protocol::messages::produce_response::PartitionProduceResponse;
use kstreams_protocol::messages::{
    FetchRequest, ProduceRequest, RequestHeader, ResponseHeader, TopicName,
};
use kstreams_protocol::protocol::{Decodable, Encodable, HeaderVersion, Request, StrBytes};

pub(crate) fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

pub(crate) fn topic(name: &str) -> TopicName {
    TopicName(text(name))
}

/// Where the bytes go.
pub(crate) enum Transport {
    Memory(MemoryConnection),
    Tcp(TcpStream),
}

/// A connection.
pub(crate) struct Raw {
    pub(crate) transport: Transport,
    correlation_id: i32,
    received: BytesMut,
}

impl Raw {
    pub(crate) fn memory(broker: &Broker) -> Self {
        Self::new(Transport::Memory(broker.connect()))
    }

    pub(crate) fn tcp(address: &str) -> Self {
        Self::new(Transport::Tcp(TcpStream::connect(address).unwrap()))
    }

    fn new(transport: Transport) -> Self {
        Self { transport, correlation_id: 0, received: BytesMut::new() }
    }

    /// Sends a request and does not wait.
    pub(crate) fn send<R: Request>(&mut self, version: i16, request: &R) {
        self.correlation_id += 1;
        let mut frame = BytesMut::new();
        frame.put_i32(0);
        RequestHeader::default()
            .with_request_api_key(R::KEY)
            .with_request_api_version(version)
            .with_correlation_id(self.correlation_id)
            .with_client_id(Some(text("raw")))
            .encode(&mut frame, R::header_version(version))
            .unwrap();
        request.encode(&mut frame, version).unwrap();
        let size = i32::try_from(frame.len() - 4).unwrap();
        frame[..4].copy_from_slice(&size.to_be_bytes());
        self.write(&frame);
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) {
        match &mut self.transport {
            Transport::Memory(memory) => assert_eq!(memory.write(bytes).unwrap(), bytes.len()),
            Transport::Tcp(tcp) => tcp.write_all(bytes).unwrap(),
        }
    }

    /// Sends a request and takes its answer, which must come at once over memory.
    pub(crate) fn call<R: Request>(&mut self, version: i16, request: &R) -> R::Response {
        self.send(version, request);
        self.receive::<R>(version).expect("an answer")
    }

    /// The answer to the oldest open request; `None` if there is none now, or the connection was
    /// closed.
    pub(crate) fn receive<R: Request>(&mut self, version: i16) -> Option<R::Response> {
        let mut frame = self.frame().ok()??;
        let header_version = R::Response::header_version(version);
        ResponseHeader::decode(&mut frame, header_version).unwrap();
        let response = R::Response::decode(&mut frame, version).unwrap();
        assert!(frame.is_empty(), "{} bytes behind the answer", frame.len());
        Some(response)
    }

    /// `Err` when the connection was closed.
    pub(crate) fn frame(&mut self) -> Result<Option<Bytes>, ()> {
        loop {
            if let Some(size) = self.received.get(..4).map(|mut size| size.get_u32() as usize)
                && self.received.len() >= 4 + size
            {
                self.received.advance(4);
                return Ok(Some(self.received.split_to(size).freeze()));
            }
            let mut buffer = [0; 4096];
            let read = match &mut self.transport {
                Transport::Memory(memory) => memory.read(&mut buffer),
                Transport::Tcp(tcp) => tcp.read(&mut buffer),
            };
            match read {
                Ok(0) => return Err(()),
                Ok(size) => self.received.extend_from_slice(&buffer[..size]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(_) => return Err(()),
            }
        }
    }

    /// Produces a batch, and gives its error and base offset.
    pub(crate) fn produce(&mut self, name: &str, partition: i32, records: Bytes) -> (i16, i64) {
        let response = self.produce_full(name, partition, records);
        (response.error_code, response.base_offset)
    }

    pub(crate) fn produce_full(
        &mut self,
        name: &str,
        partition: i32,
        records: Bytes,
    ) -> PartitionProduceResponse {
        let mut response = self.call(9, &produce_request(name, partition, records, -1));
        response.responses.remove(0).partition_responses.remove(0)
    }

    /// Fetches a partition without waiting: the error, and the values from `offset` on.
    pub(crate) fn values(&mut self, name: &str, partition: i32, offset: i64) -> (i16, Vec<String>) {
        let response = self.call(12, &fetch_request(name, partition, offset, 0));
        let data = &response.responses[0].partitions[0];
        let records = data.records.clone().unwrap_or_default();
        (data.error_code, values_in(&records, offset))
    }
}

pub(crate) fn values_in(records: &Bytes, from: i64) -> Vec<String> {
    let mut values = Vec::new();
    for batch in kstreams_protocol::batch::batches(records) {
        let mut records = batch.unwrap().into_records().unwrap();
        while let Some(record) = records.next_record().unwrap() {
            if record.offset >= from {
                let value = record.value.map(|value| String::from_utf8_lossy(value).into_owned());
                values.push(value.unwrap_or_else(|| "null".to_owned()));
            }
        }
    }
    values
}

pub(crate) fn produce_request(
    name: &str,
    partition: i32,
    records: Bytes,
    acks: i16,
) -> ProduceRequest {
    let data = PartitionProduceData::default().with_index(partition).with_records(Some(records));
    let data = TopicProduceData::default().with_name(topic(name)).with_partition_data(vec![data]);
    ProduceRequest::default().with_acks(acks).with_timeout_ms(1000).with_topic_data(vec![data])
}

pub(crate) fn fetch_request(
    name: &str,
    partition: i32,
    offset: i64,
    max_wait_ms: i32,
) -> FetchRequest {
    let partition = FetchPartition::default()
        .with_partition(partition)
        .with_fetch_offset(offset)
        .with_partition_max_bytes(1 << 20);
    let topics = FetchTopic::default().with_topic(topic(name)).with_partitions(vec![partition]);
    FetchRequest::default()
        .with_max_wait_ms(max_wait_ms)
        .with_min_bytes(1)
        .with_max_bytes(10 << 20)
        .with_session_epoch(-1)
        .with_topics(vec![topics])
}

/// A batch of records with the given keys and values ("null" is null) at a timestamp.
pub(crate) fn batch_at(timestamp: i64, records: &[(&str, &str)]) -> Bytes {
    batch_with(timestamp, records, &BatchHead::default())
}

pub(crate) fn batch_with(timestamp: i64, records: &[(&str, &str)], head: &BatchHead) -> Bytes {
    let mut writer = BatchWriter::new();
    for (key, value) in records {
        let some = |text: &str| (text != "null").then(|| text.as_bytes().to_vec());
        let (key, value) = (some(key), some(value));
        writer.append(timestamp, key.as_deref(), value.as_deref(), &[]);
    }
    writer.seal(head).unwrap()
}

/// A batch of an idempotent producer.
pub(crate) fn idempotent(id: i64, epoch: i16, sequence: i32, values: &[&str]) -> Bytes {
    let head = BatchHead {
        producer_id: id,
        producer_epoch: epoch,
        base_sequence: sequence,
        ..BatchHead::default()
    };
    let records: Vec<(&str, &str)> = values.iter().map(|value| ("k", *value)).collect();
    batch_with(0, &records, &head)
}

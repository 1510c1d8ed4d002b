//! Three brokers of Apache Kafka 4.4, which end with the test however it ends.

use crate::support::{client_with, done};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use kstreams_client::{Client, ClientConfig, NewTopic};
use kstreams_protocol::messages::{
    MetadataRequest, MetadataResponse, RequestHeader, ResponseHeader,
};
use kstreams_protocol::protocol::{Decodable, Encodable, HeaderVersion};
use kstreams_test_programs::Brokers;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// A broker that is gone is missed after 3 s, and leads again soon after it came back.
const SETTINGS: &str = "broker.session.timeout.ms=3000
broker.heartbeat.interval.ms=500
leader.imbalance.check.interval.seconds=5
offsets.topic.num.partitions=6
transaction.state.log.num.partitions=6";

pub(crate) struct Cluster(Brokers);

impl Cluster {
    pub(crate) fn start() -> Self {
        Self(Brokers::start(3, SETTINGS))
    }

    pub(crate) fn bootstrap(&self) -> &str {
        self.0.bootstrap()
    }

    /// Kills a broker and waits until it is gone.
    pub(crate) fn kill(&self, node: u32) {
        self.0.kill(node);
    }

    pub(crate) fn bring_back(&self, node: u32) {
        self.0.bring_back(node);
    }

    pub(crate) fn client(&self) -> Client {
        let seed = std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64;
        client_with(ClientConfig { seed, ..ClientConfig::new(self.bootstrap()) })
    }

    pub(crate) fn create_topic(&self, name: &str, partitions: i32) {
        let mut topic = NewTopic::new(name, partitions).config("min.insync.replicas", "2");
        topic.replication_factor = 3;
        let created = done(self.client().create_topics(vec![topic]));
        created.into_values().for_each(|result| result.unwrap());
    }

    /// Waits until every partition is on all brokers.
    pub(crate) fn wait_in_sync(&self) {
        for _ in 0..600 {
            let all = self.metadata().is_some_and(|metadata| {
                let mut partitions = metadata.topics.iter().flat_map(|topic| &topic.partitions);
                partitions.all(|partition| partition.isr_nodes.len() == 3)
            });
            if all {
                return;
            }
            std::thread::park_timeout(Duration::from_millis(100));
        }
        panic!("the brokers do not come together again");
    }

    /// What a broker knows of all topics.
    fn metadata(&self) -> Option<MetadataResponse> {
        const VERSION: i16 = 12;
        let mut stream = TcpStream::connect(self.bootstrap().split(',').next()?).ok()?;
        let mut frame = BytesMut::new();
        frame.put_i32(0);
        let header = RequestHeader::default().with_request_api_key(3);
        let header = header.with_request_api_version(VERSION);
        header.encode(&mut frame, MetadataRequest::header_version(VERSION)).ok()?;
        MetadataRequest::default().with_topics(None).encode(&mut frame, VERSION).ok()?;
        let size = u32::try_from(frame.len() - 4).ok()?;
        frame[..4].copy_from_slice(&size.to_be_bytes());
        stream.write_all(&frame).ok()?;
        let mut head = [0; 4];
        stream.read_exact(&mut head).ok()?;
        let mut answer = vec![0; (&head[..]).get_u32() as usize];
        stream.read_exact(&mut answer).ok()?;
        let mut answer = Bytes::from(answer);
        ResponseHeader::decode(&mut answer, MetadataResponse::header_version(VERSION)).ok()?;
        MetadataResponse::decode(&mut answer, VERSION).ok()
    }
}

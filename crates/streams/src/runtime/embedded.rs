//! The embedded broker, for examples and tests.

use super::app::{KafkaStreams, KafkaStreamsBuilder};
use super::cluster::Networks;
use super::collector::ProducerCollector;
use super::task_slot::client_error;
use crate::config::StreamsConfig;
use crate::error::{BoxError, Error, ErrorKind, Result};
use crate::record::{Header, Headers, Record};
use crate::serde::{At, DefaultSerde, deserialize_nullable, serialize_nullable};
use crate::task::{Outgoing, Placement, RecordCollector};
use crate::topology::Topology;
use kstreams_broker::{Broker, BrokerConfig, MemoryConnection};
use kstreams_client::driver::ByteStream;
use kstreams_client::driver::memory::{MemoryNetwork, Ready};
use kstreams_client::{Client, ClientConfig, Network, ProducerConfig, TopicState};
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// How long writing may take.
const WRITE: Duration = Duration::from_secs(30);

/// A Kafka broker in this process: one node, in memory, gone when it is dropped.
///
/// Applications started by [`Self::run`] reach it without a socket; any other Kafka client can connect to [`Self::bootstrap`].
pub struct EmbeddedBroker {
    broker: Broker,
}

impl fmt::Debug for EmbeddedBroker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbeddedBroker").field("bootstrap", &self.bootstrap()).finish()
    }
}

impl EmbeddedBroker {
    /// Starts a broker on a free port of 127.0.0.1. Groups get their tasks without a delay.
    ///
    /// # Errors
    /// When no port is free.
    pub fn start() -> Result<Self> {
        EmbeddedBroker::with_config(BrokerConfig::quick())
    }

    pub(super) fn with_config(config: BrokerConfig) -> Result<Self> {
        let broker = Broker::builder().in_memory().config(config).start().map_err(failed)?;
        Ok(EmbeddedBroker { broker })
    }

    #[cfg(test)]
    pub(super) fn inject(&self, fault: kstreams_broker::Fault) {
        self.broker.inject(fault);
    }

    /// `host:port`, for any Kafka client.
    pub fn bootstrap(&self) -> String {
        self.broker.bootstrap()
    }

    /// Makes a topic.
    ///
    /// # Errors
    /// When it is there already, or its name is not allowed.
    pub fn create_topic(&self, name: &str, partitions: i32) -> Result<()> {
        self.broker.create_topic(name, partitions).map_err(failed)
    }

    /// Writes records to a topic, with the types' own serdes, each to the partition of its key.
    ///
    /// # Errors
    /// When there is no such topic or a record cannot be serialized.
    pub fn write<K: DefaultSerde, V: DefaultSerde>(
        &self,
        topic: &str,
        records: impl IntoIterator<Item = Record<K, V>>,
    ) -> Result<()> {
        let (mut client, driver) =
            Client::new(ClientConfig::new(&self.bootstrap()), self.network().map_err(no_thread)?);
        let clock = Arc::new(kstreams_client::SystemClock::new());
        driver.spawn("embedded-writer", clock).map_err(no_thread)?;
        let described = client.describe_topics(vec![topic.into()]).wait(WRITE);
        let mut described = described.map_err(client_error)?;
        let found = described.remove(topic).transpose().map_err(client_error)?;
        let config = ProducerConfig { buffer_memory: usize::MAX, ..ProducerConfig::default() };
        let mut collector = ProducerCollector::new(client.producer(config), usize::MAX);
        let handle = collector.topic(topic);
        let partitions = found.map_or(0, |found| found.partitions);
        collector.learn(topic, TopicState::Exists { partitions }, Duration::ZERO)?;
        let (key_serde, value_serde) = (K::default_serde(), V::default_serde());
        let (mut key, mut value) = (Vec::new(), Vec::new());
        for record in records {
            let at = |is_key| At { topic, headers: &record.headers, is_key };
            let unwritable = |error: BoxError| {
                let message = format!("cannot write a record for topic {topic}");
                Error::new(ErrorKind::BadRecord, message).with_source(error)
            };
            let key = serialize_nullable(&*key_serde, &at(true), &record.key, &mut key);
            let value = serialize_nullable(&*value_serde, &at(false), &record.value, &mut value);
            let outgoing = Outgoing {
                timestamp: record.timestamp,
                key: key.map_err(unwritable)?,
                value: value.map_err(unwritable)?,
                headers: &record.headers,
            };
            collector.append(handle, Placement::ByKey, outgoing)?;
        }
        collector.flush().wait(WRITE).map_err(client_error)?;
        Ok(())
    }

    /// All committed records of a topic, partition by partition, with the types' own serdes.
    ///
    /// # Errors
    /// When there is no such topic or a record is not a `K` and a `V`.
    pub fn read<K: DefaultSerde, V: DefaultSerde>(&self, topic: &str) -> Result<Vec<Record<K, V>>> {
        let (key_serde, value_serde) = (K::default_serde(), V::default_serde());
        let stored = self.broker.records(topic).map_err(failed)?.into_iter();
        let stored = stored.filter(|stored| stored.committed);
        let typed = stored.map(|stored| {
            let unreadable = |error: BoxError| {
                Error::new(ErrorKind::BadRecord, "cannot read a record").with_source(error).context(
                    format!(
                        "topic {topic}, partition {}, offset {}",
                        stored.partition, stored.offset
                    ),
                )
            };
            let headers: Headers = stored
                .headers
                .iter()
                .map(|(name, value)| Header {
                    name: name.as_str().into(),
                    value: value.as_deref().map(Into::into),
                })
                .collect();
            let at = |is_key| At { topic, headers: &headers, is_key };
            let key = deserialize_nullable(&*key_serde, &at(true), stored.key.as_deref());
            let key = key.map_err(unreadable)?;
            let value = deserialize_nullable(&*value_serde, &at(false), stored.value.as_deref());
            let value = value.map_err(unreadable)?;
            Ok(Record { key, value, timestamp: stored.timestamp, headers })
        });
        typed.collect()
    }

    fn network(&self) -> io::Result<Box<dyn Network>> {
        (self.networks())()
    }

    /// Prepares an application on this broker, over memory instead of a socket.
    pub fn builder(&self, topology: Topology, config: StreamsConfig) -> KafkaStreamsBuilder {
        let networks = self.networks();
        KafkaStreams::builder(topology, config).networks(move || networks())
    }

    /// How the clients of an application reach it.
    pub(super) fn networks(&self) -> Networks {
        let connect = self.broker.connector();
        Arc::new(move || {
            let connect = connect.clone();
            network(move || Some(connect()))
        })
    }

    /// Starts an application on this broker.
    ///
    /// # Errors
    /// As [`KafkaStreams::start`].
    pub fn run(&self, topology: Topology, config: StreamsConfig) -> Result<KafkaStreams> {
        self.builder(topology, config).start()
    }
}

/// A network whose every address is the embedded broker, if there is one.
pub(super) fn network(
    connect: impl Fn() -> Option<MemoryConnection> + Send + 'static,
) -> io::Result<Box<dyn Network>> {
    let open = move |_: &str, _: u16, ready: Ready| -> io::Result<Box<dyn ByteStream>> {
        let mut connection = connect().ok_or(io::ErrorKind::ConnectionRefused)?;
        connection.on_ready(move || ready());
        Ok(Box::new(connection))
    };
    Ok(Box::new(MemoryNetwork::new(Box::new(open))))
}

fn no_thread(error: io::Error) -> Error {
    Error::new(ErrorKind::InvalidState, "cannot start a client").with_source(error)
}

fn failed(error: kstreams_broker::BrokerError) -> Error {
    Error::new(ErrorKind::Broker, "the embedded broker refused").with_source(error)
}

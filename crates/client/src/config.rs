//! Settings of a client, a producer and a group membership. Names and defaults are Kafka's where it
//! has them.

use crate::error::{ClientError, ErrorKind};
use crate::types::Isolation;
use kstreams_protocol::batch::Compression;
use kstreams_protocol::streams_group::topology_description::TopologyDescription;
use std::collections::BTreeMap;
use std::time::Duration;

/// Settings of a [`Client`](crate::Client).
#[derive(Debug, Clone)]
pub struct ClientConfig {
    /// Brokers to begin with, `host:port` each (`bootstrap.servers`).
    pub bootstrap: Vec<String>,
    /// Name of the client in the broker's logs and quotas (`client.id`).
    pub client_id: String,
    /// How long a request may take (`request.timeout.ms`).
    pub request_timeout: Duration,
    /// How long a connection may take to be set up (`socket.connection.setup.timeout.ms`).
    pub connection_setup_timeout: Duration,
    /// First pause before a broker is tried again (`reconnect.backoff.ms`); it doubles each time.
    pub reconnect_backoff: Duration,
    /// Longest pause before a broker is tried again (`reconnect.backoff.max.ms`).
    pub reconnect_backoff_max: Duration,
    /// Pause before a failed request is repeated (`retry.backoff.ms`).
    pub retry_backoff: Duration,
    /// Age at which metadata is asked for again (`metadata.max.age.ms`).
    pub metadata_max_age: Duration,
    /// How long an operation is repeated before it fails (`default.api.timeout.ms`).
    pub operation_timeout: Duration,
    /// How long no broker may be reachable before [`Event::Unreachable`](crate::Event) says so.
    pub unreachable_after: Duration,
    /// How [`Reader::Source`](crate::Reader) fetches.
    pub source: FetchConfig,
    /// How [`Reader::Changelog`](crate::Reader) fetches.
    pub changelog: FetchConfig,
    /// Where the member id and the spread of retries come from: different for every client.
    pub seed: u64,
}

impl ClientConfig {
    /// The defaults, with `bootstrap` as a comma-separated list of `host:port`.
    #[must_use]
    pub fn new(bootstrap: &str) -> Self {
        let servers = bootstrap.split(',').map(str::trim).filter(|server| !server.is_empty());
        Self {
            bootstrap: servers.map(str::to_owned).collect(),
            client_id: "kstreams".to_owned(),
            request_timeout: Duration::from_secs(30),
            connection_setup_timeout: Duration::from_secs(10),
            reconnect_backoff: Duration::from_millis(50),
            reconnect_backoff_max: Duration::from_secs(1),
            retry_backoff: Duration::from_millis(100),
            metadata_max_age: Duration::from_secs(300),
            operation_timeout: Duration::from_secs(60),
            unreachable_after: Duration::from_secs(10),
            source: FetchConfig::default(),
            changelog: FetchConfig::default(),
            seed: 0,
        }
    }
}

impl ClientConfig {
    /// Checks what can be checked without a broker.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] when `bootstrap` is empty or an entry is not `host:port`.
    pub fn check(&self) -> Result<(), ClientError> {
        let invalid = |message: String| Err(ClientError::new(ErrorKind::Invalid, message));
        if self.bootstrap.is_empty() {
            return invalid(
                "bootstrap.servers is empty: name at least one broker as host:port".into(),
            );
        }
        for server in &self.bootstrap {
            if address(server).is_none() {
                return invalid(format!("bootstrap.servers: '{server}' is not host:port"));
            }
        }
        Ok(())
    }
}

/// Host and port of `host:port`; an IPv6 address stands in brackets.
pub(crate) fn address(server: &str) -> Option<(String, u16)> {
    let (host, port) = server.rsplit_once(':')?;
    let host = match host.strip_prefix('[') {
        Some(host) => host.strip_suffix(']')?,
        None if host.contains(':') => return None,
        None => host,
    };
    let port = port.parse().ok().filter(|port| *port > 0)?;
    (!host.is_empty()).then(|| (host.to_owned(), port))
}

/// How partitions are fetched.
#[derive(Debug, Clone)]
pub struct FetchConfig {
    /// Which records of transactions are shown (`isolation.level`).
    pub isolation: Isolation,
    /// How long the broker waits for records when it has none (`fetch.max.wait.ms`).
    pub max_wait: Duration,
    /// Bytes that end the broker's wait (`fetch.min.bytes`).
    pub min_bytes: i32,
    /// Bytes of one answer (`fetch.max.bytes`).
    pub max_bytes: i32,
    /// Bytes of one partition in one answer (`max.partition.fetch.bytes`).
    pub max_partition_bytes: i32,
    /// Bytes that are read ahead in all, until the stream thread drops what it read.
    pub buffer_bytes: usize,
    /// Bytes that are read ahead of one partition.
    pub partition_buffer_bytes: usize,
}

impl Default for FetchConfig {
    fn default() -> Self {
        Self {
            isolation: Isolation::ReadCommitted,
            max_wait: Duration::from_millis(500),
            min_bytes: 1,
            max_bytes: 8 << 20,
            max_partition_bytes: 1 << 20,
            buffer_bytes: 32 << 20,
            partition_buffer_bytes: 4 << 20,
        }
    }
}

/// Settings of a [`Producer`](crate::Producer), which is always idempotent.
#[derive(Debug, Clone)]
pub struct ProducerConfig {
    /// Bytes at which a batch goes out (`batch.size`).
    pub batch_size: usize,
    /// Age at which a batch goes out (`linger.ms`).
    pub linger: Duration,
    /// Bytes that may wait for their acknowledgement (`buffer.memory`).
    pub buffer_memory: usize,
    /// Bytes of one request and of one record (`max.request.size`).
    pub max_request_size: usize,
    /// How batches are compressed (`compression.type`).
    pub compression: Compression,
    /// Level of gzip, lz4 or zstd, `None` for the codec's own.
    pub compression_level: Option<i32>,
    /// How long a batch is tried before it fails (`delivery.timeout.ms`).
    pub delivery_timeout: Duration,
    /// Makes all that is written part of transactions (`transactional.id`). Of several producers
    /// with the same id the last one that came is the one that can write.
    pub transactional_id: Option<String>,
    /// Age at which the coordinator aborts a transaction by itself (`transaction.timeout.ms`), not
    /// above the broker's `transaction.max.timeout.ms`.
    pub transaction_timeout: Duration,
}

impl Default for ProducerConfig {
    fn default() -> Self {
        Self {
            batch_size: 256 << 10,
            linger: Duration::from_millis(100),
            buffer_memory: 32 << 20,
            max_request_size: 1 << 20,
            compression: Compression::None,
            compression_level: None,
            delivery_timeout: Duration::from_secs(120),
            transactional_id: None,
            transaction_timeout: Duration::from_secs(60),
        }
    }
}

/// What a member of a streams group says of itself when it joins.
#[derive(Debug, Clone)]
pub struct GroupConfig {
    /// The group, which is the application id.
    pub group_id: String,
    /// Identity of the process, the same for all its members.
    pub process_id: String,
    /// Name of a static member.
    pub instance_id: Option<String>,
    /// Where it runs.
    pub rack_id: Option<String>,
    /// How long the group waits for the member to give up tasks (`max.poll.interval.ms`).
    pub rebalance_timeout: Duration,
    /// How long the group waits for a member that is silent (the group's config
    /// `streams.session.timeout.ms`). After that others may have its tasks: a producer without
    /// transactions sends nothing more until a heartbeat was answered. Unknown as `None`: then it
    /// does.
    pub session_timeout: Option<Duration>,
    /// The topology, which must be equal for all members.
    pub topology: GroupTopology,
    /// Host and port for interactive queries (`application.server`).
    pub endpoint: Option<(String, u16)>,
    /// Tags for rack-aware standby tasks.
    pub client_tags: BTreeMap<String, String>,
    /// The topology as it describes itself, sent when the broker asks for it.
    pub description: Option<TopologyDescription>,
}

impl GroupConfig {
    /// A member of `group_id` in process `process_id` with this topology and Kafka's defaults.
    pub fn new(
        group_id: impl Into<String>,
        process_id: impl Into<String>,
        topology: GroupTopology,
    ) -> Self {
        Self {
            group_id: group_id.into(),
            process_id: process_id.into(),
            instance_id: None,
            rack_id: None,
            rebalance_timeout: Duration::from_secs(300),
            session_timeout: None,
            topology,
            endpoint: None,
            client_tags: BTreeMap::new(),
            description: None,
        }
    }
}

/// The topology as the group's broker wants to know it. A group keeps the one its first member
/// brought and refuses all others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroupTopology {
    /// Epoch of the topology (0: Kafka 4.4 knows no other).
    pub epoch: i32,
    /// The sub-topologies.
    pub subtopologies: Vec<Subtopology>,
}

/// A part of the topology whose nodes are connected.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Subtopology {
    /// Its id, the first part of its tasks' ids.
    pub id: String,
    /// Input topics that users own.
    pub source_topics: Vec<String>,
    /// Patterns of input topics.
    pub source_patterns: Vec<String>,
    /// Repartition topics that it writes.
    pub repartition_sink_topics: Vec<String>,
    /// Repartition topics that it reads; the broker creates them.
    pub repartition_source_topics: Vec<InternalTopic>,
    /// Changelogs of its stores; the broker creates them.
    pub changelog_topics: Vec<InternalTopic>,
    /// Topics that need the same number of partitions.
    pub copartition_groups: Vec<CopartitionGroup>,
}

/// A topic that belongs to the application.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InternalTopic {
    /// Its name.
    pub name: String,
    /// Number of partitions, 0 to have it follow from the others; always 0 for changelogs.
    pub partitions: i32,
    /// Number of replicas, -1 for the broker's default (`replication.factor`).
    pub replication_factor: i16,
    /// Topic configs, in key order as Java sends them.
    pub configs: BTreeMap<String, String>,
}

/// Input topics of one sub-topology, by name, that need the same number of partitions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CopartitionGroup {
    /// Of [`Subtopology::source_topics`].
    pub source_topics: Vec<String>,
    /// Of [`Subtopology::source_patterns`].
    pub source_patterns: Vec<String>,
    /// Of [`Subtopology::repartition_source_topics`].
    pub repartition_source_topics: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bootstrap_servers_are_host_and_port() {
        let check = |servers: &str| ClientConfig::new(servers).check().map_err(|e| e.to_string());
        assert_eq!(check("a:1, b.example:9092,[::1]:7,127.0.0.1:8"), Ok(()));
        assert_eq!(address("[::1]:7"), Some(("::1".to_owned(), 7)));
        for wrong in ["a", "a:", ":1", "a:x", "a:0", "a:70000", "::1:7", "[::1:7"] {
            let error = check(wrong).unwrap_err();
            assert!(error.contains(&format!("'{wrong}' is not host:port")), "{error}");
        }
        assert!(check(" ,").unwrap_err().contains("is empty"));
    }
}

//! The broker's settings: Kafka's names (dots and `.ms` written the Rust way) and Kafka's defaults.

/// Settings of a [`Broker`](crate::Broker); times are in milliseconds.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct BrokerConfig {
    /// `node.id`.
    pub node_id: i32,
    /// Fixes all random ids (topics, members, cluster); `None` takes other ones at each start.
    pub seed: Option<u64>,
    /// `auto.create.topics.enable`; off, unlike in Kafka.
    pub auto_create_topics: bool,
    /// `num.partitions`.
    pub num_partitions: i32,
    /// `socket.request.max.bytes`: the largest request that is read.
    pub socket_request_max_bytes: usize,
    /// `log.retention.check.interval.ms`.
    pub retention_check_interval_ms: i64,
    /// `log.cleaner.backoff.ms`: how often compacted topics are looked at.
    pub cleaner_interval_ms: i64,
    /// `producer.id.expiration.ms`.
    pub producer_id_expiration_ms: i64,
    /// Level of the feature `transaction.version`: 1, or 2 as in a new Kafka cluster.
    pub transaction_version: i16,
    /// `transaction.max.timeout.ms`.
    pub transaction_max_timeout_ms: i32,
    /// `transaction.abort.timed.out.transaction.cleanup.interval.ms`: how often it is looked for
    /// transactions that take too long.
    pub transaction_sweep_interval_ms: i64,
    /// `transactional.id.expiration.ms`.
    pub transactional_id_expiration_ms: i64,
    /// `group.initial.rebalance.delay.ms` (classic consumer groups).
    pub group_initial_rebalance_delay_ms: i64,
    /// `group.min.session.timeout.ms` (classic consumer groups).
    pub group_min_session_timeout_ms: i32,
    /// `group.max.session.timeout.ms` (classic consumer groups).
    pub group_max_session_timeout_ms: i32,
    /// `offset.metadata.max.bytes`.
    pub offset_metadata_max_bytes: usize,
    /// `group.streams.initial.rebalance.delay.ms`.
    pub streams_initial_rebalance_delay_ms: i64,
    /// `group.streams.session.timeout.ms`.
    pub streams_session_timeout_ms: i64,
    /// `group.streams.heartbeat.interval.ms`.
    pub streams_heartbeat_interval_ms: i32,
    /// `group.streams.assignment.interval.ms`: assignments are computed at most this often.
    pub streams_assignment_interval_ms: i64,
    /// `group.streams.max.size`.
    pub streams_max_size: usize,
    /// `group.streams.num.standby.replicas`.
    pub streams_num_standby_replicas: usize,
}

impl Default for BrokerConfig {
    fn default() -> Self {
        Self {
            node_id: 1,
            seed: None,
            auto_create_topics: false,
            num_partitions: 1,
            socket_request_max_bytes: 100 << 20,
            retention_check_interval_ms: 300_000,
            cleaner_interval_ms: 15_000,
            producer_id_expiration_ms: 86_400_000,
            transaction_version: 2,
            transaction_max_timeout_ms: 900_000,
            transaction_sweep_interval_ms: 10_000,
            transactional_id_expiration_ms: 604_800_000,
            group_initial_rebalance_delay_ms: 3_000,
            group_min_session_timeout_ms: 6_000,
            group_max_session_timeout_ms: 1_800_000,
            offset_metadata_max_bytes: 4096,
            streams_initial_rebalance_delay_ms: 3_000,
            streams_session_timeout_ms: 45_000,
            streams_heartbeat_interval_ms: 5_000,
            streams_assignment_interval_ms: 1_000,
            streams_max_size: 2_147_483_647,
            streams_num_standby_replicas: 0,
        }
    }
}

impl BrokerConfig {
    /// Short delays, sessions and intervals: groups settle at once and a dead member is missed
    /// within seconds. For tests and examples.
    #[must_use]
    pub fn quick() -> Self {
        Self {
            transaction_sweep_interval_ms: 100,
            group_initial_rebalance_delay_ms: 0,
            group_min_session_timeout_ms: 500,
            streams_initial_rebalance_delay_ms: 0,
            streams_session_timeout_ms: 6_000,
            streams_heartbeat_interval_ms: 100,
            streams_assignment_interval_ms: 0,
            ..Self::default()
        }
    }
}

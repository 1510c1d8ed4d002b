//! What nearly every program needs.

pub use crate::config::StreamsConfig;
pub use crate::dsl::{
    Grouped, KGroupedStream, KStream, KTable, Materialized, Processed, StreamsBuilder,
};
pub use crate::error::{BoxError, Error, ErrorKind, Result};
pub use crate::processor::{Context, InitContext, ProcessResult, Processor, TaskId};
pub use crate::record::{Headers, Record, RecordMetadata};
pub use crate::runtime::{KafkaStreams, State};
pub use crate::serde::{At, DefaultSerde, Presence, RawKey, Serde, SerdeRef};
pub use crate::state::{
    KeyValueStore, PutResult, SessionStore, StoreToken, Stores, TimestampedKeyValueStore,
    TimestampedWindowStore, VersionedKeyValueStore, VersionedRecord, WindowStore,
};
pub use crate::table;
pub use crate::testing::{TestInputTopic, TestOutputTopic, TopologyTestDriver};
pub use crate::topology::{
    AutoOffsetReset, Consumed, NodeHandle, Produced, RecordToPartition, TopicTarget, Topology,
    TopologyBuilder,
};
pub use crate::windowed::{SessionWindowed, TimeWindowed, Window};

//! What nearly every program needs.

pub use crate::config::StreamsConfig;
pub use crate::dsl::{
    Branched, BranchedKStream, CogroupedKStream, Decisions, Deduplicated, EmitStrategy,
    GlobalKTable, Grouped, JoinWindows, Joined, KGroupedStream, KGroupedTable, KStream, KTable,
    Materialized, Printed, Processed, Repartitioned, SessionWindowedCogroupedKStream,
    SessionWindowedKStream, SessionWindows, SlidingWindows, StreamJoined, StreamsBuilder,
    Suppressed, TableJoined, TimeWindowedCogroupedKStream, TimeWindowedKStream, TimeWindows,
    UnlimitedWindows, days, hours, millis, minutes, seconds,
};
pub use crate::error::{BoxError, Error, ErrorKind, Result};
pub use crate::processor::{
    Cancellable, Chunk, Context, FixedKeyContext, FixedKeyProcessor, FixedKeyRecord, InitContext,
    ProcessResult, Processor, PunctuationType, TaskId, ValueContext, ValueTransformer,
};
pub use crate::record::{Headers, Record, RecordMetadata};
pub use crate::runtime::{KafkaStreams, State, StoreWriter, ThreadResponse};
pub use crate::serde::{At, DefaultSerde, Presence, RawKey, Serde, SerdeRef};
pub use crate::state::{
    GlobalTable, GlobalTableWriter, KeyValueStore, PutResult, ReadOnlyKeyValueStore,
    ReadOnlySessionStore, ReadOnlyVersionedKeyValueStore, ReadOnlyWindowStore, SessionStore,
    StoreToken, Stores, TimestampedKeyValueStore, TimestampedWindowStore, VersionedKeyValueStore,
    VersionedRecord, WindowStore,
};
pub use crate::table;
pub use crate::testing::{TestInputTopic, TestOutputTopic, TopologyTestDriver};
pub use crate::topology::{
    AutoOffsetReset, Consumed, NodeHandle, Produced, RecordToPartition, TopicTarget, Topology,
    TopologyBuilder,
};
pub use crate::windowed::{SessionWindowed, TimeWindowed, Window, WindowedKey};

//! A record's life in a task, in order: read and timed (`source`), put in order (`partition_group`), pushed depth-first
//! through the operators (`stream_task`), written (`sink`, `collector`), sealed (`commit`). A task never blocks.

mod collector;
pub(crate) mod commit;
mod global_task;
pub(crate) mod offset_metadata;
mod partition_group;
mod partitioner;
mod restore;
mod sink;
mod source;
mod stream_task;
mod timestamp_extractor;

pub(crate) use self::collector::{
    Nowhere, Outgoing, Placement, RecordCollector, TopicHandle, send_dead_letter,
};
pub use self::partitioner::{murmur2, partition_for_key};
pub(crate) use self::restore::Restoring;
pub(crate) use self::sink::{SinkSpec, sink};
pub(crate) use self::source::{
    DefaultTimestamps, InputPartition, SourceNode, SourceSettings, read_headers, source,
};
pub(crate) use self::stream_task::{CommitOffset, Remains, StreamTask, TaskPlan};
pub(crate) use self::timestamp_extractor::TableTimestamps;
pub use self::timestamp_extractor::{
    FailOnInvalidTimestamp, LogAndSkipOnInvalidTimestamp, SourceRecord, TimestampExtractor,
    UsePartitionTimeOnInvalidTimestamp, WallclockTimestampExtractor,
};

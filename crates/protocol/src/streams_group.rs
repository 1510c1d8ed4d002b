//! The messages of streams groups, which `kafka-protocol` does not have: [`heartbeat`] (key 88),
//! [`describe`] (89) and [`topology_description`] (93), from the schemas of Kafka 4.4.0 and in that
//! crate's style. All of them are flexible from version 0 on.

#[macro_use]
mod wire;

pub mod describe;
pub mod heartbeat;
pub mod topology_description;

pub use describe::{StreamsGroupDescribeRequest, StreamsGroupDescribeResponse};
pub use heartbeat::{StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse};
pub use topology_description::{
    StreamsGroupTopologyDescriptionUpdateRequest, StreamsGroupTopologyDescriptionUpdateResponse,
};

use kafka_protocol::protocol::StrBytes;

/// Key of the streams group heartbeat.
pub const STREAMS_GROUP_HEARTBEAT: i16 = 88;
/// Key of the streams group description.
pub const STREAMS_GROUP_DESCRIBE: i16 = 89;
/// Key of the topology description update.
pub const STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE: i16 = 93;

message! {
    /// A key and its value: a topic config or a client tag.
    pub struct KeyValue (0..=1) {
        /// The key.
        key: StrBytes = StrBytes::new(), 0..;
        /// The value.
        value: StrBytes = StrBytes::new(), 0..;
    }
}

message! {
    /// A topic that the broker creates for the group.
    pub struct TopicInfo (0..=1) {
        /// Its name.
        name: StrBytes = StrBytes::new(), 0..;
        /// Number of partitions; 0 where none is asked for, always 0 for changelog topics.
        partitions: i32 = 0, 0..;
        /// Replication factor; 0 or -1 for the broker's default.
        replication_factor: i16 = 0, 0..;
        /// Topic configs.
        topic_configs: Vec<KeyValue> = Vec::new(), 0..;
    }
}

message! {
    /// Where a member answers interactive queries.
    pub struct Endpoint (0..=1) {
        /// Host.
        host: StrBytes = StrBytes::new(), 0..;
        /// Port.
        port: u16 = 0, 0..;
    }
}

message! {
    /// Cumulative changelog offset of a task.
    pub struct TaskOffset (0..=1) {
        /// Sub-topology of the task.
        subtopology_id: StrBytes = StrBytes::new(), 0..;
        /// Partition of the task.
        partition: i32 = 0, 0..;
        /// Sum of its changelogs' offsets.
        offset: i64 = 0, 0..;
    }
}

message! {
    /// Tasks of one sub-topology.
    pub struct TaskIds (0..=1) {
        /// The sub-topology.
        subtopology_id: StrBytes = StrBytes::new(), 0..;
        /// The partitions.
        partitions: Vec<i32> = Vec::new(), 0..;
    }
}

message! {
    /// What a member processes.
    pub struct Assignment (0..=1) {
        /// Active tasks.
        active_tasks: Vec<TaskIds> = Vec::new(), 0..;
        /// Standby tasks.
        standby_tasks: Vec<TaskIds> = Vec::new(), 0..;
        /// Warm-up tasks.
        warmup_tasks: Vec<TaskIds> = Vec::new(), 0..;
    }
}

#[cfg(test)]
mod tests;

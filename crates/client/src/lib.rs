//! The Kafka client of a stream runtime, and nothing more: it fetches, produces idempotently and in
//! transactions, commits offsets, keeps a membership in a streams group and manages topics.
//!
//! ```text
//! stream thread                     driver thread
//! Client, Producer -- commands -->  machines without I/O  <-- bytes -->  brokers
//!                  <-- events ---   (`Driver`)
//! ```
//! The stream thread never blocks: it asks, and looks for [`Event`]s and [`Pending`] results. Only
//! [`Client::wait`] waits. The driver keeps heartbeating, reading ahead and writing while user code
//! takes its time; it never confirms on its own that tasks were given up.
//!
//! Not here: TLS and SASL (yet), subscriptions, consumer groups.

mod blocking;
mod client;
mod clock;
mod command;
mod config;
mod error;
mod event;
mod mailbox;
mod pending;
mod producer_handle;
mod random;
mod types;

mod admin;
mod connection;
mod connections;
mod coordinator;
mod core;
mod fetcher;
mod membership;
mod metadata;
mod producer;
mod requests;
mod transaction;

pub mod driver;

#[cfg(test)]
mod testing;

pub use admin::{GroupDescription, GroupMember};
pub use blocking::Admin;
pub use client::{Client, Results};
pub use clock::{Clock, SystemClock};
pub use config::{
    ClientConfig, CopartitionGroup, FetchConfig, GroupConfig, GroupTopology, InternalTopic,
    ProducerConfig, Subtopology,
};
pub use driver::{Driver, Network};
pub use error::{ClientError, ErrorKind};
pub use event::{
    Credit, EndpointPartitions, Event, Fetched, GroupStatus, GroupStatusKind, TopicState,
};
pub use mailbox::Waker;
pub use pending::Pending;
pub use producer_handle::{AppendError, Committed, Flushed, PartitionHandle, Producer};
pub use types::{
    BrokerId, CommittedOffset, GroupMetadata, Isolation, ListedOffset, NewTopic, Now, OffsetSpec,
    Reader, ResetPolicy, Start, Task, Tasks, Topic, TopicDescription, TopicPartition,
};

/// Records as they are fetched, and how they can be compressed.
pub use kstreams_protocol::batch::{Compression, HeadersRef, RecordReader, RecordRef};
/// The topology as it describes itself to the group.
pub use kstreams_protocol::streams_group::topology_description;

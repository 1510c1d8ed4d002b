//! What makes an application run: the handle, the stream threads, their tasks and their part in the group.
//!
//! A stream thread is a synchronous step, `StreamThread::run_once`, over a client whose driver has a thread of its own.
//! The step never blocks; the loop around it (`thread_main`) sleeps in the client until there is something to do.

mod app;
mod clock;
mod cluster;
mod collector;
#[cfg(feature = "embedded")]
mod embedded;

#[cfg(all(test, feature = "embedded"))]
mod crash_tests;
mod global_reader;
mod global_thread;
mod idling;
mod lifecycle;
mod pace;
mod positions;
mod purge;
mod queries;
mod recovery;
mod shared;
#[cfg(all(test, feature = "embedded"))]
mod simulation;
mod store_writer;
mod task_slot;
mod task_start;
mod thread;
mod thread_assignment;
mod thread_closing;
mod thread_commit;
mod thread_failure;
mod thread_main;
mod topics;
mod uncaught;

pub use self::app::{KafkaStreams, KafkaStreamsBuilder};
#[cfg(feature = "embedded")]
pub use self::embedded::EmbeddedBroker;
pub use self::idling::TaskWaiting;
pub use self::lifecycle::State;
pub use self::queries::{
    FailureReason, HostInfo, InStore, KeyOwner, KeyQuery, MultiVersionedKeyQuery, PartitionResult,
    Position, RangeQuery, StateQuery, StateQueryRequest, StateQueryResult, StreamsMetadata,
    TaskMetadata, ThreadMetadata, VersionedKeyQuery, WindowKeyQuery, WindowRangeQuery,
};
pub use self::store_writer::{StoreWriter, Update};
pub use self::uncaught::ThreadResponse;
pub use kstreams_client::Network;

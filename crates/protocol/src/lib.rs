//! The Kafka wire, the first and last stop on a record's way: record batches read and written
//! without copies ([`batch`]), the messages of streams groups ([`streams_group`]), a check of bytes
//! before they are decoded ([`shape`]), and the rest from [`kafka_protocol`] ([`messages`],
//! [`protocol`], [`ResponseError`]).
//!
//! This crate knows bytes and nothing else: no sockets, no time, no state.

pub mod batch;
pub mod error_code;
pub mod shape;
pub mod streams_group;

/// Kafka's requests and responses.
pub use kafka_protocol::messages;
/// The traits and types that messages are encoded with.
pub use kafka_protocol::protocol;

/// Kafka's error codes.
pub use kafka_protocol::error::ResponseError;
/// Ids of topics on the wire.
pub use uuid::Uuid;

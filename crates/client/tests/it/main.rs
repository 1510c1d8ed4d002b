//! What every broker must do for the client. `KSTREAMS_TEST_BOOTSTRAP` names the broker: Apache Kafka
//! (one broker or several), or `embedded` for the embedded broker in this process (`embedded-v1`: with
//! transactions of version 1). `cargo xtask test` runs it on Kafka 4.4, on 3.9, and on both of those.
//!
//! Sessions have some seconds, as `tests/java/run broker` and `BrokerConfig::quick` set them. Modules
//! are called by what they need: `streams_groups` needs Kafka 4.2 or later, `own_broker` the Java
//! reference, as it starts brokers itself.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod fetch;
mod offsets;
mod own_broker;
mod produce;
mod streams_groups;
mod support;
mod topics;
mod transactions;

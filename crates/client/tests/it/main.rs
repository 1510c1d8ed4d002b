//! What every broker must do for the client: run against the one that `KSTREAMS_TEST_BOOTSTRAP`
//! names, which is Apache Kafka 4.4 (one broker or several) or the embedded broker, with sessions of
//! some seconds as `tests/java/run broker` and `BrokerConfig::quick` set them.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod fetch;
mod group;
mod offsets;
mod produce;
mod restarts;
mod support;
mod topics;
mod transactions;

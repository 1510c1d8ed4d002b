//! Kafka Streams as a Rust library.

//! The Kafka client of a stream runtime.

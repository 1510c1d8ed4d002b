//! An embedded single-node Kafka broker.

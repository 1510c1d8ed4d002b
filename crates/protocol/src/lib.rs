//! The Kafka wire: record batches without copies, the streams group messages, and the rest from `kafka-protocol`.

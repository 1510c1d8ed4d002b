//! Transactions: what the coordinator, the logs and the groups answer, beside the real Kafka.

mod directory;
mod rules;
mod script;

//! What is done with bytes that may be anything. Each function takes some and fails by a panic.

pub(crate) mod compressed_records;
pub(crate) mod messages;
pub(crate) mod record_batches;
pub(crate) mod records_there_and_back;
pub(crate) mod streams_group_messages;

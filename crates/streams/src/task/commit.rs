//! The commit protocol, told once.
//!
//! ```text
//!   1 flush      caches forward their changes; the writes since the last commit are logged   StreamTask::flush
//!   2 produce    Kafka confirms every record of outputs, repartition topics and changelogs   RecordCollector
//!   3 offsets    the input offsets are committed under the epoch that this thread knows       StreamTask::offsets
//!   4 engine     one atomic batch: the writes, and how far each changelog is in them          StreamTask::committed
//! ```
//!
//! Exactly once, 2 and 3 are one transaction of Kafka: the records become visible together with the offsets, or not at all, and
//! restoring reads committed records only.
//!
//! No record is processed between 1 and 4, so all four speak of the same set of records. A crash
//!
//! - before 3 repeats the records since the last commit. Their writes are not in the engine; those that reached the changelog are
//!   replayed on restore, and the records are processed again on top of them: at least once. In a transaction they are never seen.
//! - between 3 and 4 repeats nothing: the engine is behind its changelog and gets the rest from there.
//!
//! So the engine always holds a committed state, and its offset says exactly which.

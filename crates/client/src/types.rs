//! Words that every part of the client uses: topics, partitions, offsets, tasks.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Time since an arbitrary start that stays the same for the life of a client: what the injected
/// clock shows.
pub type Now = Duration;

/// Name of a topic, cheap to clone.
pub type Topic = Arc<str>;

/// Id of a broker.
pub type BrokerId = i32;

/// A partition of a topic.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicPartition {
    /// The topic.
    pub topic: Topic,
    /// The partition's number, from 0.
    pub partition: i32,
}

impl TopicPartition {
    /// The partition `partition` of `topic`.
    pub fn new(topic: impl Into<Topic>, partition: i32) -> Self {
        Self { topic: topic.into(), partition }
    }
}

impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.partition)
    }
}

impl fmt::Debug for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Which records of transactions a fetch shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isolation {
    /// All records, also of open and aborted transactions.
    ReadUncommitted,
    /// Records of committed transactions and those outside of transactions, up to the last stable
    /// offset.
    ReadCommitted,
}

/// The two kinds of partitions a stream thread reads. They have connections and budgets of their
/// own, so that restoring never waits for the long poll of an idle input. One partition can be read
/// by both at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reader {
    /// Input topics of active tasks.
    Source,
    /// Changelogs that are restored from, and global topics.
    Changelog,
}

/// Where to begin when there is no position, or the position is out of range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResetPolicy {
    /// At the oldest record.
    Earliest,
    /// Behind the newest record.
    Latest,
    /// At the first record of this time (ms since 1970) or later; at the end if there is none.
    Since(i64),
    /// Nowhere: it is an error.
    None,
}

/// Where to begin to fetch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// At this offset. The leader epoch of the record before it, if known (from a commit), lets the
    /// broker notice that the log was cut since.
    Offset {
        /// Next offset to read.
        offset: i64,
        /// Epoch of the record before it.
        leader_epoch: Option<i32>,
    },
    /// Where the reset policy says.
    Reset,
}

impl Start {
    /// At `offset`, nothing known about the epoch.
    #[must_use]
    pub fn at(offset: i64) -> Self {
        Self::Offset { offset, leader_epoch: None }
    }
}

/// A committed position of a group in a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommittedOffset {
    /// Next offset to read.
    pub offset: i64,
    /// Epoch of the record before it, if known.
    pub leader_epoch: Option<i32>,
    /// What was stored with it.
    pub metadata: String,
}

impl CommittedOffset {
    /// A position with nothing besides.
    #[must_use]
    pub fn new(offset: i64) -> Self {
        Self { offset, leader_epoch: None, metadata: String::new() }
    }
}

/// Under whom offsets become part of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupMetadata {
    /// The group, which is the application id.
    pub group_id: Topic,
    /// The member, empty for one from outside.
    pub member_id: String,
    /// The epoch that the member acknowledged last, -1 for one from outside: then the group does
    /// not check who commits.
    pub member_epoch: i32,
}

impl GroupMetadata {
    /// Somebody who is no member of the group.
    pub fn outside(group_id: impl Into<Topic>) -> Self {
        Self { group_id: group_id.into(), member_id: String::new(), member_epoch: -1 }
    }
}

/// The position to ask a log for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OffsetSpec {
    /// The first offset that can be read.
    Earliest,
    /// The offset behind the last record that `isolation` shows.
    Latest(Isolation),
    /// The first record with this or a later timestamp (ms since 1970).
    Timestamp(i64),
}

/// An answer to [`OffsetSpec`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListedOffset {
    /// The offset; -1 when no record has such a timestamp.
    pub offset: i64,
    /// The timestamp of the record there, -1 if not asked for.
    pub timestamp: i64,
    /// Epoch of the leader that appended the record, if known.
    pub leader_epoch: Option<i32>,
}

/// A task: one partition of a sub-topology.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Task {
    /// Id of the sub-topology.
    pub subtopology: Arc<str>,
    /// The partition.
    pub partition: i32,
}

impl Task {
    /// Partition `partition` of sub-topology `subtopology`.
    pub fn new(subtopology: impl Into<Arc<str>>, partition: i32) -> Self {
        Self { subtopology: subtopology.into(), partition }
    }
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}_{}", self.subtopology, self.partition)
    }
}

/// The tasks that a member has or shall have, each list sorted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tasks {
    /// Tasks that process.
    pub active: Vec<Task>,
    /// Tasks that only keep their state fresh.
    pub standby: Vec<Task>,
    /// Standby tasks that shall become active once they have caught up.
    pub warmup: Vec<Task>,
}

/// A topic as the cluster describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicDescription {
    /// Its name.
    pub name: Topic,
    /// Number of partitions.
    pub partitions: i32,
    /// Leader of each partition, if it has one.
    pub leaders: Vec<Option<BrokerId>>,
    /// Replicas of the first partition.
    pub replication_factor: i16,
    /// Whether Kafka keeps it for itself.
    pub internal: bool,
}

/// A topic to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewTopic {
    /// Its name.
    pub name: Topic,
    /// Number of partitions; -1 for the broker's default.
    pub partitions: i32,
    /// Number of replicas; -1 for the broker's default.
    pub replication_factor: i16,
    /// Its configs.
    pub configs: BTreeMap<String, String>,
}

impl NewTopic {
    /// A topic with `partitions` partitions, the broker's replication and no configs.
    pub fn new(name: impl Into<Topic>, partitions: i32) -> Self {
        Self { name: name.into(), partitions, replication_factor: -1, configs: BTreeMap::new() }
    }

    /// Sets a config.
    #[must_use]
    pub fn config(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.configs.insert(key.into(), value.into());
        self
    }
}

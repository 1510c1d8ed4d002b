//! Everything that the driver tells the stream thread of its own accord.

use crate::command::{Command, CommandSender};
use crate::error::ClientError;
use crate::types::{Reader, Tasks, Topic, TopicPartition};
use kstreams_protocol::batch::RecordReader;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// What happened. See [`Client::next_event`](crate::Client::next_event).
#[derive(Debug)]
#[non_exhaustive]
pub enum Event {
    /// Records of one partition.
    Fetched(Fetched),
    /// A partition had no usable position and is now read from another, as its reset policy says.
    PositionReset {
        /// Which reader.
        reader: Reader,
        /// The partition.
        partition: TopicPartition,
        /// Where it was to be read, if anywhere: the log was cut or the offset deleted.
        from: Option<i64>,
        /// Where it is read now.
        to: i64,
    },
    /// A partition cannot be read and is not tried any further; its reader forgot it. The kind is
    /// [`NotFound`](crate::ErrorKind::NotFound) for an offset out of range without a reset policy,
    /// [`Authorization`](crate::ErrorKind::Authorization), or
    /// [`Corrupt`](crate::ErrorKind::Corrupt).
    FetchFailed {
        /// Which reader.
        reader: Reader,
        /// The partition.
        partition: TopicPartition,
        /// Why.
        error: ClientError,
    },
    /// What the member shall own from now on. Close what is not in it, open what is new, then
    /// [`acknowledge`](crate::Client::acknowledge) its epoch with the tasks that are really owned.
    Assigned {
        /// The member epoch that comes with it.
        epoch: i32,
        /// The tasks.
        tasks: Tasks,
    },
    /// The group threw the member out: all tasks are lost. Close them dirty, then acknowledge no
    /// tasks with epoch 0; the member joins again after that.
    Lost {
        /// Why.
        error: ClientError,
    },
    /// What the group says of its state; an empty list when all is well again.
    GroupStatus(Vec<GroupStatus>),
    /// Which members own which partitions, for interactive queries.
    Endpoints(Vec<EndpointPartitions>),
    /// The membership ended for a reason that trying again cannot heal. The message says what to
    /// do.
    GroupFailed {
        /// Why.
        error: ClientError,
    },
    /// Topics that are watched, fetched or produced to have changed.
    /// [`Client::topic_state`](crate::Client::topic_state) knows it already.
    MetadataChanged(BTreeMap<Topic, TopicState>),
    /// No broker could be reached for a while; said again after as long. The client goes on trying.
    Unreachable {
        /// Which brokers, and how it failed.
        error: ClientError,
    },
}

/// What is known of a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TopicState {
    /// It has this many partitions.
    Exists {
        /// Number of partitions.
        partitions: i32,
    },
    /// The cluster does not have it.
    Missing,
    /// The cluster refuses to tell.
    Unauthorized,
}

/// Records of one partition, checked and unpacked, with aborted transactions and control records
/// already taken out where the isolation says so.
#[derive(Debug)]
pub struct Fetched {
    /// Which reader.
    pub reader: Reader,
    /// The partition.
    pub partition: TopicPartition,
    /// Where the fetch began: it tells apart what was fetched before the position was moved.
    pub position: i64,
    /// Its batches in order. Can be empty when all records were taken out.
    pub batches: Vec<RecordReader>,
    /// The offset behind them: the position once they are used up.
    pub next_offset: i64,
    /// The offset behind the last replicated record, when they were fetched.
    pub high_watermark: i64,
    /// The offset behind the last record that a reader of committed records can see, or the high
    /// watermark.
    pub last_stable_offset: i64,
    /// The first offset of the log.
    pub log_start_offset: i64,
    /// Bytes that count against the read-ahead budget until the credit is dropped.
    pub credit: Credit,
}

/// A share of the read-ahead budget. Keep it with the records and drop it with them: then the
/// driver reads on.
#[derive(Debug)]
pub struct Credit {
    bytes: usize,
    budget: Arc<Budget>,
    partition: Arc<AtomicUsize>,
}

/// What one reader may have read ahead.
#[derive(Debug)]
pub(crate) struct Budget {
    used: AtomicUsize,
    /// The fetcher waits for credit: the next one that comes back wakes it.
    starved: AtomicBool,
    commands: CommandSender,
}

impl Budget {
    pub(crate) fn new(commands: CommandSender) -> Arc<Self> {
        Arc::new(Self { used: AtomicUsize::new(0), starved: AtomicBool::new(false), commands })
    }

    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::SeqCst)
    }

    /// To be called before the look at the counters that decides to wait.
    pub(crate) fn ask_for_credit(&self) {
        self.starved.store(true, Ordering::SeqCst);
    }
}

impl Credit {
    pub(crate) fn new(bytes: usize, budget: Arc<Budget>, partition: Arc<AtomicUsize>) -> Self {
        budget.used.fetch_add(bytes, Ordering::SeqCst);
        partition.fetch_add(bytes, Ordering::SeqCst);
        Self { bytes, budget, partition }
    }

    /// Bytes it stands for.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Credit {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.bytes, Ordering::SeqCst);
        self.partition.fetch_sub(self.bytes, Ordering::SeqCst);
        if self.budget.starved.swap(false, Ordering::SeqCst) {
            self.budget.commands.send(Command::Consumed);
        }
    }
}

/// One thing that is wrong with the group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupStatus {
    /// What it is.
    pub kind: GroupStatusKind,
    /// The broker's words, which name topics.
    pub detail: String,
}

/// What can be wrong with a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum GroupStatusKind {
    /// The member's topology is older than the group's.
    StaleTopology,
    /// Input topics do not exist.
    MissingSourceTopics,
    /// Topics have numbers of partitions that do not fit each other.
    IncorrectlyPartitionedTopics,
    /// Internal topics do not exist yet; the broker creates them.
    MissingInternalTopics,
    /// A member asked for the whole application to stop.
    ShutdownApplication,
    /// The assignment is being computed.
    AssignmentDelayed,
    /// Client tags that the group needs are missing.
    MissingClientTags,
    /// A code of a later version.
    Other(i8),
}

impl GroupStatusKind {
    pub(crate) fn from_code(code: i8) -> Self {
        match code {
            0 => Self::StaleTopology,
            1 => Self::MissingSourceTopics,
            2 => Self::IncorrectlyPartitionedTopics,
            3 => Self::MissingInternalTopics,
            4 => Self::ShutdownApplication,
            5 => Self::AssignmentDelayed,
            6 => Self::MissingClientTags,
            other => Self::Other(other),
        }
    }
}

/// The partitions of one member of the group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointPartitions {
    /// Host of the member's process.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Input partitions of its active tasks.
    pub active: Vec<TopicPartition>,
    /// Input partitions of its standby tasks.
    pub standby: Vec<TopicPartition>,
}

//! Everything that the stream thread asks of the driver.

use crate::admin::Call;
use crate::config::{GroupConfig, ProducerConfig};
use crate::event::Event;
use crate::mailbox::{Mailbox, Waker};
use crate::pending::{Completer, Pending};
use crate::producer_handle::{Committed, Flushed, PartitionHandle};
use crate::types::{
    CommittedOffset, GroupMetadata, Reader, ResetPolicy, Start, Tasks, Topic, TopicPartition,
};
use kstreams_protocol::batch::BatchWriter;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

/// A batch that is complete but for its header.
#[derive(Debug)]
pub(crate) struct ReadyBatch {
    pub(crate) handle: PartitionHandle,
    pub(crate) writer: BatchWriter,
    /// Bytes that it has reserved of the producer's buffer.
    pub(crate) bytes: usize,
}

/// What the stream thread wants of its transaction; it concerns the batches that came before.
#[derive(Debug)]
pub(crate) enum TransactionCommand {
    Commit {
        offsets: BTreeMap<TopicPartition, CommittedOffset>,
        group: Option<GroupMetadata>,
        completer: Completer<Committed>,
    },
    Abort {
        completer: Completer<()>,
    },
    Init {
        completer: Completer<()>,
    },
}

#[derive(Debug)]
pub(crate) enum Command {
    Join(Box<GroupConfig>),
    Acknowledge {
        tasks: Tasks,
    },
    ShutdownApplication,
    Leave {
        completer: Completer<()>,
    },
    Fetch {
        reader: Reader,
        partition: TopicPartition,
        start: Start,
        reset: ResetPolicy,
    },
    StopFetching {
        reader: Reader,
        partition: TopicPartition,
    },
    Pause {
        reader: Reader,
        partition: TopicPartition,
    },
    Resume {
        reader: Reader,
        partition: TopicPartition,
    },
    /// Budget of the read-ahead was given back.
    Consumed,
    Watch {
        topics: Vec<Topic>,
    },
    Call(Box<Call>),
    OpenProducer {
        producer: u32,
        config: ProducerConfig,
        reserved: Arc<AtomicUsize>,
    },
    AddPartition {
        producer: u32,
        handle: PartitionHandle,
        partition: TopicPartition,
    },
    Produce {
        producer: u32,
        batch: ReadyBatch,
    },
    Flush {
        producer: u32,
        completer: Completer<Flushed>,
    },
    Transaction {
        producer: u32,
        command: TransactionCommand,
    },
    DiscardProducer {
        producer: u32,
    },
    CloseProducer {
        producer: u32,
    },
    Close,
}

/// The two mailboxes between the stream thread and its driver.
#[derive(Debug)]
pub(crate) struct Mailboxes {
    pub(crate) commands: Mailbox<Command>,
    pub(crate) events: Mailbox<Event>,
}

/// Sends commands and wakes the driver.
#[derive(Clone)]
pub(crate) struct CommandSender {
    pub(crate) boxes: Arc<Mailboxes>,
    pub(crate) wake_driver: Arc<dyn Fn() + Send + Sync>,
}

impl fmt::Debug for CommandSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.boxes.commands.fmt(f)
    }
}

impl CommandSender {
    pub(crate) fn send(&self, command: Command) {
        if self.boxes.commands.push(command) {
            (self.wake_driver)();
        }
    }

    /// A result to come whose arrival wakes the stream thread.
    pub(crate) fn pending<T>(&self) -> (Pending<T>, Completer<T>) {
        Pending::new(self.waker())
    }

    pub(crate) fn waker(&self) -> Waker {
        self.boxes.events.waker()
    }
}

//! The stream thread's half of a producer: records are written straight into the open batch of
//! their partition, and whole batches go to the driver.

use crate::command::{Command, CommandSender, ReadyBatch, TransactionCommand};
use crate::config::ProducerConfig;
use crate::error::{ClientError, ErrorKind};
use crate::pending::{Completer, Pending};
use crate::types::{CommittedOffset, GroupMetadata, Now, TopicPartition};
use kstreams_protocol::batch::{BatchWriter, HEADER_LENGTH};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A partition that was looked up once, so that a record costs no lookup by name. It belongs to the
/// producer that made it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionHandle(pub(crate) u32);

impl PartitionHandle {
    fn index(self) -> usize {
        self.0 as usize
    }
}

/// Why a record was not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AppendError {
    /// `buffer_memory` is full of records that wait for their acknowledgement: wait for the client,
    /// then append again.
    BufferFull,
    /// The record alone is larger than `max_request_size`.
    RecordTooLarge {
        /// Bytes of the record in a batch.
        size: usize,
        /// The bound.
        max: usize,
    },
}

impl fmt::Display for AppendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BufferFull => f.write_str("the producer's buffer is full"),
            Self::RecordTooLarge { size, max } => {
                write!(f, "a record of {size} bytes is over max.request.size ({max})")
            }
        }
    }
}

impl std::error::Error for AppendError {}

/// All records before the flush are written.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Flushed {
    /// For each partition that was written since the flush or commit before: the offset behind the last
    /// record. Not known (-1) when the broker had the records already from an earlier try whose
    /// answer was lost.
    pub end_offsets: Vec<(PartitionHandle, i64)>,
}

/// A transaction is committed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Committed {
    /// The same as [`Flushed::end_offsets`]. The transaction's marker follows there.
    pub end_offsets: Vec<(PartitionHandle, i64)>,
}

/// Writes records, idempotently, from one thread.
///
/// Partitions are chosen by the caller. A record goes out when its batch is full, lingered long
/// enough (see [`Self::poll`]) or is flushed. Errors surface at [`Self::flush`] and
/// [`Self::commit`]. Dropped, it forgets open batches; what went out before is still tried, but a
/// transaction is aborted.
#[derive(Debug)]
pub struct Producer {
    id: u32,
    config: ProducerConfig,
    commands: CommandSender,
    handles: BTreeMap<TopicPartition, PartitionHandle>,
    partitions: Vec<OpenPartition>,
    /// Partitions with an open batch, in the order in which they were opened.
    open: Vec<PartitionHandle>,
    /// Bytes reserved by batches that are open or on their way.
    reserved: Arc<AtomicUsize>,
}

#[derive(Debug)]
struct OpenPartition {
    writer: Option<BatchWriter>,
    /// Bytes it has reserved.
    reserved: usize,
    /// When the batch was first seen by `poll`.
    since: Option<Now>,
}

impl Producer {
    pub(crate) fn new(
        id: u32,
        config: ProducerConfig,
        commands: CommandSender,
        reserved: Arc<AtomicUsize>,
    ) -> Self {
        Self {
            id,
            config,
            commands,
            handles: BTreeMap::new(),
            partitions: Vec::new(),
            open: Vec::new(),
            reserved,
        }
    }

    /// Looks a partition up, once; that it exists is the caller's business: records for a partition
    /// that does not exist fail at the flush.
    pub fn partition(&mut self, partition: &TopicPartition) -> PartitionHandle {
        if let Some(handle) = self.handles.get(partition) {
            return *handle;
        }
        let handle = PartitionHandle(self.partitions.len() as u32);
        self.handles.insert(partition.clone(), handle);
        self.partitions.push(OpenPartition { writer: None, reserved: 0, since: None });
        let partition = partition.clone();
        self.commands.send(Command::AddPartition { producer: self.id, handle, partition });
        handle
    }

    /// Adds a record: timestamp in ms since 1970, null as `None`.
    ///
    /// # Errors
    /// When there is no room; nothing was taken then.
    #[inline]
    pub fn append(
        &mut self,
        handle: PartitionHandle,
        timestamp: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[(&str, Option<&[u8]>)],
    ) -> Result<(), AppendError> {
        let size = key.map_or(0, <[u8]>::len) + value.map_or(0, <[u8]>::len);
        let batch_size = self.config.batch_size;
        let partition = &mut self.partitions[handle.index()];
        if let Some(writer) = &mut partition.writer
            && headers.is_empty()
            && writer.len() + size + RECORD_OVERHEAD <= batch_size
        {
            writer.append(timestamp, key, value, headers);
            return Ok(());
        }
        self.append_slowly(handle, timestamp, key, value, headers)
    }

    fn append_slowly(
        &mut self,
        handle: PartitionHandle,
        timestamp: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[(&str, Option<&[u8]>)],
    ) -> Result<(), AppendError> {
        let partition = &mut self.partitions[handle.index()];
        if let Some(writer) = &mut partition.writer {
            let growth = writer.would_grow_by(timestamp, key, value, headers);
            if writer.len() + growth <= self.config.batch_size {
                writer.append(timestamp, key, value, headers);
                return Ok(());
            }
        }
        let size = HEADER_LENGTH + BatchWriter::new().would_grow_by(timestamp, key, value, headers);
        if size > self.config.max_request_size {
            return Err(AppendError::RecordTooLarge { size, max: self.config.max_request_size });
        }
        self.hand_over(handle);
        let reserve = size.max(self.config.batch_size);
        let before = self.reserved.fetch_add(reserve, Ordering::Relaxed);
        if before > 0 && before + reserve > self.config.buffer_memory {
            self.reserved.fetch_sub(reserve, Ordering::Relaxed);
            return Err(AppendError::BufferFull);
        }
        let mut writer = BatchWriter::with_capacity(reserve);
        writer.append(timestamp, key, value, headers);
        self.partitions[handle.index()] =
            OpenPartition { writer: Some(writer), reserved: reserve, since: None };
        self.open.push(handle);
        Ok(())
    }

    /// Sends the batches that lingered long enough; to be called once a turn of the stream thread.
    /// Gives when the next one will have.
    pub fn poll(&mut self, now: Now) -> Option<Now> {
        let mut next: Option<Now> = None;
        let mut at = 0;
        while at < self.open.len() {
            let handle = self.open[at];
            let due =
                *self.partitions[handle.index()].since.get_or_insert(now) + self.config.linger;
            if due <= now {
                self.hand_over(handle);
            } else {
                next = Some(next.map_or(due, |next| next.min(due)));
                at += 1;
            }
        }
        next
    }

    /// Sends all that is open. The result comes when all records that were ever appended are
    /// written, or with the first error since the flush before, which names topic, partition and
    /// cause.
    pub fn flush(&mut self) -> Pending<Flushed> {
        for handle in std::mem::take(&mut self.open) {
            self.send(handle);
        }
        let (pending, completer) = self.commands.pending();
        self.commands.send(Command::Flush { producer: self.id, completer });
        pending
    }

    /// Bytes that are reserved by batches that are open or wait for their acknowledgement.
    #[must_use]
    pub fn buffered_bytes(&self) -> usize {
        self.reserved.load(Ordering::Relaxed)
    }

    /// Forgets everything that is not written yet, also what went out before and was not answered: no record of this producer is
    /// sent from now on. For a member that lost its tasks.
    pub fn discard(mut self) {
        self.commands.send(Command::DiscardProducer { producer: self.id });
        self.forget_open();
    }

    fn forget_open(&mut self) {
        for handle in std::mem::take(&mut self.open) {
            let partition = &mut self.partitions[handle.index()];
            partition.writer = None;
            self.reserved.fetch_sub(partition.reserved, Ordering::Relaxed);
        }
    }

    fn order<T>(&self, command: impl FnOnce(Completer<T>) -> TransactionCommand) -> Pending<T> {
        if self.config.transactional_id.is_none() {
            let message = "the producer has no transactional.id";
            return Pending::ready(Err(ClientError::new(ErrorKind::Invalid, message)));
        }
        let (pending, completer) = self.commands.pending();
        let command = command(completer);
        self.commands.send(Command::Transaction { producer: self.id, command });
        pending
    }

    fn hand_over(&mut self, handle: PartitionHandle) {
        if let Some(at) = self.open.iter().position(|open| *open == handle) {
            self.open.remove(at);
            self.send(handle);
        }
    }

    fn send(&mut self, handle: PartitionHandle) {
        let partition = &mut self.partitions[handle.index()];
        let Some(writer) = partition.writer.take() else { return };
        // What is on its way counts with what it takes, not with what it might have grown to.
        let bytes = writer.len();
        if bytes > partition.reserved {
            self.reserved.fetch_add(bytes - partition.reserved, Ordering::Relaxed);
        } else {
            self.reserved.fetch_sub(partition.reserved - bytes, Ordering::Relaxed);
        }
        let batch = ReadyBatch { handle, writer, bytes };
        self.commands.send(Command::Produce { producer: self.id, batch });
    }
}

/// Transactions. They begin by themselves with the first record after the one before.
///
/// Calls are dealt with in their order, one after the other: what is appended after a call to
/// [`Self::commit`] or [`Self::abort`] belongs to the next transaction and waits until this one has
/// ended. Without a transactional id all of them fail ([`ErrorKind::Invalid`]).
impl Producer {
    /// Sends all that is open and commits everything that was appended since the last commit,
    /// together with `offsets` of `group` (none without `group`). If there is nothing to commit, it
    /// is done at once. The end is asked for until a coordinator answers, however long this takes.
    ///
    /// Errors say what to do:
    /// - [`ErrorKind::StaleMemberEpoch`]: the group knows a newer epoch of the member. All records
    ///   are written still: commit again under the newer epoch, or abort.
    /// - [`ErrorKind::ProducerFenced`]: [`Self::init`]. If another producer took the transactional
    ///   id in between, the outcome is not known: fetch the committed offsets.
    /// - [`ErrorKind::Abortable`]: [`Self::abort`]. A transaction that took too long is this or the
    ///   one before, depending on who notices.
    /// - all others, among them [`ErrorKind::Fenced`] when the group does not know the member any
    ///   more: nothing is committed; [`Self::abort`] before the producer can go on.
    ///   Records appended before that are dropped.
    pub fn commit(
        &mut self,
        offsets: BTreeMap<TopicPartition, CommittedOffset>,
        group: Option<GroupMetadata>,
    ) -> Pending<Committed> {
        for handle in std::mem::take(&mut self.open) {
            self.send(handle);
        }
        self.order(|completer| TransactionCommand::Commit { offsets, group, completer })
    }

    /// Forgets everything that was appended since the last commit and aborts the transaction. The
    /// abort is asked for until a coordinator answers; nobody has to wait for it.
    /// [`ErrorKind::ProducerFenced`]: nothing is left to abort, [`Self::init`].
    pub fn abort(&mut self) -> Pending<()> {
        self.forget_open();
        self.order(|completer| TransactionCommand::Abort { completer })
    }

    /// Waits until the producer has its id and epoch, for which a new producer asks by itself: from
    /// then on no producer before it with the same transactional id can write, and the offsets that
    /// one had in a transaction are settled. Called later, it forgets everything that was appended
    /// since the last commit and takes a new epoch, the way back after
    /// [`ErrorKind::ProducerFenced`].
    pub fn init(&mut self) -> Pending<()> {
        self.forget_open();
        self.order(|completer| TransactionCommand::Init { completer })
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        if self.config.transactional_id.is_some() {
            // Readers of committed records need not wait for its timeout.
            drop(self.abort());
        }
        self.commands.send(Command::CloseProducer { producer: self.id });
    }
}

/// Most bytes that a record without headers takes besides its key and value.
const RECORD_OVERHEAD: usize = 5 + 1 + 10 + 5 + 5 + 5 + 1;

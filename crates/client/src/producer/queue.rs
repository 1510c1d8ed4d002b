//! The batches of one partition, in sequence order.

use crate::error::ClientError;
use crate::transaction::ProducerIdentity;
use crate::types::{Now, TopicPartition};
use bytes::Bytes;
use kstreams_protocol::batch::{
    Batch, BatchError, BatchHead, BatchWriter, Compression, HEADER_LENGTH, sequence_after,
    with_producer,
};
use std::collections::VecDeque;

/// What a batch is sealed with.
#[derive(Debug)]
pub(super) struct Batching {
    pub(super) identity: ProducerIdentity,
    pub(super) transactional: bool,
    pub(super) compression: Compression,
    pub(super) level: Option<i32>,
    /// The request it goes into.
    pub(super) request: u64,
}

#[derive(Debug)]
enum Content {
    Open(BatchWriter),
    /// Has its numbers.
    Sealed(Batch),
}

/// A batch on its way.
#[derive(Debug)]
pub(super) struct Sending {
    number: u64,
    content: Content,
    /// Bytes it has reserved of the buffer.
    bytes: usize,
    deadline: Now,
    request: Option<u64>,
    /// The number that is kept for its first record while it is open.
    sequence: Option<i32>,
    /// Whether an earlier try may have been written. Such a batch keeps its numbers until a broker
    /// said what became of it.
    uncertain: bool,
}

impl Sending {
    fn count(&self) -> i32 {
        match &self.content {
            Content::Open(writer) => writer.count() as i32,
            Content::Sealed(batch) => batch.count() as i32,
        }
    }
}

#[derive(Debug)]
pub(super) struct PartitionQueue {
    pub(super) name: TopicPartition,
    batches: VecDeque<Sending>,
    identity: Option<ProducerIdentity>,
    next_sequence: i32,
    /// Whether a broker has confirmed a batch under this identity. One that does not know it takes any number for the first: then
    /// a batch that overtakes a lost one would be written before it.
    known: bool,
    /// Numbers were lost: the next epoch is due once nothing is in flight.
    pub(super) renumber: bool,
    pub(super) not_before: Now,
    /// Why the first batch waits.
    pub(super) why: Option<ClientError>,
    /// Behind the last record that was written since the last flush.
    pub(super) end_offset: Option<i64>,
    /// Batches from this number on wait for the end of a transaction.
    pub(super) limit: u64,
}

impl PartitionQueue {
    pub(super) fn new(name: TopicPartition) -> Self {
        Self {
            name,
            batches: VecDeque::new(),
            identity: None,
            next_sequence: 0,
            known: false,
            renumber: false,
            not_before: Now::ZERO,
            why: None,
            end_offset: None,
            limit: u64::MAX,
        }
    }

    pub(super) fn push(&mut self, number: u64, writer: BatchWriter, bytes: usize, deadline: Now) {
        let content = Content::Open(writer);
        self.batches.push_back(Sending {
            number,
            content,
            bytes,
            deadline,
            request: None,
            sequence: None,
            uncertain: false,
        });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    /// Number of the oldest batch.
    pub(super) fn oldest(&self) -> Option<u64> {
        self.batches.front().map(|batch| batch.number)
    }

    /// When the first batch waited too long; one in flight is waited for in any case.
    pub(super) fn deadline(&self) -> Option<Now> {
        let first = self.batches.front().filter(|batch| batch.request.is_none())?;
        (first.number < self.limit).then_some(first.deadline)
    }

    fn in_flight(&self) -> usize {
        self.batches.iter().filter(|batch| batch.request.is_some()).count()
    }

    /// The batch to send next: the first one that waits, if all behind it wait too.
    ///
    /// The broker recognises the last few batches only. So nothing new is sent before all that may
    /// be written is settled, or a batch that is sent again could be one too many back.
    fn next(&self) -> Option<usize> {
        let at = self.batches.iter().position(|batch| batch.request.is_none())?;
        let ordered = self.batches.iter().skip(at).all(|batch| batch.request.is_none());
        let settled = self.batches.iter().take(at).all(|batch| !batch.uncertain);
        let window = if self.known { super::IN_FLIGHT_MAX } else { 1 };
        let fits = at < window && (settled || self.batches[at].uncertain);
        (ordered && fits && self.batches[at].number < self.limit).then_some(at)
    }

    pub(super) fn can_send(&self) -> bool {
        // Before new numbers are given, what may be written already has to be settled.
        self.next().is_some_and(|at| !self.renumber || self.batches[at].uncertain)
    }

    /// Bytes that the batch to send next will take at most, or nearly.
    pub(super) fn next_size(&self) -> usize {
        self.next().map_or(0, |at| match &self.batches[at].content {
            Content::Open(writer) => writer.len(),
            Content::Sealed(batch) => batch.bytes().len(),
        })
    }

    /// Seals the batch to send next, if it is not yet, and counts it as in flight.
    pub(super) fn start(&mut self, batching: &Batching) -> Result<Bytes, ClientError> {
        let at = self.next().unwrap_or(0);
        let identity = *self.identity.get_or_insert(batching.identity);
        let name = &self.name;
        let Some(sending) = self.batches.get_mut(at) else { return Ok(Bytes::new()) };
        if let Content::Open(writer) = &mut sending.content {
            let count = writer.count() as i32;
            let sequence = sending.sequence.unwrap_or(self.next_sequence);
            let head = BatchHead {
                producer_id: identity.id,
                producer_epoch: identity.epoch,
                base_sequence: sequence,
                transactional: batching.transactional,
                compression: batching.compression,
                compression_level: batching.level,
                ..BatchHead::default()
            };
            let sealed = std::mem::take(writer).seal(&head).and_then(Batch::new);
            let batch = sealed.map_err(|error| broken(name, &error))?;
            sending.content = Content::Sealed(batch);
            if sending.sequence.take().is_none() {
                self.next_sequence = sequence_after(sequence, count);
            }
        }
        sending.request = Some(batching.request);
        match &sending.content {
            Content::Sealed(batch) => Ok(batch.bytes().clone()),
            Content::Open(_) => Ok(Bytes::new()),
        }
    }

    /// The place of the batch that is in this request.
    pub(super) fn in_request(&self, request: u64) -> Option<usize> {
        self.batches.iter().position(|batch| batch.request == Some(request))
    }

    /// The batch is written; gives the bytes it had reserved.
    pub(super) fn acknowledge(&mut self, at: usize, base_offset: i64) -> usize {
        self.why = None;
        let Some(sent) = self.batches.remove(at) else { return 0 };
        self.known = true;
        let end = if base_offset < 0 { -1 } else { base_offset + i64::from(sent.count()) };
        self.end_offset = Some(end.max(self.end_offset.unwrap_or(-1)));
        sent.bytes
    }

    /// The batch is to be sent again. `written` says whether it may have been written this time; a
    /// try before may have been in any case.
    pub(super) fn retry(&mut self, at: usize, why: ClientError, written: bool) {
        if let Some(batch) = self.batches.get_mut(at) {
            batch.request = None;
            batch.uncertain |= written;
        }
        self.why = Some(why);
    }

    /// The broker does not have the batch, from no try; it is to be sent again.
    pub(super) fn retry_unwritten(&mut self, at: usize, why: ClientError) {
        if let Some(batch) = self.batches.get_mut(at) {
            batch.uncertain = false;
        }
        self.retry(at, why, false);
    }

    /// Drops a batch for good; gives the bytes it had reserved. What stands behind it needs new
    /// numbers, if it had some itself.
    pub(super) fn give_up(&mut self, at: usize) -> Option<usize> {
        let batch = self.batches.remove(at)?;
        self.renumber |= matches!(batch.content, Content::Sealed(_));
        Some(batch.bytes)
    }

    pub(super) fn give_up_first(&mut self) -> Option<usize> {
        self.give_up(0)
    }

    /// Whether the first batch waited too long, and why it did. One in flight is waited for: its
    /// request ends in time.
    pub(super) fn expired(&self, now: Now) -> Option<Option<ClientError>> {
        let first = self.batches.front()?;
        let late = first.request.is_none() && first.deadline <= now && first.number < self.limit;
        late.then(|| self.why.clone())
    }

    /// Drops all batches before `number`, in flight or not; gives the bytes they had reserved.
    pub(super) fn forget(&mut self, number: u64) -> usize {
        let mut bytes = 0;
        while let Some(batch) = self.batches.pop_front_if(|batch| batch.number < number) {
            bytes += batch.bytes;
        }
        bytes
    }

    /// Numbers what comes from 0 under the next identity. No batch has numbers now.
    pub(super) fn restart(&mut self, identity: ProducerIdentity) {
        // A broker that knows the id takes nothing but 0 for the first number of a newer epoch.
        self.known &= self.identity.is_some_and(|mine| mine.id == identity.id);
        self.identity = Some(identity);
        self.next_sequence = 0;
        self.renumber = false;
        self.not_before = Now::ZERO;
        self.why = None;
    }

    /// Takes the next epoch and numbers all batches from 0, if that is due and nothing is in
    /// flight. False when there is no epoch left.
    pub(super) fn renumber(&mut self, current: ProducerIdentity) -> bool {
        // Batches behind one that is not written are not written either.
        let settled = self.batches.front().is_none_or(|first| !first.uncertain);
        if !self.renumber || self.in_flight() > 0 || !settled {
            return true;
        }
        let mine = self.identity.unwrap_or(current);
        let next = match mine.epoch.checked_add(1) {
            _ if mine.id != current.id => current,
            Some(epoch) => ProducerIdentity { id: mine.id, epoch },
            None => return false,
        };
        tracing::info!(partition = %self.name, epoch = next.epoch, "sequence numbers start anew");
        self.identity = Some(next);
        self.known = false;
        self.renumber = false;
        let sealed = |sending: &Sending| matches!(sending.content, Content::Sealed(_));
        let numbered = self.batches.iter().rposition(sealed).map_or(0, |last| last + 1);
        let mut sequence = 0;
        for sending in &mut self.batches {
            (sending.sequence, sending.uncertain) = (None, false);
        }
        for sending in self.batches.iter_mut().take(numbered) {
            let count = sending.count();
            match &mut sending.content {
                Content::Open(_) => sending.sequence = Some(sequence),
                Content::Sealed(batch) => {
                    *batch = with_producer(batch.clone(), next.id, next.epoch, sequence);
                }
            }
            sequence = sequence_after(sequence, count);
        }
        self.next_sequence = sequence;
        true
    }

    /// Replaces a batch that is too large by two halves; false if it is one record only. In a
    /// transaction they keep the numbers of the whole, as there is no other epoch to be had.
    pub(super) fn split(&mut self, at: usize, transactional: bool) -> Result<bool, ClientError> {
        let Some(sending) = self.batches.get(at) else { return Ok(false) };
        let Content::Sealed(batch) = &sending.content else { return Ok(false) };
        let count = batch.count();
        if count < 2 {
            return Ok(false);
        }
        let (number, deadline) = (sending.number, sending.deadline);
        let base = batch.base_sequence();
        let sequences = [sequence_after(base, count as i32 / 2), base];
        let halves = halves(batch.clone()).map_err(|error| broken(&self.name, &error))?;
        let total = sending.bytes;
        let first_share = total / 2;
        // The halves take the place and the numbers of the whole, which the broker did not write;
        // what is in flight behind it comes back out of order and is sent again.
        self.batches.remove(at);
        let shares = [(total - first_share, halves.1), (first_share, halves.0)];
        for ((share, writer), sequence) in shares.into_iter().zip(sequences) {
            let content = Content::Open(writer);
            let half = Sending {
                number,
                content,
                bytes: share,
                deadline,
                request: None,
                sequence: transactional.then_some(sequence),
                uncertain: false,
            };
            self.batches.insert(at, half);
        }
        self.renumber |= !transactional;
        Ok(true)
    }
}

fn broken(name: &TopicPartition, error: &BatchError) -> ClientError {
    ClientError::new(crate::error::ErrorKind::Fatal, format!("batch for {name}: {error}"))
}

/// The records of a batch in two batches.
fn halves(batch: Batch) -> Result<(BatchWriter, BatchWriter), BatchError> {
    let half = batch.count() as usize / 2;
    let size = batch.bytes().len().saturating_sub(HEADER_LENGTH) / 2;
    let mut writers = [BatchWriter::with_capacity(size), BatchWriter::with_capacity(size)];
    let mut records = batch.into_records()?;
    let mut at = 0;
    while let Some(record) = records.next_record()? {
        let headers: Vec<(&str, Option<&[u8]>)> = record
            .headers
            .iter()
            .map(|(key, value)| (std::str::from_utf8(key).unwrap_or_default(), value))
            .collect();
        writers[usize::from(at >= half)].append(
            record.timestamp,
            record.key,
            record.value,
            &headers,
        );
        at += 1;
    }
    let [first, second] = writers;
    Ok((first, second))
}

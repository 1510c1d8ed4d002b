//! What a partition remembers of its idempotent producers: who wrote last, and which batches came
//! just before, so that a retry is answered and not written twice. Java: `ProducerStateManager`.

use std::collections::{BTreeMap, VecDeque};

use kstreams_protocol::ResponseError;
use kstreams_protocol::batch::{Batch, sequence_after};

use crate::error::Refusal;

/// Batches that are remembered of a producer; it must not have more in flight.
const REMEMBERED_BATCHES: usize = 5;

/// The producers of one partition.
#[derive(Debug, Default)]
pub(crate) struct ProducerStates {
    producers: BTreeMap<i64, Producer>,
}

#[derive(Debug)]
pub(crate) struct Producer {
    pub(crate) epoch: i16,
    pub(crate) last_timestamp: i64,
    batches: VecDeque<Written>,
}

#[derive(Debug, Clone, Copy)]
struct Written {
    base_sequence: i32,
    last_sequence: i32,
    base_offset: i64,
    timestamp: i64,
}

/// What to do with a batch that a producer sent.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is the next one.
    Append,
    /// It is in the log already, at this offset; `timestamp` is its largest.
    Duplicate { base_offset: i64, timestamp: i64 },
}

impl Producer {
    pub(crate) fn last_sequence(&self) -> i32 {
        self.batches.back().map_or(-1, |batch| batch.last_sequence)
    }
}

impl ProducerStates {
    /// Judges a batch before it is appended.
    pub(crate) fn check(&self, batch: &Batch) -> Result<Verdict, Refusal> {
        let id = batch.producer_id();
        let Some(known) = self.producers.get(&id).filter(|_| id >= 0) else {
            return Ok(Verdict::Append);
        };
        let (epoch, first, last) =
            (batch.producer_epoch(), batch.base_sequence(), batch.last_sequence());
        let same = |b: &&Written| b.base_sequence == first && b.last_sequence == last;
        if epoch == known.epoch
            && let Some(written) = known.batches.iter().find(same)
        {
            let Written { base_offset, timestamp, .. } = *written;
            return Ok(Verdict::Duplicate { base_offset, timestamp });
        }
        if epoch < known.epoch {
            let message = format!(
                "Epoch of producer {id} is {epoch}, which is smaller than the last seen epoch {}",
                known.epoch
            );
            return Err(Refusal::new(ResponseError::InvalidProducerEpoch, message));
        }
        // With the epoch sequences begin anew; a marker brings one too.
        let expected = match epoch > known.epoch || known.batches.is_empty() {
            true => 0,
            false => sequence_after(known.last_sequence(), 1),
        };
        if expected != first {
            let message = format!(
                "Out of order sequence number for producer {id}: {first} (incoming), {} (current end)",
                known.last_sequence()
            );
            return Err(Refusal::new(ResponseError::OutOfOrderSequenceNumber, message));
        }
        Ok(Verdict::Append)
    }

    /// Remembers a batch that was appended (or found on disk).
    pub(crate) fn appended(&mut self, batch: &Batch) {
        let (id, epoch) = (batch.producer_id(), batch.producer_epoch());
        if id < 0 {
            return;
        }
        let new = Producer { epoch, last_timestamp: -1, batches: VecDeque::new() };
        let producer = self.producers.entry(id).or_insert(new);
        if producer.epoch != epoch {
            producer.epoch = epoch;
            producer.batches.clear();
        }
        producer.last_timestamp = batch.max_timestamp();
        if batch.is_control() {
            return;
        }
        if producer.batches.len() == REMEMBERED_BATCHES {
            producer.batches.pop_front();
        }
        producer.batches.push_back(Written {
            base_sequence: batch.base_sequence(),
            last_sequence: batch.last_sequence(),
            base_offset: batch.base_offset(),
            timestamp: batch.max_timestamp(),
        });
    }

    /// Forgets producers that wrote nothing since `before` (ms) and have no open transaction.
    pub(crate) fn expire(&mut self, before: i64, is_open: impl Fn(i64) -> bool) {
        self.producers.retain(|id, producer| producer.last_timestamp >= before || is_open(*id));
    }

    pub(crate) fn knows(&self, id: i64) -> bool {
        self.producers.contains_key(&id)
    }

    pub(crate) fn epoch_of(&self, id: i64) -> Option<i16> {
        self.producers.get(&id).map(|producer| producer.epoch)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (i64, &Producer)> {
        self.producers.iter().map(|(id, producer)| (*id, producer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kstreams_protocol::batch::{BatchHead, BatchWriter, set_appended};

    fn batch(epoch: i16, base_sequence: i32, count: usize, offset: i64) -> Batch {
        let mut writer = BatchWriter::new();
        for _ in 0..count {
            writer.append(7, None, None, &[]);
        }
        let head = BatchHead {
            producer_id: 1,
            producer_epoch: epoch,
            base_sequence,
            ..Default::default()
        };
        let mut bytes = writer.seal(&head).unwrap().to_vec();
        set_appended(&mut bytes, offset, 0, None).unwrap();
        Batch::new(bytes.into()).unwrap()
    }

    fn refused(states: &ProducerStates, batch: &Batch) -> ResponseError {
        states.check(batch).unwrap_err().error
    }

    #[test]
    fn the_next_sequence_is_appended_and_a_gap_refused() {
        let mut states = ProducerStates::default();
        assert_eq!(states.check(&batch(0, 17, 1, 0)).unwrap(), Verdict::Append, "not known: any");
        states.appended(&batch(0, 0, 3, 0));
        assert_eq!(states.check(&batch(0, 3, 2, 0)).unwrap(), Verdict::Append);
        assert_eq!(refused(&states, &batch(0, 4, 2, 0)), ResponseError::OutOfOrderSequenceNumber);
    }

    #[test]
    fn one_of_the_last_five_batches_is_a_duplicate() {
        let mut states = ProducerStates::default();
        for i in 0..7 {
            states.appended(&batch(0, i, 1, 100 + i64::from(i)));
        }
        let duplicate = Verdict::Duplicate { base_offset: 102, timestamp: 7 };
        assert_eq!(states.check(&batch(0, 2, 1, 0)).unwrap(), duplicate);
        assert_eq!(
            refused(&states, &batch(0, 1, 1, 0)),
            ResponseError::OutOfOrderSequenceNumber,
            "older than the last five"
        );
        assert_eq!(
            refused(&states, &batch(0, 6, 2, 0)),
            ResponseError::OutOfOrderSequenceNumber,
            "other bounds"
        );
    }

    #[test]
    fn an_older_epoch_is_fenced_and_a_newer_one_begins_at_zero() {
        let mut states = ProducerStates::default();
        states.appended(&batch(3, 0, 1, 0));
        assert_eq!(refused(&states, &batch(2, 1, 1, 0)), ResponseError::InvalidProducerEpoch);
        assert_eq!(states.check(&batch(4, 0, 1, 0)).unwrap(), Verdict::Append);
        assert_eq!(refused(&states, &batch(4, 1, 1, 0)), ResponseError::OutOfOrderSequenceNumber);
    }

    #[test]
    fn sequences_wrap() {
        let mut states = ProducerStates::default();
        states.appended(&batch(0, i32::MAX - 1, 2, 0));
        assert_eq!(states.check(&batch(0, 0, 1, 0)).unwrap(), Verdict::Append);
    }

    #[test]
    fn idle_producers_are_forgotten_unless_their_transaction_is_open() {
        let mut states = ProducerStates::default();
        states.appended(&batch(0, 0, 1, 0));
        states.expire(8, |id| id == 1);
        assert_eq!(states.iter().count(), 1);
        states.expire(8, |_| false);
        assert_eq!(states.iter().count(), 0);
    }
}

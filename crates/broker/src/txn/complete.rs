//! The end of a transaction: a marker in each of its partitions, and its offsets to their groups.
//! Done in one step with the decision; a broker that ended in between does it when it comes back.
//! Java: `TransactionMarkerChannelManager`.

use kstreams_protocol::ResponseError;
use kstreams_protocol::batch::{Batch, BatchHead, BatchWriter, ControlType};

use super::{End, Init, Part, ProducerEpoch, State};
use crate::log::AppendRules;
use crate::node::Node;

/// There was never another coordinator.
const COORDINATOR_EPOCH: i32 = 0;

impl Node {
    /// Gives a transactional id to a producer.
    pub(crate) fn init_transactions(
        &mut self,
        id: &str,
        timeout_ms: i32,
        expected: Option<ProducerEpoch>,
    ) -> Result<ProducerEpoch, ResponseError> {
        let to = (&mut self.journal, self.now);
        match self.transactions.init(id, timeout_ms, expected, to)? {
            Init::Given(given) => {
                self.transactions.record(id, &mut self.journal);
                Ok(given)
            }
            Init::Abort => {
                self.fence_transaction(id);
                Err(ResponseError::ConcurrentTransactions)
            }
        }
    }

    /// Makes `parts` part of a transaction.
    pub(crate) fn add_to_transaction(
        &mut self,
        id: &str,
        producer: ProducerEpoch,
        parts: Vec<Part>,
    ) -> Result<(), ResponseError> {
        if self.transactions.add(id, producer, parts, self.now)? {
            self.transactions.record(id, &mut self.journal);
        }
        Ok(())
    }

    /// Makes `part` part of the transaction, if the request does that by itself (`adds`), else sees
    /// to it that it is.
    pub(crate) fn join_transaction(
        &mut self,
        id: &str,
        producer: ProducerEpoch,
        part: Part,
        adds: bool,
    ) -> Result<bool, ResponseError> {
        let joined = match adds {
            true => self.add_to_transaction(id, producer, vec![part]).map(|()| true),
            false => self.transactions.verify(id, producer, &part),
        };
        joined.map_err(|error| match error {
            ResponseError::ProducerFenced => ResponseError::InvalidProducerEpoch,
            other => other,
        })
    }

    /// Ends a transaction as its producer asks; gives what the producer goes on as.
    pub(crate) fn end_transaction(
        &mut self,
        id: &str,
        producer: ProducerEpoch,
        (commit, bump): (bool, bool),
    ) -> Result<ProducerEpoch, ResponseError> {
        match self.transactions.end(id, producer, (commit, bump), self.now)? {
            End::Done(now) => Ok(now),
            End::Prepared => {
                self.complete_transaction(id);
                let transaction = self.transactions.get(id);
                let now = transaction.map(|t| (t.producer_id, t.epoch));
                now.ok_or(ResponseError::InvalidProducerIdMapping)
            }
        }
    }

    /// Aborts what took too long, and forgets what nobody used for long.
    pub(crate) fn sweep_transactions(&mut self) {
        for id in self.transactions.timed_out(self.now) {
            tracing::info!(id, "a transaction took too long and is aborted");
            self.fence_transaction(&id);
        }
        let before = self.now.saturating_sub(self.config.transactional_id_expiration_ms);
        self.transactions.expire(before, &mut self.journal);
    }

    /// Completes what the broker had decided when it ended.
    pub(crate) fn complete_prepared(&mut self) {
        for id in self.transactions.prepared() {
            self.complete_transaction(&id);
        }
    }

    fn fence_transaction(&mut self, id: &str) {
        self.transactions.fence(id, self.config.transaction_version, self.now);
        self.complete_transaction(id);
    }

    fn complete_transaction(&mut self, id: &str) {
        self.transactions.record(id, &mut self.journal);
        let Some(transaction) = self.transactions.get(id).cloned() else { return };
        let producer = (transaction.producer_id, transaction.epoch);
        let commit = transaction.state == State::PrepareCommit;
        for (topic, partition) in &transaction.partitions {
            if let Err(error) = self.write_marker(topic, *partition, producer, commit) {
                tracing::error!(topic, partition, %error, "a marker could not be written");
            }
        }
        for name in &transaction.groups {
            if let Some(group) = self.groups.get_mut(name) {
                let to = (producer.0, commit);
                group.offsets.end_transaction(name, to, &mut self.journal);
            }
            self.groups.drop_if_unused(name);
        }
        self.transactions.completed(id, self.now, &mut self.journal);
    }

    fn write_marker(
        &mut self,
        topic: &str,
        partition: i32,
        (producer_id, producer_epoch): ProducerEpoch,
        commit: bool,
    ) -> std::io::Result<()> {
        let Some(topic) = self.topics.get_mut(topic) else { return Ok(()) };
        let index = usize::try_from(partition).unwrap_or(usize::MAX);
        let Some(log) = topic.partitions.get_mut(index) else { return Ok(()) };
        let control = if commit { ControlType::Commit } else { ControlType::Abort };
        let mut writer = BatchWriter::new();
        let value = ControlType::value(COORDINATOR_EPOCH);
        writer.append(self.now, Some(&control.key()), Some(&value), &[]);
        let head = BatchHead {
            producer_id,
            producer_epoch,
            transactional: true,
            control: true,
            ..BatchHead::default()
        };
        let marker = writer.seal(&head).and_then(Batch::new).map_err(std::io::Error::other)?;
        let rules = AppendRules {
            segment_bytes: topic.config.segment_bytes,
            segment_ms: topic.config.segment_ms,
            log_append_time: topic.config.log_append_time,
            now: self.now,
        };
        let appended = log.append(&marker, rules);
        let id = topic.id;
        self.note_appended((id, partition));
        appended.map(drop).map_err(|refusal| std::io::Error::other(format!("{refusal:?}")))
    }
}

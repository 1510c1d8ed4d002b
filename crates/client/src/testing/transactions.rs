//! The broker's transaction coordinator: what Kafka does with both transaction versions, as far as a
//! producer can notice.

use super::broker::{Broker, Fault};
use kstreams_protocol::batch::Batch;
use kstreams_protocol::messages::add_partitions_to_txn_response::{
    AddPartitionsToTxnPartitionResult, AddPartitionsToTxnTopicResult,
};
use kstreams_protocol::messages::txn_offset_commit_response::{
    TxnOffsetCommitResponsePartition, TxnOffsetCommitResponseTopic,
};
use kstreams_protocol::messages::{
    AddOffsetsToTxnRequest, AddOffsetsToTxnResponse, AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse, EndTxnRequest, EndTxnResponse, InitProducerIdRequest,
    InitProducerIdResponse, ProducerId, TxnOffsetCommitRequest, TxnOffsetCommitResponse,
};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum State {
    #[default]
    Empty,
    Ongoing,
    Committed,
    Aborted,
}

#[derive(Debug, Default)]
struct Transaction {
    producer: i64,
    epoch: i16,
    /// The id and epoch before, whose owner may repeat what gave it these.
    last: (i64, i16),
    state: State,
    partitions: BTreeSet<i32>,
    group: bool,
    offsets: BTreeMap<i32, i64>,
    /// Requests that come while the markers of the last transaction are still on their way.
    busy: u32,
}

#[derive(Debug)]
pub(crate) struct Transactions {
    /// Level of `transaction.version`.
    pub(crate) level: i16,
    /// The last epoch of a producer id.
    pub(crate) epoch_max: i16,
    by_id: BTreeMap<String, Transaction>,
    /// The epoch of the group's member; other epochs are refused.
    pub(crate) member_epoch: i32,
    /// The group's offsets by partition.
    pub(crate) offsets: BTreeMap<i32, i64>,
    /// How often something came that a correct client never sends.
    pub(crate) violations: Vec<String>,
    /// How many transactions were committed and aborted.
    pub(crate) ended: [usize; 2],
    refused: usize,
}

impl Default for Transactions {
    fn default() -> Self {
        Self {
            level: 2,
            epoch_max: i16::MAX,
            by_id: BTreeMap::new(),
            member_epoch: 1,
            offsets: BTreeMap::new(),
            violations: Vec::new(),
            ended: [0; 2],
            refused: 0,
        }
    }
}

/// What follows an id and epoch.
fn following(last: (i64, i16), epoch_max: i16, ids: &mut i64) -> (i64, i16) {
    if last.1 < epoch_max {
        return (last.0, last.1 + 1);
    }
    *ids += 1;
    (*ids, 0)
}

impl Transactions {
    fn check(&mut self, id: &str, producer: i64, epoch: i16, fault: Fault) -> i16 {
        if fault == Fault::Refused {
            self.refused += 1;
            return [15, 51, 16, 14][self.refused % 4];
        }
        let Some(transaction) = self.by_id.get_mut(id) else { return 49 };
        if transaction.producer != producer {
            return 49;
        }
        if transaction.epoch != epoch {
            return if self.refused.is_multiple_of(2) { 90 } else { 47 };
        }
        if transaction.busy > 0 {
            transaction.busy -= 1;
            return 51;
        }
        0
    }
}

impl Broker {
    pub(super) fn init_producer(
        &mut self,
        request: &InitProducerIdRequest,
        fault: Fault,
    ) -> InitProducerIdResponse {
        let answer = |code: i16, id: i64, epoch: i16| {
            InitProducerIdResponse::default()
                .with_error_code(code)
                .with_producer_id(ProducerId(id))
                .with_producer_epoch(epoch)
        };
        if fault == Fault::Refused {
            return answer(15, -1, -1);
        }
        let Some(id) = &request.transactional_id else {
            self.producer_ids += 1;
            return answer(0, self.producer_ids, 0);
        };
        let Some(transaction) = self.transactions.by_id.get_mut(id.as_str()) else {
            self.producer_ids += 1;
            let fresh =
                Transaction { producer: self.producer_ids, last: (-1, -1), ..Default::default() };
            self.transactions.by_id.insert(id.to_string(), fresh);
            return answer(0, self.producer_ids, 0);
        };
        if transaction.busy > 0 {
            transaction.busy -= 1;
            return answer(51, -1, -1);
        }
        let (producer, epoch) = (transaction.producer, transaction.epoch);
        if request.producer_id.0 >= 0 {
            if (request.producer_id.0, request.producer_epoch) == transaction.last {
                return answer(0, producer, epoch);
            }
            if (request.producer_id.0, request.producer_epoch) != (producer, epoch) {
                return answer(90, -1, -1);
            }
        }
        if transaction.state == State::Ongoing {
            self.end(id.as_str(), false, true);
            return answer(51, -1, -1);
        }
        let last = (producer, epoch);
        transaction.last = if request.producer_id.0 >= 0 { last } else { (-1, -1) };
        let next = following(last, self.transactions.epoch_max, &mut self.producer_ids);
        (transaction.producer, transaction.epoch) = next;
        transaction.state = State::Empty;
        answer(0, next.0, next.1)
    }

    /// The coordinator gives a transaction up that takes too long.
    pub(crate) fn time_out(&mut self, id: &str) {
        if self.transactions.by_id.get(id).is_some_and(|t| t.state == State::Ongoing) {
            self.end(id, false, true);
        }
    }

    /// Writes the markers.
    fn end(&mut self, id: &str, commit: bool, bump: bool) {
        let Some(transaction) = self.transactions.by_id.get_mut(id) else { return };
        let last = (transaction.producer, transaction.epoch);
        transaction.last = (-1, -1);
        if bump {
            transaction.last = last;
            let next = following(last, self.transactions.epoch_max, &mut self.producer_ids);
            (transaction.producer, transaction.epoch) = next;
        }
        // A marker of a new id has the last epoch of the old one.
        let epoch = if transaction.producer == last.0 { transaction.epoch } else { last.1 };
        for partition in std::mem::take(&mut transaction.partitions) {
            self.logs.entry(partition).or_default().mark(last.0, epoch, commit);
        }
        let offsets = std::mem::take(&mut transaction.offsets);
        if commit {
            self.transactions.offsets.extend(offsets);
        }
        transaction.group = false;
        transaction.busy = 2;
        transaction.state = if commit { State::Committed } else { State::Aborted };
        self.transactions.ended[usize::from(!commit)] += 1;
    }

    /// Whether a batch may be written, as an error code.
    pub(super) fn check_batch(
        &mut self,
        id: &str,
        partition: i32,
        batch: &Batch,
        version: i16,
    ) -> i16 {
        let implicit = version >= 12;
        if implicit && self.transactions.level < 2 {
            self.transactions.violations.push(format!("produce version {version}"));
        }
        let fault = Fault::None;
        let code = self.transactions.check(id, batch.producer_id(), batch.producer_epoch(), fault);
        let Some(transaction) = self.transactions.by_id.get_mut(id).filter(|_| code == 0) else {
            return code;
        };
        if implicit {
            transaction.state = State::Ongoing;
            transaction.partitions.insert(partition);
        } else if transaction.state != State::Ongoing
            || !transaction.partitions.contains(&partition)
        {
            self.transactions.violations.push(format!("partition {partition} was not added"));
            return 48;
        }
        0
    }

    pub(super) fn add_partitions(
        &mut self,
        request: &AddPartitionsToTxnRequest,
        fault: Fault,
    ) -> AddPartitionsToTxnResponse {
        let id = request.v3_and_below_transactional_id.as_str();
        let (producer, epoch) =
            (request.v3_and_below_producer_id.0, request.v3_and_below_producer_epoch);
        let code = self.transactions.check(id, producer, epoch, fault);
        let topics = request.v3_and_below_topics.iter().map(|topic| {
            let parts = topic.partitions.iter().map(|partition| {
                if let Some(transaction) = self.transactions.by_id.get_mut(id).filter(|_| code == 0)
                {
                    transaction.state = State::Ongoing;
                    transaction.partitions.insert(*partition);
                }
                AddPartitionsToTxnPartitionResult::default()
                    .with_partition_index(*partition)
                    .with_partition_error_code(code)
            });
            AddPartitionsToTxnTopicResult::default()
                .with_name(topic.name.clone())
                .with_results_by_partition(parts.collect())
        });
        AddPartitionsToTxnResponse::default().with_results_by_topic_v3_and_below(topics.collect())
    }

    pub(super) fn add_offsets(
        &mut self,
        request: &AddOffsetsToTxnRequest,
        fault: Fault,
    ) -> AddOffsetsToTxnResponse {
        let id = request.transactional_id.as_str();
        let code =
            self.transactions.check(id, request.producer_id.0, request.producer_epoch, fault);
        if let Some(transaction) = self.transactions.by_id.get_mut(id).filter(|_| code == 0) {
            transaction.state = State::Ongoing;
            transaction.group = true;
        }
        AddOffsetsToTxnResponse::default().with_error_code(code)
    }

    pub(super) fn commit_in_transaction(
        &mut self,
        request: &TxnOffsetCommitRequest,
        version: i16,
        fault: Fault,
    ) -> TxnOffsetCommitResponse {
        let id = request.transactional_id.as_str();
        let transactions = &mut self.transactions;
        let mut code = transactions.check(id, request.producer_id.0, request.producer_epoch, fault);
        if code == 0 && ![-1, transactions.member_epoch].contains(&request.generation_id) {
            code = 22;
        }
        let Some(transaction) = transactions.by_id.get_mut(id) else {
            return TxnOffsetCommitResponse::default();
        };
        if code == 0 && version < 5 && !transaction.group {
            transactions.violations.push("the group was not added".to_owned());
            code = 48;
        }
        if code == 0 {
            transaction.state = State::Ongoing;
        }
        let topics = request.topics.iter().map(|topic| {
            let parts = topic.partitions.iter().map(|part| {
                if code == 0 {
                    transaction.offsets.insert(part.partition_index, part.committed_offset);
                }
                TxnOffsetCommitResponsePartition::default()
                    .with_partition_index(part.partition_index)
                    .with_error_code(code)
            });
            TxnOffsetCommitResponseTopic::default()
                .with_name(topic.name.clone())
                .with_partitions(parts.collect())
        });
        TxnOffsetCommitResponse::default().with_topics(topics.collect())
    }

    pub(super) fn end_transaction(
        &mut self,
        request: &EndTxnRequest,
        version: i16,
        fault: Fault,
    ) -> EndTxnResponse {
        let id = request.transactional_id.as_str();
        let answer = EndTxnResponse::default();
        let bump = version >= 5;
        let wanted = if request.committed { State::Committed } else { State::Aborted };
        let Some(transaction) = self.transactions.by_id.get_mut(id) else {
            return answer.with_error_code(49);
        };
        // The same again, as its answer was lost.
        let now = (transaction.producer, transaction.epoch);
        let owner = if bump { transaction.last } else { now };
        let repeats =
            transaction.state == wanted && owner == (request.producer_id.0, request.producer_epoch);
        let again = repeats && transaction.busy == 0 && fault == Fault::None;
        if !again {
            let producer = request.producer_id.0;
            let epoch = request.producer_epoch;
            let mut code = self.transactions.check(id, producer, epoch, fault);
            if repeats && fault == Fault::None && code != 0 {
                code = 51;
                if let Some(transaction) = self.transactions.by_id.get_mut(id) {
                    transaction.busy = transaction.busy.saturating_sub(1);
                }
            }
            if code != 0 {
                return answer.with_error_code(code);
            }
            let ongoing = self.transactions.by_id[id].state == State::Ongoing;
            if !ongoing && (request.committed || !bump) {
                return answer.with_error_code(48);
            }
            self.end(id, request.committed, bump);
        }
        let transaction = &self.transactions.by_id[id];
        answer
            .with_producer_id(ProducerId(transaction.producer))
            .with_producer_epoch(transaction.epoch)
    }
}

//! What coordinators answer to a transactional producer.

use super::SOON;
use crate::command::TransactionCommand;
use crate::coordinator::Coordinated;
use crate::error::{ClientError, ErrorKind};
use crate::producer::{Context, ProducerMachine};
use crate::requests::Response;
use crate::transaction::{
    Event, Identity, ProducerIdentity, Remedy, State, TransactionVersion, remedy,
};
use crate::types::{Topic, TopicPartition};
use kstreams_protocol::messages::add_partitions_to_txn_response::AddPartitionsToTxnPartitionResult;
use kstreams_protocol::messages::{
    AddPartitionsToTxnResponse, EndTxnResponse, InitProducerIdResponse, TxnOffsetCommitResponse,
};

const INVALID_TXN_STATE: i16 = 48;
const OPERATION_NOT_ATTEMPTED: i16 = 55;

impl ProducerMachine {
    pub(crate) fn on_transaction(
        &mut self,
        result: Result<Response, ClientError>,
        cx: &mut Context<'_>,
    ) {
        let Some(transactional) = &mut self.transactional else { return };
        transactional.asked = false;
        match result {
            Ok(Response::InitProducerId(answer)) => self.on_renewal(&answer, cx),
            Ok(Response::AddPartitionsToTxn(answer)) => self.on_partitions(&answer, cx),
            Ok(Response::AddOffsetsToTxn(answer)) => match answer.error_code {
                0 => transactional.on(Event::Enlisted),
                code => self.on_code(code, cx),
            },
            Ok(Response::TxnOffsetCommit(answer)) => self.on_offsets(&answer, cx),
            Ok(Response::EndTxn(answer)) => self.on_end(&answer, cx),
            Ok(_) | Err(_) => {
                transactional.uncertain |= transactional.state == State::Committing;
                transactional.not_before = cx.now + cx.retry_backoff;
                cx.coordinators.forget_of(&transactional.whom(), cx.now);
            }
        }
    }

    /// The first answer: the producer is known, and by which version transactions go.
    pub(in crate::producer) fn on_transactional_identity(
        &mut self,
        result: Result<Response, ClientError>,
        cx: &mut Context<'_>,
    ) {
        let Some(transactional) = &mut self.transactional else { return };
        self.identity = Identity::Unset { not_before: cx.now + cx.retry_backoff };
        match result {
            Ok(Response::InitProducerId(answer)) if answer.error_code == 0 => {
                transactional.version = match cx.connections.transaction_version() {
                    0 | 1 => TransactionVersion::V1,
                    _ => TransactionVersion::V2,
                };
                let identity = identity_of(&answer);
                tracing::debug!(id = %transactional.id, ?identity, version = ?transactional.version,
                    "the producer can begin");
                self.identity = Identity::Known(identity);
                for queue in &mut self.partitions {
                    queue.restart(identity);
                }
            }
            Ok(Response::InitProducerId(answer)) => match remedy(answer.error_code) {
                Remedy::Soon => self.identity = Identity::Unset { not_before: cx.now + SOON },
                Remedy::Coordinator => {
                    let whom = Coordinated::Transactions(transactional.id.clone());
                    cx.coordinators.forget_of(&whom, cx.now);
                }
                Remedy::Retry => {}
                Remedy::Init | Remedy::Abort | Remedy::MemberEpoch => {
                    let context = format!("producer id of transactional id {}", transactional.id);
                    let error = ClientError::broker(answer.error_code, context, None);
                    self.refuse(error.clone());
                    self.fail_init(error);
                }
            },
            Ok(_) | Err(_) => {
                let whom = Coordinated::Transactions(transactional.id.clone());
                cx.coordinators.forget_of(&whom, cx.now);
            }
        }
    }

    fn fail_init(&mut self, error: ClientError) {
        let front = self.transactional.as_ref().and_then(|t| t.orders.front());
        if front.is_some_and(|order| {
            order.begun && matches!(order.command, TransactionCommand::Init { .. })
        }) {
            self.finish(Some(error));
        }
    }

    fn on_renewal(&mut self, answer: &InitProducerIdResponse, cx: &mut Context<'_>) {
        match answer.error_code {
            0 => self.ended(Event::Renewed, Some(identity_of(answer))),
            code => self.on_code(code, cx),
        }
    }

    fn on_partitions(&mut self, answer: &AddPartitionsToTxnResponse, cx: &mut Context<'_>) {
        let results = answer.results_by_topic_v3_and_below.iter().flat_map(|topic| {
            let name = Topic::from(topic.name.as_str());
            let of = move |part: &_| result_of(&name, part);
            topic.results_by_partition.iter().map(of)
        });
        let results: Vec<(TopicPartition, i16)> = results.collect();
        let Some(transactional) = &mut self.transactional else { return };
        for (name, _) in results.iter().filter(|(_, code)| *code == 0) {
            transactional.added.extend(self.by_name.get(name));
        }
        let failed = results.iter().filter(|(_, code)| !matches!(*code, 0));
        // The others were not attempted because of this one.
        if let Some((name, code)) = failed.min_by_key(|(_, code)| *code == OPERATION_NOT_ATTEMPTED)
        {
            let context = format!("add {name} to the transaction of {}", transactional.id);
            self.on_refusal(*code, ClientError::broker(*code, context, None), cx);
        } else if results.is_empty() {
            transactional.not_before = cx.now + cx.retry_backoff;
        }
    }

    fn on_offsets(&mut self, answer: &TxnOffsetCommitResponse, cx: &mut Context<'_>) {
        let Some(transactional) = &mut self.transactional else { return };
        let Some((offsets, group)) = transactional.offsets() else { return };
        let mut taken = 0;
        for topic in &answer.topics {
            for part in &topic.partitions {
                if part.error_code == 0 {
                    taken += 1;
                    continue;
                }
                let context = format!(
                    "commit of {}-{} for group {} in the transaction of {}",
                    topic.name.as_str(),
                    part.partition_index,
                    group.group_id,
                    transactional.id
                );
                let error = ClientError::broker(part.error_code, context, None);
                return self.on_refusal(part.error_code, error, cx);
            }
        }
        if taken < offsets.len() {
            transactional.not_before = cx.now + cx.retry_backoff;
        } else {
            transactional.on(Event::OffsetsTaken);
        }
    }

    fn on_end(&mut self, answer: &EndTxnResponse, cx: &mut Context<'_>) {
        let Some(transactional) = &mut self.transactional else { return };
        let v2 = transactional.version == TransactionVersion::V2;
        match answer.error_code {
            0 => {
                let next =
                    ProducerIdentity { id: answer.producer_id.0, epoch: answer.producer_epoch };
                let next = (v2 && next.id >= 0 && next.epoch >= 0).then_some(next);
                self.ended(Event::Ended, next);
            }
            // Nothing was begun, or the coordinator aborted it itself: the next epoch tells.
            INVALID_TXN_STATE if !v2 && transactional.state == State::Aborting => {
                self.ended(Event::Ended, None);
            }
            code => self.on_code(code, cx),
        }
    }

    fn on_code(&mut self, code: i16, cx: &mut Context<'_>) {
        let Some(transactional) = &self.transactional else { return };
        let what = match transactional.state {
            State::Committing => "commit of the transaction",
            State::Aborting => "abort of the transaction",
            State::Renewing => "new producer epoch",
            _ => "transaction",
        };
        let error = ClientError::broker(code, format!("{what} of {}", transactional.id), None);
        self.on_refusal(code, error, cx);
    }

    fn on_refusal(&mut self, code: i16, error: ClientError, cx: &mut Context<'_>) {
        let Some(transactional) = &mut self.transactional else { return };
        tracing::debug!(%error, state = ?transactional.state, "a coordinator refused");
        match remedy(code) {
            Remedy::Soon => transactional.not_before = cx.now + SOON,
            Remedy::Coordinator => {
                transactional.not_before = cx.now + cx.retry_backoff;
                cx.coordinators.forget_of(&transactional.whom(), cx.now);
            }
            Remedy::Retry => transactional.not_before = cx.now + cx.retry_backoff,
            Remedy::MemberEpoch if transactional.state == State::Offsets => {
                transactional.on(Event::Stale);
                self.finish(Some(error.of_kind(ErrorKind::StaleMemberEpoch)));
            }
            Remedy::Init => self.fence(error),
            Remedy::Abort | Remedy::MemberEpoch => self.refuse(error),
        }
    }
}

fn identity_of(answer: &InitProducerIdResponse) -> ProducerIdentity {
    ProducerIdentity { id: answer.producer_id.0, epoch: answer.producer_epoch }
}

fn result_of(topic: &Topic, part: &AddPartitionsToTxnPartitionResult) -> (TopicPartition, i16) {
    (TopicPartition::new(topic.clone(), part.partition_index), part.partition_error_code)
}

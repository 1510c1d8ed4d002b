//! What a transactional producer asks of coordinators: its id, partitions and offsets of the
//! transaction, its end. One question at a time.

use super::transactional::Transactional;
use super::{Context, PartitionHandle, ProducerMachine};
use crate::command::TransactionCommand;
use crate::connection::Ticket;
use crate::connections::Lane;
use crate::coordinator::Coordinated;
use crate::error::ClientError;
use crate::requests::{Request, Response};
use crate::transaction::{
    Event, Identity, ProducerIdentity, Remedy, State, TransactionVersion, remedy,
};
use crate::types::{CommittedOffset, GroupMetadata, Now, Topic, TopicPartition};
use kstreams_protocol::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
use kstreams_protocol::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use kstreams_protocol::messages::{
    AddOffsetsToTxnRequest, AddPartitionsToTxnRequest, AddPartitionsToTxnResponse, EndTxnRequest,
    EndTxnResponse, GroupId, InitProducerIdRequest, InitProducerIdResponse, ProducerId, TopicName,
    TransactionalId, TxnOffsetCommitRequest, TxnOffsetCommitResponse,
};
use kstreams_protocol::protocol::StrBytes;
use std::collections::BTreeMap;
use std::time::Duration;

/// Pause before the transaction before is looked at again: its end takes some ms.
pub(super) const SOON: Duration = Duration::from_millis(20);
const OPERATION_NOT_ATTEMPTED: i16 = 55;
const INVALID_TXN_STATE: i16 = 48;
/// Newest versions of the requests that transactions of version 1 can use.
pub(super) const V1_PRODUCE: i16 = 11;
const V1_OFFSETS: i16 = 4;
const V1_END: i16 = 4;

impl ProducerMachine {
    /// Asks the next question, if there is one; gives when to look again.
    pub(super) fn ask(&mut self, cx: &mut Context<'_>) -> Option<Now> {
        let transactional = self.transactional.as_ref()?;
        if transactional.asked || matches!(self.identity, Identity::Asked) {
            return None;
        }
        let deadline = transactional.deadline();
        if deadline.is_some_and(|deadline| deadline <= cx.now) {
            self.give_up_order();
            return Some(cx.now);
        }
        let again = transactional.not_before;
        if again > cx.now {
            return deadline.into_iter().chain([again]).min();
        }
        let asked = match (transactional.state, &self.identity) {
            (State::Fenced | State::Failed | State::Draining, _) => return deadline,
            (_, Identity::Unset { .. } | Identity::Failed(_)) => self.ask_identity(cx),
            (State::Ready | State::Open | State::Flushing, Identity::Known(known)) => {
                self.ask_partitions(*known, cx)
            }
            (State::Enlisting, Identity::Known(known)) => self.ask_enlisting(*known, cx),
            (State::Offsets, Identity::Known(known)) => self.ask_offsets(*known, cx),
            (State::Committing, Identity::Known(known)) => self.ask_end(*known, true, cx),
            (State::Aborting, Identity::Known(known)) => self.ask_end(*known, false, cx),
            (State::Renewing, Identity::Known(known)) => self.ask_renewal(*known, cx),
            (_, Identity::Asked) => None,
        };
        deadline.into_iter().chain(asked).min()
    }

    fn give_up_order(&mut self) {
        let Some(transactional) = &self.transactional else { return };
        let id = &transactional.id;
        let error =
            ClientError::retriable(format!("the coordinator of {id} gave no answer in time"));
        if transactional.state == State::Ready {
            // The id is still asked for.
            self.finish(Some(error));
        } else {
            self.refuse(error);
        }
    }

    /// Sends a question, in a version up to `limit`; gives when to try again.
    fn put(
        &mut self,
        whom: Coordinated,
        request: &Request,
        limit: i16,
        ticket: Ticket,
        cx: &mut Context<'_>,
    ) -> Option<Now> {
        let node = match cx.coordinators.node_of(whom.clone()) {
            Ok(node) => node?,
            Err(error) => {
                self.refuse(error);
                return Some(cx.now);
            }
        };
        if !cx.connections.is_ready(node, Lane::Group, cx.now) {
            if cx.connections.is_down(node, Lane::Group, cx.now) {
                cx.coordinators.forget_of(&whom, cx.now);
            }
            return None;
        }
        let sent = cx.connections.send_up_to(limit, node, Lane::Group, request, ticket, cx.now);
        let transactional = self.transactional.as_mut()?;
        match sent {
            Ok(()) if matches!(ticket, Ticket::ProducerId { .. }) => {
                self.identity = Identity::Asked;
            }
            Ok(()) => transactional.asked = true,
            Err(error) if error.is_retriable() => {
                transactional.not_before = cx.now + cx.retry_backoff;
                return Some(transactional.not_before);
            }
            Err(error) => {
                self.refuse(error);
                return Some(cx.now);
            }
        }
        None
    }

    fn put_transaction(
        &mut self,
        request: &Request,
        limit: i16,
        cx: &mut Context<'_>,
    ) -> Option<Now> {
        let whom = Coordinated::Transactions(self.transactional.as_ref()?.id.clone());
        self.put(whom, request, limit, Ticket::Transaction { producer: self.number }, cx)
    }

    fn init_request(&self, identity: ProducerIdentity) -> Option<Request> {
        let transactional = self.transactional.as_ref()?;
        let timeout = i32::try_from(transactional.timeout.as_millis()).unwrap_or(i32::MAX);
        let request = InitProducerIdRequest::default()
            .with_transactional_id(Some(transactional.wire_id()))
            .with_transaction_timeout_ms(timeout)
            .with_producer_id(ProducerId(identity.id))
            .with_producer_epoch(identity.epoch);
        Some(request.into())
    }

    fn ask_identity(&mut self, cx: &mut Context<'_>) -> Option<Now> {
        if let Identity::Unset { not_before } = self.identity
            && not_before > cx.now
        {
            return Some(not_before);
        }
        let request = self.init_request(ProducerIdentity { id: -1, epoch: -1 })?;
        let whom = Coordinated::Transactions(self.transactional.as_ref()?.id.clone());
        self.put(whom, &request, i16::MAX, Ticket::ProducerId { producer: self.number }, cx)
    }

    fn ask_renewal(&mut self, known: ProducerIdentity, cx: &mut Context<'_>) -> Option<Now> {
        let request = self.init_request(known)?;
        self.put_transaction(&request, i16::MAX, cx)
    }

    /// With version 1 partitions are added before they are written to.
    fn ask_partitions(&mut self, known: ProducerIdentity, cx: &mut Context<'_>) -> Option<Now> {
        let missing = self.missing_partitions();
        let transactional = self.transactional.as_mut()?;
        if missing.is_empty() {
            return None;
        }
        let mut topics: BTreeMap<Topic, Vec<i32>> = BTreeMap::new();
        for handle in missing {
            let name = &self.partitions[handle.0 as usize].name;
            topics.entry(name.topic.clone()).or_default().push(name.partition);
        }
        let topics = topics.into_iter().map(|(topic, partitions)| {
            AddPartitionsToTxnTopic::default()
                .with_name(topic_name(&topic))
                .with_partitions(partitions)
        });
        let request: Request = AddPartitionsToTxnRequest::default()
            .with_v3_and_below_transactional_id(transactional.wire_id())
            .with_v3_and_below_producer_id(ProducerId(known.id))
            .with_v3_and_below_producer_epoch(known.epoch)
            .with_v3_and_below_topics(topics.collect())
            .into();
        let again = self.put_transaction(&request, i16::MAX, cx);
        self.note_sent_if_asked();
        again
    }

    /// Partitions with records to send that are not part of the transaction.
    fn missing_partitions(&self) -> Vec<PartitionHandle> {
        let handles = (0..self.partitions.len())
            .filter(|index| self.needs_adding(*index) && self.partitions[*index].can_send());
        handles.map(|index| PartitionHandle(index as u32)).collect()
    }

    /// Whether the partition has to become part of the transaction before it is written to.
    pub(super) fn needs_adding(&self, index: usize) -> bool {
        self.transactional.as_ref().is_some_and(|transactional| {
            transactional.version == TransactionVersion::V1
                && !transactional.added.contains(&PartitionHandle(index as u32))
        })
    }

    fn note_sent_if_asked(&mut self) {
        if let Some(transactional) = self.transactional.as_mut().filter(|t| t.asked) {
            transactional.sent = true;
            if transactional.state == State::Ready {
                transactional.on(Event::Sent);
            }
        }
    }

    fn ask_enlisting(&mut self, known: ProducerIdentity, cx: &mut Context<'_>) -> Option<Now> {
        let transactional = self.transactional.as_ref()?;
        let (_, group) = transactional.offsets()?;
        let request: Request = AddOffsetsToTxnRequest::default()
            .with_transactional_id(transactional.wire_id())
            .with_producer_id(ProducerId(known.id))
            .with_producer_epoch(known.epoch)
            .with_group_id(GroupId(text(&group.group_id)))
            .into();
        let again = self.put_transaction(&request, i16::MAX, cx);
        self.note_sent_if_asked();
        again
    }

    fn ask_offsets(&mut self, known: ProducerIdentity, cx: &mut Context<'_>) -> Option<Now> {
        let transactional = self.transactional.as_ref()?;
        let (offsets, group) = transactional.offsets()?;
        let mut topics: BTreeMap<&Topic, Vec<TxnOffsetCommitRequestPartition>> = BTreeMap::new();
        for (partition, committed) in offsets {
            let item = TxnOffsetCommitRequestPartition::default()
                .with_partition_index(partition.partition)
                .with_committed_offset(committed.offset)
                .with_committed_leader_epoch(committed.leader_epoch.unwrap_or(-1))
                .with_committed_metadata(Some(text(&committed.metadata)));
            topics.entry(&partition.topic).or_default().push(item);
        }
        let topics = topics.into_iter().map(|(topic, partitions)| {
            TxnOffsetCommitRequestTopic::default()
                .with_name(topic_name(topic))
                .with_partitions(partitions)
        });
        let request: Request = TxnOffsetCommitRequest::default()
            .with_transactional_id(transactional.wire_id())
            .with_group_id(GroupId(text(&group.group_id)))
            .with_producer_id(ProducerId(known.id))
            .with_producer_epoch(known.epoch)
            .with_generation_id(group.member_epoch)
            .with_member_id(text(&group.member_id))
            .with_topics(topics.collect())
            .into();
        let whom = Coordinated::Group(group.group_id.clone());
        let limit = transactional.limit_of(V1_OFFSETS);
        let ticket = Ticket::Transaction { producer: self.number };
        let again = self.put(whom, &request, limit, ticket, cx);
        self.note_sent_if_asked();
        again
    }

    fn ask_end(
        &mut self,
        known: ProducerIdentity,
        committed: bool,
        cx: &mut Context<'_>,
    ) -> Option<Now> {
        let transactional = self.transactional.as_ref()?;
        let request: Request = EndTxnRequest::default()
            .with_transactional_id(transactional.wire_id())
            .with_producer_id(ProducerId(known.id))
            .with_producer_epoch(known.epoch)
            .with_committed(committed)
            .into();
        self.put_transaction(&request, transactional.limit_of(V1_END), cx)
    }
}

/// Answers.
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
    pub(super) fn on_transactional_identity(
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
                let stale = crate::error::ErrorKind::StaleMemberEpoch;
                self.finish(Some(error.of_kind(stale)));
            }
            Remedy::Init => self.fence(error),
            Remedy::Abort | Remedy::MemberEpoch => self.refuse(error),
        }
    }
}

impl Transactional {
    pub(super) fn wire_id(&self) -> TransactionalId {
        TransactionalId(text(&self.id))
    }

    /// Whom the state's question goes to.
    fn whom(&self) -> Coordinated {
        match (self.state, self.offsets()) {
            (State::Offsets, Some((_, group))) => Coordinated::Group(group.group_id.clone()),
            _ => Coordinated::Transactions(self.id.clone()),
        }
    }

    fn offsets(&self) -> Option<(&BTreeMap<TopicPartition, CommittedOffset>, &GroupMetadata)> {
        match &self.orders.front()?.command {
            TransactionCommand::Commit { offsets, group, .. } => Some((offsets, group.as_ref()?)),
            TransactionCommand::Abort { .. } | TransactionCommand::Init { .. } => None,
        }
    }

    /// The newest version to use of a request that has `v1` for transactions of version 1.
    pub(super) fn limit_of(&self, v1: i16) -> i16 {
        match self.version {
            TransactionVersion::V1 => v1,
            TransactionVersion::V2 => i16::MAX,
        }
    }
}

fn identity_of(answer: &InitProducerIdResponse) -> ProducerIdentity {
    ProducerIdentity { id: answer.producer_id.0, epoch: answer.producer_epoch }
}

fn result_of(
    topic: &Topic,
    part: &kstreams_protocol::messages::add_partitions_to_txn_response::AddPartitionsToTxnPartitionResult,
) -> (TopicPartition, i16) {
    (TopicPartition::new(topic.clone(), part.partition_index), part.partition_error_code)
}

fn topic_name(topic: &Topic) -> TopicName {
    TopicName(text(topic))
}

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

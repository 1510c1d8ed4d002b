//! What a transactional producer asks of coordinators: its id, partitions and offsets of the
//! transaction, its end. One question at a time; [`answer`] has what comes back.

mod answer;

use super::transactional::Transactional;
use super::{Context, PartitionHandle, ProducerMachine};
use crate::command::TransactionCommand;
use crate::connection::Ticket;
use crate::connections::Lane;
use crate::coordinator::Coordinated;
use crate::error::ClientError;
use crate::requests::Request;
use crate::transaction::{Event, Identity, ProducerIdentity, State, TransactionVersion};
use crate::types::{CommittedOffset, GroupMetadata, Now, Topic, TopicPartition};
use kstreams_protocol::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
use kstreams_protocol::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use kstreams_protocol::messages::{
    AddOffsetsToTxnRequest, AddPartitionsToTxnRequest, EndTxnRequest, GroupId,
    InitProducerIdRequest, ProducerId, TopicName, TransactionalId, TxnOffsetCommitRequest,
};
use kstreams_protocol::protocol::StrBytes;
use std::collections::BTreeMap;
use std::time::Duration;

/// Pause before the transaction before is looked at again: its end takes some ms.
pub(super) const SOON: Duration = Duration::from_millis(20);
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

fn topic_name(topic: &Topic) -> TopicName {
    TopicName(text(topic))
}

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

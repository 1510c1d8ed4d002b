//! A producer in transactions: what the stream thread ordered, and how far it has come. The states
//! are those of [`crate::transaction`]; the requests are in [`super::coordination`].

use super::{Context, ProducerMachine};
use crate::command::TransactionCommand;
use crate::config::ProducerConfig;
use crate::error::{ClientError, ErrorKind};
use crate::producer_handle::{Committed, PartitionHandle};
use crate::transaction::{Event, Identity, ProducerIdentity, State, TransactionVersion};
use crate::types::{Now, Topic};
use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// What a transactional producer has besides.
#[derive(Debug)]
pub(super) struct Transactional {
    pub(super) id: Topic,
    pub(super) timeout: Duration,
    pub(super) state: State,
    pub(super) version: TransactionVersion,
    /// Why nothing can become of the transaction.
    pub(super) failure: Option<ClientError>,
    pub(super) orders: VecDeque<Order>,
    /// Whether a broker may know of the transaction.
    pub(super) sent: bool,
    /// Partitions that are part of it; with version 2 brokers see to it.
    pub(super) added: BTreeSet<PartitionHandle>,
    /// Whether a coordinator is being asked: one question at a time.
    pub(super) asked: bool,
    pub(super) not_before: Now,
    /// Whether a commit was asked for and the answer lost: the outcome is not known.
    pub(super) uncertain: bool,
}

/// What the stream thread wants next.
#[derive(Debug)]
pub(super) struct Order {
    /// It concerns the batches with a number below this one.
    pub(super) before: u64,
    pub(super) command: TransactionCommand,
    pub(super) begun: bool,
    /// When what may pass is not tried any longer.
    pub(super) deadline: Option<Now>,
}

impl Transactional {
    pub(super) fn new(config: &ProducerConfig) -> Option<Self> {
        Some(Self {
            id: config.transactional_id.as_deref()?.into(),
            timeout: config.transaction_timeout,
            state: State::Ready,
            version: TransactionVersion::V1,
            failure: None,
            orders: VecDeque::new(),
            sent: false,
            added: BTreeSet::new(),
            asked: false,
            not_before: Now::ZERO,
            uncertain: false,
        })
    }

    pub(super) fn on(&mut self, event: Event) {
        match self.state.after(event, self.version) {
            Some(next) => self.state = next,
            None => tracing::debug!(id = %self.id, state = ?self.state, ?event, "does not concern"),
        }
    }

    /// Up to which number batches can be sent now.
    fn limit(&self) -> u64 {
        match self.orders.front() {
            _ if !self.state.writes() => 0,
            Some(order) => order.before,
            None => u64::MAX,
        }
    }

    /// The deadline of the order that is being dealt with, where it has one in this state.
    pub(super) fn deadline(&self) -> Option<Now> {
        let order = self.orders.front().filter(|order| order.begun)?;
        let init = matches!(order.command, TransactionCommand::Init { .. });
        let offsets = matches!(self.state, State::Enlisting | State::Offsets);
        order.deadline.filter(|_| init || offsets)
    }

    fn begun(&self) -> bool {
        self.orders.front().is_some_and(|order| order.begun)
    }
}

impl ProducerMachine {
    pub(crate) fn order(&mut self, command: TransactionCommand) {
        let before = self.next_batch;
        if let Some(transactional) = &mut self.transactional {
            let order = Order { before, command, begun: false, deadline: None };
            transactional.orders.push_back(order);
        }
    }

    /// Goes on with the transaction as far as it can; gives when to look again.
    pub(super) fn advance(&mut self, cx: &mut Context<'_>) -> Option<Now> {
        self.transactional.as_ref()?;
        while self.begin_order(cx) || self.settle(cx) {}
        self.drop_lost();
        let limit = self.transactional.as_ref().map_or(u64::MAX, Transactional::limit);
        for queue in &mut self.partitions {
            queue.limit = limit;
        }
        self.ask(cx)
    }

    /// Begins with the next order; gives whether one is done with already.
    fn begin_order(&mut self, cx: &Context<'_>) -> bool {
        let Some(transactional) = &mut self.transactional else { return false };
        if transactional.asked || transactional.begun() {
            return false;
        }
        let lost = transactional.state.is_lost();
        let Some(order) = transactional.orders.front_mut() else { return false };
        order.begun = true;
        order.deadline = Some(cx.now + cx.operation_timeout);
        let before = order.before;
        match order.command {
            TransactionCommand::Commit { .. } if lost => self.finish(None),
            TransactionCommand::Commit { .. } => {
                transactional.on(Event::Commit);
                false
            }
            TransactionCommand::Abort { .. } if transactional.state == State::Fenced => {
                self.finish(None)
            }
            TransactionCommand::Abort { .. } => {
                transactional.on(Event::Abort);
                self.forget(before);
                false
            }
            TransactionCommand::Init { .. } => {
                self.start_anew(before);
                false
            }
        }
    }

    /// Forgets the transaction and its records and asks for another epoch; a producer that did not
    /// begin yet keeps the one it has or asks for.
    fn start_anew(&mut self, before: u64) {
        let Some(transactional) = &mut self.transactional else { return };
        let begun = transactional.state != State::Ready || transactional.sent;
        transactional.on(Event::Init);
        self.close_transaction();
        self.forget(before);
        if begun && !matches!(self.identity, Identity::Asked) {
            self.identity = Identity::Unset { not_before: Now::ZERO };
        }
    }

    /// Does what needs no broker; gives whether an order is done.
    fn settle(&mut self, cx: &Context<'_>) -> bool {
        if !self.transactional.as_ref().is_some_and(Transactional::begun) {
            return false;
        }
        let known = matches!(self.identity, Identity::Known(_));
        let idle = self.asked.is_empty();
        let oldest = self.partitions.iter().filter_map(super::PartitionQueue::oldest).min();
        let Some(transactional) = &mut self.transactional else { return false };
        let Some(order) = transactional.orders.front_mut() else { return false };
        let written = oldest.is_none_or(|oldest| oldest >= order.before);
        let v1 = transactional.version == TransactionVersion::V1;
        match (&order.command, transactional.state) {
            (TransactionCommand::Commit { offsets, group, .. }, State::Flushing) if written => {
                let offsets = !offsets.is_empty() && group.is_some();
                if !offsets && !transactional.sent {
                    transactional.on(Event::Nothing);
                    return self.finish(None);
                }
                if known {
                    order.deadline = Some(cx.now + cx.operation_timeout);
                    transactional.on(Event::Written { offsets });
                }
                false
            }
            (TransactionCommand::Abort { .. }, State::Draining) if idle || !v1 => {
                if !transactional.sent {
                    transactional.on(Event::Nothing);
                    return self.finish(None);
                }
                transactional.on(Event::Drained);
                false
            }
            (TransactionCommand::Init { .. }, State::Ready) if known => self.finish(None),
            _ => false,
        }
    }

    /// Ends the order that is being dealt with, well if there is no error; gives that it did.
    pub(super) fn finish(&mut self, error: Option<ClientError>) -> bool {
        let Some(transactional) = &mut self.transactional else { return false };
        let Some(order) = transactional.orders.pop_front() else { return false };
        let lost = transactional.failure.clone().filter(|_| transactional.state.is_lost());
        let result = error.or(lost).map_or(Ok(()), Err);
        if result.is_ok() {
            self.close_transaction();
        }
        match order.command {
            TransactionCommand::Commit { completer, .. } => completer
                .complete(result.map(|()| Committed { end_offsets: self.take_end_offsets() })),
            TransactionCommand::Abort { completer } | TransactionCommand::Init { completer } => {
                completer.complete(result);
            }
        }
        true
    }

    /// Nothing of the next transaction has been sent.
    fn close_transaction(&mut self) {
        let Some(transactional) = &mut self.transactional else { return };
        transactional.sent = false;
        transactional.uncertain = false;
        transactional.added.clear();
        transactional.failure = None;
        self.failure = None;
    }

    /// The coordinator ended the transaction, or gave another epoch.
    pub(super) fn ended(&mut self, event: Event, identity: Option<ProducerIdentity>) {
        let Some(transactional) = &mut self.transactional else { return };
        transactional.on(event);
        let ready = transactional.state == State::Ready;
        if let Some(identity) = identity {
            self.identity = Identity::Known(identity);
            for queue in &mut self.partitions {
                queue.restart(identity);
            }
        }
        if ready {
            self.finish(None);
        }
    }

    /// Drops all batches before `number`.
    fn forget(&mut self, number: u64) {
        for queue in &mut self.partitions {
            let bytes = queue.forget(number);
            self.reserved.fetch_sub(bytes, Ordering::Relaxed);
            queue.end_offset = None;
        }
    }

    /// Drops what a lost transaction still holds, so that its memory can be used.
    fn drop_lost(&mut self) {
        let Some(transactional) = &self.transactional else { return };
        if !transactional.state.is_lost() {
            return;
        }
        let ends = |order: &&Order| !matches!(order.command, TransactionCommand::Commit { .. });
        let before = transactional.orders.iter().find(ends).map_or(u64::MAX, |order| order.before);
        self.forget(before);
    }

    /// The transaction cannot be committed.
    pub(super) fn refuse(&mut self, error: ClientError) {
        let Some(transactional) = &mut self.transactional else { return };
        if transactional.uncertain {
            return self.fence(error);
        }
        tracing::warn!(id = %transactional.id, %error, "the transaction cannot be committed");
        transactional.on(Event::Refused);
        if transactional.state == State::Fenced {
            return self.fence(error);
        }
        transactional.failure.get_or_insert(error);
        self.end_lost_order();
    }

    /// The producer has to start anew.
    pub(super) fn fence(&mut self, error: ClientError) {
        let Some(transactional) = &mut self.transactional else { return };
        tracing::warn!(id = %transactional.id, %error, "the producer has to start anew");
        transactional.on(Event::Fenced);
        transactional.failure = Some(error.of_kind(ErrorKind::ProducerFenced));
        self.end_lost_order();
    }

    fn end_lost_order(&mut self) {
        let Some(transactional) = &self.transactional else { return };
        let front = transactional.orders.front().filter(|order| order.begun);
        let init = matches!(front, Some(Order { command: TransactionCommand::Init { .. }, .. }));
        if front.is_some() && !init {
            self.finish(None);
        }
    }
}

#[cfg(test)]
mod tests;

//! Operations that are asked for and answered once: topics, configs, offsets, groups.
//!
//! A [`Kind`] of call has items (topics, partitions, groups) that go to one broker each, may need
//! several requests, and fail or succeed on their own. What may pass is repeated until the
//! deadline.
//!
//! ```text
//! item:  Due --(its broker is ready)--> Asked --> done
//!         ^------(retriable, lost)--------'
//! ```

mod configs;
mod groups;
mod offsets;
mod records;
mod topics;

pub use groups::{GroupDescription, GroupMember};

pub(crate) use configs::{AlterConfigs, DescribeConfigs};
pub(crate) use groups::{DeleteGroups, DescribeGroups, task_list, tasks_of};
pub(crate) use offsets::{CommitOffsets, FetchOffsets, Member};
pub(crate) use records::{DeleteRecords, ListOffsets};
pub(crate) use topics::{CreateTopics, DeleteTopics, DescribeTopics};

use crate::client::Results;
use crate::connection::Ticket;
use crate::connections::{Connections, Lane, Node};
use crate::coordinator::Coordinators;
use crate::error::{ClientError, ErrorKind, is_retriable};
use crate::metadata::{Metadata, any_node};
use crate::pending::Completer;
use crate::requests::{Request, Response};
use crate::types::{Now, Topic, TopicPartition};
use std::collections::BTreeMap;
use std::fmt::{Debug, Display};
use std::time::Duration;

/// Who answers for an item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Destination {
    Any,
    Controller,
    Leader(TopicPartition),
    Coordinator(Topic),
}

/// What a broker said of one item.
#[derive(Debug)]
pub(crate) enum Reply<V> {
    Done(V),
    Failed { code: i16, detail: Option<String> },
}

impl<V> Reply<V> {
    pub(crate) fn of(code: i16, detail: Option<&str>, value: impl FnOnce() -> V) -> Self {
        match code {
            0 => Self::Done(value()),
            code => Self::Failed { code, detail: detail.map(str::to_owned) },
        }
    }
}

/// What a request needs to know besides the items.
#[derive(Debug, Clone)]
pub(crate) struct Asking<'a> {
    pub(crate) member_id: &'a str,
    /// How long the broker may work on it.
    pub(crate) timeout: Duration,
}

/// A kind of call.
pub(crate) trait Kind: Debug + Send + 'static {
    type Key: Ord + Clone + Debug + Display + Send + 'static;
    type Value: Debug + Send + 'static;

    /// What is asked for, in messages: "create topic".
    const WHAT: &'static str;

    fn keys(&self) -> Vec<Self::Key>;

    fn destination(&self, key: &Self::Key) -> Destination;

    /// Items that cannot be in one request have different groups.
    fn group(&self, _key: &Self::Key) -> u8 {
        0
    }

    fn request(&self, keys: &[Self::Key], asking: &Asking<'_>) -> Request;

    /// The answers in a response; what it leaves out counts as unknown and is asked for again.
    fn read(&self, keys: &[Self::Key], response: Response) -> Vec<(Self::Key, Reply<Self::Value>)>;

    /// Whether a code that Kafka calls retriable must come back as it is, or the other way round.
    fn retries(&self, code: i16) -> bool {
        is_retriable(code)
    }
}

#[derive(Debug)]
enum Item {
    Due { why: Option<ClientError> },
    Asked,
}

/// A call on its way.
pub(crate) struct Call {
    running: Box<dyn Running>,
    deadline: Option<Now>,
}

impl Debug for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.running.fmt(f)
    }
}

impl Call {
    pub(crate) fn new<K: Kind>(kind: K, completer: Completer<Results<K::Key, K::Value>>) -> Self {
        let items = kind.keys().into_iter().map(|key| (key, Item::Due { why: None })).collect();
        let running = RunningCall {
            kind,
            items,
            done: BTreeMap::new(),
            parts: BTreeMap::new(),
            next_part: 0,
            not_before: Now::ZERO,
            attempts: 0,
            completer: Some(completer),
        };
        Self { running: Box::new(running), deadline: None }
    }
}

/// What the machine of calls works with.
pub(crate) struct Context<'a> {
    pub(crate) connections: &'a mut Connections,
    pub(crate) metadata: &'a mut Metadata,
    pub(crate) coordinators: &'a mut Coordinators,
    pub(crate) member_id: &'a str,
    pub(crate) backoff: Duration,
    pub(crate) now: Now,
}

/// A call of any kind.
trait Running: Debug + Send {
    fn poll(&mut self, call: u64, cx: &mut Context<'_>, rotation: &mut usize) -> Option<Now>;
    fn answer(&mut self, part: u64, result: Result<Response, ClientError>, cx: &mut Context<'_>);
    fn expire(&mut self);
    fn is_done(&self) -> bool;
}

struct RunningCall<K: Kind> {
    kind: K,
    items: BTreeMap<K::Key, Item>,
    done: Results<K::Key, K::Value>,
    parts: BTreeMap<u64, Vec<K::Key>>,
    next_part: u64,
    not_before: Now,
    attempts: u32,
    completer: Option<Completer<Results<K::Key, K::Value>>>,
}

impl<K: Kind> Debug for RunningCall<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Call").field("kind", &self.kind).field("left", &self.items).finish()
    }
}

impl<K: Kind> RunningCall<K> {
    fn finish(&mut self, key: &K::Key, result: Result<K::Value, ClientError>) {
        self.items.remove(key);
        self.done.insert(key.clone(), result);
    }

    fn complete_if_done(&mut self) {
        if self.items.is_empty()
            && let Some(completer) = self.completer.take()
        {
            completer.complete(Ok(std::mem::take(&mut self.done)));
        }
    }

    /// The broker for an item, `None` while it is looked for.
    fn node(
        &self,
        key: &K::Key,
        cx: &mut Context<'_>,
        rotation: &mut usize,
    ) -> Result<Option<Node>, ClientError> {
        match self.kind.destination(key) {
            Destination::Any => Ok(any_node(cx.connections, rotation, cx.now)),
            Destination::Controller => {
                let controller = cx.metadata.controller();
                if controller.is_none() {
                    cx.metadata.refresh();
                }
                Ok(controller)
            }
            Destination::Leader(partition) => {
                cx.metadata.watch(&partition.topic);
                if let Some(leader) = cx.metadata.leader(&partition) {
                    return Ok(Some(Node::Broker(leader.broker)));
                }
                let exists = cx.metadata.topic(&partition.topic);
                if exists.is_some_and(|topic| topic.leaders.len() as i32 <= partition.partition) {
                    return Err(ClientError::new(
                        ErrorKind::NotFound,
                        format!("{} {key}: the topic has no such partition", K::WHAT),
                    ));
                }
                cx.metadata.refresh();
                Ok(None)
            }
            Destination::Coordinator(group) => cx.coordinators.node(&group),
        }
    }

    fn lane(&self, key: &K::Key) -> Lane {
        match self.kind.destination(key) {
            Destination::Coordinator(_) => Lane::Group,
            Destination::Any => Lane::Control,
            Destination::Controller | Destination::Leader(_) => Lane::Admin,
        }
    }

    /// The broker may not be the right one any more.
    fn look_again(&self, key: &K::Key, cx: &mut Context<'_>) {
        match self.kind.destination(key) {
            Destination::Coordinator(group) => cx.coordinators.forget(&group, cx.now),
            Destination::Any => {}
            Destination::Controller | Destination::Leader(_) => cx.metadata.refresh(),
        }
    }

    fn retry(&mut self, key: &K::Key, why: ClientError, cx: &mut Context<'_>) {
        self.look_again(key, cx);
        self.items.insert(key.clone(), Item::Due { why: Some(why) });
    }

    fn pause(&mut self, cx: &Context<'_>) {
        let pause = cx.backoff.saturating_mul(1 << self.attempts.min(4));
        self.attempts = self.attempts.saturating_add(1);
        self.not_before = cx.now + pause.min(Duration::from_secs(1));
    }
}

impl<K: Kind> Running for RunningCall<K> {
    fn poll(&mut self, call: u64, cx: &mut Context<'_>, rotation: &mut usize) -> Option<Now> {
        if self.not_before > cx.now {
            return Some(self.not_before);
        }
        let due = self.items.iter().filter(|(_, item)| matches!(item, Item::Due { .. }));
        let due: Vec<K::Key> = due.map(|(key, _)| key.clone()).collect();
        let mut parts: BTreeMap<(Node, Lane, u8), Vec<K::Key>> = BTreeMap::new();
        for key in due {
            match self.node(&key, cx, rotation) {
                Ok(Some(node)) => {
                    let lane = self.lane(&key);
                    if cx.connections.is_ready(node, lane, cx.now) {
                        let part = (node, lane, self.kind.group(&key));
                        parts.entry(part).or_default().push(key);
                    } else if cx.connections.is_down(node, lane, cx.now) {
                        self.look_again(&key, cx);
                    }
                }
                Ok(None) => {}
                Err(error) => self.finish(&key, Err(error)),
            }
        }
        for ((node, lane, _), keys) in parts {
            let asking = Asking { member_id: cx.member_id, timeout: Duration::from_secs(30) };
            let request = self.kind.request(&keys, &asking);
            let part = self.next_part;
            self.next_part += 1;
            let ticket = Ticket::Call { call, part };
            match cx.connections.send(node, lane, &request, ticket, cx.now) {
                Ok(()) => {
                    for key in &keys {
                        self.items.insert(key.clone(), Item::Asked);
                    }
                    self.parts.insert(part, keys);
                }
                Err(error) => {
                    for key in keys {
                        self.finish(
                            &key,
                            Err(error.clone().within(format_args!("{} {key}", K::WHAT))),
                        );
                    }
                }
            }
        }
        self.complete_if_done();
        None
    }

    fn answer(&mut self, part: u64, result: Result<Response, ClientError>, cx: &mut Context<'_>) {
        let Some(keys) = self.parts.remove(&part) else { return };
        let replies = match result {
            Ok(response) => self.kind.read(&keys, response),
            Err(error) => {
                for key in &keys {
                    self.retry(key, error.clone(), cx);
                }
                self.pause(cx);
                return;
            }
        };
        let mut repeat = false;
        for (key, reply) in replies {
            match reply {
                Reply::Done(value) => self.finish(&key, Ok(value)),
                Reply::Failed { code, detail } => {
                    let what = format!("{} {key}", K::WHAT);
                    let error = ClientError::broker(code, what, detail.as_deref());
                    if self.kind.retries(code) {
                        repeat = true;
                        self.retry(&key, error, cx);
                    } else {
                        self.finish(&key, Err(error));
                    }
                }
            }
        }
        for key in keys {
            if matches!(self.items.get(&key), Some(Item::Asked)) {
                repeat = true;
                let message = format!("{} {key}: the broker's answer leaves it out", K::WHAT);
                self.retry(&key, ClientError::retriable(message), cx);
            }
        }
        if repeat {
            self.pause(cx);
        }
        self.complete_if_done();
    }

    fn expire(&mut self) {
        for (key, item) in std::mem::take(&mut self.items) {
            let late = format!("{} {key}: not done in time", K::WHAT);
            let error = match item {
                Item::Due { why: Some(why) } => why.of_kind(ErrorKind::Retriable).within(late),
                Item::Due { why: None } | Item::Asked => ClientError::retriable(late),
            };
            self.done.insert(key, Err(error));
        }
        self.complete_if_done();
    }

    fn is_done(&self) -> bool {
        self.completer.is_none()
    }
}

/// The machine that runs all calls.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    calls: BTreeMap<u64, Call>,
    next: u64,
    rotation: usize,
}

impl Calls {
    pub(crate) fn start(&mut self, mut call: Call, deadline: Now) {
        call.deadline = Some(deadline);
        self.calls.insert(self.next, call);
        self.next += 1;
    }

    /// Sends what can be sent; gives when to look again.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Option<Now> {
        let mut next: Option<Now> = None;
        for (id, call) in &mut self.calls {
            let deadline = call.deadline.filter(|deadline| *deadline > cx.now);
            if deadline.is_none() {
                call.running.expire();
            }
            let again = call.running.poll(*id, cx, &mut self.rotation);
            next = next.into_iter().chain(again).chain(deadline).min();
        }
        let before = self.calls.len();
        self.calls.retain(|_, call| !call.running.is_done());
        // Whoever made a call has its turn before this one: it wants to look at once.
        if self.calls.len() < before { Some(cx.now) } else { next }
    }

    pub(crate) fn on_answer(
        &mut self,
        call: u64,
        part: u64,
        result: Result<Response, ClientError>,
        cx: &mut Context<'_>,
    ) {
        if let Some(call) = self.calls.get_mut(&call) {
            call.running.answer(part, result, cx);
        }
        self.calls.retain(|_, call| !call.running.is_done());
    }
}

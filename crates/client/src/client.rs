//! The stream thread's end of the client: it asks, looks for events and never blocks but in
//! [`Client::wait`].

use crate::admin::{
    AlterConfigs, Call, CommitOffsets, CreateTopics, DeleteGroups, DeleteRecords, DeleteTopics,
    DescribeConfigs, DescribeGroups, DescribeTopics, FetchOffsets, GroupDescription, Kind,
    ListOffsets, Member,
};
use crate::command::{Command, CommandSender, Mailboxes};
use crate::config::{ClientConfig, GroupConfig, ProducerConfig};
use crate::driver::{Driver, Network};
use crate::error::ClientError;
use crate::event::{Event, TopicState};
use crate::mailbox::{Mailbox, Waker};
use crate::pending::Pending;
use crate::producer_handle::Producer;
use crate::random::Random;
use crate::types::{
    CommittedOffset, GroupMetadata, ListedOffset, NewTopic, OffsetSpec, Reader, ResetPolicy, Start,
    Tasks, Topic, TopicDescription, TopicPartition,
};
use std::collections::{BTreeMap, VecDeque};
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

/// Results by topic, partition or group; each can fail on its own.
pub type Results<K, V = ()> = BTreeMap<K, Result<V, ClientError>>;

/// A Kafka client for one stream thread. Its driver does the work, on a thread of its own
/// ([`Driver::spawn`]) or step by step in a simulation.
///
/// Dropping the client closes it: the driver ends, connections are cut, the group is *not* left
/// (see [`Self::leave`]).
#[derive(Debug)]
pub struct Client {
    commands: CommandSender,
    member_id: String,
    events: VecDeque<Event>,
    topics: BTreeMap<Topic, TopicState>,
    group: Option<Group>,
    producers: u32,
}

#[derive(Debug)]
struct Group {
    id: String,
    /// The member epoch that the stream thread acknowledged last: what it commits under.
    epoch: i32,
}

impl Client {
    /// A client that speaks over `network`, and its driver. [`ClientConfig::check`] tells before what
    /// is wrong with the settings; entries of `bootstrap` that are not `host:port` are left out here.
    #[must_use]
    pub fn new(config: ClientConfig, network: Box<dyn Network>) -> (Self, Driver) {
        let boxes = Arc::new(Mailboxes { commands: Mailbox::new(), events: Mailbox::new() });
        let commands = CommandSender { boxes, wake_driver: network.waker() };
        let member_id = Random::new(config.seed).kafka_uuid();
        let driver = Driver::new(config, network, commands.clone(), member_id.clone());
        let client = Self {
            commands,
            member_id,
            events: VecDeque::new(),
            topics: BTreeMap::new(),
            group: None,
            producers: 0,
        };
        (client, driver)
    }

    /// Blocks until there is an event or a result, somebody used the [`Waker`], or `timeout` is
    /// over. It may also return for nothing.
    pub fn wait(&mut self, timeout: Duration) {
        if self.events.is_empty() {
            self.commands.boxes.events.wait(timeout);
        }
    }

    /// Ends [`Self::wait`] from any thread.
    #[must_use]
    pub fn waker(&self) -> Waker {
        self.commands.waker()
    }

    /// What happened next, if anything did.
    pub fn next_event(&mut self) -> Option<Event> {
        if self.events.is_empty() {
            self.commands.boxes.events.drain(&mut self.events);
        }
        let event = self.events.pop_front()?;
        if let Event::MetadataChanged(changed) = &event {
            self.topics.extend(changed.iter().map(|(topic, state)| (topic.clone(), *state)));
        }
        Some(event)
    }
}

/// Membership.
impl Client {
    /// Joins a streams group; [`Event::Assigned`] will say which tasks are the member's.
    pub fn join(&mut self, config: GroupConfig) {
        self.group = Some(Group { id: config.group_id.clone(), epoch: 0 });
        self.commands.send(Command::Join(Box::new(config)));
    }

    /// Says which tasks are really owned, now that those given up are closed and new ones are
    /// opened, in answer to the assignment that came with `epoch`. From now on offsets are
    /// committed under `epoch`. After [`Event::Lost`]: no tasks, epoch 0.
    pub fn acknowledge(&mut self, tasks: Tasks, epoch: i32) {
        if let Some(group) = &mut self.group {
            group.epoch = epoch;
        }
        self.commands.send(Command::Acknowledge { tasks });
    }

    /// Asks all members of the group to stop
    /// ([`GroupStatusKind::ShutdownApplication`](crate::GroupStatusKind)).
    pub fn shut_down_application(&mut self) {
        self.commands.send(Command::ShutdownApplication);
    }

    /// Leaves the group at once, so that its tasks move without waiting for the session's end. The
    /// result comes when the broker knows, or could not be told within the request timeout.
    pub fn leave(&mut self) -> Pending<()> {
        self.group = None;
        let (pending, completer) = self.commands.pending();
        self.commands.send(Command::Leave { completer });
        pending
    }

    /// Commits positions of the joined group under the epoch acknowledged last.
    /// [`ErrorKind::StaleMemberEpoch`](crate::ErrorKind) and
    /// [`ErrorKind::Fenced`](crate::ErrorKind) come back for each partition as they are; what may
    /// pass is tried again within the operation timeout.
    pub fn commit_offsets(
        &mut self,
        offsets: BTreeMap<TopicPartition, CommittedOffset>,
    ) -> Pending<Results<TopicPartition>> {
        let Some(group) = &self.group else { return self.no_group() };
        let member = Some(Member { epoch: group.epoch });
        self.call(CommitOffsets { group: group.id.as_str().into(), member, offsets })
    }

    /// Under whom [`Producer::commit`] makes offsets part of a transaction: the member of the joined
    /// group with the epoch acknowledged last. None while the client is in no group.
    #[must_use]
    pub fn group_metadata(&self) -> Option<GroupMetadata> {
        let group = self.group.as_ref()?;
        Some(GroupMetadata {
            group_id: group.id.as_str().into(),
            member_id: self.member_id.clone(),
            member_epoch: group.epoch,
        })
    }

    /// The joined group's positions, once no transaction is about to change them.
    pub fn committed(
        &mut self,
        partitions: Vec<TopicPartition>,
    ) -> Pending<Results<TopicPartition, Option<CommittedOffset>>> {
        let Some(group) = &self.group else { return self.no_group() };
        let member = Some(Member { epoch: group.epoch });
        self.call(FetchOffsets { group: group.id.as_str().into(), member, partitions })
    }

    fn no_group<T>(&self) -> Pending<T> {
        let message = "the client is in no group: join one first";
        Pending::ready(Err(ClientError::new(crate::error::ErrorKind::Invalid, message)))
    }
}

/// Reading.
impl Client {
    /// Fetches `partition` from `start` on; [`Event::Fetched`] brings the records. Called again, it
    /// moves the position; records fetched before can still be among the events.
    pub fn fetch(
        &mut self,
        reader: Reader,
        partition: TopicPartition,
        start: Start,
        reset: ResetPolicy,
    ) {
        self.commands.send(Command::Fetch { reader, partition, start, reset });
    }

    /// Fetches `partition` no more. Records fetched before can still be among the events.
    pub fn stop_fetching(&mut self, reader: Reader, partition: TopicPartition) {
        self.commands.send(Command::StopFetching { reader, partition });
    }

    /// Stops fetching for a while, keeping the position.
    pub fn pause(&mut self, reader: Reader, partition: TopicPartition) {
        self.commands.send(Command::Pause { reader, partition });
    }

    /// Ends [`Self::pause`].
    pub fn resume(&mut self, reader: Reader, partition: TopicPartition) {
        self.commands.send(Command::Resume { reader, partition });
    }
}

/// Writing.
impl Client {
    /// A new producer: idempotent, and transactional if it has a transactional id.
    pub fn producer(&mut self, config: ProducerConfig) -> Producer {
        let producer = self.producers;
        self.producers += 1;
        let reserved = Arc::new(AtomicUsize::new(0));
        self.commands.send(Command::OpenProducer {
            producer,
            config: config.clone(),
            reserved: reserved.clone(),
        });
        Producer::new(producer, config, self.commands.clone(), reserved)
    }
}

/// Topics.
impl Client {
    /// Keeps the state of `topics` fresh, see [`Self::topic_state`].
    pub fn watch(&mut self, topics: Vec<Topic>) {
        self.commands.send(Command::Watch { topics });
    }

    /// What the last [`Event::MetadataChanged`] taken said of a topic that is watched, fetched or
    /// produced to.
    #[must_use]
    pub fn topic_state(&self, topic: &str) -> Option<TopicState> {
        self.topics.get(topic).copied()
    }

    /// Number of partitions of a topic that is watched, fetched or produced to, if it is known and
    /// exists.
    #[must_use]
    pub fn partitions(&self, topic: &str) -> Option<i32> {
        match self.topics.get(topic)? {
            TopicState::Exists { partitions } => Some(*partitions),
            TopicState::Missing | TopicState::Unauthorized => None,
        }
    }

    /// Describes topics; one that does not exist is
    /// [`ErrorKind::NotFound`](crate::ErrorKind::NotFound).
    pub fn describe_topics(
        &mut self,
        topics: Vec<Topic>,
    ) -> Pending<Results<Topic, TopicDescription>> {
        self.call(DescribeTopics { topics })
    }

    /// Creates topics.
    pub fn create_topics(&mut self, topics: Vec<NewTopic>) -> Pending<Results<Topic>> {
        self.call(CreateTopics { topics, validate_only: false })
    }

    /// Deletes topics.
    pub fn delete_topics(&mut self, topics: Vec<Topic>) -> Pending<Results<Topic>> {
        self.call(DeleteTopics { topics })
    }

    /// All configs of topics, defaults included.
    pub fn describe_configs(
        &mut self,
        topics: Vec<Topic>,
    ) -> Pending<Results<Topic, BTreeMap<String, Option<String>>>> {
        self.call(DescribeConfigs::Topics(topics))
    }

    /// Sets configs of topics and leaves the others as they are.
    pub fn alter_configs(
        &mut self,
        topics: BTreeMap<Topic, BTreeMap<String, String>>,
    ) -> Pending<Results<Topic>> {
        self.call(AlterConfigs { topics })
    }

    /// Looks for offsets.
    pub fn list_offsets(
        &mut self,
        partitions: BTreeMap<TopicPartition, OffsetSpec>,
    ) -> Pending<Results<TopicPartition, ListedOffset>> {
        self.call(ListOffsets { partitions })
    }

    /// Deletes the records before an offset (-1: all up to the high watermark); gives the first
    /// offsets that are left.
    pub fn delete_records(
        &mut self,
        before: BTreeMap<TopicPartition, i64>,
    ) -> Pending<Results<TopicPartition, i64>> {
        self.call(DeleteRecords { before })
    }
}

/// Other groups, for tools and tests.
impl Client {
    /// Commits positions of a group that has no members.
    pub fn commit_group_offsets(
        &mut self,
        group: &str,
        offsets: BTreeMap<TopicPartition, CommittedOffset>,
    ) -> Pending<Results<TopicPartition>> {
        self.call(CommitOffsets { group: group.into(), member: None, offsets })
    }

    /// Positions of any group; all that it has if `partitions` is empty.
    pub fn group_offsets(
        &mut self,
        group: &str,
        partitions: Vec<TopicPartition>,
    ) -> Pending<Results<TopicPartition, Option<CommittedOffset>>> {
        self.call(FetchOffsets { group: group.into(), member: None, partitions })
    }

    /// All configs of groups, defaults included: what the brokers would do with a group of that name.
    /// Empty from brokers that know no such configs.
    pub fn describe_group_configs(
        &mut self,
        groups: Vec<Topic>,
    ) -> Pending<Results<Topic, BTreeMap<String, Option<String>>>> {
        self.call(DescribeConfigs::Groups(groups))
    }

    /// Describes streams groups.
    pub fn describe_groups(
        &mut self,
        groups: Vec<Topic>,
    ) -> Pending<Results<Topic, GroupDescription>> {
        self.call(DescribeGroups { groups })
    }

    /// Deletes groups that have no members, with their positions.
    pub fn delete_groups(&mut self, groups: Vec<Topic>) -> Pending<Results<Topic>> {
        self.call(DeleteGroups { groups })
    }

    fn call<K: Kind>(&self, kind: K) -> Pending<Results<K::Key, K::Value>> {
        let (pending, completer) = self.commands.pending();
        self.commands.send(Command::Call(Box::new(Call::new(kind, completer))));
        pending
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.commands.send(Command::Close);
    }
}

//! A streams group in the journal: its epochs and topology, and each member with what it owns and
//! shall own, so that members go on after a restart as if nothing had been.

use std::collections::BTreeMap;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use kstreams_protocol::protocol::{Decodable, Encodable};
use kstreams_protocol::streams_group::describe::DescribedMember;
use kstreams_protocol::streams_group::heartbeat::{StreamsGroupHeartbeatRequest, Topology};
use kstreams_protocol::streams_group::{Assignment, TaskOffset};

use super::StreamsGroup;
use super::member::{Member, MemberState};
use crate::api::str_bytes;
use crate::group::tasks::{TaskId, Tasks};
use crate::journal::{Journal, key};

/// The version in which messages are stored.
const VERSION: i16 = 1;

impl StreamsGroup {
    /// Writes what changed since the last time.
    pub(crate) fn record(&mut self, name: &str, journal: &mut Journal) {
        let changed = std::mem::take(&mut self.changed);
        if !journal.is_kept() {
            return;
        }
        let epochs = Some((self.epoch, self.assignment_epoch));
        if let Some(topology) = &self.topology
            && self.recorded != epochs
        {
            self.recorded = epochs;
            let value = write_group(self.epoch, self.assignment_epoch, topology);
            journal.put(key(&["streams", name]), value.as_deref());
        }
        for id in changed {
            let value = self.members.get(&id).and_then(|member| self.write_member(&id, member));
            journal.put(key(&["member", name, &id]), value.as_deref());
        }
    }

    /// The group that `record` wrote; its members are added with [`Self::restore_member`].
    pub(crate) fn restore(value: &Bytes) -> Option<Self> {
        let mut value = value.clone();
        let epoch = value.try_get_i32().ok()?;
        let assignment_epoch = value.try_get_i32().ok()?;
        let topology = Some(Topology::decode(&mut value, VERSION).ok()?);
        Some(Self { epoch, assignment_epoch, topology, restored: true, ..Self::default() })
    }

    /// Adds a member that was written; it has a new session's time to show that it lives.
    pub(crate) fn restore_member(&mut self, id: &str, value: &Bytes, until: i64) -> Option<()> {
        let (mut member, target) = read_member(value)?;
        member.session_until = until;
        if member.state == MemberState::UnrevokedTasks {
            member.revoke_until = Some(until.saturating_add(member.rebalance_timeout_ms));
        }
        self.members.insert(id.to_owned(), member);
        self.targets.insert(id.to_owned(), target);
        Some(())
    }

    fn write_member(&self, id: &str, member: &Member) -> Option<Bytes> {
        let mut value = BytesMut::new();
        value.put_i32(member.previous_epoch);
        value.put_u8(match member.state {
            MemberState::Stable => 0,
            MemberState::UnrevokedTasks => 1,
            MemberState::UnreleasedTasks => 2,
        });
        let revoking = member.revoking.to_assignment();
        let rest = StreamsGroupHeartbeatRequest {
            rebalance_timeout_ms: i32::try_from(member.rebalance_timeout_ms).unwrap_or(i32::MAX),
            active_tasks: Some(revoking.active_tasks),
            standby_tasks: Some(revoking.standby_tasks),
            warmup_tasks: Some(revoking.warmup_tasks),
            // In the field's shape, the epochs since which it has its active tasks.
            task_offsets: Some(since_list(&member.since)),
            ..StreamsGroupHeartbeatRequest::default()
        };
        rest.encode(&mut value, VERSION).ok()?;
        self.describe_member(id, member).encode(&mut value, VERSION).ok()?;
        Some(value.freeze())
    }
}

fn write_group(epoch: i32, assignment_epoch: i32, topology: &Topology) -> Option<Bytes> {
    let mut value = BytesMut::new();
    value.put_i32(epoch);
    value.put_i32(assignment_epoch);
    topology.encode(&mut value, VERSION).ok()?;
    Some(value.freeze())
}

fn read_member(value: &Bytes) -> Option<(Member, Tasks)> {
    let mut value = value.clone();
    let previous_epoch = value.try_get_i32().ok()?;
    let state = match value.try_get_u8().ok()? {
        0 => MemberState::Stable,
        1 => MemberState::UnrevokedTasks,
        2 => MemberState::UnreleasedTasks,
        _ => return None,
    };
    let rest = StreamsGroupHeartbeatRequest::decode(&mut value, VERSION).ok()?;
    let described = DescribedMember::decode(&mut value, VERSION).ok()?;
    let text = |text: &kstreams_protocol::protocol::StrBytes| text.to_string();
    let revoking = Tasks::from_lists(
        rest.active_tasks.as_deref(),
        rest.standby_tasks.as_deref(),
        rest.warmup_tasks.as_deref(),
    )?;
    let since = rest.task_offsets.as_deref().unwrap_or_default().iter();
    let since = since.map(|s| (task(s), i32::try_from(s.offset).unwrap_or(i32::MAX)));
    let member = Member {
        epoch: described.member_epoch,
        previous_epoch,
        state,
        assigned: tasks(&described.assignment)?,
        revoking,
        since: since.collect(),
        instance_id: described.instance_id.as_ref().map(text),
        rack_id: described.rack_id.as_ref().map(text),
        rebalance_timeout_ms: i64::from(rest.rebalance_timeout_ms),
        topology_epoch: described.topology_epoch,
        client_id: text(&described.client_id),
        client_host: text(&described.client_host),
        process_id: text(&described.process_id),
        client_tags: described.client_tags.clone(),
        endpoint: described.user_endpoint.clone(),
        task_offsets: described.task_offsets.iter().map(|o| (task(o), o.offset)).collect(),
        task_end_offsets: described.task_end_offsets.iter().map(|o| (task(o), o.offset)).collect(),
        session_until: 0,
        revoke_until: None,
    };
    Some((member, tasks(&described.target_assignment)?))
}

fn task(offset: &TaskOffset) -> TaskId {
    (offset.subtopology_id.to_string(), offset.partition)
}

fn tasks(assignment: &Assignment) -> Option<Tasks> {
    let Assignment { active_tasks, standby_tasks, warmup_tasks } = assignment;
    Tasks::from_lists(Some(active_tasks), Some(standby_tasks), Some(warmup_tasks))
}

fn since_list(since: &BTreeMap<TaskId, i32>) -> Vec<TaskOffset> {
    let one = |((subtopology, partition), epoch): (&TaskId, &i32)| TaskOffset {
        subtopology_id: str_bytes(subtopology),
        partition: *partition,
        offset: i64::from(*epoch),
    };
    since.iter().map(one).collect()
}

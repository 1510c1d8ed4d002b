//! Streams groups as their coordinator sees them: describe, delete.

use super::topics::text;
use super::{Asking, Destination, Kind, Reply};
use crate::requests::{Request, Response};
use crate::types::{Task, Tasks, Topic};
use kstreams_protocol::messages::{DeleteGroupsRequest, GroupId};
use kstreams_protocol::streams_group::describe::{DescribedGroup, StreamsGroupDescribeRequest};
use kstreams_protocol::streams_group::{Assignment, TaskIds};

/// A streams group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupDescription {
    /// `Empty`, `NotReady`, `Assigning`, `Reconciling`, `Stable` or `Dead`.
    pub state: String,
    /// Epoch of the group.
    pub group_epoch: i32,
    /// Epoch of the assignment that its members move to.
    pub assignment_epoch: i32,
    /// Its members.
    pub members: Vec<GroupMember>,
}

/// A member of a streams group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupMember {
    /// Its id.
    pub member_id: String,
    /// Its epoch.
    pub member_epoch: i32,
    /// The process it belongs to.
    pub process_id: String,
    /// What its client is called.
    pub client_id: String,
    /// The tasks it owns.
    pub tasks: Tasks,
    /// The tasks it shall own.
    pub target: Tasks,
}

#[derive(Debug)]
pub(crate) struct DescribeGroups {
    pub(crate) groups: Vec<Topic>,
}

impl Kind for DescribeGroups {
    type Key = Topic;
    type Value = GroupDescription;
    const WHAT: &'static str = "group";

    fn keys(&self) -> Vec<Topic> {
        self.groups.clone()
    }

    fn destination(&self, key: &Topic) -> Destination {
        Destination::Coordinator(key.clone())
    }

    fn request(&self, keys: &[Topic], _asking: &Asking<'_>) -> Request {
        let group_ids = keys.iter().map(|key| text(key)).collect();
        StreamsGroupDescribeRequest { group_ids, ..Default::default() }.into()
    }

    fn read(&self, _keys: &[Topic], response: Response) -> Vec<(Topic, Reply<GroupDescription>)> {
        let Response::StreamsGroupDescribe(response) = response else { return Vec::new() };
        let replies = response.groups.iter().map(|group| {
            let detail = group.error_message.as_deref();
            (
                group.group_id.as_str().into(),
                Reply::of(group.error_code, detail, || describe(group)),
            )
        });
        replies.collect()
    }
}

fn describe(group: &DescribedGroup) -> GroupDescription {
    let members = group.members.iter().map(|member| GroupMember {
        member_id: member.member_id.to_string(),
        member_epoch: member.member_epoch,
        process_id: member.process_id.to_string(),
        client_id: member.client_id.to_string(),
        tasks: tasks_of(&member.assignment),
        target: tasks_of(&member.target_assignment),
    });
    GroupDescription {
        state: group.group_state.to_string(),
        group_epoch: group.group_epoch,
        assignment_epoch: group.assignment_epoch,
        members: members.collect(),
    }
}

pub(crate) fn tasks_of(assignment: &Assignment) -> Tasks {
    Tasks {
        active: task_list(&assignment.active_tasks),
        standby: task_list(&assignment.standby_tasks),
        warmup: task_list(&assignment.warmup_tasks),
    }
}

/// Single tasks, sorted, from the lists of the protocol.
pub(crate) fn task_list(ids: &[TaskIds]) -> Vec<Task> {
    let mut tasks = Vec::new();
    for id in ids {
        let subtopology = Topic::from(id.subtopology_id.as_str());
        tasks.extend(
            id.partitions.iter().map(|partition| Task::new(subtopology.clone(), *partition)),
        );
    }
    tasks.sort();
    tasks.dedup();
    tasks
}

#[derive(Debug)]
pub(crate) struct DeleteGroups {
    pub(crate) groups: Vec<Topic>,
}

impl Kind for DeleteGroups {
    type Key = Topic;
    type Value = ();
    const WHAT: &'static str = "delete group";

    fn keys(&self) -> Vec<Topic> {
        self.groups.clone()
    }

    fn destination(&self, key: &Topic) -> Destination {
        Destination::Coordinator(key.clone())
    }

    fn request(&self, keys: &[Topic], _asking: &Asking<'_>) -> Request {
        let names = keys.iter().map(|key| GroupId(text(key))).collect();
        DeleteGroupsRequest::default().with_groups_names(names).into()
    }

    fn read(&self, _keys: &[Topic], response: Response) -> Vec<(Topic, Reply<()>)> {
        let Response::DeleteGroups(response) = response else { return Vec::new() };
        let replies = response.results.iter().map(|group| {
            (group.group_id.as_str().into(), Reply::of(group.error_code, None, || ()))
        });
        replies.collect()
    }
}

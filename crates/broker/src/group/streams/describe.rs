//! The description of a streams group, for tools.

use std::collections::BTreeMap;

use kstreams_protocol::streams_group::describe::{
    DescribedGroup, DescribedMember, DescribedSubtopology, DescribedTopology,
};
use kstreams_protocol::streams_group::{TaskOffset, TopicInfo};

use super::StreamsGroup;
use super::member::Member;
use super::topology::InternalTopic;
use crate::api::str_bytes;
use crate::group::tasks::TaskId;

const NOT_REQUESTED: i8 = 0;
const NOT_STORED: i8 = 1;
const AVAILABLE: i8 = 3;

impl StreamsGroup {
    pub(crate) fn describe(&self, group_id: &str, with_description: bool) -> DescribedGroup {
        let members = self.members.iter().map(|(id, member)| self.describe_member(id, member));
        let (topology_description_status, topology_description) = match &self.description {
            _ if !with_description => (NOT_REQUESTED, None),
            None => (NOT_STORED, None),
            Some(description) => (AVAILABLE, Some(description.clone())),
        };
        DescribedGroup {
            group_id: str_bytes(group_id),
            group_state: str_bytes(self.state()),
            group_epoch: self.epoch,
            assignment_epoch: self.assignment_epoch,
            topology: self.describe_topology(),
            members: members.collect(),
            topology_description,
            topology_description_status,
            assignor_name: Some(str_bytes("sticky")),
            ..DescribedGroup::default()
        }
    }

    fn describe_topology(&self) -> Option<DescribedTopology> {
        let topology = self.topology.as_ref()?;
        let infos = |topics: &[InternalTopic]| {
            let info = |topic: &InternalTopic| TopicInfo {
                partitions: topic.partitions,
                ..topic.info.clone()
            };
            topics.iter().map(info).collect()
        };
        let subtopologies = topology.subtopologies.iter().map(|subtopology| {
            // Without the right topics it is described as its members told it.
            let configured = self.configured.subtopologies.get(subtopology.subtopology_id.as_str());
            DescribedSubtopology {
                subtopology_id: subtopology.subtopology_id.clone(),
                source_topics: subtopology.source_topics.clone(),
                repartition_sink_topics: subtopology.repartition_sink_topics.clone(),
                state_changelog_topics: configured.map_or_else(
                    || subtopology.state_changelog_topics.clone(),
                    |configured| infos(&configured.changelogs),
                ),
                repartition_source_topics: configured.map_or_else(
                    || subtopology.repartition_source_topics.clone(),
                    |configured| infos(&configured.repartition),
                ),
            }
        });
        Some(DescribedTopology {
            epoch: topology.epoch,
            subtopologies: Some(subtopologies.collect()),
        })
    }

    pub(super) fn describe_member(&self, id: &str, member: &Member) -> DescribedMember {
        let target = self.targets.get(id).cloned().unwrap_or_default();
        DescribedMember {
            member_id: str_bytes(id),
            member_epoch: member.epoch,
            instance_id: member.instance_id.as_deref().map(str_bytes),
            rack_id: member.rack_id.as_deref().map(str_bytes),
            client_id: str_bytes(&member.client_id),
            client_host: str_bytes(&member.client_host),
            topology_epoch: member.topology_epoch,
            process_id: str_bytes(&member.process_id),
            user_endpoint: member.endpoint.clone(),
            client_tags: member.client_tags.clone(),
            task_offsets: offsets(&member.task_offsets),
            task_end_offsets: offsets(&member.task_end_offsets),
            assignment: member.assigned.to_assignment(),
            target_assignment: target.to_assignment(),
            is_classic: false,
        }
    }
}

fn offsets(offsets: &BTreeMap<TaskId, i64>) -> Vec<TaskOffset> {
    let one = |((subtopology, partition), offset): (&TaskId, &i64)| TaskOffset {
        subtopology_id: str_bytes(subtopology),
        partition: *partition,
        offset: *offset,
    };
    offsets.iter().map(one).collect()
}

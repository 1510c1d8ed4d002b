//! The description of a group (key 89): topology, members, assignments.

use super::topology_description::TopologyDescription;
use super::{Assignment, Endpoint, KeyValue, TaskOffset, TopicInfo};
use kafka_protocol::protocol::StrBytes;

message! {
    /// The request.
    pub struct StreamsGroupDescribeRequest (0..=1) {
        /// The ids of the groups to describe.
        group_ids: Vec<StrBytes> = Vec::new(), 0..;
        /// Whether to include authorized operations.
        include_authorized_operations: bool = false, 0..;
        /// Whether to include the full topology description from the topology description plugin in
        /// the response.
        include_topology_description: bool = false, 1..;
    }
}

message! {
    /// The subtopologies of the streams application. This contains the configured subtopologies,
    /// where the number of partitions are set and any regular expressions are resolved to actual
    /// topics. Null if the group is uninitialized, source topics are missing or incorrectly
    /// partitioned.
    pub struct DescribedSubtopology (0..=1) {
        /// String to uniquely identify the subtopology.
        subtopology_id: StrBytes = StrBytes::new(), 0..;
        /// The topics the subtopology reads from.
        source_topics: Vec<StrBytes> = Vec::new(), 0..;
        /// The repartition topics the subtopology writes to.
        repartition_sink_topics: Vec<StrBytes> = Vec::new(), 0..;
        /// The set of state changelog topics associated with this subtopology. Created
        /// automatically.
        state_changelog_topics: Vec<TopicInfo> = Vec::new(), 0..;
        /// The set of source topics that are internally created repartition topics. Created
        /// automatically.
        repartition_source_topics: Vec<TopicInfo> = Vec::new(), 0..;
    }
}

message! {
    /// The topology metadata currently initialized for the streams application. Can be null in case
    /// of a describe error.
    pub struct DescribedTopology (0..=1) {
        /// The epoch of the currently initialized topology for this group.
        epoch: i32 = 0, 0..;
        /// The subtopologies of the streams application. This contains the configured
        /// subtopologies, where the number of partitions are set and any regular expressions are
        /// resolved to actual topics. Null if the group is uninitialized, source topics are missing
        /// or incorrectly partitioned.
        subtopologies: Option<Vec<DescribedSubtopology>> = None, 0..;
    }
}

message! {
    /// The members.
    pub struct DescribedMember (0..=1) {
        /// The member ID.
        member_id: StrBytes = StrBytes::new(), 0..;
        /// The member epoch.
        member_epoch: i32 = 0, 0..;
        /// The member instance ID for static membership.
        instance_id: Option<StrBytes> = None, 0..;
        /// The rack ID.
        rack_id: Option<StrBytes> = None, 0..;
        /// The client ID.
        client_id: StrBytes = StrBytes::new(), 0..;
        /// The client host.
        client_host: StrBytes = StrBytes::new(), 0..;
        /// The epoch of the topology on the client.
        topology_epoch: i32 = 0, 0..;
        /// Identity of the streams instance that may have multiple clients.
        process_id: StrBytes = StrBytes::new(), 0..;
        /// User-defined endpoint for Interactive Queries. Null if not defined for this client.
        user_endpoint: Option<Endpoint> = None, 0..;
        /// Used for rack-aware assignment algorithm.
        client_tags: Vec<KeyValue> = Vec::new(), 0..;
        /// Cumulative changelog offsets for tasks.
        task_offsets: Vec<TaskOffset> = Vec::new(), 0..;
        /// Cumulative changelog end offsets for tasks.
        task_end_offsets: Vec<TaskOffset> = Vec::new(), 0..;
        /// The current assignment.
        assignment: Assignment = Default::default(), 0..;
        /// The target assignment.
        target_assignment: Assignment = Default::default(), 0..;
        /// True for classic members that have not been upgraded yet.
        is_classic: bool = false, 0..;
    }
}

message! {
    /// Each described group.
    pub struct DescribedGroup (0..=1) {
        /// The describe error, or 0 if there was no error.
        error_code: i16 = 0, 0..;
        /// The top-level error message, or null if there was no error.
        error_message: Option<StrBytes> = None, 0..;
        /// The group ID string.
        group_id: StrBytes = StrBytes::new(), 0..;
        /// The group state string, or the empty string.
        group_state: StrBytes = StrBytes::new(), 0..;
        /// The group epoch.
        group_epoch: i32 = 0, 0..;
        /// The assignment epoch.
        assignment_epoch: i32 = 0, 0..;
        /// The topology metadata currently initialized for the streams application. Can be null in
        /// case of a describe error.
        topology: Option<DescribedTopology> = None, 0..;
        /// The members.
        members: Vec<DescribedMember> = Vec::new(), 0..;
        /// 32-bit bitfield to represent authorized operations for this group.
        authorized_operations: i32 = -2147483648, 0..;
        /// The full topology description for this group. Non-null if and only if
        /// TopologyDescriptionStatus is AVAILABLE (3); null otherwise.
        topology_description: Option<TopologyDescription> = None, 1..;
        /// The status of the topology description for this group, paired with TopologyDescription:
        /// 0=NOT_REQUESTED (client did not set IncludeTopologyDescription; TopologyDescription is
        /// null); 1=NOT_STORED (no description recorded for this group; TopologyDescription is
        /// null); 2=ERROR (broker failed to fetch the description, see broker logs;
        /// TopologyDescription is null); 3=AVAILABLE (TopologyDescription is non-null and carries
        /// the description).
        topology_description_status: i8 = 0, 1..;
        /// The task assignor that the group coordinator will use for the next assignment
        /// computation. This may differ from the assignor that computed the current assignment,
        /// because changing the assignor configuration does not trigger a rebalance. Null in case
        /// of a describe error.
        assignor_name: Option<StrBytes> = None, 1..;
    }
}

message! {
    /// The response.
    pub struct StreamsGroupDescribeResponse (0..=1) {
        /// The duration in milliseconds for which the request was throttled due to a quota
        /// violation, or zero if the request did not violate any quota.
        throttle_time_ms: i32 = 0, 0..;
        /// Each described group.
        groups: Vec<DescribedGroup> = Vec::new(), 0..;
    }
}

request!(StreamsGroupDescribeRequest, StreamsGroupDescribeResponse, super::STREAMS_GROUP_DESCRIBE);

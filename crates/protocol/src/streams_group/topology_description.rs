//! The push of a topology's description (key 93), sent only when a heartbeat asks for it.

use kafka_protocol::protocol::StrBytes;

message! {
    /// A topology as it describes itself.
    pub struct TopologyDescription (0..=0) {
        /// The subtopologies that make up this topology.
        subtopologies: Vec<TopologyDescriptionSubtopology> = Vec::new(), 0..;
        /// Global state stores used by this topology.
        global_stores: Vec<TopologyDescriptionGlobalStore> = Vec::new(), 0..;
    }
}

message! {
    /// A part of the topology whose nodes are connected.
    pub struct TopologyDescriptionSubtopology (0..=0) {
        /// The subtopology identifier, unique within the topology.
        subtopology_id: StrBytes = StrBytes::new(), 0..;
        /// The processing nodes in this subtopology.
        nodes: Vec<TopologyDescriptionNode> = Vec::new(), 0..;
    }
}

message! {
    /// A source, processor or sink.
    pub struct TopologyDescriptionNode (0..=0) {
        /// The name of this node (e.g., KSTREAM-SOURCE-0000000000).
        name: StrBytes = StrBytes::new(), 0..;
        /// The type of this node: 1=SOURCE, 2=PROCESSOR, 3=SINK.
        node_type: i8 = 0, 0..;
        /// The source topics this node reads from. Defined only for source nodes, may be empty if
        /// source topics are dynamically determined.
        source_topics: Vec<StrBytes> = Vec::new(), 0..;
        /// The topic this node writes to. Defined only for sink nodes, may be null if sink topic is
        /// dynamically determined.
        sink_topic: Option<StrBytes> = None, 0..;
        /// The state store names accessed by this node. Defined only for processor nodes.
        stores: Vec<StrBytes> = Vec::new(), 0..;
        /// The names of successor nodes in the processing graph. Predecessor relationships are
        /// reconstructed from this field.
        successors: Vec<StrBytes> = Vec::new(), 0..;
    }
}

message! {
    /// A store that every instance fills on its own.
    pub struct TopologyDescriptionGlobalStore (0..=0) {
        /// The source node providing data to the global store.
        source: TopologyDescriptionNode = Default::default(), 0..;
        /// The processor node that populates the global store.
        processor: TopologyDescriptionNode = Default::default(), 0..;
    }
}

message! {
    /// The request.
    pub struct StreamsGroupTopologyDescriptionUpdateRequest (0..=0) {
        /// The streams group identifier.
        group_id: StrBytes = StrBytes::new(), 0..;
        /// The ID of the streams group member sending the push. The broker validates that this
        /// member is still in the group; mismatches (including when the group itself has been
        /// deleted) are rejected with UNKNOWN_MEMBER_ID so the client treats itself as fenced and
        /// rejoins.
        member_id: StrBytes = StrBytes::new(), 0..;
        /// The epoch of the topology being described.
        topology_epoch: i32 = 0, 0..;
        /// The topology description.
        topology_description: TopologyDescription = Default::default(), 0..;
    }
}

message! {
    /// The response.
    pub struct StreamsGroupTopologyDescriptionUpdateResponse (0..=0) {
        /// The duration in milliseconds for which the request was throttled due to a quota
        /// violation, or zero if the request did not violate any quota.
        throttle_time_ms: i32 = 0, 0..;
        /// The top-level error code, or 0 if there was no error.
        error_code: i16 = 0, 0..;
        /// The top-level error message, or null if there was no error.
        error_message: Option<StrBytes> = None, 0..;
    }
}

request!(
    StreamsGroupTopologyDescriptionUpdateRequest,
    StreamsGroupTopologyDescriptionUpdateResponse,
    super::STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE
);

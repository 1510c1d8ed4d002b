//! What a member says of itself when it joins, in the protocol's words.

use super::text;
use crate::config::{CopartitionGroup, GroupConfig, InternalTopic, Subtopology};
use kstreams_protocol::protocol::StrBytes;
use kstreams_protocol::streams_group::heartbeat as wire;
use kstreams_protocol::streams_group::{
    Endpoint, KeyValue, StreamsGroupHeartbeatRequest, TopicInfo,
};
use std::collections::BTreeMap;

pub(super) fn describe_member(request: &mut StreamsGroupHeartbeatRequest, config: &GroupConfig) {
    request.rack_id = config.rack_id.as_deref().map(text);
    request.rebalance_timeout_ms =
        i32::try_from(config.rebalance_timeout.as_millis()).unwrap_or(i32::MAX);
    request.topology = Some(wire::Topology {
        epoch: config.topology.epoch,
        subtopologies: config.topology.subtopologies.iter().map(subtopology).collect(),
    });
    request.process_id = Some(text(&config.process_id));
    request.user_endpoint =
        config.endpoint.as_ref().map(|(host, port)| Endpoint { host: text(host), port: *port });
    request.client_tags = Some(key_values(&config.client_tags));
    // A member that joins owns nothing.
    request.active_tasks = Some(Vec::new());
    request.standby_tasks = Some(Vec::new());
    request.warmup_tasks = Some(Vec::new());
}

fn subtopology(of: &Subtopology) -> wire::Subtopology {
    wire::Subtopology {
        subtopology_id: text(&of.id),
        source_topics: texts(&of.source_topics),
        source_topic_regex: texts(&of.source_patterns),
        state_changelog_topics: of.changelog_topics.iter().map(topic_info).collect(),
        repartition_sink_topics: texts(&of.repartition_sink_topics),
        repartition_source_topics: of.repartition_source_topics.iter().map(topic_info).collect(),
        copartition_groups: of
            .copartition_groups
            .iter()
            .map(|group| copartition(of, group))
            .collect(),
    }
}

/// Names become places in the lists of the sub-topology.
fn copartition(of: &Subtopology, group: &CopartitionGroup) -> wire::CopartitionGroup {
    let places = |names: &[String], all: Vec<&str>| {
        let place = |name: &String| all.iter().position(|other| other == name);
        names.iter().filter_map(place).map(|place| place as i16).collect()
    };
    wire::CopartitionGroup {
        source_topics: places(
            &group.source_topics,
            of.source_topics.iter().map(String::as_str).collect(),
        ),
        source_topic_regex: places(
            &group.source_patterns,
            of.source_patterns.iter().map(String::as_str).collect(),
        ),
        repartition_source_topics: places(
            &group.repartition_source_topics,
            of.repartition_source_topics.iter().map(|topic| topic.name.as_str()).collect(),
        ),
    }
}

fn topic_info(topic: &InternalTopic) -> TopicInfo {
    TopicInfo {
        name: text(&topic.name),
        partitions: topic.partitions,
        replication_factor: topic.replication_factor,
        topic_configs: key_values(&topic.configs),
    }
}

fn key_values(map: &BTreeMap<String, String>) -> Vec<KeyValue> {
    map.iter().map(|(key, value)| KeyValue { key: text(key), value: text(value) }).collect()
}

fn texts(all: &[String]) -> Vec<StrBytes> {
    all.iter().map(|one| text(one)).collect()
}

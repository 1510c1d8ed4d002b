//! Every request in every version that is advertised for it gets an answer that fits the version.

use kstreams_broker::{Broker, BrokerConfig};
use kstreams_protocol::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
use kstreams_protocol::messages::create_topics_request::CreatableTopic;
use kstreams_protocol::messages::delete_records_request::{
    DeleteRecordsPartition, DeleteRecordsTopic,
};
use kstreams_protocol::messages::delete_topics_request::DeleteTopicState;
use kstreams_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kstreams_protocol::messages::describe_producers_request::TopicRequest as ProducersOf;
use kstreams_protocol::messages::describe_topic_partitions_request::TopicRequest;
use kstreams_protocol::messages::leave_group_request::MemberIdentity;
use kstreams_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kstreams_protocol::messages::metadata_request::MetadataRequestTopic;
use kstreams_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kstreams_protocol::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};
use kstreams_protocol::messages::offset_for_leader_epoch_request::{
    OffsetForLeaderPartition, OffsetForLeaderTopic,
};
use kstreams_protocol::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use kstreams_protocol::messages::*;
use kstreams_protocol::protocol::Request;
use kstreams_protocol::streams_group::{StreamsGroupDescribeRequest, StreamsGroupHeartbeatRequest};

use crate::raw::{Raw, batch_at, fetch_request, produce_request, text, topic};

fn start() -> Broker {
    let builder = Broker::builder().in_memory().without_tcp().config(BrokerConfig::quick());
    let broker = builder.start().unwrap();
    broker.create_topic("t", 1).unwrap();
    broker
}

/// Asks in each version from `min` on, of a new broker that has a record and an offset.
fn each<R: Request>(min: i16, max: i16, request: impl Fn(i16) -> R) {
    for version in min..=max {
        let broker = start();
        let mut raw = Raw::memory(&broker);
        raw.produce("t", 0, batch_at(0, &[("k", "v")]));
        let commit = commit_request().with_group_instance_id(None);
        assert_eq!(raw.call(8, &commit).topics[0].partitions[0].error_code, 0);
        raw.send(version, &request(version));
        let answer = raw.receive::<R>(version);
        assert!(answer.is_some(), "request {} version {version}", R::KEY);
    }
}

fn commit_request() -> OffsetCommitRequest {
    let partition = OffsetCommitRequestPartition::default()
        .with_committed_offset(1)
        .with_committed_leader_epoch(-1)
        .with_committed_metadata(Some(text("m")));
    let topics =
        OffsetCommitRequestTopic::default().with_name(topic("t")).with_partitions(vec![partition]);
    OffsetCommitRequest::default()
        .with_group_id(GroupId(text("g")))
        .with_generation_id_or_member_epoch(-1)
        .with_topics(vec![topics])
}

#[test]
fn produce_and_fetch() {
    each(3, 12, |version| {
        let request = produce_request("t", 0, batch_at(0, &[("k", "v")]), -1);
        if version >= 3 { request.with_transactional_id(None) } else { request }
    });
    each(4, 12, |version| {
        let epoch = if version >= 7 { -1 } else { 0 };
        fetch_request("t", 0, 0, 0).with_session_epoch(if version >= 7 { 0 } else { epoch })
    });
    each(4, 6, |_| fetch_request("t", 0, 9, 0).with_session_epoch(-1));
    each(1, 10, |_| {
        let partition =
            ListOffsetsPartition::default().with_timestamp(-1).with_current_leader_epoch(-1);
        let topics =
            ListOffsetsTopic::default().with_name(topic("t")).with_partitions(vec![partition]);
        ListOffsetsRequest::default().with_topics(vec![topics])
    });
    each(2, 4, |_| {
        let partition = OffsetForLeaderPartition::default().with_current_leader_epoch(-1);
        let topics =
            OffsetForLeaderTopic::default().with_topic(topic("t")).with_partitions(vec![partition]);
        OffsetForLeaderEpochRequest::default().with_topics(vec![topics])
    });
    each(0, 5, |_| InitProducerIdRequest::default().with_transactional_id(None));
}

#[test]
fn metadata_and_topics() {
    for name in ["t", "other"] {
        each(0, 13, |_| {
            let asked = MetadataRequestTopic::default().with_name(Some(topic(name)));
            MetadataRequest::default()
                .with_allow_auto_topic_creation(true)
                .with_topics(Some(vec![asked]))
        });
        each(2, 7, |_| {
            let asked = CreatableTopic::default()
                .with_name(topic(name))
                .with_num_partitions(1)
                .with_replication_factor(1);
            CreateTopicsRequest::default().with_topics(vec![asked])
        });
        each(1, 6, |version| {
            if version < 6 {
                return DeleteTopicsRequest::default().with_topic_names(vec![topic(name)]);
            }
            let state = DeleteTopicState::default().with_name(Some(topic(name)));
            DeleteTopicsRequest::default().with_topics(vec![state])
        });
        each(1, 4, |_| {
            let resource = DescribeConfigsResource::default()
                .with_resource_type(2)
                .with_resource_name(text(name));
            DescribeConfigsRequest::default().with_resources(vec![resource])
        });
        each(0, 0, |_| {
            let asked = TopicRequest::default().with_name(topic(name));
            DescribeTopicPartitionsRequest::default()
                .with_topics(vec![asked])
                .with_response_partition_limit(2000)
                .with_cursor(None)
        });
        each(0, 0, |_| {
            let asked =
                ProducersOf::default().with_name(topic(name)).with_partition_indexes(vec![0]);
            DescribeProducersRequest::default().with_topics(vec![asked])
        });
        each(0, 2, |_| {
            let topics = DeleteRecordsTopic::default()
                .with_name(topic(name))
                .with_partitions(vec![DeleteRecordsPartition::default()]);
            DeleteRecordsRequest::default().with_topics(vec![topics])
        });
    }
    each(0, 2, |_| DescribeClusterRequest::default());
    each(1, 4, |_| DescribeLogDirsRequest::default().with_topics(None));
    each(0, 3, |_| CreatePartitionsRequest::default());
    each(0, 2, |_| AlterConfigsRequest::default());
    each(0, 1, |_| IncrementalAlterConfigsRequest::default());
}

#[test]
fn offsets_and_coordinators() {
    each(2, 9, |_| commit_request().with_group_instance_id(None));
    each(1, 9, |version| {
        let group = GroupId(text("g"));
        if version < 8 {
            let topics = OffsetFetchRequestTopic::default()
                .with_name(topic("t"))
                .with_partition_indexes(vec![0, 1]);
            return OffsetFetchRequest::default()
                .with_group_id(group)
                .with_topics(Some(vec![topics]));
        }
        let topics = OffsetFetchRequestTopics::default()
            .with_name(topic("t"))
            .with_partition_indexes(vec![0, 1]);
        let group = OffsetFetchRequestGroup::default()
            .with_group_id(group)
            .with_member_id(None)
            .with_member_epoch(-1)
            .with_topics(Some(vec![topics]));
        OffsetFetchRequest::default().with_groups(vec![group])
    });
    for key_type in [0, 1, 7] {
        each(1, 6, |version| {
            let request = FindCoordinatorRequest::default().with_key_type(key_type);
            match version {
                ..4 => request.with_key(text("g")),
                _ => request.with_coordinator_keys(vec![text("g")]),
            }
        });
    }
    each(0, 0, |_| FindCoordinatorRequest::default().with_key(text("g")));
    each(0, 0, |_| OffsetDeleteRequest::default().with_group_id(GroupId(text("g"))));
}

#[test]
fn groups() {
    for name in ["g", "other"] {
        each(0, 9, |version| {
            let request = JoinGroupRequest::default()
                .with_group_id(GroupId(text(name)))
                .with_session_timeout_ms(1000)
                .with_protocol_type(text("consumer"))
                .with_protocols(vec![Default::default()]);
            if version >= 5 { request.with_group_instance_id(None) } else { request }
        });
        each(0, 5, |_| {
            SyncGroupRequest::default()
                .with_group_id(GroupId(text(name)))
                .with_group_instance_id(None)
        });
        each(0, 4, |_| {
            HeartbeatRequest::default()
                .with_group_id(GroupId(text(name)))
                .with_group_instance_id(None)
        });
        each(0, 5, |version| {
            let request = LeaveGroupRequest::default().with_group_id(GroupId(text(name)));
            match version {
                ..3 => request.with_member_id(text("m")),
                _ => request.with_members(vec![MemberIdentity::default()]),
            }
        });
        each(0, 6, |_| DescribeGroupsRequest::default().with_groups(vec![GroupId(text(name))]));
        each(0, 2, |_| DeleteGroupsRequest::default().with_groups_names(vec![GroupId(text(name))]));
        each(0, 1, |_| StreamsGroupDescribeRequest {
            group_ids: vec![text(name)],
            ..Default::default()
        });
        each(0, 1, |_| StreamsGroupHeartbeatRequest {
            group_id: text(name),
            member_id: text("m"),
            member_epoch: 1,
            ..Default::default()
        });
    }
    each(0, 5, |_| ListGroupsRequest::default());
}

#[test]
fn transactions() {
    let id = || TransactionalId(text("t"));
    each(0, 5, |_| {
        InitProducerIdRequest::default()
            .with_transactional_id(Some(id()))
            .with_transaction_timeout_ms(1000)
    });
    each(0, 3, |_| {
        let topics =
            AddPartitionsToTxnTopic::default().with_name(topic("t")).with_partitions(vec![0, 1]);
        AddPartitionsToTxnRequest::default()
            .with_v3_and_below_transactional_id(id())
            .with_v3_and_below_topics(vec![topics])
    });
    each(0, 4, |_| {
        AddOffsetsToTxnRequest::default()
            .with_transactional_id(id())
            .with_group_id(GroupId(text("g")))
    });
    each(0, 5, |_| EndTxnRequest::default().with_transactional_id(id()));
    for name in ["t", "other"] {
        each(0, 5, |_| {
            let partition = TxnOffsetCommitRequestPartition::default()
                .with_committed_leader_epoch(-1)
                .with_committed_metadata(None);
            let topics = TxnOffsetCommitRequestTopic::default()
                .with_name(topic(name))
                .with_partitions(vec![partition]);
            TxnOffsetCommitRequest::default()
                .with_transactional_id(id())
                .with_group_id(GroupId(text("g")))
                .with_generation_id(-1)
                .with_topics(vec![topics])
        });
    }
    each(0, 0, |_| DescribeTransactionsRequest::default().with_transactional_ids(vec![id()]));
    each(0, 1, |_| ListTransactionsRequest::default().with_duration_filter(-1));
}

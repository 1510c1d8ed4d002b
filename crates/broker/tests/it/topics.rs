//! Topics: creation, settings, deletion, cleaning.

use std::sync::Arc;

use kstreams_broker::{Broker, BrokerConfig, ManualClock};
use kstreams_protocol::ResponseError;
use kstreams_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use kstreams_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use kstreams_protocol::messages::delete_records_request::{
    DeleteRecordsPartition, DeleteRecordsTopic,
};
use kstreams_protocol::messages::delete_topics_request::DeleteTopicState;
use kstreams_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kstreams_protocol::messages::incremental_alter_configs_request::{
    AlterConfigsResource, AlterableConfig,
};
use kstreams_protocol::messages::metadata_request::MetadataRequestTopic;
use kstreams_protocol::messages::{
    CreatePartitionsRequest, CreateTopicsRequest, DeleteRecordsRequest, DeleteTopicsRequest,
    DescribeConfigsRequest, FetchRequest, IncrementalAlterConfigsRequest, MetadataRequest,
};

use crate::raw::{Raw, batch_at, fetch_request, text, topic};

const NOW: i64 = 1_700_000_000_000;

fn start(config: BrokerConfig) -> (Broker, Arc<ManualClock>, Raw) {
    let clock = Arc::new(ManualClock::new(NOW));
    let builder = Broker::builder().in_memory().without_tcp().config(config);
    let broker = builder.clock(clock.clone()).start().unwrap();
    let raw = Raw::memory(&broker);
    (broker, clock, raw)
}

fn code(error: ResponseError) -> i16 {
    error.code()
}

fn new_topic(name: &str, partitions: i32, factor: i16) -> CreatableTopic {
    CreatableTopic::default()
        .with_name(topic(name))
        .with_num_partitions(partitions)
        .with_replication_factor(factor)
}

fn create(raw: &mut Raw, asked: CreatableTopic) -> (i16, i32) {
    let response = raw.call(7, &CreateTopicsRequest::default().with_topics(vec![asked]));
    (response.topics[0].error_code, response.topics[0].num_partitions)
}

#[test]
fn topics_are_created_as_asked_or_refused() {
    let (broker, _, mut raw) = start(BrokerConfig::default());
    assert_eq!(create(&mut raw, new_topic("a", 3, 1)), (0, 3));
    assert_eq!(create(&mut raw, new_topic("b", -1, -1)), (0, 1));
    assert_eq!(create(&mut raw, new_topic("a", 3, 1)).0, code(ResponseError::TopicAlreadyExists));
    assert_eq!(create(&mut raw, new_topic("c", 0, 1)).0, code(ResponseError::InvalidPartitions));
    let many = create(&mut raw, new_topic("c", 1, 2)).0;
    assert_eq!(many, code(ResponseError::InvalidReplicationFactor));
    assert_eq!(
        create(&mut raw, new_topic("a b", 1, 1)).0,
        code(ResponseError::InvalidTopicException)
    );
    let config =
        CreatableTopicConfig::default().with_name(text("retention.ms")).with_value(Some(text("x")));
    let asked = new_topic("c", 1, 1).with_configs(vec![config]);
    assert_eq!(create(&mut raw, asked).0, code(ResponseError::InvalidConfig));
    let request = CreateTopicsRequest::default()
        .with_validate_only(true)
        .with_topics(vec![new_topic("d", 1, 1)]);
    assert_eq!(raw.call(7, &request).topics[0].error_code, 0);
    assert_eq!(broker.offsets("d", 0), None, "only looked at");
}

#[test]
fn metadata_knows_topics_by_name_and_id() {
    let (broker, _, mut raw) = start(BrokerConfig::default());
    broker.create_topic("a", 2).unwrap();
    let all = raw.call(12, &MetadataRequest::default().with_topics(None));
    assert_eq!(all.topics.len(), 1);
    assert_eq!(all.topics[0].partitions.len(), 2);
    let by_id =
        MetadataRequestTopic::default().with_name(None).with_topic_id(all.topics[0].topic_id);
    let found = raw.call(12, &MetadataRequest::default().with_topics(Some(vec![by_id])));
    assert_eq!(found.topics[0].name, Some(topic("a")));
    let other = MetadataRequestTopic::default().with_name(Some(topic("b")));
    let request = MetadataRequest::default()
        .with_allow_auto_topic_creation(true)
        .with_topics(Some(vec![other]));
    let error = raw.call(12, &request).topics[0].error_code;
    assert_eq!(error, code(ResponseError::UnknownTopicOrPartition), "nothing is made by itself");
}

#[test]
fn topics_are_made_by_metadata_where_that_is_wanted() {
    let mut config = BrokerConfig::quick();
    config.auto_create_topics = true;
    config.num_partitions = 3;
    let (broker, _, mut raw) = start(config);
    let asked = MetadataRequestTopic::default().with_name(Some(topic("b")));
    let request = MetadataRequest::default().with_topics(Some(vec![asked.clone()]));
    let refused = raw.call(12, &request.clone().with_allow_auto_topic_creation(false));
    assert_eq!(refused.topics[0].error_code, code(ResponseError::UnknownTopicOrPartition));
    let made = raw.call(12, &request.with_allow_auto_topic_creation(true));
    assert_eq!(made.topics[0].partitions.len(), 3);
    assert_eq!(broker.offsets("b", 2), Some((0, 0)));
}

#[test]
fn partitions_are_added_and_not_taken() {
    let (broker, _, mut raw) = start(BrokerConfig::default());
    broker.create_topic("a", 2).unwrap();
    let mut grow = |count: i32| {
        let asked = CreatePartitionsTopic::default()
            .with_name(topic("a"))
            .with_count(count)
            .with_assignments(None);
        let request = CreatePartitionsRequest::default().with_topics(vec![asked]);
        raw.call(3, &request).results[0].error_code
    };
    assert_eq!(grow(2), code(ResponseError::InvalidPartitions));
    assert_eq!(grow(4), 0);
    assert_eq!(broker.offsets("a", 3), Some((0, 0)));
}

#[test]
fn settings_are_changed_one_by_one() {
    let (broker, _, mut raw) = start(BrokerConfig::default());
    broker.create_topic_with("a", 1, &[("retention.ms", "1000")]).unwrap();
    let mut alter = |name: &str, operation: i8, value: Option<&str>| {
        let config = AlterableConfig::default()
            .with_name(text(name))
            .with_config_operation(operation)
            .with_value(value.map(text));
        let resource = AlterConfigsResource::default()
            .with_resource_type(2)
            .with_resource_name(text("a"))
            .with_configs(vec![config]);
        let request = IncrementalAlterConfigsRequest::default().with_resources(vec![resource]);
        raw.call(1, &request).responses[0].error_code
    };
    assert_eq!(alter("cleanup.policy", 2, Some("compact")), 0, "appended");
    assert_eq!(alter("retention.ms", 1, None), 0, "taken back");
    assert_eq!(alter("segment.bytes", 0, Some("many")), code(ResponseError::InvalidConfig));
    assert_eq!(alter("segment.bytes", 2, Some("1")), code(ResponseError::InvalidConfig));
    let resource = DescribeConfigsResource::default()
        .with_resource_type(2)
        .with_resource_name(text("a"))
        .with_configuration_keys(Some(vec![text("cleanup.policy"), text("retention.ms")]));
    let request = DescribeConfigsRequest::default().with_resources(vec![resource]);
    let response = raw.call(4, &request);
    let shown: Vec<(String, String, i8)> = response.results[0]
        .configs
        .iter()
        .map(|c| (c.name.to_string(), c.value.as_ref().unwrap().to_string(), c.config_source))
        .collect();
    let expected = [("cleanup.policy", "delete,compact", 1), ("retention.ms", "604800000", 5)];
    let expected =
        expected.map(|(name, value, source)| (name.to_owned(), value.to_owned(), source));
    assert_eq!(shown, expected);
}

#[test]
fn a_deleted_topic_is_gone_and_its_long_polls_hear_it() {
    let (broker, _, mut raw) = start(BrokerConfig::default());
    broker.create_topic("a", 1).unwrap();
    let mut reader = Raw::memory(&broker);
    reader.send(12, &fetch_request("a", 0, 0, 10_000));
    assert!(reader.receive::<FetchRequest>(12).is_none());
    let state = DeleteTopicState::default().with_name(Some(topic("a")));
    let request = DeleteTopicsRequest::default().with_topics(vec![state]);
    assert_eq!(raw.call(6, &request).responses[0].error_code, 0);
    let heard = reader.receive::<FetchRequest>(12).expect("an answer").responses[0].partitions[0]
        .error_code;
    assert_eq!(heard, code(ResponseError::UnknownTopicOrPartition));
    assert_eq!(
        raw.call(6, &request).responses[0].error_code,
        code(ResponseError::UnknownTopicOrPartition)
    );
}

#[test]
fn records_are_deleted_up_to_an_offset() {
    let (broker, _, mut raw) = start(BrokerConfig::default());
    broker.create_topic("a", 1).unwrap();
    for value in ["0", "1", "2"] {
        raw.produce("a", 0, batch_at(NOW, &[("k", value)]));
    }
    let mut delete = |offset: i64| {
        let partition = DeleteRecordsPartition::default().with_offset(offset);
        let topics =
            DeleteRecordsTopic::default().with_name(topic("a")).with_partitions(vec![partition]);
        let request = DeleteRecordsRequest::default().with_topics(vec![topics]);
        let response = raw.call(2, &request).topics[0].partitions[0].clone();
        (response.error_code, response.low_watermark)
    };
    assert_eq!(delete(2), (0, 2));
    assert_eq!(delete(4).0, code(ResponseError::OffsetOutOfRange));
    assert_eq!(delete(-1), (0, 3));
    assert_eq!(broker.offsets("a", 0), Some((3, 3)));
    assert_eq!(raw.values("a", 0, 2).0, code(ResponseError::OffsetOutOfRange));
}

#[test]
fn compaction_keeps_the_last_record_of_each_key() {
    let (broker, clock, mut raw) = start(BrokerConfig::default());
    let config = [("cleanup.policy", "compact"), ("delete.retention.ms", "1000")];
    broker.create_topic_with("a", 1, &config).unwrap();
    raw.produce("a", 0, batch_at(NOW, &[("a", "1"), ("b", "1"), ("c", "1"), ("a", "2")]));
    raw.produce("a", 0, batch_at(NOW, &[("b", "null"), ("d", "1")]));
    raw.produce("a", 0, batch_at(NOW, &[("d", "2")]));
    let kept = |broker: &Broker| {
        let records = broker.records("a").unwrap();
        let text = |bytes: &Option<bytes::Bytes>| {
            bytes.as_ref().map_or("null".to_owned(), |b| String::from_utf8_lossy(b).into_owned())
        };
        let one = |r: &kstreams_broker::StoredRecord| {
            format!("{}:{}={}", r.offset, text(&r.key), text(&r.value))
        };
        records.iter().map(one).collect::<Vec<_>>().join(" ")
    };
    broker.compact("a").unwrap();
    assert_eq!(kept(&broker), "2:c=1 3:a=2 4:b=null 6:d=2");
    assert_eq!(broker.offsets("a", 0), Some((0, 7)));
    assert_eq!(raw.values("a", 0, 0).1, ["1", "2", "null", "2"], "a reader steps over gaps");
    assert_eq!(raw.values("a", 0, 5).1, ["2"]);
    clock.advance(1001);
    broker.compact("a").unwrap();
    assert_eq!(kept(&broker), "2:c=1 3:a=2 6:d=2", "the tombstone was there long enough");
    raw.produce("a", 0, batch_at(NOW, &[("c", "9")]));
    broker.compact("a").unwrap();
    assert_eq!(kept(&broker), "3:a=2 6:d=2 7:c=9");
}

#[test]
fn old_records_go_when_their_time_is_over() {
    let mut config = BrokerConfig::quick();
    config.retention_check_interval_ms = 100;
    let (broker, clock, mut raw) = start(config);
    broker.create_topic_with("a", 1, &[("retention.ms", "1000")]).unwrap();
    raw.produce("a", 0, batch_at(NOW, &[("k", "1")]));
    clock.advance(1000);
    broker.tick();
    assert_eq!(broker.offsets("a", 0), Some((0, 1)));
    clock.advance(100);
    broker.tick();
    assert_eq!(broker.offsets("a", 0), Some((1, 1)));
}

#[test]
fn compaction_happens_by_itself() {
    let (broker, clock, mut raw) = start(BrokerConfig::quick());
    let config = [("cleanup.policy", "compact"), ("segment.bytes", "100")];
    broker.create_topic_with("a", 2, &config).unwrap();
    for value in ["1", "2", "3"] {
        raw.produce("a", 1, batch_at(NOW, &[("k", value)]));
    }
    assert_eq!(broker.records("a").unwrap().len(), 3);
    for _ in 0..4 {
        clock.advance(15_000);
        broker.tick();
    }
    let kept: Vec<i64> = broker.records("a").unwrap().iter().map(|record| record.offset).collect();
    assert_eq!(kept, [1, 2], "the open segment is not touched");
}

//! Producing and fetching.

use std::sync::Arc;

use kstreams_broker::{Broker, BrokerConfig, ManualClock};
use kstreams_protocol::ResponseError;
use kstreams_protocol::messages::fetch_request::{FetchPartition, FetchTopic, ForgottenTopic};
use kstreams_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kstreams_protocol::messages::{
    FetchRequest, FetchResponse, InitProducerIdRequest, ListOffsetsRequest, MetadataRequest,
    ProduceRequest,
};

use crate::raw::{Raw, batch_at, fetch_request, idempotent, produce_request, topic, values_in};

const NOW: i64 = 1_700_000_000_000;

fn start() -> (Broker, Arc<ManualClock>, Raw) {
    let clock = Arc::new(ManualClock::new(NOW));
    let builder = Broker::builder().in_memory().without_tcp().config(BrokerConfig::quick());
    let broker = builder.clock(clock.clone()).start().unwrap();
    broker.create_topic("t", 2).unwrap();
    let raw = Raw::memory(&broker);
    (broker, clock, raw)
}

fn code(error: ResponseError) -> i16 {
    error.code()
}

#[test]
fn what_was_produced_is_fetched() {
    let (_broker, _, mut raw) = start();
    assert_eq!(raw.produce("t", 0, batch_at(NOW, &[("a", "1"), ("b", "2")])), (0, 0));
    assert_eq!(raw.produce("t", 0, batch_at(NOW, &[("a", "3")])), (0, 2));
    assert_eq!(raw.values("t", 0, 0), (0, vec!["1".into(), "2".into(), "3".into()]));
    assert_eq!(raw.values("t", 0, 1), (0, vec!["2".into(), "3".into()]));
    assert_eq!(raw.values("t", 0, 3), (0, vec![]));
    assert_eq!(raw.values("t", 1, 0), (0, vec![]));
    assert_eq!(raw.values("t", 0, 4).0, code(ResponseError::OffsetOutOfRange));
    assert_eq!(raw.values("t", 2, 0).0, code(ResponseError::UnknownTopicOrPartition));
    assert_eq!(raw.values("other", 0, 0).0, code(ResponseError::UnknownTopicOrPartition));
}

#[test]
fn a_retry_of_an_idempotent_producer_is_not_written_again() {
    let (_broker, _, mut raw) = start();
    let response = raw.call(4, &InitProducerIdRequest::default().with_transactional_id(None));
    let id = response.producer_id.0;
    assert_eq!(raw.produce("t", 0, batch_at(NOW, &[("a", "0")])), (0, 0));
    assert_eq!(raw.produce("t", 0, idempotent(id, 0, 0, &["1", "2"])), (0, 1));
    assert_eq!(raw.produce("t", 0, idempotent(id, 0, 0, &["1", "2"])), (0, 1), "a duplicate");
    let gap = raw.produce("t", 0, idempotent(id, 0, 3, &["x"]));
    assert_eq!(gap.0, code(ResponseError::OutOfOrderSequenceNumber));
    assert_eq!(raw.produce("t", 0, idempotent(id, 1, 0, &["3"])), (0, 3), "a new epoch");
    let old = raw.produce("t", 0, idempotent(id, 0, 2, &["x"]));
    assert_eq!(old.0, code(ResponseError::InvalidProducerEpoch));
    assert_eq!(raw.values("t", 0, 0).1, ["0", "1", "2", "3"]);
}

#[test]
fn what_is_no_good_batch_is_refused() {
    let (broker, _, mut raw) = start();
    broker.create_topic_with("compacted", 1, &[("cleanup.policy", "compact")]).unwrap();
    broker.create_topic_with("small", 1, &[("max.message.bytes", "80")]).unwrap();
    let good = batch_at(NOW, &[("a", "1")]);
    let mut flipped = good.to_vec();
    *flipped.last_mut().unwrap() ^= 1;
    let two = [&good[..], &good[..]].concat();
    let cut = good.slice(..good.len() - 1);
    let mut old = good.to_vec();
    old[16] = 1;
    let refused = [
        (flipped.into(), ResponseError::CorruptMessage),
        (two.into(), ResponseError::InvalidRecord),
        (cut, ResponseError::InvalidRecord),
        (old.into(), ResponseError::InvalidRecord),
        (bytes::Bytes::new(), ResponseError::InvalidRecord),
        (batch_at(NOW + 3_600_001, &[("a", "1")]), ResponseError::InvalidTimestamp),
    ];
    for (records, error) in refused {
        assert_eq!(raw.produce("t", 0, records).0, code(error), "{error:?}");
    }
    let keyless = raw.produce_full("compacted", 0, batch_at(NOW, &[("null", "1")]));
    assert_eq!(keyless.error_code, code(ResponseError::InvalidRecord));
    assert!(keyless.error_message.unwrap().contains("without key"));
    let large = batch_at(NOW, &[("a", "a value that makes the batch too large")]);
    assert_eq!(raw.produce("small", 0, large).0, code(ResponseError::MessageTooLarge));
    assert_eq!(raw.values("t", 0, 0), (0, vec![]));
}

#[test]
fn acks_of_zero_get_no_answer_and_acks_of_two_an_error() {
    let (broker, _, mut raw) = start();
    raw.send(9, &produce_request("t", 0, batch_at(NOW, &[("a", "1")]), 0));
    assert!(raw.receive::<ProduceRequest>(9).is_none());
    assert_eq!(broker.offsets("t", 0), Some((0, 1)));
    let response = raw.call(9, &produce_request("t", 0, batch_at(NOW, &[("a", "1")]), 2));
    let error = response.responses[0].partition_responses[0].error_code;
    assert_eq!(error, code(ResponseError::InvalidRequiredAcks));
}

#[test]
fn a_long_poll_ends_with_records_or_with_time() {
    let (broker, clock, mut raw) = start();
    let mut producer = Raw::memory(&broker);
    raw.send(12, &fetch_request("t", 0, 0, 500));
    assert!(raw.receive::<FetchRequest>(12).is_none(), "it waits");
    producer.produce("t", 1, batch_at(NOW, &[("a", "other partition")]));
    assert!(raw.receive::<FetchRequest>(12).is_none());
    producer.produce("t", 0, batch_at(NOW, &[("a", "1")]));
    let response = raw.receive::<FetchRequest>(12).expect("woken by the record");
    assert_eq!(values_in(&records(&response), 0), ["1"]);

    raw.send(12, &fetch_request("t", 0, 1, 500));
    assert_eq!(broker.tick(), Some(NOW + 500));
    clock.advance(499);
    broker.tick();
    assert!(raw.receive::<FetchRequest>(12).is_none());
    clock.advance(1);
    broker.tick();
    let response = raw.receive::<FetchRequest>(12).expect("its time is over");
    assert!(records(&response).is_empty());
}

fn records(response: &FetchResponse) -> bytes::Bytes {
    response.responses[0].partitions[0].records.clone().unwrap()
}

#[test]
fn requests_behind_a_long_poll_wait_for_it() {
    let (broker, clock, mut raw) = start();
    raw.send(12, &fetch_request("t", 0, 0, 100));
    raw.send(9, &produce_request("t", 0, batch_at(NOW, &[("a", "1")]), -1));
    assert_eq!(broker.offsets("t", 0), Some((0, 0)), "handled in order");
    clock.advance(100);
    broker.tick();
    assert!(raw.receive::<FetchRequest>(12).is_some());
    let produced = raw.receive::<ProduceRequest>(9).expect("then the next one");
    assert_eq!(produced.responses[0].partition_responses[0].base_offset, 0);
}

#[test]
fn a_fetch_is_bounded_but_gives_one_batch() {
    let (_broker, _, mut raw) = start();
    let batch = batch_at(NOW, &[("a", "0123456789")]);
    for _ in 0..3 {
        raw.produce("t", 0, batch.clone());
        raw.produce("t", 1, batch.clone());
    }
    let size = batch.len();
    for (bytes, batches) in [(1, 1), (size, 1), (2 * size, 2), (10 * size, 3)] {
        let mut request = fetch_request("t", 0, 0, 0);
        request.topics[0].partitions[0].partition_max_bytes = i32::try_from(bytes).unwrap();
        let response = raw.call(12, &request);
        assert_eq!(records(&response).len(), batches * size, "{bytes} bytes a partition");
    }
    let mut request = fetch_request("t", 0, 0, 0);
    let second = request.topics[0].partitions[0].clone().with_partition(1);
    request.topics[0].partitions.push(second);
    request.max_bytes = 1;
    let response = raw.call(12, &request);
    let sizes: Vec<usize> = response.responses[0]
        .partitions
        .iter()
        .map(|partition| partition.records.as_ref().unwrap().len())
        .collect();
    assert_eq!(sizes, [size, 0], "one batch in all");
}

#[test]
fn a_session_tells_news_only() {
    let (_broker, _, mut raw) = start();
    let all = |epoch: i32| {
        let partition = |index: i32, offset: i64| {
            FetchPartition::default()
                .with_partition(index)
                .with_fetch_offset(offset)
                .with_partition_max_bytes(1 << 20)
        };
        let topics = FetchTopic::default()
            .with_topic(topic("t"))
            .with_partitions(vec![partition(0, 0), partition(1, 0)]);
        fetch_request("t", 0, 0, 0).with_session_epoch(epoch).with_topics(vec![topics])
    };
    let response = raw.call(12, &all(0));
    let id = response.session_id;
    assert!(id > 0);
    assert_eq!(response.responses[0].partitions.len(), 2, "a new session tells all");
    let next = |epoch: i32| {
        fetch_request("t", 0, 0, 0)
            .with_session_id(id)
            .with_session_epoch(epoch)
            .with_topics(vec![])
    };
    assert!(raw.call(12, &next(1)).responses.is_empty(), "no news");
    raw.produce("t", 1, batch_at(NOW, &[("a", "1")]));
    let response = raw.call(12, &next(2));
    assert_eq!(response.responses[0].partitions.len(), 1);
    assert_eq!(response.responses[0].partitions[0].partition_index, 1);
    let forgotten = ForgottenTopic::default().with_topic(topic("t")).with_partitions(vec![1]);
    let response = raw.call(12, &next(3).with_forgotten_topics_data(vec![forgotten]));
    assert!(response.responses.is_empty(), "forgotten");
    let response = raw.call(12, &next(7));
    assert_eq!(response.error_code, code(ResponseError::InvalidFetchSessionEpoch));
    let response = raw.call(12, &next(1).with_session_id(999));
    assert_eq!(response.error_code, code(ResponseError::FetchSessionIdNotFound));
}

#[test]
fn topics_are_fetched_and_produced_to_by_id() {
    let (_broker, _, mut raw) = start();
    let id = raw.call(12, &MetadataRequest::default().with_topics(None)).topics[0].topic_id;
    let mut request = produce_request("", 0, batch_at(NOW, &[("a", "1")]), -1);
    request.topic_data[0].topic_id = id;
    let response = raw.call(13, &request);
    assert_eq!(response.responses[0].partition_responses[0].error_code, 0);
    let mut request = fetch_request("", 0, 0, 0);
    request.topics[0].topic_id = id;
    let response = raw.call(17, &request);
    assert_eq!(values_in(&records(&response), 0), ["1"]);
    request.topics[0].topic_id = kstreams_protocol::Uuid::from_u128(9);
    let response = raw.call(17, &request);
    let error = response.responses[0].partitions[0].error_code;
    assert_eq!(error, code(ResponseError::UnknownTopicId));
}

#[test]
fn offsets_are_listed_by_time() {
    let (_broker, _, mut raw) = start();
    raw.produce("t", 0, batch_at(NOW, &[("a", "1"), ("a", "2")]));
    raw.produce("t", 0, batch_at(NOW + 20, &[("a", "3")]));
    raw.produce("t", 0, batch_at(NOW + 10, &[("a", "4")]));
    let mut list = |version: i16, timestamp: i64| {
        let partition =
            ListOffsetsPartition::default().with_timestamp(timestamp).with_current_leader_epoch(-1);
        let topics =
            ListOffsetsTopic::default().with_name(topic("t")).with_partitions(vec![partition]);
        let request = ListOffsetsRequest::default().with_topics(vec![topics]);
        let partition = raw.call(version, &request).topics[0].partitions[0].clone();
        (partition.error_code, partition.offset, partition.timestamp)
    };
    assert_eq!(list(7, -2), (0, 0, -1), "earliest");
    assert_eq!(list(7, -1), (0, 4, -1), "latest");
    assert_eq!(list(2, -1), (0, 4, -1), "latest, as old clients ask");
    assert_eq!(list(7, NOW), (0, 0, NOW));
    assert_eq!(list(7, NOW + 1), (0, 2, NOW + 20));
    assert_eq!(list(7, NOW + 21), (0, -1, -1), "none so late");
    assert_eq!(list(7, -3), (0, 2, NOW + 20), "the largest timestamp");
    assert_eq!(list(8, -4), (0, 0, -1), "earliest local");
    assert_eq!(list(9, -5), (0, -1, -1), "nothing is tiered");
}

#[test]
fn log_append_time_is_the_brokers() {
    let (broker, clock, mut raw) = start();
    let config = [("message.timestamp.type", "LogAppendTime")];
    broker.create_topic_with("appended", 1, &config).unwrap();
    clock.advance(5);
    let response = raw.produce_full("appended", 0, batch_at(7, &[("a", "1")]));
    assert_eq!((response.error_code, response.log_append_time_ms), (0, NOW + 5));
    let records = broker.records("appended").unwrap();
    assert_eq!(records[0].timestamp, NOW + 5);
    assert_eq!(records[0].key.as_deref(), Some(&b"a"[..]));
}

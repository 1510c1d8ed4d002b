//! The walk agrees with the decoder: what is whole passes, what is cut or claims too much does not.

use super::*;
use crate::streams_group::{
    StreamsGroupDescribeRequest, StreamsGroupHeartbeatRequest,
    StreamsGroupTopologyDescriptionUpdateRequest,
};
use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::messages::metadata_response::{
    MetadataResponsePartition, MetadataResponseTopic,
};
use kafka_protocol::messages::{
    ApiVersionsRequest, BrokerId, CreateTopicsRequest, DeleteGroupsRequest, DeleteRecordsRequest,
    DeleteTopicsRequest, DescribeConfigsRequest, FetchRequest, FetchResponse,
    FindCoordinatorRequest, IncrementalAlterConfigsRequest, InitProducerIdRequest,
    JoinGroupRequest, ListOffsetsRequest, MetadataRequest, MetadataResponse, OffsetCommitRequest,
    OffsetFetchRequest, ProduceRequest, SyncGroupRequest, TopicName,
};
use kafka_protocol::protocol::{Decodable, Encodable, Message as _, Request, StrBytes};

#[test]
fn every_line_is_understood() {
    assert_eq!(table::strange_lines(), [""; 0]);
    assert!(table::message(1, true).is_some() && table::message(93, false).is_some());
}

/// Bodies of zeros and small numbers are valid messages of few values, or end in an error of the
/// decoder: what it takes, the walk has to take.
fn agrees<T: Request>() {
    let mut random = 99u64;
    for version in T::VERSIONS.min..=T::VERSIONS.max {
        for _ in 0..200 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let mut bytes = vec![0u8; 400];
            for step in 0..(random >> 60) {
                bytes[(random >> (step * 3)) as usize % 60] = (random >> step) as u8 & 3;
            }
            let mut body = Bytes::from(bytes.clone());
            if T::decode(&mut body, version).is_ok() {
                let used = &bytes[..400 - body.len()];
                assert_eq!(check_request(T::KEY, version, used), Ok(()), "{} {version}", T::KEY);
            }
            let mut body = Bytes::from(bytes.clone());
            if T::Response::decode(&mut body, version).is_ok() {
                let used = &bytes[..400 - body.len()];
                assert_eq!(check_response(T::KEY, version, used), Ok(()), "{} {version}", T::KEY);
            }
        }
    }
}

#[test]
fn what_the_decoder_takes_passes() {
    agrees::<ApiVersionsRequest>();
    agrees::<CreateTopicsRequest>();
    agrees::<DeleteGroupsRequest>();
    agrees::<DeleteRecordsRequest>();
    agrees::<DeleteTopicsRequest>();
    agrees::<DescribeConfigsRequest>();
    agrees::<FetchRequest>();
    agrees::<FindCoordinatorRequest>();
    agrees::<IncrementalAlterConfigsRequest>();
    agrees::<InitProducerIdRequest>();
    agrees::<JoinGroupRequest>();
    agrees::<ListOffsetsRequest>();
    agrees::<MetadataRequest>();
    agrees::<OffsetCommitRequest>();
    agrees::<OffsetFetchRequest>();
    agrees::<ProduceRequest>();
    agrees::<SyncGroupRequest>();
    agrees::<StreamsGroupDescribeRequest>();
    agrees::<StreamsGroupHeartbeatRequest>();
    agrees::<StreamsGroupTopologyDescriptionUpdateRequest>();
}

fn metadata() -> MetadataResponse {
    let partition = MetadataResponsePartition::default()
        .with_replica_nodes(vec![BrokerId(1), BrokerId(2)])
        .with_leader_id(BrokerId(1));
    let topic = MetadataResponseTopic::default()
        .with_name(Some(TopicName(StrBytes::from_static_str("topic"))))
        .with_partitions(vec![partition.clone(), partition]);
    MetadataResponse::default().with_topics(vec![topic.clone(), topic])
}

#[test]
fn what_is_cut_does_not_pass() {
    for version in MetadataResponse::VERSIONS.min..=MetadataResponse::VERSIONS.max {
        let mut bytes = BytesMut::new();
        metadata().encode(&mut bytes, version).unwrap();
        assert_eq!(check_response(3, version, &bytes), Ok(()), "{version}");
        for cut in 0..bytes.len() {
            assert!(check_response(3, version, &bytes[..cut]).is_err(), "{version} {cut}");
        }
    }
}

#[test]
fn what_passes_after_damage_never_makes_the_decoder_reserve_much() {
    // If the walk let a wrong count through, the decoder would end this process here.
    let mut whole = BytesMut::new();
    metadata().encode(&mut whole, 12).unwrap();
    for at in 0..whole.len() {
        for byte in [0x7f, 0x80, 0xff, whole[at] ^ 1, whole[at].wrapping_add(1)] {
            let mut bytes = whole.to_vec();
            bytes[at] = byte;
            if at + 4 < bytes.len() && byte == 0xff {
                bytes[at..at + 5].copy_from_slice(&[0xff, 0xff, 0xff, 0xff, 0x0f]);
            }
            if check_response(3, 12, &bytes).is_ok() {
                let _ = MetadataResponse::decode(&mut Bytes::from(bytes), 12);
            }
        }
    }
}

#[test]
fn counts_inside_tagged_fields_are_walked_too() {
    // Fetch 16: node endpoints are a tagged array.
    let mut bytes = BytesMut::new();
    FetchResponse::default().encode(&mut bytes, 16).unwrap();
    bytes.truncate(bytes.len() - 1);
    bytes.put_slice(&[1, 0, 5, 0xff, 0xff, 0xff, 0xff, 0x0f]);
    assert!(check_response(1, 16, &bytes).is_err());
}

#[test]
fn unknown_keys_pass() {
    assert_eq!(check_request(9_999, 0, &[]), Ok(()));
}

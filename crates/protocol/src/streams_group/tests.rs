//! The messages against Java's bytes, and against damage.

use super::*;
use bytes::{Bytes, BytesMut};
use kafka_protocol::protocol::{Decodable, Encodable};
use std::fmt::Debug;

/// Decodes Java's bytes, encodes them again, and feeds every cut and many damaged forms to the
/// decoder.
fn check<T: Encodable + Decodable + Debug>(name: &str, version: i16) -> T {
    let path = format!("{}/testdata/{name}-v{version}.message", env!("CARGO_MANIFEST_DIR"));
    let golden = Bytes::from(std::fs::read(path).unwrap());
    let mut rest = golden.clone();
    let message = T::decode(&mut rest, version).unwrap();
    assert!(rest.is_empty(), "{name}: {} bytes left", rest.len());
    let mut again = BytesMut::new();
    message.encode(&mut again, version).unwrap();
    assert_eq!(again, golden, "{name}");
    assert_eq!(message.compute_size(version).unwrap(), golden.len());
    for cut in 0..golden.len() {
        assert!(T::decode(&mut golden.slice(..cut), version).is_err(), "{name} cut at {cut}");
    }
    for at in 0..golden.len() {
        for bit in 0..8 {
            let mut damaged = golden.to_vec();
            damaged[at] ^= 1 << bit;
            let _ = T::decode(&mut Bytes::from(damaged), version);
        }
    }
    message
}

#[test]
fn heartbeats_are_javas() {
    let request: StreamsGroupHeartbeatRequest = check("heartbeat-request", 0);
    assert_eq!(request, check("heartbeat-request", 1));
    assert_eq!((&*request.group_id, request.member_epoch), ("group", 3));
    assert_eq!(request.user_endpoint.unwrap().port, 65535);
    assert_eq!(request.topology.unwrap().subtopologies[0].copartition_groups[0].source_topics, [0]);
    let empty: StreamsGroupHeartbeatRequest = check("heartbeat-request-empty", 1);
    assert_eq!(empty, StreamsGroupHeartbeatRequest::default());
    let response: StreamsGroupHeartbeatResponse = check("heartbeat-response", 0);
    assert_eq!(
        (response.acceptable_recovery_lag_legacy, response.acceptable_recovery_lag),
        (10, -1)
    );
    let response: StreamsGroupHeartbeatResponse = check("heartbeat-response", 1);
    assert_eq!((response.error_code, response.acceptable_recovery_lag), (110, 11));
    assert!(response.topology_description_required);
    assert_eq!(&*response.status.unwrap()[0].status_detail, "detail");
    assert_eq!(response.active_tasks.unwrap()[0].partitions, [5]);
    let empty: StreamsGroupHeartbeatResponse = check("heartbeat-response-empty", 1);
    assert_eq!(empty, StreamsGroupHeartbeatResponse::default());
}

#[test]
fn descriptions_are_javas() {
    let request: StreamsGroupDescribeRequest = check("describe-request", 0);
    assert_eq!(request.group_ids.len(), 2);
    let response: StreamsGroupDescribeResponse = check("describe-response", 0);
    assert!(response.groups[0].members[0].is_classic);
    let response: StreamsGroupDescribeResponse = check("describe-response", 1);
    assert_eq!(response.groups[0].assignor_name.as_deref(), Some("sticky"));
}

#[test]
fn topology_updates_are_javas() {
    let request: StreamsGroupTopologyDescriptionUpdateRequest = check("topology-request", 0);
    assert_eq!(request.topology_description.subtopologies[0].nodes.len(), 2);
    let response: StreamsGroupTopologyDescriptionUpdateResponse = check("topology-response", 0);
    assert_eq!(response.error_code, 135);
}

#[test]
fn an_array_that_claims_too_much_is_an_error() {
    // Group ids: 2^32 - 2 of them, in no bytes.
    let claim = [0xff, 0xff, 0xff, 0xff, 0x0f];
    assert!(StreamsGroupDescribeRequest::decode(&mut &claim[..], 0).is_err());
}

#[test]
fn versions_that_do_not_exist_are_refused() {
    assert!(StreamsGroupDescribeRequest::default().encode(&mut BytesMut::new(), 2).is_err());
    assert!(StreamsGroupDescribeRequest::decode(&mut &[0u8; 9][..], 2).is_err());
}

//! The messages of streams groups. The first byte chooses the message, the second its version.

use bytes::{Bytes, BytesMut};
use kstreams_protocol::protocol::{Decodable, Encodable};
use kstreams_protocol::shape::{Malformed, check_request, check_response};
use kstreams_protocol::streams_group::{
    STREAMS_GROUP_DESCRIBE, STREAMS_GROUP_HEARTBEAT, STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE,
    StreamsGroupDescribeRequest, StreamsGroupDescribeResponse, StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse, StreamsGroupTopologyDescriptionUpdateRequest,
    StreamsGroupTopologyDescriptionUpdateResponse,
};
use std::fmt::Debug;

/// Number of messages.
pub(crate) const KINDS: u8 = 6;

/// Decodes, and encodes what could be decoded.
pub(crate) fn run(data: &[u8]) {
    let [kind, version, body @ ..] = data else { return };
    let version = i16::from(version % 2);
    match kind % KINDS {
        0 => check::<StreamsGroupHeartbeatRequest>(version, body, |version, body| {
            check_request(STREAMS_GROUP_HEARTBEAT, version, body)
        }),
        1 => check::<StreamsGroupHeartbeatResponse>(version, body, |version, body| {
            check_response(STREAMS_GROUP_HEARTBEAT, version, body)
        }),
        2 => check::<StreamsGroupDescribeRequest>(version, body, |version, body| {
            check_request(STREAMS_GROUP_DESCRIBE, version, body)
        }),
        3 => check::<StreamsGroupDescribeResponse>(version, body, |version, body| {
            check_response(STREAMS_GROUP_DESCRIBE, version, body)
        }),
        4 => check::<StreamsGroupTopologyDescriptionUpdateRequest>(0, body, |version, body| {
            check_request(STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE, version, body)
        }),
        _ => check::<StreamsGroupTopologyDescriptionUpdateResponse>(0, body, |version, body| {
            check_response(STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE, version, body)
        }),
    }
}

fn check<M: Decodable + Encodable + PartialEq + Debug>(
    version: i16,
    body: &[u8],
    shape: impl Fn(i16, &[u8]) -> Result<(), Malformed>,
) {
    let mut rest = Bytes::copy_from_slice(body);
    let Ok(message) = M::decode(&mut rest, version) else { return };
    let used = &body[..body.len() - rest.len()];
    assert_eq!(shape(version, used), Ok(()), "what can be decoded has the shape");
    let mut encoded = BytesMut::new();
    message.encode(&mut encoded, version).expect("what was decoded can be encoded");
    assert_eq!(message.compute_size(version).expect("a size"), encoded.len());
    assert_eq!(M::decode(&mut encoded.freeze(), version).expect("decoded again"), message);
}

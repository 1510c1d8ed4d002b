//! All messages of the client and of the embedded broker, decoded as both do it: after a check of their shape. The first
//! byte chooses the message, the second its version, the third whether it is the request or the answer.

use bytes::Bytes;
use kstreams_protocol::messages::*;
use kstreams_protocol::protocol::{Decodable, Message, Request};
use kstreams_protocol::shape::{check_request, check_response};

macro_rules! kinds {
    ($($request:ident)*) => {
        /// Number of kinds of messages.
        pub(crate) const KINDS: u8 = [$(stringify!($request)),*].len() as u8;

        /// Decodes what has the right shape.
        pub(crate) fn run(data: &[u8]) {
            let [kind, version, direction, body @ ..] = data else { return };
            let decoders = [$(decode::<$request>),*];
            decoders[usize::from(kind % KINDS)](*version, direction % 2 == 0, body);
        }
    };
}

kinds! {
    ProduceRequest FetchRequest ListOffsetsRequest MetadataRequest OffsetCommitRequest OffsetFetchRequest
    FindCoordinatorRequest JoinGroupRequest HeartbeatRequest LeaveGroupRequest SyncGroupRequest
    DescribeGroupsRequest ListGroupsRequest ApiVersionsRequest CreateTopicsRequest DeleteTopicsRequest
    DeleteRecordsRequest InitProducerIdRequest OffsetForLeaderEpochRequest DescribeConfigsRequest
    AlterConfigsRequest DescribeLogDirsRequest CreatePartitionsRequest DeleteGroupsRequest
    IncrementalAlterConfigsRequest OffsetDeleteRequest DescribeClusterRequest DescribeProducersRequest
    DescribeTopicPartitionsRequest
}

fn decode<R: Request>(version: u8, request: bool, body: &[u8]) {
    let versions = R::VERSIONS;
    let version = versions.min + i16::from(version) % (versions.max - versions.min + 1);
    let mut bytes = Bytes::copy_from_slice(body);
    if request {
        if check_request(R::KEY, version, body).is_ok() {
            let _ = R::decode(&mut bytes, version);
        }
    } else if check_response(R::KEY, version, body).is_ok()
        && (R::Response::VERSIONS.min..=R::Response::VERSIONS.max).contains(&version)
    {
        let _ = R::Response::decode(&mut bytes, version);
    }
}

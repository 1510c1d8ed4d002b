//! The requests that are served, one file a kind: what each file's header says of versions and
//! deviations is all there is to know about a request.

#![expect(clippy::needless_pass_by_value, reason = "handlers have one shape: they own the request")]

use std::sync::Arc;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use kstreams_protocol::messages::{RequestHeader, ResponseHeader};
use kstreams_protocol::protocol::{Decodable, Encodable, HeaderVersion, StrBytes};
use kstreams_protocol::shape::check_request;
use kstreams_protocol::{ResponseError, messages, streams_group};

use crate::group::GroupKind;
use crate::group::classic::Waited;
use crate::group::streams::Around;
use crate::node::{ConnectionId, Node};

mod api_versions;
mod describe_cluster;
mod describe_topic_partitions;
mod metadata;

mod delete_records;
pub(crate) mod fetch;
mod init_producer_id;
mod list_offsets;
mod offset_for_leader_epoch;
mod produce;

mod alter_configs;
mod create_partitions;
mod create_topics;
mod delete_topics;
mod describe_configs;
mod describe_log_dirs;
mod describe_producers;

mod add_offsets_to_txn;
mod add_partitions_to_txn;
mod describe_transactions;
mod end_txn;
mod list_transactions;
mod txn_offset_commit;

mod delete_groups;
mod find_coordinator;
mod list_groups;
mod offset_commit;
mod offset_delete;
mod offset_fetch;

mod describe_groups;
mod heartbeat;
mod join_group;
mod leave_group;
mod sync_group;

mod incremental_alter_configs;
mod streams_group_describe;
mod streams_group_heartbeat;
mod streams_group_topology_description_update;

/// A request's head: who asks what, and how the answer finds back.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) connection: ConnectionId,
    pub(crate) api_key: i16,
    pub(crate) version: i16,
    pub(crate) correlation_id: i32,
    pub(crate) client_id: StrBytes,
    pub(crate) peer: Arc<str>,
}

/// What becomes of a request.
#[derive(Debug)]
pub(crate) enum Answer {
    /// This frame is the answer.
    Now(Bytes),
    /// The answer comes in another step.
    Later,
    /// The request has no answer.
    Nothing,
    /// The request cannot be served: the connection is closed.
    Close,
}

/// What a handler gives back when it does not always answer at once.
#[derive(Debug)]
pub(crate) enum Reply<R> {
    Now(R),
    Later,
    Nothing,
}

/// A request kind and the versions that are advertised for it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Served {
    pub(crate) key: i16,
    pub(crate) min: i16,
    pub(crate) max: i16,
}

impl Call {
    /// Reads the head of a request; `None` if it is cut off. The frame is left whole.
    pub(crate) fn read(
        connection: ConnectionId,
        peer: Arc<str>,
        frame: Bytes,
    ) -> Option<(Self, Bytes)> {
        let mut head = frame.clone();
        let api_key = head.try_get_i16().ok()?;
        let version = head.try_get_i16().ok()?;
        let correlation_id = head.try_get_i32().ok()?;
        let size = usize::try_from(head.try_get_i16().ok()?).unwrap_or(0);
        let client_id = (head.len() >= size).then(|| head.split_to(size))?;
        let client_id = StrBytes::from_utf8(client_id).ok()?;
        Some((Self { connection, api_key, version, correlation_id, client_id, peer }, frame))
    }

    /// The frame that answers this request.
    pub(crate) fn frame<R: Encodable + HeaderVersion>(&self, response: &R) -> Answer {
        self.encode(response, self.version)
    }

    fn encode<R: Encodable + HeaderVersion>(&self, response: &R, version: i16) -> Answer {
        let size = response.compute_size(version).unwrap_or(0);
        let mut frame = BytesMut::with_capacity(size + 16);
        frame.put_i32(0);
        let header = ResponseHeader::default().with_correlation_id(self.correlation_id);
        let encoded = header
            .encode(&mut frame, R::header_version(version))
            .and_then(|()| response.encode(&mut frame, version));
        let length = i32::try_from(frame.len() - 4);
        match (encoded, length) {
            (Ok(()), Ok(length)) => {
                frame[..4].copy_from_slice(&length.to_be_bytes());
                Answer::Now(frame.freeze())
            }
            (encoded, _) => {
                tracing::error!(
                    api_key = self.api_key,
                    version,
                    ?encoded,
                    "an answer does not fit"
                );
                Answer::Close
            }
        }
    }
}

trait IntoAnswer {
    fn into_answer(self, call: &Call) -> Answer;
}

impl<R: Encodable + HeaderVersion> IntoAnswer for R {
    fn into_answer(self, call: &Call) -> Answer {
        call.frame(&self)
    }
}

impl<R: Encodable + HeaderVersion> IntoAnswer for Reply<R> {
    fn into_answer(self, call: &Call) -> Answer {
        match self {
            Self::Now(response) => call.frame(&response),
            Self::Later => Answer::Later,
            Self::Nothing => Answer::Nothing,
        }
    }
}

fn decode<R: Decodable + HeaderVersion>(call: &Call, mut frame: Bytes) -> Option<R> {
    let (api_key, version) = (call.api_key, call.version);
    let malformed = |error: &dyn std::fmt::Display| {
        tracing::warn!(peer = %call.peer, api_key, version, %error, "malformed request");
    };
    // The walk over the bytes comes first: decoding believes what they say of their lengths.
    RequestHeader::decode(&mut frame, R::header_version(version))
        .map_err(|error| malformed(&error))
        .ok()?;
    check_request(api_key, version, &frame).map_err(|error| malformed(&error)).ok()?;
    R::decode(&mut frame, version).map_err(|error| malformed(&error)).ok()
}

macro_rules! apis {
    ($($key:literal $module:ident($request:ty) $min:literal..=$max:literal;)*) => {
        /// All that is served, by key.
        pub(crate) const SERVED: &[Served] =
            &[$(Served { key: $key, min: $min, max: $max }),*];

        fn handle(node: &mut Node, call: &Call, frame: Bytes) -> Answer {
            match call.api_key {
                $($key => match decode::<$request>(call, frame) {
                    Some(request) => $module::handle(node, call, request).into_answer(call),
                    None => Answer::Close,
                },)*
                _ => Answer::Close,
            }
        }
    };
}

apis! {
    0 produce(messages::ProduceRequest) 0..=13;
    1 fetch(messages::FetchRequest) 4..=18;
    2 list_offsets(messages::ListOffsetsRequest) 1..=10;
    3 metadata(messages::MetadataRequest) 0..=13;
    8 offset_commit(messages::OffsetCommitRequest) 2..=9;
    9 offset_fetch(messages::OffsetFetchRequest) 1..=9;
    10 find_coordinator(messages::FindCoordinatorRequest) 0..=6;
    11 join_group(messages::JoinGroupRequest) 0..=9;
    12 heartbeat(messages::HeartbeatRequest) 0..=4;
    13 leave_group(messages::LeaveGroupRequest) 0..=5;
    14 sync_group(messages::SyncGroupRequest) 0..=5;
    15 describe_groups(messages::DescribeGroupsRequest) 0..=6;
    16 list_groups(messages::ListGroupsRequest) 0..=5;
    18 api_versions(messages::ApiVersionsRequest) 0..=4;
    19 create_topics(messages::CreateTopicsRequest) 2..=7;
    20 delete_topics(messages::DeleteTopicsRequest) 1..=6;
    21 delete_records(messages::DeleteRecordsRequest) 0..=2;
    22 init_producer_id(messages::InitProducerIdRequest) 0..=5;
    23 offset_for_leader_epoch(messages::OffsetForLeaderEpochRequest) 2..=4;
    24 add_partitions_to_txn(messages::AddPartitionsToTxnRequest) 0..=3;
    25 add_offsets_to_txn(messages::AddOffsetsToTxnRequest) 0..=4;
    26 end_txn(messages::EndTxnRequest) 0..=5;
    28 txn_offset_commit(messages::TxnOffsetCommitRequest) 0..=5;
    32 describe_configs(messages::DescribeConfigsRequest) 1..=4;
    33 alter_configs(messages::AlterConfigsRequest) 0..=2;
    35 describe_log_dirs(messages::DescribeLogDirsRequest) 1..=4;
    37 create_partitions(messages::CreatePartitionsRequest) 0..=3;
    42 delete_groups(messages::DeleteGroupsRequest) 0..=2;
    44 incremental_alter_configs(messages::IncrementalAlterConfigsRequest) 0..=1;
    47 offset_delete(messages::OffsetDeleteRequest) 0..=0;
    60 describe_cluster(messages::DescribeClusterRequest) 0..=2;
    61 describe_producers(messages::DescribeProducersRequest) 0..=0;
    65 describe_transactions(messages::DescribeTransactionsRequest) 0..=0;
    66 list_transactions(messages::ListTransactionsRequest) 0..=1;
    75 describe_topic_partitions(messages::DescribeTopicPartitionsRequest) 0..=0;
    88 streams_group_heartbeat(streams_group::StreamsGroupHeartbeatRequest) 0..=1;
    89 streams_group_describe(streams_group::StreamsGroupDescribeRequest) 0..=1;
    93 streams_group_topology_description_update(
        streams_group::StreamsGroupTopologyDescriptionUpdateRequest
    ) 0..=0;
}

/// Handles a request.
pub(crate) fn dispatch(node: &mut Node, call: &Call, frame: Bytes) -> Answer {
    let served = SERVED.iter().find(|served| served.key == call.api_key);
    let known = served.is_some_and(|s| (s.min..=s.max).contains(&call.version));
    if known {
        return handle(node, call, frame);
    }
    if call.api_key == api_versions::KEY {
        // What a newer client needs to ask again in a version that it finds in this answer.
        return call.encode(&api_versions::unsupported(), 0);
    }
    tracing::warn!(peer = %call.peer, api_key = call.api_key, version = call.version, "not served");
    Answer::Close
}

/// Answers a request with an error without handling it.
pub(crate) fn refuse(node: &mut Node, call: &Call, frame: Bytes, error: ResponseError) -> Answer {
    macro_rules! refuse {
        ($($key:literal $module:ident::$refuse:ident[$($call:ident)?]($request:ty);)*) => {
            match call.api_key {
                $($key => match decode::<$request>(call, frame) {
                    Some(request) => $module::$refuse($($call,)? &request, error.code()).into_answer(call),
                    None => Answer::Close,
                },)*
                _ => dispatch(node, call, frame),
            }
        };
    }
    refuse! {
        0 produce::refuse[](messages::ProduceRequest);
        1 fetch::refuse[](messages::FetchRequest);
        2 list_offsets::refuse[](messages::ListOffsetsRequest);
        8 offset_commit::refuse[](messages::OffsetCommitRequest);
        9 offset_fetch::refused[call](messages::OffsetFetchRequest);
        10 find_coordinator::refused[call](messages::FindCoordinatorRequest);
        11 join_group::refused[call](messages::JoinGroupRequest);
        12 heartbeat::refuse[](messages::HeartbeatRequest);
        14 sync_group::refuse[](messages::SyncGroupRequest);
        22 init_producer_id::refuse[](messages::InitProducerIdRequest);
        24 add_partitions_to_txn::refuse[](messages::AddPartitionsToTxnRequest);
        25 add_offsets_to_txn::refuse[](messages::AddOffsetsToTxnRequest);
        26 end_txn::refuse[](messages::EndTxnRequest);
        28 txn_offset_commit::refuse[](messages::TxnOffsetCommitRequest);
        88 streams_group_heartbeat::refuse[](streams_group::StreamsGroupHeartbeatRequest);
    }
}

/// Lets all groups whose time has come do what is due.
pub(crate) fn group_timers(node: &mut Node) {
    let mut waited = Vec::new();
    let around = Around {
        topics: &node.topics,
        config: &node.config,
        topics_generation: node.groups.topics_generation,
        now: node.now,
    };
    let mut changed = Vec::new();
    for (name, group) in node.groups.iter_mut() {
        match &mut group.kind {
            GroupKind::Classic(group) => group.tick(&node.config, node.now, &mut waited),
            GroupKind::Streams(group) => {
                group.tick(name, around);
                changed.push(name.to_owned());
            }
        }
    }
    for name in changed {
        node.groups.record_streams(&name, &mut node.journal);
    }
    answer_waited(node, waited);
}

/// Answers joins and syncs of classic groups that came to their end.
fn answer_waited(node: &mut Node, waited: Vec<Waited>) {
    for waited in waited {
        match waited {
            Waited::Join(call, response) => {
                let answer = call.frame(&response);
                node.finish(&call, answer);
            }
            Waited::Sync(call, response) => {
                let answer = call.frame(&response);
                node.finish(&call, answer);
            }
        }
    }
}

/// The code of an error that an old version of a request may not know: there, a fenced producer has
/// a wrong epoch.
fn fenced_as(error: ResponseError, is_known: bool) -> i16 {
    match error {
        ResponseError::ProducerFenced if !is_known => ResponseError::InvalidProducerEpoch.code(),
        other => other.code(),
    }
}

pub(crate) fn str_bytes(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

//! The requests that are served, one file a kind: what each file's header says of versions and
//! deviations is all there is to know about a request.

#![expect(clippy::needless_pass_by_value, reason = "handlers have one shape: they own the request")]

use std::sync::Arc;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use kstreams_protocol::messages::{RequestHeader, ResponseHeader};
use kstreams_protocol::protocol::{Decodable, Encodable, HeaderVersion, StrBytes};
use kstreams_protocol::{ResponseError, messages};

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
mod incremental_alter_configs;

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
    let decoded = RequestHeader::decode(&mut frame, R::header_version(call.version))
        .and_then(|_| R::decode(&mut frame, call.version));
    match decoded {
        Ok(request) => Some(request),
        Err(error) => {
            let (api_key, version) = (call.api_key, call.version);
            tracing::warn!(peer = %call.peer, api_key, version, %error, "malformed request");
            None
        }
    }
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
    18 api_versions(messages::ApiVersionsRequest) 0..=4;
    19 create_topics(messages::CreateTopicsRequest) 2..=7;
    20 delete_topics(messages::DeleteTopicsRequest) 1..=6;
    21 delete_records(messages::DeleteRecordsRequest) 0..=2;
    22 init_producer_id(messages::InitProducerIdRequest) 0..=5;
    23 offset_for_leader_epoch(messages::OffsetForLeaderEpochRequest) 2..=4;
    32 describe_configs(messages::DescribeConfigsRequest) 1..=4;
    33 alter_configs(messages::AlterConfigsRequest) 0..=2;
    35 describe_log_dirs(messages::DescribeLogDirsRequest) 1..=4;
    37 create_partitions(messages::CreatePartitionsRequest) 0..=3;
    44 incremental_alter_configs(messages::IncrementalAlterConfigsRequest) 0..=1;
    60 describe_cluster(messages::DescribeClusterRequest) 0..=2;
    61 describe_producers(messages::DescribeProducersRequest) 0..=0;
    75 describe_topic_partitions(messages::DescribeTopicPartitionsRequest) 0..=0;
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
        ($($key:literal $module:ident($request:ty);)*) => {
            match call.api_key {
                $($key => match decode::<$request>(call, frame) {
                    Some(request) => $module::refuse(&request, error.code()).into_answer(call),
                    None => Answer::Close,
                },)*
                _ => dispatch(node, call, frame),
            }
        };
    }
    refuse! {
        0 produce(messages::ProduceRequest);
        1 fetch(messages::FetchRequest);
        2 list_offsets(messages::ListOffsetsRequest);
        22 init_producer_id(messages::InitProducerIdRequest);
    }
}

/// Lets all groups whose time has come do what is due.
pub(crate) fn group_timers(_node: &mut Node) {}

pub(crate) fn str_bytes(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

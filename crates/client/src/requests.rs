//! The requests that this client makes and their answers: one closed list, with the versions that
//! it can speak.

use crate::error::{ClientError, ErrorKind};
use bytes::{BufMut, Bytes, BytesMut};
use kstreams_protocol::messages::{
    AddOffsetsToTxnRequest, AddPartitionsToTxnRequest, ApiVersionsRequest, CreateTopicsRequest,
    DeleteGroupsRequest, DeleteRecordsRequest, DeleteTopicsRequest, DescribeConfigsRequest,
    EndTxnRequest, FetchRequest, FindCoordinatorRequest, IncrementalAlterConfigsRequest,
    InitProducerIdRequest, ListOffsetsRequest, MetadataRequest, OffsetCommitRequest,
    OffsetFetchRequest, ProduceRequest, RequestHeader, ResponseHeader, TxnOffsetCommitRequest,
};
use kstreams_protocol::protocol::{
    Decodable, Encodable, HeaderVersion, Message, Request as ProtocolRequest, StrBytes,
    VersionRange,
};
use kstreams_protocol::shape;
use kstreams_protocol::streams_group::{
    StreamsGroupDescribeRequest, StreamsGroupHeartbeatRequest,
    StreamsGroupTopologyDescriptionUpdateRequest,
};

macro_rules! requests {
    ($($name:ident: $request:ident, $min:literal..=$max:literal;)*) => {
        /// A request of this client.
        #[derive(Debug, Clone)]
        pub(crate) enum Request {
            $($name(Box<$request>),)*
        }

        /// The answer to a request.
        #[derive(Debug)]
        pub(crate) enum Response {
            $($name(Box<<$request as ProtocolRequest>::Response>),)*
        }

        /// The kind of a request.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) enum Api {
            $($name,)*
        }

        impl Request {
            pub(crate) fn api(&self) -> Api {
                match self {
                    $(Self::$name(_) => Api::$name,)*
                }
            }

            /// The bytes of the request with its length and header.
            fn encode_body(&self, version: i16, out: &mut BytesMut) -> Result<(), String> {
                match self {
                    $(Self::$name(request) => request.encode(out, version).map_err(|e| e.to_string()),)*
                }
            }
        }

        impl Api {
            pub(crate) fn key(self) -> i16 {
                match self {
                    $(Self::$name => <$request as ProtocolRequest>::KEY,)*
                }
            }

            /// The versions that this client can speak.
            pub(crate) fn versions(self) -> VersionRange {
                match self {
                    $(Self::$name => <$request as Message>::VERSIONS
                        .intersect(&VersionRange { min: $min, max: $max }),)*
                }
            }

            fn request_header_version(self, version: i16) -> i16 {
                match self {
                    $(Self::$name => $request::header_version(version),)*
                }
            }

            fn response_header_version(self, version: i16) -> i16 {
                match self {
                    $(Self::$name => <$request as ProtocolRequest>::Response::header_version(version),)*
                }
            }

            fn decode_body(self, version: i16, body: &mut Bytes) -> Result<Response, String> {
                match self {
                    $(Self::$name => <$request as ProtocolRequest>::Response::decode(body, version)
                        .map(|response| Response::$name(Box::new(response)))
                        .map_err(|e| e.to_string()),)*
                }
            }
        }

        $(impl From<$request> for Request {
            fn from(request: $request) -> Self {
                Self::$name(Box::new(request))
            }
        })*
    };
}

requests! {
    Versions: ApiVersionsRequest, 0..=4;
    Metadata: MetadataRequest, 9..=13;
    FindCoordinator: FindCoordinatorRequest, 4..=6;
    Fetch: FetchRequest, 12..=17;
    Produce: ProduceRequest, 8..=13;
    InitProducerId: InitProducerIdRequest, 4..=5;
    AddPartitionsToTxn: AddPartitionsToTxnRequest, 3..=3;
    AddOffsetsToTxn: AddOffsetsToTxnRequest, 3..=4;
    TxnOffsetCommit: TxnOffsetCommitRequest, 3..=5;
    EndTxn: EndTxnRequest, 3..=5;
    ListOffsets: ListOffsetsRequest, 6..=10;
    OffsetCommit: OffsetCommitRequest, 8..=9;
    OffsetFetch: OffsetFetchRequest, 8..=9;
    CreateTopics: CreateTopicsRequest, 5..=7;
    DeleteTopics: DeleteTopicsRequest, 6..=6;
    DescribeConfigs: DescribeConfigsRequest, 4..=4;
    AlterConfigs: IncrementalAlterConfigsRequest, 1..=1;
    DeleteRecords: DeleteRecordsRequest, 2..=2;
    DeleteGroups: DeleteGroupsRequest, 2..=2;
    StreamsGroupHeartbeat: StreamsGroupHeartbeatRequest, 0..=1;
    StreamsGroupDescribe: StreamsGroupDescribeRequest, 0..=1;
    TopologyDescription: StreamsGroupTopologyDescriptionUpdateRequest, 0..=0;
}

impl Request {
    /// The whole frame: length, header, body.
    pub(crate) fn encode(
        &self,
        version: i16,
        correlation_id: i32,
        client_id: &StrBytes,
    ) -> Result<Bytes, ClientError> {
        let api = self.api();
        let header = RequestHeader::default()
            .with_request_api_key(api.key())
            .with_request_api_version(version)
            .with_correlation_id(correlation_id)
            .with_client_id(Some(client_id.clone()));
        let mut out = BytesMut::with_capacity(self.size_hint());
        out.put_i32(0);
        header
            .encode(&mut out, api.request_header_version(version))
            .map_err(|e| e.to_string())
            .and_then(|()| self.encode_body(version, &mut out))
            .map_err(|why| {
                let message =
                    format!("{api:?} request of version {version} cannot be written: {why}");
                ClientError::new(ErrorKind::Invalid, message)
            })?;
        let length = i32::try_from(out.len() - 4)
            .map_err(|_| ClientError::new(ErrorKind::TooLarge, "a request is over 2 GiB"))?;
        out[..4].copy_from_slice(&length.to_be_bytes());
        Ok(out.freeze())
    }

    fn size_hint(&self) -> usize {
        match self {
            Self::Produce(request) => {
                let records = request.topic_data.iter().flat_map(|topic| &topic.partition_data);
                records.map(|part| 64 + part.records.as_ref().map_or(0, Bytes::len)).sum::<usize>()
                    + 512
            }
            _ => 512,
        }
    }
}

impl Api {
    /// Reads the answer, `frame` without its length; gives its correlation id too.
    pub(crate) fn decode(self, version: i16, mut frame: Bytes) -> Result<Response, ClientError> {
        let malformed = |why: String| {
            let message = format!("malformed {self:?} answer of version {version}: {why}");
            ClientError::new(ErrorKind::Corrupt, message)
        };
        ResponseHeader::decode(&mut frame, self.response_header_version(version))
            .map_err(|e| malformed(e.to_string()))?;
        // The decoder believes every count: none may claim more than is there.
        shape::check_response(self.key(), version, &frame).map_err(|e| malformed(e.to_string()))?;
        self.decode_body(version, &mut frame).map_err(malformed)
    }
}

impl Response {
    /// How long the broker wants to be left alone, ms.
    pub(crate) fn throttle_time_ms(&self) -> i32 {
        match self {
            Self::Versions(_) | Self::DescribeConfigs(_) | Self::TopologyDescription(_) => 0,
            Self::Metadata(response) => response.throttle_time_ms,
            Self::FindCoordinator(response) => response.throttle_time_ms,
            Self::Fetch(response) => response.throttle_time_ms,
            Self::Produce(response) => response.throttle_time_ms,
            Self::InitProducerId(response) => response.throttle_time_ms,
            Self::AddPartitionsToTxn(response) => response.throttle_time_ms,
            Self::AddOffsetsToTxn(response) => response.throttle_time_ms,
            Self::TxnOffsetCommit(response) => response.throttle_time_ms,
            Self::EndTxn(response) => response.throttle_time_ms,
            Self::ListOffsets(response) => response.throttle_time_ms,
            Self::OffsetCommit(response) => response.throttle_time_ms,
            Self::OffsetFetch(response) => response.throttle_time_ms,
            Self::CreateTopics(response) => response.throttle_time_ms,
            Self::DeleteTopics(response) => response.throttle_time_ms,
            Self::AlterConfigs(response) => response.throttle_time_ms,
            Self::DeleteRecords(response) => response.throttle_time_ms,
            Self::DeleteGroups(response) => response.throttle_time_ms,
            Self::StreamsGroupHeartbeat(response) => response.throttle_time_ms,
            Self::StreamsGroupDescribe(response) => response.throttle_time_ms,
        }
    }
}

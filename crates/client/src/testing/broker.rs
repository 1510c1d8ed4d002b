//! The broker: topic `t`, group anything; requests in, answers out. One node, or several that have
//! their logs in common ([`Cluster`]).

use super::cluster::{Cluster, coordinator};
use super::transactions::Transactions;
use bytes::{BufMut, Bytes, BytesMut};
use kstreams_protocol::batch::{Batch, batches, set_appended};
use kstreams_protocol::messages::api_versions_response::{ApiVersion, FinalizedFeatureKey};
use kstreams_protocol::messages::fetch_response::{FetchableTopicResponse, PartitionData};
use kstreams_protocol::messages::list_offsets_response::{
    ListOffsetsPartitionResponse, ListOffsetsTopicResponse,
};
use kstreams_protocol::messages::produce_response::{
    PartitionProduceResponse, TopicProduceResponse,
};
use kstreams_protocol::messages::{
    AddOffsetsToTxnRequest, AddPartitionsToTxnRequest, ApiVersionsRequest, ApiVersionsResponse,
    EndTxnRequest, FetchRequest, FetchResponse, FindCoordinatorRequest, InitProducerIdRequest,
    ListOffsetsRequest, ListOffsetsResponse, MetadataRequest, ProduceRequest, ProduceResponse,
    RequestHeader, ResponseHeader, TxnOffsetCommitRequest,
};
use kstreams_protocol::protocol::{
    Decodable, Encodable, HeaderVersion, Message, Request, StrBytes,
};
use kstreams_protocol::streams_group::describe::{DescribedGroup, DescribedMember};
use kstreams_protocol::streams_group::{
    Assignment, StreamsGroupDescribeRequest, StreamsGroupDescribeResponse,
    StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse, TaskIds,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// What goes wrong with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// An error that may pass, nothing done.
    Refused,
    /// The connection ends before the request is looked at.
    LostRequest,
    /// The connection ends before the answer is sent.
    LostAnswer,
    /// The answer is noise.
    Garbage,
}

/// What the broker remembers of a producer in a partition.
#[derive(Debug, Default)]
struct ProducerState {
    epoch: i16,
    /// A marker began the epoch: the first number is known.
    marked: bool,
    /// First sequence, last sequence and offset of the last five batches.
    last: VecDeque<(i32, i32, i64)>,
}

#[derive(Debug, Default)]
pub(crate) struct Log {
    pub(crate) batches: Vec<Bytes>,
    /// The producer of each batch that is in an open transaction, by the batch's place.
    open: BTreeMap<usize, i64>,
    /// Batches of aborted transactions.
    aborted: BTreeSet<usize>,
    end: i64,
    producers: BTreeMap<i64, ProducerState>,
}

impl Log {
    /// The values of all records.
    pub(crate) fn values(&self) -> Vec<String> {
        self.values_of(|_| true)
    }

    /// The values of all records that are not in a transaction which is open or aborted.
    pub(crate) fn committed(&self) -> Vec<String> {
        self.values_of(|at| !self.open.contains_key(&at) && !self.aborted.contains(&at))
    }

    /// Writes a marker.
    pub(super) fn mark(&mut self, producer: i64, epoch: i16, commit: bool) {
        let ended = self.open.extract_if(.., |_, owner| *owner == producer);
        let ended: Vec<usize> = ended.map(|(at, _)| at).collect();
        if !commit {
            self.aborted.extend(ended);
        }
        self.end += 1;
        let state = self.producers.entry(producer).or_default();
        if epoch > state.epoch {
            *state = ProducerState { epoch, marked: true, last: VecDeque::new() };
        }
    }

    fn values_of(&self, shown: impl Fn(usize) -> bool) -> Vec<String> {
        let mut values = Vec::new();
        for (_, batch) in self.batches.iter().enumerate().filter(|(at, _)| shown(*at)) {
            let batch = Batch::new(batch.clone()).unwrap();
            batch.verify_checksum().unwrap();
            let mut records = batch.into_records().unwrap();
            while let Some(record) = records.next_record().unwrap() {
                values.push(String::from_utf8(record.value.unwrap().to_vec()).unwrap());
            }
        }
        values
    }

    fn append(&mut self, batch: &Batch) -> (i16, i64) {
        let producer = self.producers.entry(batch.producer_id()).or_default();
        if batch.producer_epoch() < producer.epoch {
            return (47, -1);
        }
        if batch.producer_epoch() > producer.epoch {
            if batch.base_sequence() != 0 {
                return (45, -1);
            }
            producer.epoch = batch.producer_epoch();
            producer.marked = false;
            producer.last.clear();
        }
        let range = (batch.base_sequence(), batch.last_sequence());
        if let Some((_, _, offset)) = producer.last.iter().find(|(a, b, _)| (*a, *b) == range) {
            return (0, *offset);
        }
        // As Kafka does, one that is not known may begin with any number.
        let expected = producer.last.back().map(|(_, last, _)| last + 1);
        let expected = expected.or(producer.marked.then_some(0));
        if expected.is_some_and(|expected| batch.base_sequence() != expected) {
            return (45, -1);
        }
        let offset = self.end;
        producer.last.push_back((range.0, range.1, offset));
        if producer.last.len() > 5 {
            producer.last.pop_front();
        }
        let mut bytes = batch.bytes().to_vec();
        set_appended(&mut bytes, offset, 0, None).unwrap();
        if batch.is_transactional() {
            self.open.insert(self.batches.len(), batch.producer_id());
        }
        self.batches.push(bytes.into());
        self.end += i64::from(batch.count());
        (0, offset)
    }

    /// Loses the last batch and what was known of producers, as an unclean election does.
    pub(crate) fn lose_last(&mut self) {
        if let Some(batch) = self.batches.pop() {
            let batch = Batch::new(batch).unwrap();
            self.end = batch.base_offset();
            if let Some(producer) = self.producers.get_mut(&batch.producer_id()) {
                producer.last.pop_back();
            }
        }
    }
}

#[derive(Debug)]
pub(crate) struct Broker {
    /// A batch with more records is too large.
    pub(crate) records_max: u32,
    pub(crate) logs: BTreeMap<i32, Log>,
    pub(crate) producer_ids: i64,
    /// Who leads what.
    pub(crate) cluster: Cluster,
    /// Id of the coordinator of groups and transactions.
    pub(crate) coordinator: i32,
    /// Answers to heartbeats to come; without one, the last assignment stays.
    pub(crate) heartbeats: VecDeque<StreamsGroupHeartbeatResponse>,
    /// What descriptions of the group say of its last member.
    pub(crate) assigned: Vec<TaskIds>,
    /// Heartbeats that came.
    pub(crate) beats: Vec<StreamsGroupHeartbeatRequest>,
    /// How often batches were refused for their order.
    pub(crate) disorder: usize,
    pub(crate) transactions: Transactions,
    /// Batches to refuse as their transaction shall be aborted, counted down to zero.
    pub(crate) abortable: Option<u32>,
}

impl Default for Broker {
    fn default() -> Self {
        Self {
            records_max: u32::MAX,
            logs: BTreeMap::new(),
            producer_ids: 0,
            cluster: Cluster::default(),
            coordinator: 1,
            heartbeats: VecDeque::new(),
            assigned: Vec::new(),
            beats: Vec::new(),
            disorder: 0,
            transactions: Transactions::default(),
            abortable: None,
        }
    }
}

impl Broker {
    /// What a node answers, with its length, or none if the connection is to be cut.
    pub(crate) fn serve(&mut self, node: i32, frame: Bytes, fault: Fault) -> Option<Vec<u8>> {
        if fault == Fault::LostRequest {
            return None;
        }
        let key = i16::from_be_bytes([frame[0], frame[1]]);
        // Another one coordinates: these say so when they refuse.
        let elsewhere = self.cluster.nodes > 1 && node != self.coordinator;
        let fault = match key {
            24 | 25 | 26 | 28 if elsewhere && fault == Fault::None => Fault::Refused,
            _ => fault,
        };
        let answer = match key {
            0 => self.handle::<ProduceRequest>(frame, |broker, request, version| {
                broker.produce(node, &request, version, fault)
            }),
            1 => self.handle::<FetchRequest>(frame, |broker, request, _| broker.fetch(&request)),
            2 => {
                self.handle::<ListOffsetsRequest>(frame, |broker, request, _| broker.list(&request))
            }
            3 => self.handle::<MetadataRequest>(frame, |broker, request, _| {
                broker.cluster.metadata(node, &request)
            }),
            10 => self.handle::<FindCoordinatorRequest>(frame, |broker, request, _| {
                coordinator(&request, broker.coordinator)
            }),
            18 => self.handle::<ApiVersionsRequest>(frame, |broker, _, _| {
                versions(broker.transactions.level)
            }),
            22 => self.handle::<InitProducerIdRequest>(frame, |broker, request, _| {
                broker.init_producer(&request, fault)
            }),
            24 => self.handle::<AddPartitionsToTxnRequest>(frame, |broker, request, _| {
                broker.add_partitions(&request, fault)
            }),
            25 => self.handle::<AddOffsetsToTxnRequest>(frame, |broker, request, _| {
                broker.add_offsets(&request, fault)
            }),
            26 => self.handle::<EndTxnRequest>(frame, |broker, request, version| {
                broker.end_transaction(&request, version, fault)
            }),
            28 => self.handle::<TxnOffsetCommitRequest>(frame, |broker, request, version| {
                broker.commit_in_transaction(&request, version, fault)
            }),
            88 => self.handle::<StreamsGroupHeartbeatRequest>(frame, |broker, request, _| {
                broker.heartbeat(request)
            }),
            89 => self.handle::<StreamsGroupDescribeRequest>(frame, |broker, request, _| {
                let assignment =
                    Assignment { active_tasks: broker.assigned.clone(), ..Default::default() };
                let members = broker.beats.last().map(|beat| DescribedMember {
                    member_id: beat.member_id.clone(),
                    member_epoch: beat.member_epoch,
                    assignment,
                    ..Default::default()
                });
                let group_id = request.group_ids[0].clone();
                let members = members.into_iter().collect();
                let group = DescribedGroup { group_id, members, ..Default::default() };
                StreamsGroupDescribeResponse { groups: vec![group], ..Default::default() }
            }),
            other => panic!("request {other} is not expected"),
        };
        match fault {
            Fault::LostAnswer => None,
            Fault::Garbage => Some([&10u32.to_be_bytes()[..], &[0xff; 10]].concat()),
            _ => Some(answer),
        }
    }

    fn handle<R: Request>(
        &mut self,
        mut frame: Bytes,
        serve: impl FnOnce(&mut Self, R, i16) -> R::Response,
    ) -> Vec<u8> {
        let version = i16::from_be_bytes([frame[2], frame[3]]);
        let header = RequestHeader::decode(&mut frame, R::header_version(version)).unwrap();
        let request = R::decode(&mut frame, version).unwrap();
        let response = serve(self, request, version);
        let mut out = BytesMut::new();
        out.put_i32(0);
        ResponseHeader::default()
            .with_correlation_id(header.correlation_id)
            .encode(&mut out, R::Response::header_version(version))
            .unwrap();
        response.encode(&mut out, version).unwrap();
        let length = (out.len() - 4) as u32;
        out[..4].copy_from_slice(&length.to_be_bytes());
        out.to_vec()
    }

    fn produce(
        &mut self,
        node: i32,
        request: &ProduceRequest,
        version: i16,
        fault: Fault,
    ) -> ProduceResponse {
        let topics = request.topic_data.iter().map(|topic| {
            let partitions = topic.partition_data.iter().map(|data| {
                let batch = batches(data.records.as_ref().unwrap()).next().unwrap().unwrap();
                let (code, offset) = match fault {
                    Fault::Refused => (6, -1),
                    _ if !self.cluster.leads(node, data.index) => {
                        self.cluster.refused += 1;
                        (6, -1)
                    }
                    _ if batch.count() > self.records_max => (10, -1),
                    _ => match self.refuses(request, version, data.index, &batch) {
                        0 => self.logs.entry(data.index).or_default().append(&batch),
                        code => (code, -1),
                    },
                };
                self.disorder += usize::from(code == 45);
                PartitionProduceResponse::default()
                    .with_index(data.index)
                    .with_error_code(code)
                    .with_base_offset(offset)
            });
            TopicProduceResponse::default()
                .with_name(topic.name.clone())
                .with_topic_id(topic.topic_id)
                .with_partition_responses(partitions.collect())
        });
        ProduceResponse::default().with_responses(topics.collect())
    }

    fn refuses(
        &mut self,
        request: &ProduceRequest,
        version: i16,
        partition: i32,
        batch: &Batch,
    ) -> i16 {
        let Some(id) = &request.transactional_id else { return 0 };
        self.abortable = match self.abortable {
            Some(0) => {
                self.abortable = None;
                return 120;
            }
            left => left.map(|left| left - 1),
        };
        self.check_batch(id.as_str(), partition, batch, version)
    }

    fn fetch(&mut self, request: &FetchRequest) -> FetchResponse {
        let topics = request.topics.iter().map(|topic| {
            let partitions = topic.partitions.iter().map(|asked| {
                let log = self.logs.entry(asked.partition).or_default();
                let from = asked.fetch_offset;
                let data = PartitionData::default()
                    .with_partition_index(asked.partition)
                    .with_high_watermark(log.end)
                    .with_last_stable_offset(log.end)
                    .with_log_start_offset(0);
                if from > log.end {
                    return data.with_error_code(1);
                }
                let behind = log
                    .batches
                    .iter()
                    .filter(|batch| Batch::new((*batch).clone()).unwrap().last_offset() >= from);
                let records: Vec<u8> = behind.flat_map(|batch| batch.to_vec()).collect();
                data.with_records(Some(records.into()))
            });
            FetchableTopicResponse::default()
                .with_topic_id(topic.topic_id)
                .with_partitions(partitions.collect())
        });
        FetchResponse::default().with_responses(topics.collect())
    }

    fn list(&mut self, request: &ListOffsetsRequest) -> ListOffsetsResponse {
        let topics = request.topics.iter().map(|topic| {
            let partitions = topic.partitions.iter().map(|asked| {
                let end = self.logs.get(&asked.partition_index).map_or(0, |log| log.end);
                ListOffsetsPartitionResponse::default()
                    .with_partition_index(asked.partition_index)
                    .with_offset(if asked.timestamp == -1 { end } else { 0 })
            });
            ListOffsetsTopicResponse::default()
                .with_name(topic.name.clone())
                .with_partitions(partitions.collect())
        });
        ListOffsetsResponse::default().with_topics(topics.collect())
    }

    fn heartbeat(
        &mut self,
        request: StreamsGroupHeartbeatRequest,
    ) -> StreamsGroupHeartbeatResponse {
        let plain = StreamsGroupHeartbeatResponse {
            member_epoch: if request.member_epoch == 0 { 1 } else { request.member_epoch },
            heartbeat_interval_ms: 100,
            ..Default::default()
        };
        let leaves = request.member_epoch < 0;
        self.beats.push(request);
        if leaves { plain } else { self.heartbeats.pop_front().unwrap_or(plain) }
    }
}

fn versions(transaction_version: i16) -> ApiVersionsResponse {
    fn api<R: Request>() -> ApiVersion {
        ApiVersion::default()
            .with_api_key(R::KEY)
            .with_min_version(<R as Message>::VERSIONS.min)
            .with_max_version(<R as Message>::VERSIONS.max)
    }
    let feature = FinalizedFeatureKey::default()
        .with_name(StrBytes::from_static_str("transaction.version"))
        .with_max_version_level(transaction_version)
        .with_min_version_level(transaction_version);
    let response = ApiVersionsResponse::default()
        .with_finalized_features_epoch(1)
        .with_finalized_features(vec![feature]);
    response.with_api_keys(vec![
        api::<ProduceRequest>(),
        api::<FetchRequest>(),
        api::<ListOffsetsRequest>(),
        api::<MetadataRequest>(),
        api::<FindCoordinatorRequest>(),
        api::<ApiVersionsRequest>(),
        api::<InitProducerIdRequest>(),
        api::<AddPartitionsToTxnRequest>(),
        api::<AddOffsetsToTxnRequest>(),
        api::<EndTxnRequest>(),
        api::<TxnOffsetCommitRequest>(),
        api::<StreamsGroupHeartbeatRequest>(),
        api::<StreamsGroupDescribeRequest>(),
    ])
}

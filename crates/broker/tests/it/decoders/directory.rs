//! A broker's directory: the logs of its partitions, and the journal with its topics, committed offsets and groups. For
//! each damage a byte chooses the file, one says what happens, two say where, and one is what is written.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use bytes::{BufMut, BytesMut};
use kstreams_broker::{Broker, BrokerConfig, BrokerError};
use kstreams_protocol::batch::{BatchHead, BatchWriter, Compression};
use kstreams_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kstreams_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kstreams_protocol::messages::{
    GroupId, OffsetCommitRequest, ProduceRequest, RequestHeader, TopicName,
};
use kstreams_protocol::protocol::{Encodable, Request, StrBytes};

/// Damages the files of a broker that stopped, and starts one on them in the folder `scratch`. Gives the number of
/// records it still has, `None` if it did not start or has no topic.
pub(crate) fn run(data: &[u8], scratch: &Path) -> Option<usize> {
    static FILES: OnceLock<Vec<(PathBuf, Vec<u8>)>> = OnceLock::new();
    let mut files = FILES.get_or_init(|| files_of_a_broker(scratch)).clone();
    for damage in data.chunks_exact(5) {
        let index = usize::from(damage[0]) % files.len();
        let file = &mut files[index].1;
        let at = usize::from(u16::from_be_bytes([damage[2], damage[3]])) % file.len().max(1);
        match damage[1] % 4 {
            0 => file.truncate(at),
            1 => file.insert(at, damage[4]),
            2 => file.extend(vec![damage[4]; at]),
            _ if file.is_empty() => {}
            _ => file[at] ^= damage[4],
        }
    }
    let _ = fs::remove_dir_all(scratch);
    for (name, bytes) in files {
        let file = scratch.join(name);
        fs::create_dir_all(file.parent().expect("a folder")).expect("made");
        fs::write(file, bytes).expect("written");
    }
    let broker = start(scratch).ok()?;
    let records = broker.records("t").ok()?;
    let _ = broker.committed("group", "t", 0);
    // Whatever was lost, what is written now is there.
    send(&broker, 9, &produce());
    let after = broker.records("t").expect("still there").len();
    assert!(after == records.len() + 2 || after == records.len(), "{} then {after}", records.len());
    Some(records.len())
}

fn start(scratch: &Path) -> Result<Broker, BrokerError> {
    let mut config = BrokerConfig::quick();
    config.seed = Some(1);
    Broker::builder().without_tcp().config(config).directory(scratch).start()
}

/// The files of a broker with two records and a committed offset; names relative to its folder.
fn files_of_a_broker(scratch: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let _ = fs::remove_dir_all(scratch);
    let broker = start(scratch).expect("a broker");
    broker.create_topic("t", 1).expect("a topic");
    send(&broker, 9, &produce());
    let offset = OffsetCommitRequestPartition::default().with_committed_offset(1);
    let offsets =
        OffsetCommitRequestTopic::default().with_name(name()).with_partitions(vec![offset]);
    let group = GroupId(StrBytes::from_static_str("group"));
    let commit = OffsetCommitRequest::default()
        .with_group_id(group)
        .with_generation_id_or_member_epoch(-1)
        .with_topics(vec![offsets]);
    send(&broker, 8, &commit);
    assert_eq!(broker.committed("group", "t", 0), Some(1));
    broker.stop();
    let mut files = Vec::new();
    let mut folders = vec![scratch.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("a file").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let relative = path.strip_prefix(scratch).expect("inside").to_owned();
                files.push((relative, fs::read(&path).expect("read")));
            }
        }
    }
    files.sort();
    files
}

fn name() -> TopicName {
    TopicName(StrBytes::from_static_str("t"))
}

/// Two records for topic `t`.
fn produce() -> ProduceRequest {
    let mut writer = BatchWriter::new();
    writer.append(1, Some(b"key"), Some(b"value"), &[("header", Some(b"1"))]);
    writer.append(2, None, None, &[]);
    let head = BatchHead { compression: Compression::Lz4, ..BatchHead::default() };
    let data =
        PartitionProduceData::default().with_records(Some(writer.seal(&head).expect("sealed")));
    let data = TopicProduceData::default().with_name(name()).with_partition_data(vec![data]);
    ProduceRequest::default().with_acks(-1).with_timeout_ms(1000).with_topic_data(vec![data])
}

/// Sends a request; its answer is lost.
fn send<R: Request>(broker: &Broker, version: i16, request: &R) {
    let mut body = BytesMut::new();
    RequestHeader::default()
        .with_request_api_key(R::KEY)
        .with_request_api_version(version)
        .encode(&mut body, R::header_version(version))
        .and_then(|()| request.encode(&mut body, version))
        .expect("encoded");
    let mut frame = BytesMut::new();
    frame.put_u32(body.len() as u32);
    frame.put(body);
    broker.connect().write(&frame).expect("handled");
}

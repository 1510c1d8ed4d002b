//! What is done with bytes that may be anything: the functions are also the fuzz targets of the broker and of the client
//! (folder `fuzz`), and fail by a panic. Here they get the same damaged bytes at every run.

mod client_answers;
mod directory;
mod requests;

use bytes::BytesMut;
use kstreams_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kstreams_protocol::messages::{GroupId, MetadataRequest, OffsetCommitRequest};
use kstreams_protocol::protocol::Request;

use crate::noise::Noise;
use crate::raw::{batch_at, fetch_request, produce_request, text, topic};
use crate::streams_groups::counting;

/// An example with some damage. Small numbers make lengths and counts that fit more often than not.
fn damaged(noise: &mut Noise, examples: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = examples[noise.below(examples.len())].clone();
    for _ in 0..noise.below(4) {
        let (at, bound) = (noise.below(bytes.len()), if noise.below(3) > 0 { 4 } else { 256 });
        let byte = u8::try_from(noise.below(bound)).unwrap();
        match noise.below(4) {
            0 => bytes.insert(at, byte),
            1 => bytes[at] = byte,
            _ => bytes[at] ^= 1 << noise.below(8),
        }
    }
    bytes
}

fn noise_bytes(noise: &mut Noise, most: usize) -> Vec<u8> {
    (0..noise.below(most)).map(|_| u8::try_from(noise.below(256)).unwrap()).collect()
}

/// A request as `requests::run` takes it.
fn example<R: Request>(version: i16, request: &R) -> Vec<u8> {
    let mut body = BytesMut::new();
    if R::header_version(version) == 2 {
        body.extend_from_slice(&[0]);
    }
    request.encode(&mut body, version).unwrap();
    let key = requests::SERVED.iter().position(|served| served.0 == R::KEY).unwrap();
    let size = u16::try_from(body.len()).unwrap().to_be_bytes();
    let version = u8::try_from(version).unwrap();
    [&[u8::try_from(key).unwrap(), version, size[0], size[1]], &body[..]].concat()
}

#[test]
fn damaged_requests() {
    let offset = OffsetCommitRequestPartition::default().with_committed_offset(1);
    let offsets =
        OffsetCommitRequestTopic::default().with_name(topic("t")).with_partitions(vec![offset]);
    let commit = OffsetCommitRequest::default()
        .with_group_id(GroupId(text("group")))
        .with_topics(vec![offsets]);
    let join = crate::streams_groups::join("group", "member", counting("group", "t"));
    let kinds = [
        example(9, &produce_request("t", 0, batch_at(0, &[("k", "1"), ("null", "2")]), -1)),
        example(12, &fetch_request("t", 0, 0, 0)),
        example(9, &commit),
        example(12, &MetadataRequest::default().with_topics(None)),
        example(1, &join),
    ];
    assert!(kinds.iter().all(|kind| requests::run(kind) == 1), "the examples are good requests");
    let mut examples = vec![kinds.concat()];
    examples.extend(kinds);
    let mut noise = Noise(3);
    for _ in 0..3_000 {
        requests::run(&damaged(&mut noise, &examples));
    }
}

#[test]
fn damaged_answers_to_a_client() {
    let undamaged = client_answers::run(&[]);
    assert!(undamaged.records >= 3 && undamaged.assigned && undamaged.errors == 0, "{undamaged:?}");
    let mut noise = Noise(4);
    let mut errors = 0;
    for _ in 0..100 {
        errors += client_answers::run(&noise_bytes(&mut noise, 200)).errors;
    }
    assert!(errors > 0, "no damage was noticed");
}

#[test]
fn damaged_files() {
    let scratch = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("damaged-files");
    assert_eq!(directory::run(&[], &scratch), Some(2), "undamaged");
    let mut noise = Noise(5);
    let mut lost = 0;
    for _ in 0..300 {
        lost += usize::from(directory::run(&noise_bytes(&mut noise, 24), &scratch) != Some(2));
    }
    assert!(lost > 0, "no damage was noticed");
}

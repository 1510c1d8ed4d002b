//! One connection: versions, answers in order, and noise.

use super::*;
use bytes::{BufMut, BytesMut};
use kstreams_protocol::messages::api_versions_response::ApiVersion;
use kstreams_protocol::messages::{MetadataRequest, MetadataResponse, ResponseHeader};
use kstreams_protocol::protocol::{Encodable, HeaderVersion};

const NOW: Now = Duration::from_secs(1);

fn connection() -> Connection {
    Connection::new(StrBytes::from_static_str("me"), NOW, Duration::from_secs(30))
}

/// The answer to the oldest request, without its length.
fn answer<T: Encodable + HeaderVersion>(correlation_id: i32, version: i16, body: &T) -> Bytes {
    let mut out = BytesMut::new();
    let header = ResponseHeader::default().with_correlation_id(correlation_id);
    header.encode(&mut out, T::header_version(version)).unwrap();
    body.encode(&mut out, version).unwrap();
    out.freeze()
}

fn versions(code: i16, ranges: &[(i16, i16, i16)]) -> ApiVersionsResponse {
    let api = |(key, min, max): &(i16, i16, i16)| {
        ApiVersion::default().with_api_key(*key).with_min_version(*min).with_max_version(*max)
    };
    let keys = ranges.iter().map(api).collect();
    ApiVersionsResponse::default().with_error_code(code).with_api_keys(keys)
}

fn ready(ranges: &[(i16, i16, i16)]) -> Connection {
    let mut connection = connection();
    let received = connection.receive(answer(0, 4, &versions(0, ranges)), NOW).unwrap();
    assert!(matches!(received, Received::Ready) && connection.is_ready());
    connection
}

#[test]
fn versions_are_asked_for_first_and_meet_in_the_middle() {
    let connection = ready(&[(3, 0, 10), (0, 0, 2), (1, 20, 30)]);
    assert_eq!(connection.version(Api::Metadata), Ok(10));
    let old = connection.version(Api::Produce).unwrap_err();
    assert_eq!(old.kind(), ErrorKind::Unsupported);
    assert!(old.to_string().contains("speaks versions 0 to 2 of Produce"), "{old}");
    assert_eq!(connection.version(Api::Fetch).unwrap_err().kind(), ErrorKind::Unsupported);
    let unknown = connection.version(Api::StreamsGroupHeartbeat).unwrap_err();
    assert!(unknown.to_string().contains("key 88"), "{unknown}");
}

#[test]
fn an_old_broker_is_asked_again_in_its_version() {
    let mut connection = connection();
    let first = connection.take_out().unwrap();
    assert_eq!(first[4..8], [0, 18, 0, 4]);
    let refused = answer(0, 0, &versions(35, &[(18, 0, 2)]));
    assert!(matches!(connection.receive(refused, NOW).unwrap(), Received::Again));
    let second = connection.take_out().unwrap();
    assert_eq!(second[4..8], [0, 18, 0, 2]);
    let taken = answer(1, 2, &versions(0, &[(18, 0, 2), (3, 0, 12)]));
    assert!(matches!(connection.receive(taken, NOW).unwrap(), Received::Ready));
    assert_eq!(connection.version(Api::Metadata), Ok(12));
}

#[test]
fn answers_go_to_who_asked_in_order() {
    let mut connection = ready(&[(3, 0, 12)]);
    let request: Request = MetadataRequest::default().into();
    for part in [7, 8] {
        connection
            .send(&request, i16::MAX, Ticket::Call { call: 1, part }, NOW + Duration::from_secs(5))
            .unwrap();
    }
    assert_eq!((connection.in_flight(), connection.overdue(NOW)), (2, None));
    assert_eq!(connection.overdue(NOW + Duration::from_secs(5)), Some(Api::Metadata));
    let body = MetadataResponse::default();
    let received = connection.receive(answer(1, 12, &body), NOW).unwrap();
    assert!(matches!(
        received,
        Received::Answer(Ticket::Call { part: 7, .. }, Response::Metadata(_))
    ));
    // The wrong one is an error; both that were asked for are still unanswered.
    assert!(connection.receive(answer(9, 12, &body), NOW).is_err());
    let left: Vec<Ticket> = connection.unanswered().collect();
    assert_eq!(left, [Ticket::Call { call: 1, part: 8 }]);
}

#[test]
fn noise_and_cut_answers_are_errors() {
    let body = answer(1, 12, &MetadataResponse::default());
    for cut in 0..body.len() {
        let mut connection = ready(&[(3, 0, 12)]);
        let request: Request = MetadataRequest::default().into();
        connection.send(&request, i16::MAX, Ticket::Metadata, NOW).unwrap();
        let error = connection.receive(body.slice(..cut), NOW).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{cut}");
    }
    let whole = answer(0, 4, &versions(0, &[(3, 0, 12)]));
    for at in 0..whole.len() {
        for bit in 0..8 {
            let mut damaged = whole.to_vec();
            damaged[at] ^= 1 << bit;
            let _ = connection().receive(damaged.into(), NOW);
        }
    }
    let mut huge = BytesMut::new();
    huge.put_i32(1);
    huge.put_slice(&[0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x0f]);
    let mut connection = ready(&[(3, 0, 12)]);
    connection.send(&MetadataRequest::default().into(), i16::MAX, Ticket::Metadata, NOW).unwrap();
    assert_eq!(connection.receive(huge.freeze(), NOW).unwrap_err().kind(), ErrorKind::Corrupt);
    assert!(ready(&[]).receive(Bytes::from_static(&[0; 8]), NOW).is_err(), "nothing was asked");
}

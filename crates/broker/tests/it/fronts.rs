//! The two fronts: TCP and memory, good and bad bytes, faults on purpose.

use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kstreams_broker::{Broker, BrokerConfig, Fault, FaultAction, ManualClock};
use kstreams_protocol::ResponseError;
use kstreams_protocol::messages::{
    ApiVersionsRequest, FetchRequest, MetadataRequest, ProduceRequest,
};
use kstreams_protocol::protocol::Request;

use crate::noise::Noise;
use crate::raw::{Raw, Transport, batch_at, fetch_request, produce_request, text};

fn start() -> Broker {
    let broker = Broker::builder().in_memory().config(BrokerConfig::quick()).start().unwrap();
    broker.create_topic("t", 1).unwrap();
    broker
}

fn versions_request() -> ApiVersionsRequest {
    ApiVersionsRequest::default()
        .with_client_software_name(text("raw"))
        .with_client_software_version(text("1"))
}

#[test]
fn tcp_and_memory_reach_the_same_records() {
    let broker = start();
    let mut tcp = Raw::tcp(&broker.bootstrap());
    let mut memory = Raw::memory(&broker);
    assert_eq!(tcp.produce("t", 0, batch_at(0, &[("k", "1")])), (0, 0));
    assert_eq!(memory.produce("t", 0, batch_at(0, &[("k", "2")])), (0, 1));
    assert_eq!(tcp.values("t", 0, 0).1, ["1", "2"]);
    assert_eq!(memory.values("t", 0, 0).1, ["1", "2"]);
}

#[test]
fn a_long_poll_over_tcp_is_woken_by_memory_and_by_the_timer() {
    let broker = start();
    let mut tcp = Raw::tcp(&broker.bootstrap());
    let mut memory = Raw::memory(&broker);
    tcp.send(12, &fetch_request("t", 0, 0, 60_000));
    memory.produce("t", 0, batch_at(0, &[("k", "1")]));
    assert!(tcp.receive::<FetchRequest>(12).is_some());
    tcp.send(12, &fetch_request("t", 0, 1, 20));
    assert!(tcp.receive::<FetchRequest>(12).is_some(), "the timer answers");
}

#[test]
fn memory_wakes_its_reader() {
    let clock = Arc::new(ManualClock::new(0));
    let broker = Broker::builder().without_tcp().clock(clock).start().unwrap();
    broker.create_topic("t", 1).unwrap();
    let mut reader = Raw::memory(&broker);
    let woken = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&woken);
    let Transport::Memory(connection) = &mut reader.transport else { panic!("memory") };
    connection.on_ready(move || {
        count.fetch_add(1, Ordering::SeqCst);
    });
    reader.send(12, &fetch_request("t", 0, 0, 1000));
    assert_eq!(woken.load(Ordering::SeqCst), 0);
    Raw::memory(&broker).produce("t", 0, batch_at(0, &[("k", "1")]));
    assert_eq!(woken.load(Ordering::SeqCst), 1);
    broker.cut_connections();
    assert_eq!(woken.load(Ordering::SeqCst), 2);
    assert!(reader.receive::<FetchRequest>(12).is_some());
    assert!(reader.frame().is_err(), "closed");
}

#[test]
fn versions_are_negotiated() {
    let broker = start();
    let mut raw = Raw::memory(&broker);
    for version in 0..=4 {
        let response = raw.call(version, &versions_request());
        assert_eq!(response.error_code, 0);
        let produce = response.api_keys.iter().find(|key| key.api_key == 0).unwrap();
        assert_eq!((produce.min_version, produce.max_version), (0, 13));
        let feature =
            response.finalized_features.iter().find(|f| f.name.as_str() == "streams.version");
        assert_eq!(feature.is_some(), version >= 3);
    }
    // A version of the future: the answer is in version 0 and says what there is.
    let mut frame = vec![0, 0, 0, 14, 0, 18, 0, 99, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0];
    raw.write(&frame);
    let answer = raw.frame().unwrap().unwrap();
    assert_eq!(&answer[..6], &[0, 0, 0, 5, 0, 35], "correlation id and error");
    // Another request in a version that is not known: closed, as Kafka does.
    frame[5] = 3;
    raw.write(&frame);
    assert!(raw.frame().is_err());
}

#[test]
fn bad_bytes_close_the_connection_and_harm_nobody() {
    let broker = start();
    let mut good = Raw::tcp(&broker.bootstrap());
    let whole = {
        let mut raw = Raw::memory(&broker);
        raw.send(9, &produce_request("t", 0, batch_at(0, &[("k", "1")]), -1));
        let request = produce_request("t", 0, batch_at(0, &[("k", "1")]), -1);
        let mut bytes = bytes::BytesMut::new();
        kstreams_protocol::protocol::Encodable::encode(&request, &mut bytes, 9).unwrap();
        bytes
    };
    let head = [0, 0, 0, 9, 0, 0, 0, 1, 0, 1, b'c', 0];
    for cut in 0..whole.len() {
        let mut bad = TcpStream::connect(broker.bootstrap()).unwrap();
        let size = u32::try_from(head.len() + cut).unwrap();
        let frame = [&size.to_be_bytes()[..], &head[..], &whole[..cut]].concat();
        bad.write_all(&frame).unwrap();
        let mut raw = Raw::memory(&broker);
        raw.write(&frame);
        let _ = raw.frame();
    }
    for size in [-1_i32, i32::MAX] {
        let mut bad = TcpStream::connect(broker.bootstrap()).unwrap();
        bad.write_all(&size.to_be_bytes()).unwrap();
    }
    assert_eq!(good.call(12, &MetadataRequest::default().with_topics(None)).topics.len(), 1);
}

#[test]
fn a_stopped_broker_closes_its_connections() {
    let broker = start();
    let mut tcp = Raw::tcp(&broker.bootstrap());
    let mut waiting = Raw::tcp(&broker.bootstrap());
    waiting.send(12, &fetch_request("t", 0, 0, 60_000));
    tcp.produce("t", 0, batch_at(0, &[("k", "1")]));
    assert!(waiting.receive::<FetchRequest>(12).is_some());
    waiting.send(12, &fetch_request("t", 0, 1, 60_000));
    let mut memory = Raw::memory(&broker);
    broker.stop();
    assert!(tcp.frame().is_err());
    assert!(waiting.frame().is_err());
    assert!(memory.frame().is_err());
}

#[test]
fn faults_happen_when_they_are_asked_for() {
    let clock = Arc::new(ManualClock::new(0));
    let broker = Broker::builder().without_tcp().clock(clock.clone()).start().unwrap();
    broker.create_topic("t", 1).unwrap();
    let produce = || produce_request("t", 0, batch_at(0, &[("k", "1")]), -1);
    let key = ProduceRequest::KEY;

    let mut raw = Raw::memory(&broker);
    broker.inject(Fault::on(key, FaultAction::Error(ResponseError::NotLeaderOrFollower)));
    let error = raw.call(9, &produce()).responses[0].partition_responses[0].error_code;
    assert_eq!(error, ResponseError::NotLeaderOrFollower.code());
    assert_eq!(broker.offsets("t", 0), Some((0, 0)), "not handled");

    broker.inject(Fault::on(key, FaultAction::CutBefore));
    raw.send(9, &produce());
    assert!(raw.frame().is_err());
    assert_eq!(broker.offsets("t", 0), Some((0, 0)));

    let mut raw = Raw::memory(&broker);
    broker.inject(Fault::on(key, FaultAction::CutAfter));
    raw.send(9, &produce());
    assert!(raw.frame().is_err());
    assert_eq!(broker.offsets("t", 0), Some((0, 1)), "handled, and its answer lost");

    let mut raw = Raw::memory(&broker);
    broker.inject(Fault::on(key, FaultAction::Delay(50)));
    raw.send(9, &produce());
    assert_eq!(raw.frame(), Ok(None));
    clock.advance(50);
    broker.tick();
    assert!(raw.receive::<ProduceRequest>(9).is_some());

    broker.inject(Fault::on(key, FaultAction::Drop));
    raw.send(9, &produce());
    clock.advance(100_000);
    broker.tick();
    assert_eq!(raw.frame(), Ok(None));
}

#[test]
fn noise_of_every_kind_of_request_harms_nobody() {
    let clock = Arc::new(ManualClock::new(0));
    let broker = Broker::builder().without_tcp().clock(clock.clone()).start().unwrap();
    broker.create_topic("t", 1).unwrap();
    let keys = Raw::memory(&broker).call(0, &versions_request()).api_keys;
    let mut noise = Noise(7);
    for key in &keys {
        for version in key.min_version..=key.max_version {
            for _ in 0..40 {
                let mut frame = [0, 0, 0, 0].to_vec();
                frame.extend_from_slice(&key.api_key.to_be_bytes());
                frame.extend_from_slice(&version.to_be_bytes());
                frame.extend_from_slice(&[0, 0, 0, 1, 0, 1, b'c']);
                // Small numbers make lengths and counts that fit more often than not.
                let size = noise.below(80);
                for _ in 0..size {
                    let small = noise.below(3) > 0;
                    let bound = if small { 4 } else { 256 };
                    frame.push(u8::try_from(noise.below(bound)).unwrap());
                }
                let size = u32::try_from(frame.len() - 4).unwrap();
                frame[..4].copy_from_slice(&size.to_be_bytes());
                let mut raw = Raw::memory(&broker);
                raw.write(&frame);
                let _ = raw.frame();
                clock.advance(10);
                broker.tick();
            }
        }
    }
    let mut raw = Raw::memory(&broker);
    assert!(raw.produce("t", 0, batch_at(0, &[("k", "1")])).0 == 0);
}

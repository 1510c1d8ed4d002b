//! Just enough protocol: Fetch 4 with one request ahead, Produce 3 with five in flight, each on its own connection and thread.

use crate::batch::{i32_at, next_offset};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};

const IN_FLIGHT: usize = 5;

/// One fetch answer, kept as it came.
pub(crate) struct Answer(Vec<u8>);

impl Answer {
    /// Partition number and record bytes of each partition in the answer.
    pub(crate) fn partitions(&self) -> Vec<(i32, &[u8])> {
        let body = &self.0;
        let topic_len = i16::from_be_bytes(body[12..14].try_into().unwrap()) as usize;
        let mut at = 14 + topic_len;
        let count = i32_at(body, at);
        at += 4;
        (0..count)
            .map(|_| {
                let partition = i32_at(body, at);
                let error = i16::from_be_bytes(body[at + 4..at + 6].try_into().unwrap());
                assert_eq!(error, 0, "fetch");
                at += 4 + 2 + 8 + 8;
                let aborted = i32_at(body, at).max(0) as usize;
                at += 4 + aborted * 16;
                let length = i32_at(body, at).max(0) as usize;
                at += 4 + length;
                (partition, &body[at - length..at])
            })
            .collect()
    }
}

pub(crate) struct Fetcher(Receiver<Answer>);

impl Fetcher {
    pub(crate) fn start(bootstrap: &str, topic: &str, partitions: i32) -> Self {
        let (sender, receiver) = sync_channel(2);
        let mut stream = connect(bootstrap);
        let topic = topic.to_string();
        std::thread::spawn(move || {
            let mut offsets = vec![0i64; partitions as usize];
            loop {
                stream.write_all(&fetch_request(&topic, &offsets)).unwrap();
                let answer = Answer(read_frame(&mut stream));
                for (partition, bytes) in answer.partitions() {
                    if let Some(next) = next_offset(bytes) {
                        offsets[partition as usize] = next;
                    }
                }
                if sender.send(answer).is_err() {
                    return;
                }
            }
        });
        Fetcher(receiver)
    }
    pub(crate) fn next(&self) -> Answer {
        self.0.recv().unwrap()
    }
}

enum Job {
    Send { topic: String, partition: i32, records: Vec<u8> },
    Acknowledge,
}

pub(crate) struct Producer {
    jobs: SyncSender<Job>,
    acknowledged: Receiver<()>,
}

impl Producer {
    pub(crate) fn start(bootstrap: &str) -> Self {
        let (jobs, todo) = sync_channel(64);
        let (done, acknowledged) = channel();
        let mut stream = connect(bootstrap);
        std::thread::spawn(move || {
            let mut in_flight = 0;
            for job in todo {
                match job {
                    Job::Send { topic, partition, records } => {
                        stream
                            .write_all(&produce_request(&topic, partition, records.len()))
                            .unwrap();
                        stream.write_all(&records).unwrap();
                        in_flight += 1;
                        if in_flight >= IN_FLIGHT {
                            check_produced(&mut stream);
                            in_flight -= 1;
                        }
                    }
                    Job::Acknowledge => {
                        (0..in_flight).for_each(|_| check_produced(&mut stream));
                        in_flight = 0;
                        done.send(()).unwrap();
                    }
                }
            }
        });
        Producer { jobs, acknowledged }
    }
    pub(crate) fn send(&self, topic: &str, partition: i32, records: Vec<u8>) {
        self.jobs.send(Job::Send { topic: topic.to_string(), partition, records }).unwrap();
    }
    pub(crate) fn wait_acknowledged(&self) {
        self.jobs.send(Job::Acknowledge).unwrap();
        self.acknowledged.recv().unwrap();
    }
}

fn connect(bootstrap: &str) -> TcpStream {
    let stream = TcpStream::connect(bootstrap).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

fn read_frame(stream: &mut TcpStream) -> Vec<u8> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).unwrap();
    let mut frame = vec![0; i32::from_be_bytes(length) as usize];
    stream.read_exact(&mut frame).unwrap();
    frame
}

fn header(key: i16, version: i16) -> Vec<u8> {
    let mut request = vec![0; 4];
    request.extend(key.to_be_bytes());
    request.extend(version.to_be_bytes());
    request.extend(1i32.to_be_bytes());
    put_string(&mut request, "limit");
    request
}

fn put_string(request: &mut Vec<u8>, text: &str) {
    request.extend((text.len() as i16).to_be_bytes());
    request.extend(text.as_bytes());
}

/// Writes the frame length; `tail` bytes follow the request on the wire.
fn framed(mut request: Vec<u8>, tail: usize) -> Vec<u8> {
    let length = (request.len() - 4 + tail) as i32;
    request[..4].copy_from_slice(&length.to_be_bytes());
    request
}

fn fetch_request(topic: &str, offsets: &[i64]) -> Vec<u8> {
    let mut request = header(1, 4);
    for number in [-1i32, 500, 1, 8 << 20] {
        request.extend(number.to_be_bytes()); // replica, max wait ms, min bytes, max bytes
    }
    request.push(1); // read committed
    request.extend(1i32.to_be_bytes());
    put_string(&mut request, topic);
    request.extend((offsets.len() as i32).to_be_bytes());
    for (partition, offset) in offsets.iter().enumerate() {
        request.extend((partition as i32).to_be_bytes());
        request.extend(offset.to_be_bytes());
        request.extend((1i32 << 20).to_be_bytes());
    }
    framed(request, 0)
}

fn produce_request(topic: &str, partition: i32, records: usize) -> Vec<u8> {
    let mut request = header(0, 3);
    request.extend((-1i16).to_be_bytes()); // no transaction
    request.extend((-1i16).to_be_bytes()); // acks all
    request.extend(30_000i32.to_be_bytes());
    request.extend(1i32.to_be_bytes());
    put_string(&mut request, topic);
    request.extend(1i32.to_be_bytes());
    request.extend(partition.to_be_bytes());
    request.extend((records as i32).to_be_bytes());
    framed(request, records)
}

fn check_produced(stream: &mut TcpStream) {
    let answer = read_frame(stream);
    let topic_len = i16::from_be_bytes(answer[8..10].try_into().unwrap()) as usize;
    let error = i16::from_be_bytes(answer[18 + topic_len..20 + topic_len].try_into().unwrap());
    assert_eq!(error, 0, "produce");
}

//! Requests to the broker: for each a byte for its kind, one for its version, two for its length, and its bytes behind the
//! client's name.

use std::sync::Arc;

use kstreams_broker::{Broker, BrokerConfig, ManualClock, MemoryConnection};

/// Keys of what is served, with the highest version.
pub(crate) const SERVED: [(i16, u8); 38] = [
    (0, 13),
    (1, 18),
    (2, 10),
    (3, 13),
    (8, 9),
    (9, 9),
    (10, 6),
    (11, 9),
    (12, 4),
    (13, 5),
    (14, 5),
    (15, 6),
    (16, 5),
    (18, 4),
    (19, 7),
    (20, 6),
    (21, 2),
    (22, 5),
    (23, 4),
    (24, 3),
    (25, 4),
    (26, 5),
    (28, 5),
    (32, 4),
    (33, 2),
    (35, 4),
    (37, 3),
    (42, 2),
    (44, 1),
    (47, 0),
    (60, 2),
    (61, 0),
    (65, 0),
    (66, 1),
    (75, 0),
    (88, 1),
    (89, 1),
    (93, 0),
];

/// Sends them to a broker, which must live on. Gives the number of answers.
pub(crate) fn run(data: &[u8]) -> usize {
    let clock = Arc::new(ManualClock::new(1_000_000));
    let mut config = BrokerConfig::quick();
    config.seed = Some(1);
    let broker = Broker::builder().without_tcp().config(config).clock(clock.clone()).start();
    let broker = broker.expect("a broker");
    broker.create_topic("t", 1).expect("a topic");
    let mut connection = broker.connect();
    let mut rest = data;
    let mut answers = 0;
    while let [kind, version, high, low, more @ ..] = rest {
        let size = usize::from(u16::from_be_bytes([*high, *low])).min(more.len());
        let (body, more) = more.split_at(size);
        rest = more;
        let (key, most) = SERVED[usize::from(*kind) % SERVED.len()];
        let _ = connection.write(&frame(key, version % (most + 2), body));
        clock.advance(10);
        broker.tick();
        match read(&mut connection) {
            Some(read) => answers += read,
            None => connection = broker.connect(),
        }
    }
    let mut other = broker.connect();
    other.write(&frame(18, 0, &[])).expect("the broker lives");
    assert_eq!(read(&mut other), Some(1), "the broker answers others");
    answers
}

fn frame(key: i16, version: u8, body: &[u8]) -> Vec<u8> {
    let size = (11 + body.len()) as u32;
    let head = [&key.to_be_bytes()[..], &[0, version, 0, 0, 0, 1, 0, 1, b'c']].concat();
    [&size.to_be_bytes()[..], &head, body].concat()
}

/// Number of answers, which must be whole; `None` if the broker closed the connection.
fn read(connection: &mut MemoryConnection) -> Option<usize> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    let open = loop {
        match connection.read(&mut buffer) {
            Ok(0) => break false,
            Ok(size) => bytes.extend_from_slice(&buffer[..size]),
            Err(_) => break true,
        }
    };
    let mut rest = &bytes[..];
    let mut count = 0;
    while let Some((size, more)) = rest.split_first_chunk::<4>() {
        rest = more.get(u32::from_be_bytes(*size) as usize..).expect("a whole answer");
        count += 1;
    }
    assert!(rest.is_empty(), "half an answer");
    open.then_some(count)
}

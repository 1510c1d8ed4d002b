//! A client whose broker is good and whose wire is not: the bytes say which answers are damaged on their way, and how.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Read, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kstreams_broker::{Broker, BrokerConfig, ManualClock, MemoryConnection};
use kstreams_client::driver::ByteStream;
use kstreams_client::driver::memory::{MemoryNetwork, Ready};
use kstreams_client::{
    Client, ClientConfig, CommittedOffset, Event, Fetched, GroupConfig, GroupTopology, Isolation,
    OffsetSpec, ProducerConfig, Reader, ResetPolicy, Start, Subtopology, Tasks, TopicPartition,
};

/// Steps of the client, each a few milliseconds of its time.
const STEPS: usize = 80;

/// What the client was told.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) records: usize,
    pub(crate) assigned: bool,
    pub(crate) errors: usize,
}

/// Lets a client do all that it can.
pub(crate) fn run(data: &[u8]) -> Seen {
    let clock = Arc::new(ManualClock::new(1_000_000));
    let mut config = BrokerConfig::quick();
    config.seed = Some(1);
    let broker = Broker::builder().without_tcp().config(config).clock(clock.clone()).start();
    let broker = broker.expect("a broker");
    broker.create_topic("t", 2).expect("a topic");

    let (connector, damage) = (broker.connector(), Damage::from(data));
    let connect = move |_: &str, _: u16, ready: Ready| {
        let mut connection = connector();
        connection.on_ready(move || ready());
        let wire =
            Wire { connection, frame: Vec::new(), out: VecDeque::new(), damage: damage.clone() };
        Ok(Box::new(wire) as Box<dyn ByteStream>)
    };
    let network = MemoryNetwork::new(Box::new(connect));
    let (mut client, mut driver) = Client::new(ClientConfig::new("broker:9092"), Box::new(network));

    let mut seen = Seen::default();
    begin(&mut client);
    let mut producer = client.producer(ProducerConfig::default());
    let mut now = Duration::from_secs(1);
    for step in 0..STEPS {
        driver.step(now);
        while let Some(event) = client.next_event() {
            seen.note(&mut client, event);
        }
        if step % 16 == 4 {
            let partition = producer.partition(&TopicPartition::new("t", (step as i32 / 16) % 2));
            let _ = producer.append(partition, 1, Some(b"key"), Some(b"value"), &[("h", None)]);
            drop(producer.flush());
            ask(&mut client);
        }
        now += Duration::from_millis(25);
        clock.advance(25);
        broker.tick();
    }
    seen
}

fn begin(client: &mut Client) {
    for partition in 0..2 {
        let partition = TopicPartition::new("t", partition);
        client.fetch(Reader::Source, partition, Start::Reset, ResetPolicy::Earliest);
    }
    let subtopology =
        Subtopology { id: "0".into(), source_topics: vec!["t".into()], ..Subtopology::default() };
    let topology = GroupTopology { epoch: 0, subtopologies: vec![subtopology] };
    client.join(GroupConfig::new("group", "process", topology));
}

/// One operation of each kind that does not wait for another.
fn ask(client: &mut Client) {
    let partition = TopicPartition::new("t", 0);
    let spec = OffsetSpec::Latest(Isolation::ReadCommitted);
    drop(client.list_offsets(BTreeMap::from([(partition.clone(), spec)])));
    drop(client.describe_topics(vec!["t".into()]));
    drop(client.describe_configs(vec!["t".into()]));
    drop(client.create_topics(vec![kstreams_client::NewTopic::new("new", 1)]));
    drop(client.delete_topics(vec!["new".into()]));
    drop(client.delete_records(BTreeMap::from([(partition.clone(), 0)])));
    drop(client.commit_offsets(BTreeMap::from([(partition.clone(), CommittedOffset::new(1))])));
    drop(client.committed(vec![partition]));
    drop(client.group_offsets("group", Vec::new()));
    drop(client.describe_groups(vec!["group".into()]));
    drop(client.delete_groups(vec!["other".into()]));
}

impl Seen {
    fn note(&mut self, client: &mut Client, event: Event) {
        match event {
            Event::Fetched(Fetched { batches, .. }) => {
                for mut batch in batches {
                    while let Ok(Some(record)) = batch.next_record() {
                        assert_eq!(record.headers.iter().count(), record.headers.len());
                        self.records += 1;
                    }
                }
            }
            Event::Assigned { epoch, tasks } => {
                self.assigned |= tasks.active.len() == 2;
                client.acknowledge(tasks, epoch);
            }
            Event::Lost { .. } => {
                self.errors += 1;
                client.acknowledge(Tasks::default(), 0);
            }
            Event::FetchFailed { .. } | Event::GroupFailed { .. } | Event::Unreachable { .. } => {
                self.errors += 1;
            }
            _ => {}
        }
    }
}

/// What is left of the bytes that say what to damage, for all connections.
#[derive(Clone)]
struct Damage(Arc<Mutex<VecDeque<u8>>>);

impl From<&[u8]> for Damage {
    fn from(data: &[u8]) -> Self {
        Damage(Arc::new(Mutex::new(data.iter().copied().collect())))
    }
}

impl Damage {
    fn byte(&self) -> Option<u8> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    /// Damages the next frame, or leaves it as it is.
    fn strike(&self, frame: &mut Vec<u8>) -> Option<()> {
        let how = self.byte().filter(|how| how % 2 == 1)?;
        let at = usize::from(u16::from_be_bytes([self.byte()?, self.byte()?]));
        let byte = self.byte()?;
        // Behind the length, or also in it.
        let start = if how & 2 == 0 { 4 } else { 0 };
        let at = start + at % (frame.len() - start).max(1);
        match how >> 2 & 3 {
            0 => frame.truncate(at.max(4)),
            1 => frame.insert(at.min(frame.len()), byte),
            2 => frame[at..].iter_mut().take(4).for_each(|place| *place = byte),
            _ => frame[at.min(4)] ^= byte,
        }
        if start == 4 {
            let size = (frame.len() - 4) as u32;
            frame[..4].copy_from_slice(&size.to_be_bytes());
        }
        Some(())
    }
}

/// A connection to the broker on which answers are damaged.
struct Wire {
    connection: MemoryConnection,
    /// What has come of the next answer, with its length.
    frame: Vec<u8>,
    out: VecDeque<u8>,
    damage: Damage,
}

impl Read for Wire {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.out.is_empty() {
            let missing = match self.frame.first_chunk::<4>() {
                None => 4 - self.frame.len(),
                Some(size) => 4 + u32::from_be_bytes(*size) as usize - self.frame.len(),
            };
            if missing > 0 {
                let mut some = vec![0; missing];
                let read = self.connection.read(&mut some)?;
                if read == 0 {
                    return Ok(0);
                }
                self.frame.extend_from_slice(&some[..read]);
                continue;
            }
            let _ = self.damage.strike(&mut self.frame);
            self.out.extend(self.frame.drain(..));
        }
        self.out.read(buffer)
    }
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.connection.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

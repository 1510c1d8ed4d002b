//! Who writes and reads meanwhile: a plain producer and one with transactions, each a record to every
//! partition a round; a plain Java producer that does the same; a reader of committed records. Each
//! writer notes the longest times between two rounds.

use crate::PARTITIONS;
use crate::brokers::Cluster;
use crate::support::{collect, one, unique};
use kstreams_client::{
    Client, CommittedOffset, ErrorKind, Event, GroupMetadata, Producer, ProducerConfig, Reader,
    ResetPolicy, Start, TopicPartition,
};
use kstreams_test_programs::Stalls;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, UNIX_EPOCH};

/// Time after which a test gives up.
const LONG: Duration = Duration::from_secs(120);

fn now() -> Duration {
    UNIX_EPOCH.elapsed().unwrap()
}

fn partitions(topic: &str) -> Vec<TopicPartition> {
    (0..PARTITIONS).map(|partition| TopicPartition::new(topic, partition)).collect()
}

/// What came of a writer.
#[derive(Debug, Default)]
pub(crate) struct Told {
    rounds: u64,
    /// The longest pauses between rounds, longest first, with when they ended.
    stalls: Vec<(Duration, Duration)>,
    /// The values in each partition.
    pub(crate) written: Vec<String>,
}

impl Told {
    fn round(&mut self, last: &mut Duration) {
        let end = now();
        // The first one has the producer's id and connections to get.
        if self.rounds > 0 {
            self.stalls.push((end - *last, end));
        }
        self.stalls.sort_by_key(|(stall, _)| std::cmp::Reverse(*stall));
        self.stalls.truncate(8);
        self.rounds += 1;
        *last = end;
    }

    pub(crate) fn longest(&self) -> Duration {
        self.stalls.first().map_or(Duration::MAX, |(stall, _)| *stall)
    }
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} rounds, stalls in ms (and until)", self.rounds)?;
        for (stall, end) in &self.stalls {
            write!(f, " {} ({})", stall.as_millis(), end.as_millis() % 1_000_000)?;
        }
        Ok(())
    }
}

/// A writer on a thread of its own.
pub(crate) struct Load {
    rounds: Arc<AtomicU64>,
    ends: Arc<AtomicBool>,
    thread: JoinHandle<Told>,
}

impl Load {
    pub(crate) fn plain(cluster: &Cluster, topic: &'static str) -> Self {
        let client = cluster.client();
        let config = ProducerConfig { linger: Duration::ZERO, ..Default::default() };
        Self::new(client, config, topic, |producer, _| {
            done_in_time(producer.flush());
            true
        })
    }

    /// A transaction a round, with an offset; every fifth is aborted.
    pub(crate) fn transactions(cluster: &Cluster, topic: &'static str) -> Self {
        let client = cluster.client();
        let config = ProducerConfig { transactional_id: Some(unique("txn")), ..Default::default() };
        let input = TopicPartition::new("java", 0);
        let group = unique("group");
        Self::new(client, config, topic, move |producer, round| {
            if round % 5 == 4 {
                done_in_time(producer.abort());
                return false;
            }
            let offsets = one(input.clone(), CommittedOffset::new(round as i64));
            let committed =
                producer.commit(offsets, Some(GroupMetadata::outside(group.as_str()))).wait(LONG);
            let Err(error) = committed else { return true };
            println!("round {round}: {error}");
            match error.kind() {
                ErrorKind::ProducerFenced => done_in_time(producer.init()),
                ErrorKind::Abortable => done_in_time(producer.abort()),
                other => panic!("{other:?}: {error}"),
            }
            false
        })
    }

    /// Writes rounds; `end` ends one and says whether it counts.
    fn new(
        mut client: Client,
        config: ProducerConfig,
        topic: &'static str,
        mut end: impl FnMut(&mut Producer, u64) -> bool + Send + 'static,
    ) -> Self {
        let rounds = Arc::new(AtomicU64::new(0));
        let ends = Arc::new(AtomicBool::new(false));
        let (done, over) = (rounds.clone(), ends.clone());
        let thread = std::thread::spawn(move || {
            let mut producer = client.producer(config);
            let all = partitions(topic);
            let mut told = Told::default();
            let mut last = now();
            for round in 0.. {
                let value = round.to_string();
                for partition in &all {
                    let handle = producer.partition(partition);
                    let time = now().as_millis() as i64;
                    producer.append(handle, time, None, Some(value.as_bytes()), &[]).unwrap();
                }
                if end(&mut producer, round) {
                    told.round(&mut last);
                    told.written.push(value);
                    done.fetch_add(1, Ordering::SeqCst);
                }
                if over.load(Ordering::SeqCst) {
                    break;
                }
                std::thread::park_timeout(Duration::from_millis(5));
            }
            told
        });
        Self { rounds, ends, thread }
    }

    /// Waits for so many more rounds.
    pub(crate) fn progress(&self, rounds: u64) {
        let goal = self.rounds.load(Ordering::SeqCst) + rounds;
        let end = now() + LONG;
        while self.rounds.load(Ordering::SeqCst) < goal {
            assert!(now() < end && !self.thread.is_finished(), "no progress");
            std::thread::park_timeout(Duration::from_millis(20));
        }
    }

    pub(crate) fn end(self) -> Told {
        self.ends.store(true, Ordering::SeqCst);
        self.thread.join().unwrap()
    }
}

fn done_in_time<T>(pending: kstreams_client::Pending<T>) -> T {
    pending.wait(LONG).unwrap()
}

/// What the plain Java producer beside them met.
impl From<Stalls> for Told {
    fn from(Stalls { rounds, stalls }: Stalls) -> Self {
        Told { rounds, stalls, written: Vec::new() }
    }
}

/// A reader of all that is committed, from the start on.
pub(crate) struct Reading {
    seen: Arc<Mutex<BTreeMap<i32, Vec<String>>>>,
    ends: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Reading {
    pub(crate) fn start(cluster: &Cluster, topic: &'static str) -> Self {
        let mut client = cluster.client();
        let seen = Arc::new(Mutex::new(BTreeMap::<i32, Vec<String>>::new()));
        let ends = Arc::new(AtomicBool::new(false));
        let (to, over) = (seen.clone(), ends.clone());
        let thread = std::thread::spawn(move || {
            for partition in partitions(topic) {
                client.fetch(Reader::Source, partition, Start::at(0), ResetPolicy::None);
            }
            while !over.load(Ordering::SeqCst) {
                while let Some(event) = client.next_event() {
                    let partition = match &event {
                        Event::Fetched(fetched) => fetched.partition.partition,
                        _ => -1,
                    };
                    let mut records = Vec::new();
                    collect(event, &mut records);
                    let values = records.into_iter().map(|(_, _, value)| value);
                    to.lock().unwrap().entry(partition).or_default().extend(values);
                }
                client.wait(Duration::from_millis(50));
            }
        });
        Self { seen, ends, thread }
    }

    /// Waits until every partition has shown what was written, and nothing else.
    pub(crate) fn end(self, written: &[String]) {
        let end = now() + LONG;
        loop {
            let seen = self.seen.lock().unwrap().clone();
            let of = |partition: i32| seen.get(&partition).map_or(&[][..], Vec::as_slice);
            for partition in 0..PARTITIONS {
                let there = of(partition);
                assert!(
                    written.starts_with(there),
                    "partition {partition}: {}",
                    first_other(there, written)
                );
            }
            if (0..PARTITIONS).all(|partition| of(partition).len() == written.len()) {
                break;
            }
            assert!(now() < end, "not all that was committed is seen");
            std::thread::park_timeout(Duration::from_millis(100));
        }
        self.ends.store(true, Ordering::SeqCst);
        self.thread.join().unwrap();
    }
}

fn first_other(seen: &[String], written: &[String]) -> String {
    let at = seen.iter().zip(written).take_while(|(a, b)| a == b).count();
    format!("at {at} {:?} and not {:?}", seen.get(at), written.get(at))
}

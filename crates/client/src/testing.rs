//! A broker for unit tests: a few lines of Kafka with faults on demand, in memory, stepped by hand,
//! everything from one seed. What it answers to `Produce` is the model that producers are checked
//! against.

mod broker;
mod cluster;
mod transactions;

use crate::client::Client;
use crate::config::ClientConfig;
use crate::driver::Driver;
use crate::driver::memory::{MemoryNetwork, MemoryStream, Ready, pair};
use crate::event::Event;
use crate::random::Random;
use crate::types::Now;
pub(crate) use broker::{Broker, Fault, Log};
use cluster::node_at;
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Streams that were opened, with the node at their other end.
type Accepted = Arc<Mutex<Vec<(i32, MemoryStream)>>>;

/// A connection as its node sees it.
struct Served {
    node: i32,
    stream: MemoryStream,
    buffer: Vec<u8>,
    /// Until then nothing is read.
    stuck_until: Now,
    /// The client closed it: what it had sent may still be handled.
    closed: bool,
}

/// A client, its driver, and a broker at the other end of its streams.
pub(crate) struct World {
    pub(crate) client: Client,
    driver: Driver,
    pub(crate) broker: Broker,
    accepted: Accepted,
    connections: Vec<Served>,
    pub(crate) random: Random,
    pub(crate) now: Now,
    /// Chance in a hundred that a request meets a fault.
    pub(crate) faults: u64,
    /// Whether all answers are lost.
    pub(crate) lose_answers: bool,
    /// Whether the broker takes connections.
    pub(crate) up: Arc<Mutex<bool>>,
    /// Nodes that take none.
    down: Arc<Mutex<BTreeSet<i32>>>,
    /// Chance in a thousand that a step moves a leader, ends or starts a node, or that a node hears
    /// of it.
    pub(crate) moves: u64,
    /// Chance in a thousand that a connection comes to a halt for up to so many ms.
    pub(crate) halts: (u64, u64),
    hanging: BTreeSet<i32>,
    /// Whether what a client had sent on a connection that it closed is still handled.
    pub(crate) late: bool,
}

impl World {
    pub(crate) fn new(seed: u64, configure: impl FnOnce(&mut ClientConfig)) -> Self {
        let accepted = Accepted::default();
        let up = Arc::new(Mutex::new(true));
        let down = Arc::<Mutex<BTreeSet<i32>>>::default();
        let (to_broker, open, gone) = (accepted.clone(), up.clone(), down.clone());
        let connect = move |_: &str, port: u16, ready: Ready| {
            let node = node_at(port);
            if !*open.lock().unwrap() || gone.lock().unwrap().contains(&node) {
                return Err(std::io::Error::from(std::io::ErrorKind::ConnectionRefused));
            }
            let (ours, theirs) = pair(ready, Arc::new(|| {}));
            to_broker.lock().unwrap().push((node, theirs));
            Ok(Box::new(ours) as Box<dyn crate::driver::ByteStream>)
        };
        let mut config = ClientConfig::new("broker:9092");
        config.seed = seed;
        configure(&mut config);
        let network = MemoryNetwork::new(Box::new(connect));
        let (client, driver) = Client::new(config, Box::new(network));
        Self {
            client,
            driver,
            broker: Broker::default(),
            accepted,
            connections: Vec::new(),
            random: Random::new(seed),
            now: Duration::from_secs(1),
            faults: 0,
            lose_answers: false,
            up,
            down,
            moves: 0,
            halts: (0, 1),
            hanging: BTreeSet::new(),
            late: false,
        }
    }

    /// One step of the driver, and maybe one request served.
    pub(crate) fn step(&mut self) {
        self.driver.step(self.now);
        let accepted = std::mem::take(&mut *self.accepted.lock().unwrap());
        self.connections.extend(accepted.into_iter().map(|(node, stream)| Served {
            node,
            stream,
            buffer: Vec::new(),
            stuck_until: Now::ZERO,
            closed: false,
        }));
        if self.moves > 0 {
            self.disturb();
        }
        for _ in 0..=self.random.next() % 4 {
            if !self.connections.is_empty() {
                let at = self.random.next() as usize % self.connections.len();
                self.serve(at);
            }
        }
        self.now += Duration::from_millis(self.random.next() % 20);
    }

    /// A step of the driver alone, at the same time as before.
    pub(crate) fn step_driver(&mut self) -> Option<Now> {
        self.driver.step(self.now)
    }

    /// A node takes connections and requests from now on, and answers nothing.
    pub(crate) fn hang(&mut self, node: i32) {
        self.hanging.insert(node);
    }

    /// Cuts all connections, as a broker that stops does.
    pub(crate) fn cut(&mut self) {
        self.connections.clear();
    }

    /// Maybe moves leaders, ends or starts a node, or lets one hear of it.
    fn disturb(&mut self) {
        if self.random.next() % 1_000 >= self.moves {
            return;
        }
        let any = |random: &mut Random, of: &[i32]| of[random.next() as usize % of.len()];
        let cluster = &mut self.broker.cluster;
        let up = cluster.up();
        let node = 1 + (self.random.next() % 1_000) as i32 % cluster.nodes;
        match self.random.next() % 8 {
            0 if up.len() > 1 && up.contains(&node) => {
                let others: Vec<i32> = up.into_iter().filter(|other| *other != node).collect();
                cluster.kill(node, any(&mut self.random, &others));
                if self.broker.coordinator == node {
                    self.broker.coordinator = any(&mut self.random, &others);
                }
                self.down.lock().unwrap().insert(node);
                self.connections.retain(|connection| connection.node != node);
            }
            1 | 2 if cluster.is_down(node) => {
                cluster.revive(node);
                self.down.lock().unwrap().remove(&node);
            }
            3 => {
                let partition = (self.random.next() % 3) as i32;
                cluster.move_leader(partition, any(&mut self.random, &up));
            }
            4 if self.random.next().is_multiple_of(4) => {
                self.broker.coordinator = any(&mut self.random, &up);
            }
            _ => cluster.learn(node),
        }
    }

    /// Nothing moves or fails from now on, and all nodes know how things are; those that are down come
    /// back if `revive` says so.
    pub(crate) fn calm(&mut self, revive: bool) {
        (self.faults, self.moves, self.halts.0) = (0, 0, 0);
        let cluster = &mut self.broker.cluster;
        for node in 1..=cluster.nodes {
            if revive && cluster.is_down(node) {
                cluster.revive(node);
                self.down.lock().unwrap().remove(&node);
            }
        }
        for node in 1..=cluster.nodes {
            cluster.learn(node);
        }
    }

    fn serve(&mut self, at: usize) {
        if self.halts.0 > 0 && self.random.next() % 1_000 < self.halts.0 {
            let halt = Duration::from_millis(self.random.next() % self.halts.1);
            self.connections[at].stuck_until = self.now + halt;
        }
        let Served { node, stream, buffer, stuck_until, closed } = &mut self.connections[at];
        let node = *node;
        if *stuck_until > self.now || self.hanging.contains(&node) {
            return;
        }
        let mut some = [0; 4096];
        loop {
            match stream.read(&mut some) {
                Ok(0) => {
                    *closed = true;
                    break;
                }
                Ok(read) => buffer.extend_from_slice(&some[..read]),
                Err(_) => break,
            }
        }
        let closed = *closed;
        let length = buffer.first_chunk::<4>().map(|head| 4 + u32::from_be_bytes(*head) as usize);
        let whole = length.filter(|length| buffer.len() >= *length);
        let Some(length) = whole.filter(|_| self.late || !closed) else {
            if closed {
                self.connections.remove(at);
            }
            return;
        };
        let frame: Vec<u8> = buffer.drain(..length).skip(4).collect();
        let fault = (self.random.next() % 100 < self.faults).then(|| self.random.next() % 4);
        let fault = match fault {
            _ if self.lose_answers => Fault::LostAnswer,
            None => Fault::None,
            Some(0) => Fault::Refused,
            Some(1) => Fault::LostRequest,
            Some(2) => Fault::LostAnswer,
            Some(_) => Fault::Garbage,
        };
        match self.broker.serve(node, frame.into(), fault) {
            Some(_) if closed => {}
            Some(answer) => {
                // Answers of the tests are small: they always fit the stream.
                let written = self.connections[at].stream.write(&answer).unwrap_or(0);
                if written < answer.len() {
                    self.connections.remove(at);
                }
            }
            None => {
                self.connections.remove(at);
            }
        }
    }

    /// Steps until an event or a result is there, or `steps` are done; gives the event.
    pub(crate) fn until(&mut self, steps: usize, mut done: impl FnMut(&Event) -> bool) -> Event {
        for _ in 0..steps {
            self.step();
            while let Some(event) = self.client.next_event() {
                if done(&event) {
                    return event;
                }
            }
        }
        panic!("it did not happen within {steps} steps");
    }
}

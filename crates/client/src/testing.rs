//! A broker for unit tests: a few lines of Kafka with faults on demand, in memory, stepped by hand,
//! everything from one seed. What it answers to `Produce` is the model that producers are checked
//! against.

mod broker;
mod transactions;

use crate::client::Client;
use crate::config::ClientConfig;
use crate::driver::Driver;
use crate::driver::memory::{MemoryNetwork, MemoryStream, Ready, pair};
use crate::event::Event;
use crate::random::Random;
use crate::types::Now;
pub(crate) use broker::{Broker, Fault, Log};
use std::io::{Read, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

type Accepted = Arc<Mutex<Vec<MemoryStream>>>;

/// A client, its driver, and a broker at the other end of its streams.
pub(crate) struct World {
    pub(crate) client: Client,
    driver: Driver,
    pub(crate) broker: Broker,
    accepted: Accepted,
    connections: Vec<(MemoryStream, Vec<u8>)>,
    pub(crate) random: Random,
    pub(crate) now: Now,
    /// Chance in a hundred that a request meets a fault.
    pub(crate) faults: u64,
    /// Whether all answers are lost.
    pub(crate) lose_answers: bool,
    /// Whether the broker takes connections.
    pub(crate) up: Arc<Mutex<bool>>,
}

impl World {
    pub(crate) fn new(seed: u64, configure: impl FnOnce(&mut ClientConfig)) -> Self {
        let accepted = Accepted::default();
        let up = Arc::new(Mutex::new(true));
        let (to_broker, open) = (accepted.clone(), up.clone());
        let connect = move |_: &str, _: u16, ready: Ready| {
            if !*open.lock().unwrap() {
                return Err(std::io::Error::from(std::io::ErrorKind::ConnectionRefused));
            }
            let (ours, theirs) = pair(ready, Arc::new(|| {}));
            to_broker.lock().unwrap().push(theirs);
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
        }
    }

    /// One step of the driver, and maybe one request served.
    pub(crate) fn step(&mut self) {
        self.driver.step(self.now);
        let accepted = std::mem::take(&mut *self.accepted.lock().unwrap());
        self.connections.extend(accepted.into_iter().map(|stream| (stream, Vec::new())));
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

    /// Cuts all connections, as a broker that stops does.
    pub(crate) fn cut(&mut self) {
        self.connections.clear();
    }

    fn serve(&mut self, at: usize) {
        let (stream, buffer) = &mut self.connections[at];
        let mut some = [0; 4096];
        loop {
            match stream.read(&mut some) {
                Ok(0) => {
                    self.connections.remove(at);
                    return;
                }
                Ok(read) => buffer.extend_from_slice(&some[..read]),
                Err(_) => break,
            }
        }
        let Some(head) = buffer.first_chunk::<4>() else { return };
        let length = 4 + u32::from_be_bytes(*head) as usize;
        if buffer.len() < length {
            return;
        }
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
        match self.broker.serve(frame.into(), fault) {
            Some(answer) => {
                // Answers of the tests are small: they always fit the stream.
                let written = self.connections[at].0.write(&answer).unwrap_or(0);
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

//! An outbox: a punctuator sweeps a store and hands what waits there to an HTTP service.
//!
//! ```text
//! cargo run --release --example sweep                                   a few messages and a service, on this machine
//! cargo run --release --example sweep -- --bootstrap localhost:9092     messages of a Kafka cluster, until Ctrl-C; topic messages
//! ```
//!
//! **The trap.** Every few seconds a punctuator walks a store, sends each entry and deletes it, and the entries come back: after a
//! flush, a restart, or on another machine. Either the iterator shows the store's cache and the deletion goes to what is below
//! it, or the deletion never reaches the changelog; or the key's serde gives other bytes each time (encryption with a random nonce),
//! so that `delete` deletes a key that is not there. And while one big walk waits for a slow service, nothing else is processed.
//!
//! **The way out.** `schedule_chunked` walks a few entries at a time, with other work in between. An entry that is deleted is gone
//! at once; at the commit its tombstone goes to the changelog, in one transaction with everything else. A key's serde that does
//! not give the same bytes twice is refused at its first use. What was sent and not yet committed when the process dies is sent
//! again: only a service that knows the ids can tell.

mod outbox;
mod service;

use kstreams::prelude::*;
use kstreams::runtime::EmbeddedBroker;
use kstreams_examples::{bootstrap, config, scratch, show, start_log};
use outbox::{topology, waiting};
use service::{Service, deliver_to};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

const MESSAGES: usize = 40;

fn main() -> Result<()> {
    start_log();
    let service = Service::start()?;
    let every = Duration::from_secs(1);
    let topology = topology("messages", waiting(), every, deliver_to(&service.address()))?;
    if let Some(bootstrap) = bootstrap()? {
        return KafkaStreams::start(topology, config("sweep", &bootstrap))?.run_until_signal();
    }
    let (broker, state) = (EmbeddedBroker::start()?, scratch()?);
    broker.create_topic("messages", 2)?;
    let messages = (0..MESSAGES).map(|n| Record::new(format!("m{n}"), format!("message {n}"), 1));
    broker.write::<String, String>("messages", messages)?;
    let app = broker.run(topology, config("sweep", &broker.bootstrap()).state_dir(state.path()))?;
    loop {
        let taken = service.offers().values().filter(|(_, taken)| *taken > 0).count();
        let stopped = app.wait_for(Duration::from_millis(100), State::is_terminal).is_terminal();
        if taken == MESSAGES || stopped {
            break;
        }
    }
    app.close(Duration::from_secs(10))?;
    let offers = service.offers();
    let rows = offers
        .iter()
        .map(|(id, (offered, taken))| (id, format!("offered {offered}, taken {taken}")));
    show("messages", rows)?;
    show("a key that is encrypted with a random nonce", [("error:", encrypted()?)])
}

/// What is said about an outbox whose keys are encrypted.
fn encrypted() -> Result<String> {
    let keys: SerdeRef<String> = Arc::new(Encrypting::default());
    let store = Stores::key_value_with("waiting", keys, String::default_serde());
    let topology = topology("messages", store, Duration::from_secs(1), Arc::new(|_, _| true))?;
    let mut driver = TopologyTestDriver::new(topology)?;
    let mut messages = driver.input::<String, String>("messages");
    let refused = messages.pipe_key_value_at(&mut driver, 0, "m1", "message 1");
    Ok(refused.map_or_else(|error| error.to_string(), |()| "none".into()))
}

/// Encrypts badly, but with another nonce each time, as one should.
#[derive(Debug, Default)]
struct Encrypting(AtomicU8);

impl Serde<String> for Encrypting {
    fn serialize(&self, _: &At, key: &String, out: &mut Vec<u8>) -> Result<Presence, BoxError> {
        let nonce = self.0.fetch_add(1, Ordering::Relaxed);
        out.push(nonce);
        out.extend(key.bytes().map(|byte| byte ^ nonce));
        Ok(Presence::Value)
    }

    fn deserialize(&self, _: &At, bytes: &[u8]) -> Result<String, BoxError> {
        let (nonce, bytes) = bytes.split_first().ok_or("an encrypted key has a nonce")?;
        Ok(String::from_utf8(bytes.iter().map(|byte| byte ^ nonce).collect())?)
    }
}

//! Reading and changing stores from other threads, and from a processor that is attached to a table's store.
//!
//! ```text
//! cargo run --release --example outside                                   some points, on the embedded broker
//! cargo run --release --example outside -- --bootstrap localhost:9092     on a Kafka cluster, until Ctrl-C; topics points and
//!                                                                         bonus-updates
//! ```
//!
//! **The trap.** A thread of the program changes a store while the stream thread uses it, or walks it for a long time. In Java
//! that compiles: the store is not made for two threads, so that entries are lost or the stream thread dies; a change that is in no
//! topic is gone after the next restore; and a punctuator that walks the whole store once a day stops processing until it is done.
//!
//! **The way out.** A handle of a store stays on its thread: sending it to another one does not compile. To read, `app.store` gives a
//! handle for any thread, which shows what is committed and waits for nobody. To write, a `StoreWriter` sends updates through a
//! topic to the task that owns the key. And a long walk is done in chunks, by a processor that is attached to the store.

mod scores;

use kstreams::prelude::*;
use kstreams::runtime::EmbeddedBroker;
use kstreams_examples::{bootstrap, config, scratch, show, start_log};
use scores::{bonuses, scores, topology};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const PLAYERS: i64 = 20;
const READERS: usize = 8;

fn main() -> Result<()> {
    start_log();
    let (scores, bonuses) = (scores(), bonuses());
    let topology =
        topology("points", "bonus-updates", &scores, &bonuses, Duration::from_secs(86_400))?;
    if let Some(bootstrap) = bootstrap()? {
        return KafkaStreams::start(topology, config("outside", &bootstrap))?.run_until_signal();
    }
    let (broker, state) = (EmbeddedBroker::start()?, scratch()?);
    for topic in ["points", "bonus-updates"] {
        broker.create_topic(topic, 4)?;
    }
    let app =
        broker.run(topology, config("outside", &broker.bootstrap()).state_dir(state.path()))?;
    app.wait_for(Duration::from_secs(10), |state| state == State::Running);

    // Player 7 has double points from now on, whoever says so.
    let writer = app.store_writer(&bonuses)?;
    writer.put("p7", 2)?.wait()?;
    let look = app.store(&bonuses)?;
    while look.get(&"p7".to_string())?.is_none() {
        app.wait_for(Duration::from_millis(20), State::is_terminal);
    }

    let points = (0..PLAYERS * 1_000).map(|n| Record::new(format!("p{}", n % PLAYERS), 1i64, n));
    broker.write("points", points)?;
    let (done, reads) = (AtomicBool::new(false), AtomicU64::new(0));
    let table = app.store(&scores)?;
    std::thread::scope(|scope| {
        for _ in 0..READERS {
            let (table, done, reads) = (table.clone(), &done, &reads);
            scope.spawn(move || {
                for player in (0..PLAYERS).cycle().take_while(|_| !done.load(Ordering::Relaxed)) {
                    let read = table.get(&format!("p{player}"));
                    reads.fetch_add(u64::from(read.is_ok()), Ordering::Relaxed);
                }
            });
        }
        let mut total = 0;
        while total < (PLAYERS + 1) * 1_000 && !app.state().is_terminal() {
            app.wait_for(Duration::from_millis(20), State::is_terminal);
            total = 0;
            for entry in table.all()? {
                let (_player, (score, _time)) = entry?;
                total += score.unwrap_or(0);
            }
        }
        done.store(true, Ordering::Relaxed);
        Ok::<_, Error>(())
    })?;
    let mut rows = Vec::new();
    for entry in table.all()? {
        let (player, (score, _time)) = entry?;
        rows.push((player, score.unwrap_or(0)));
    }
    app.close(Duration::from_secs(10))?;
    rows.sort_by_key(|(_, score)| -score);
    show("scores", rows.into_iter().take(5))?;
    show("while they were added up", [("reads of other threads:", reads.into_inner() > 0)])
}

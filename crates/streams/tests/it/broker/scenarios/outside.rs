//! Stores are read and changed by threads of the program while it processes.

#[path = "../../../../../../examples/outside/scores.rs"]
mod example;

use self::example::{bonuses, scores};
use super::super::app::{config, start};
use super::{PARTITIONS, RECORDS, Scenario};
use crate::kafka::{PATIENCE, SetAtEnd};
use crate::random::Random;
use kstreams::prelude::*;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

const PLAYERS: usize = 1_000;
const READERS: u64 = 8;
const UPDATES: i64 = 5_000;

pub(super) fn topology(points: &str, bonus_updates: &str) -> Result<Topology> {
    let round = Duration::from_millis(300);
    example::topology(points, bonus_updates, &scores(), &bonuses(), round)
}

/// Reads scores until it is told to stop. What it cannot read belongs to another member at the moment, or is on its way.
fn read(app: &KafkaStreams, seed: u64, stop: &AtomicBool, reads: &AtomicUsize) {
    let table = app.store(&scores()).expect("the store");
    let mut random = Random(seed);
    while !stop.load(Ordering::Relaxed) {
        let player = format!("p{}", random.below(PLAYERS as u64));
        let found = match random.below(100) {
            0 => table.all().and_then(|entries| {
                entries.map(|entry| entry.map(|(_, score)| score)).collect::<Result<Vec<_>>>()
            }),
            _ => table.get(&player).map(|score| score.into_iter().collect()),
        };
        match found {
            Ok(scores) => {
                // What is used up is not there, and nobody has more than there are points.
                for (score, _) in scores {
                    assert!(score.is_some_and(|score| (1..=RECORDS as i64).contains(&score)));
                }
                reads.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) => {
                let kinds = [ErrorKind::Starting, ErrorKind::Rebalancing, ErrorKind::Moved];
                assert!(kinds.contains(&error.kind()), "{error}");
            }
        }
    }
}

#[test]
fn stores_are_read_and_changed_from_outside() {
    let mut scenario = Scenario::new("outside", &["points", "bonus-updates"]);
    let topics = scenario.topics.clone();
    let one = 1i64.to_be_bytes();
    let points = (0..RECORDS).map(|number| (format!("p{}", number % PLAYERS), one));
    scenario.kafka.write(&topics[0], PARTITIONS, points);
    // This process is a member as well, and is not killed.
    let state = scenario.dir.path().join("own");
    let settings = config(&scenario.application, &scenario.kafka.bootstrap, &state);
    let built = topology(&topics[0], &topics[1]).expect("builds");
    let app = start(built, settings.exactly_once().stream_threads(2));
    let writer = app.store_writer(&bonuses()).expect("a writer");
    let (stop, reads) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for reader in 1..=READERS {
            let (app, stop, reads) = (&app, &stop, &reads);
            scope.spawn(move || read(app, reader, stop, reads));
        }
        scope.spawn(|| {
            let put = |number| writer.put(format!("b{}", number % 50), number).expect("put");
            let updates: Vec<_> = (0..UPDATES).map(put).collect();
            updates.into_iter().for_each(|update| update.wait().expect("written"));
        });
        let _stop = SetAtEnd(&stop);
        let (third, fourth) = scenario.run_with_faults(1, RECORDS);
        third.stop();
        fourth.stop();
    });
    assert!(reads.load(Ordering::Relaxed) > 1_000);

    // Every update is there once, and each key's in the order in which they were put.
    let all = UPDATES as usize;
    let written = scenario.kafka.read_until(&topics[1], PARTITIONS, |read| read.len() >= all);
    for key in 0..50 {
        let of_key = written.iter().filter(|record| record.key == format!("b{key}"));
        assert!(of_key.map(crate::kafka::Read::count).eq((key..UPDATES).step_by(50)), "b{key}");
    }
    // The store has the last of each.
    let changelog = |store: &str| format!("{}-{store}-changelog", scenario.application);
    let expected: BTreeMap<String, i64> =
        (UPDATES - 50..UPDATES).map(|number| (format!("b{}", number % 50), number)).collect();
    let mut bonuses = BTreeMap::new();
    scenario.kafka.read_until(&changelog("bonuses"), PARTITIONS, |read| {
        bonuses.extend(read.iter().map(|record| (record.key.clone(), record.count())));
        bonuses == expected
    });
    // The walks have used up all scores, and what they deleted is gone from the changelog too.
    let (mut seen, mut rest) = (0, BTreeMap::new());
    scenario.kafka.read_until(&changelog("scores"), PARTITIONS, |read| {
        for record in &read[seen..] {
            rest.insert(record.key.clone(), record.value.is_some());
        }
        seen = read.len();
        rest.len() == PLAYERS && !rest.values().any(|is_there| *is_there)
    });
    app.close(PATIENCE).expect("closes");
}

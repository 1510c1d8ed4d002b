//! Transactions through restarts of a broker: each test has an Apache Kafka 4.4 of its own.

use crate::support::*;
use crate::transactions::{append, committed, recover};
use kstreams_client::{
    Client, ClientConfig, CommittedOffset, GroupMetadata, ProducerConfig, TopicPartition,
};
use kstreams_test_programs::{Brokers, java, text_of};

fn client_of(broker: &Brokers) -> Client {
    client_with(ClientConfig { seed: config().seed, ..ClientConfig::new(broker.bootstrap()) })
}

/// Ends the broker well, or with SIGKILL first, and starts it again.
fn restart(broker: &Brokers, kill: bool) {
    if kill {
        broker.kill(1);
    }
    broker.restart();
}

/// Transactions of five records, with an offset each, while the broker goes and comes back, once for
/// each of `kills`, which say how: what was committed is there once and in order, the position is that of the last commit.
fn write_through_restarts(broker: &Brokers, kills: &'static [bool]) {
    let mut client = client_of(broker);
    let partition = TopicPartition::new(topic(&mut client, 1), 0);
    let input = TopicPartition::new(topic(&mut client, 1), 0);
    let group = unique("group");
    let config = ProducerConfig { transactional_id: Some(unique("txn")), ..Default::default() };
    let mut producer = client.producer(config);
    let mut expected = Vec::new();
    let mut position = None;
    std::thread::scope(|scope| {
        let (ended, progress) = std::sync::mpsc::channel();
        let restarts = scope.spawn(move || {
            for kill in kills {
                assert_eq!(progress.iter().take(20).count(), 20);
                restart(broker, *kill);
                while progress.try_recv().is_ok() {}
            }
        });
        for transaction in 0.. {
            let values: Vec<String> = (0..5).map(|at| format!("{transaction}.{at}")).collect();
            let values: Vec<&str> = values.iter().map(String::as_str).collect();
            append(&mut producer, &partition, &values);
            if transaction % 5 == 4 {
                done(producer.abort());
                continue;
            }
            let offsets = one(input.clone(), CommittedOffset::new(transaction));
            let outside = GroupMetadata::outside(group.as_str());
            match producer.commit(offsets, Some(outside)).wait(LONG * 2) {
                Ok(_) => {
                    expected.extend(values.into_iter().map(str::to_owned));
                    position = Some(transaction);
                    let _ = ended.send(());
                }
                Err(error) => recover(&mut producer, &error),
            }
            if restarts.is_finished() && transaction > 100 {
                break;
            }
        }
    });
    eventually(&mut client, |client| committed(client, &partition) == expected);
    let found = done(client.group_offsets(&group, vec![input.clone()]));
    assert_eq!(found[&input].as_ref().unwrap().as_ref().map(|found| found.offset), position);
}

#[test]
fn restarts_in_the_middle_of_transactions_cost_nothing_with_either_version() {
    let broker = Brokers::start(1, "");
    write_through_restarts(&broker, &[false, true]);
    text_of(java(&[
        "org.apache.kafka.tools.FeatureCommand",
        "--bootstrap-server",
        broker.bootstrap(),
        "downgrade",
        "--feature",
        "transaction.version=1",
    ]));
    write_through_restarts(&broker, &[true]);
}

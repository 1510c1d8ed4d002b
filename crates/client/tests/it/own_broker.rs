//! Transactions through restarts of a broker: each test has an Apache Kafka 4.4 of its own.

use crate::support::*;
use crate::transactions::{append, committed, recover};
use kstreams_client::{
    Client, ClientConfig, CommittedOffset, GroupMetadata, ProducerConfig, TopicPartition,
};
use std::path::PathBuf;
use std::process::{Command, Stdio};

struct OwnBroker {
    dir: PathBuf,
    port: String,
}

fn java(args: &[&str]) -> String {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/java/run");
    let output = Command::new(script).args(args).stderr(Stdio::inherit()).output().unwrap();
    assert!(output.status.success(), "{args:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

impl OwnBroker {
    fn start() -> Self {
        let dir = std::env::temp_dir().join(unique("kstreams-client-broker"));
        std::fs::create_dir(&dir).unwrap();
        let address = java(&["broker", "start", dir.to_str().unwrap(), "0"]);
        let port = address.rsplit(':').next().unwrap().to_owned();
        Self { dir, port }
    }

    fn bootstrap(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    fn client(&self) -> Client {
        client_with(ClientConfig { seed: config().seed, ..ClientConfig::new(&self.bootstrap()) })
    }

    /// Ends the broker well, or with SIGKILL, and starts it again.
    fn restart(&self, kill: bool) {
        let dir = self.dir.to_str().unwrap();
        if kill {
            let process = std::fs::read_to_string(self.dir.join("pid")).unwrap();
            let process = process.trim();
            assert!(Command::new("kill").args(["-9", process]).status().unwrap().success());
            // It keeps its port until it is gone.
            let gone = format!("--pid={process}");
            Command::new("tail").args([&gone, "-f", "/dev/null"]).status().unwrap();
        }
        java(&["broker", "stop", dir]);
        java(&["broker", "start", dir, &self.port]);
    }
}

impl Drop for OwnBroker {
    fn drop(&mut self) {
        java(&["broker", "stop", self.dir.to_str().unwrap()]);
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// Transactions of five records, with an offset each, while the broker goes and comes back, once for
/// each of `kills`, which say how: what was committed is there once and in order, the position is that of the last commit.
fn write_through_restarts(broker: &OwnBroker, kills: &'static [bool]) {
    let mut client = broker.client();
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
                broker.restart(*kill);
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
    let broker = OwnBroker::start();
    write_through_restarts(&broker, &[false, true]);
    java(&[
        "org.apache.kafka.tools.FeatureCommand",
        "--bootstrap-server",
        &broker.bootstrap(),
        "downgrade",
        "--feature",
        "transaction.version=1",
    ]);
    write_through_restarts(&broker, &[true]);
}

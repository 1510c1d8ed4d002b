//! The client of kstreams at work: topics made and removed for a benchmark.

use crate::measure::Failure;
use kstreams_client::driver::tcp::TcpNetwork;
use kstreams_client::{Client, ClientConfig, NewTopic, SystemClock};
use std::sync::Arc;
use std::time::Duration;

/// Partitions of every topic that is made here.
pub(crate) const PARTITIONS: i32 = 4;

pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn client(bootstrap: &str) -> Result<Client, Failure> {
    let network = Box::new(TcpNetwork::new()?);
    let (client, driver) = Client::new(ClientConfig::new(bootstrap), network);
    driver.spawn("bench-driver", Arc::new(SystemClock::new()))?;
    Ok(client)
}

pub(crate) fn create_topics(bootstrap: &str, topics: &[&str]) -> Result<(), Failure> {
    let new = |topic: &&str| NewTopic::new(*topic, PARTITIONS).config("retention.ms", "-1");
    let mut client = client(bootstrap)?;
    let created = client.create_topics(topics.iter().map(new).collect());
    for result in created.wait(PATIENCE)?.into_values() {
        result?;
    }
    Ok(())
}

/// Deletes the topics that are there.
pub(crate) fn delete_topics(bootstrap: &str, topics: &[&str]) -> Result<(), Failure> {
    let mut client = client(bootstrap)?;
    let described = client.describe_topics(topics.iter().map(|topic| (*topic).into()).collect());
    let described = described.wait(PATIENCE)?.into_iter();
    let there = described.filter(|(_, result)| result.is_ok()).map(|(topic, _)| topic).collect();
    for result in client.delete_topics(there).wait(PATIENCE)?.into_values() {
        result?;
    }
    Ok(())
}

//! A client for tools and tests that simply waits for each answer.

use crate::client::{Client, Results};
use crate::clock::SystemClock;
use crate::config::ClientConfig;
use crate::driver::tcp::TcpNetwork;
use crate::error::{ClientError, ErrorKind};
use crate::pending::Pending;
use crate::types::{ListedOffset, NewTopic, OffsetSpec, Topic, TopicDescription, TopicPartition};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Manages topics and groups, one blocking call at a time. For all that it does not have,
/// [`Self::client`] gives the client behind it and [`Self::wait`] waits for its results.
#[derive(Debug)]
pub struct Admin {
    client: Client,
    timeout: Duration,
}

impl Admin {
    /// Connects over TCP. `seed` is any number that other clients do not have.
    ///
    /// # Errors
    /// When `bootstrap` is not a list of `host:port`, or the system has no room for a thread. A broker that is not there shows in the
    /// first call.
    pub fn connect(bootstrap: &str, seed: u64) -> Result<Self, ClientError> {
        let mut config = ClientConfig::new(bootstrap);
        config.check()?;
        config.client_id = "kstreams-admin".to_owned();
        config.seed = seed;
        config.operation_timeout = Duration::from_secs(20);
        let system = |error: std::io::Error| ClientError::new(ErrorKind::Fatal, error.to_string());
        let network = TcpNetwork::new().map_err(system)?;
        let (client, driver) = Client::new(config, Box::new(network));
        driver.spawn("kstreams-admin", Arc::new(SystemClock::new())).map_err(system)?;
        Ok(Self { client, timeout: Duration::from_secs(30) })
    }

    /// The client behind it.
    pub fn client(&mut self) -> &mut Client {
        &mut self.client
    }

    /// Waits for a result of [`Self::client`].
    ///
    /// # Errors
    /// The operation's own, or a retriable one when it takes too long.
    pub fn wait<T>(&self, pending: Pending<T>) -> Result<T, ClientError> {
        pending.wait(self.timeout)
    }

    /// Creates topics and waits until brokers know them.
    ///
    /// # Errors
    /// The first topic that could not be created.
    pub fn create_topics(&mut self, topics: Vec<NewTopic>) -> Result<(), ClientError> {
        let names: Vec<Topic> = topics.iter().map(|topic| topic.name.clone()).collect();
        let pending = self.client.create_topics(topics);
        all(self.wait(pending)?)?;
        // The controller knows them first.
        for _ in 0..200 {
            let pending = self.client.describe_topics(names.clone());
            let described = self.wait(pending)?;
            let known = |topic: &Result<TopicDescription, ClientError>| {
                topic.as_ref().is_ok_and(|topic| topic.leaders.iter().all(Option::is_some))
            };
            if described.values().all(known) {
                return Ok(());
            }
            self.client.wait(Duration::from_millis(20));
        }
        Err(ClientError::retriable("the topics are created but have no leaders yet"))
    }

    /// Deletes topics.
    ///
    /// # Errors
    /// The first topic that could not be deleted.
    pub fn delete_topics(&mut self, topics: Vec<Topic>) -> Result<(), ClientError> {
        let pending = self.client.delete_topics(topics);
        all(self.wait(pending)?).map(drop)
    }

    /// Describes a topic.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] when it does not exist.
    pub fn describe_topic(&mut self, topic: &str) -> Result<TopicDescription, ClientError> {
        let pending = self.client.describe_topics(vec![topic.into()]);
        one(all(self.wait(pending)?)?)
    }

    /// Looks for offsets.
    ///
    /// # Errors
    /// The first partition whose offset is not to be had.
    pub fn list_offsets(
        &mut self,
        partitions: BTreeMap<TopicPartition, OffsetSpec>,
    ) -> Result<BTreeMap<TopicPartition, ListedOffset>, ClientError> {
        let pending = self.client.list_offsets(partitions);
        all(self.wait(pending)?)
    }
}

/// All values, or the first error.
fn all<K: Ord, V>(results: Results<K, V>) -> Result<BTreeMap<K, V>, ClientError> {
    results.into_iter().map(|(key, result)| result.map(|value| (key, value))).collect()
}

fn one<K, V>(values: BTreeMap<K, V>) -> Result<V, ClientError> {
    let none = || ClientError::retriable("the broker's answer leaves it out");
    values.into_values().next().ok_or_else(none)
}

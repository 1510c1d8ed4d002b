//! What an application knows of its cluster before its threads start: how to reach it, its topics, its time limits.

use super::clock::{Clock, SystemClock};
use super::queries::Queries;
use super::thread::ThreadParts;
use super::topics;
use crate::config::{Guarantee, Settings};
use crate::error::{Error, ErrorKind, Result};
use crate::processor::Elapsed;
use crate::state::{GlobalStores, StateDirectory};
use crate::task::TaskPlan;
use crate::topology::Topology;
use kstreams_client::driver::Driver;
use kstreams_client::{
    Client, ClientConfig, ClientError, Compression, ErrorKind as ClientErrorKind, FetchConfig,
    GroupConfig, Isolation, Network, ProducerConfig, Results, Topic, TopicDescription,
};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

/// How long `start` looks for the cluster and its topics.
const FIND_CLUSTER: Duration = Duration::from_secs(10);
/// How long a topic may be missing: one that was just made needs a moment to be known everywhere.
const FIND_TOPICS: Duration = Duration::from_secs(3);

/// How long a transaction may take, if nothing else is known: Java's value.
const TRANSACTION_TIMEOUT: Duration = Duration::from_secs(10);
/// The group's config with the session timeout.
const SESSION_TIMEOUT: &str = "streams.session.timeout.ms";

/// Opens the network of one client.
pub(super) type Networks = Arc<dyn Fn() -> io::Result<Box<dyn Network>> + Send + Sync>;

/// What all clients of the application have in common.
#[derive(Clone)]
pub(super) struct Cluster {
    pub(super) settings: Arc<Settings>,
    pub(super) networks: Networks,
}

/// What all threads of a process have in common.
#[derive(Clone)]
pub(super) struct Instance {
    pub(super) topology: Topology,
    pub(super) directory: Option<Arc<StateDirectory>>,
    pub(super) process: Uuid,
    pub(super) limits: Limits,
    pub(super) globals: Arc<GlobalStores>,
    pub(super) queries: Arc<Queries>,
}

/// Time limits of members and producers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// How long the group waits for a silent member, if that is known.
    pub(super) session: Option<Duration>,
    /// How long transactions may take, if there are any.
    pub(super) transaction: Option<Duration>,
}

impl Cluster {
    /// A client whose driver has a thread of its own.
    pub(super) fn client(&self, name: &str) -> Result<Client> {
        let (client, driver) = self.stepped_client(name, Uuid::new_v4().as_u64_pair().0)?;
        let clock = Arc::new(kstreams_client::SystemClock::new());
        driver.spawn(&format!("{name}-driver"), clock).map_err(no_network)?;
        Ok(client)
    }

    /// A client and its driver, which somebody has to step. Its random numbers follow from `seed`.
    pub(super) fn stepped_client(&self, name: &str, seed: u64) -> Result<(Client, Driver)> {
        let settings = &self.settings;
        let wire = &settings.wire;
        let per_thread = settings.memory_budget / 8 / settings.stream_threads;
        let fetch = FetchConfig {
            isolation: Isolation::ReadCommitted,
            max_wait: wire.fetch_max_wait,
            max_bytes: wire.fetch_max_bytes as i32,
            max_partition_bytes: wire.partition_max_bytes as i32,
            buffer_bytes: per_thread.max(1 << 20),
            ..FetchConfig::default()
        };
        // A changelog can hold writes of an aborted transaction, even when the application is at least once by now.
        let changelog = fetch.clone();
        let config = ClientConfig {
            client_id: name.to_string(),
            request_timeout: wire.request_timeout,
            // Tasks wait for the brokers as long as they may.
            operation_timeout: settings.task_timeout.max(wire.request_timeout),
            reconnect_backoff: wire.reconnect_backoff,
            reconnect_backoff_max: wire.reconnect_backoff_max,
            retry_backoff: wire.retry_backoff,
            metadata_max_age: wire.metadata_max_age,
            source: fetch,
            changelog,
            seed,
            ..ClientConfig::new(&settings.bootstrap_servers.join(","))
        };
        let network = (self.networks)().map_err(no_network)?;
        Ok(Client::new(config, network))
    }

    /// Checks that the cluster is there and has the topics of users; gives what time limits it has.
    pub(super) fn find(&self, topology: &Topology) -> Result<Limits> {
        let mut client = self.client(&format!("{}-admin", self.settings.application.id))?;
        self.find_topics(&mut client, topology)?;
        let session = self.session_timeout(&mut client)?;
        let transaction = match self.settings.guarantee {
            Guarantee::AtLeastOnce => None,
            Guarantee::ExactlyOnce => Some(transaction_timeout(&self.settings, session)?),
        };
        Ok(Limits { session, transaction })
    }

    /// How long the group waits for a member that is silent, where the brokers tell.
    fn session_timeout(&self, client: &mut Client) -> Result<Option<Duration>> {
        let group: Topic = self.settings.application.id.clone();
        let configs = client.describe_group_configs(vec![group]).wait(FIND_CLUSTER);
        let unknown = |error: ClientError| {
            Error::new(ErrorKind::Broker, format!("cannot look up the group's settings: {error}"))
        };
        let timeout = match configs.map_err(unknown)?.into_values().next() {
            Some(Ok(mut configs)) => configs.remove(SESSION_TIMEOUT).flatten(),
            Some(Err(error)) => {
                tracing::warn!("the session timeout of the group is not known: {error}");
                None
            }
            None => None,
        };
        Ok(timeout.and_then(|ms| ms.parse().ok()).map(Duration::from_millis))
    }

    fn find_topics(&self, client: &mut Client, topology: &Topology) -> Result<()> {
        let bootstrap = self.settings.bootstrap_servers.join(",");
        let unreachable = |why: String| {
            let message = format!(
                "no broker of bootstrap.servers={bootstrap} can be reached: {why}; check the address and that the broker runs"
            );
            Error::new(ErrorKind::Broker, message)
        };
        let dead_letters = self.settings.errors.dead_letters.clone();
        let wanted = topics::external_topics(topology.graph()).into_iter().chain(dead_letters);
        let wanted: Vec<Topic> = wanted.collect();
        let clock = SystemClock::default();
        let since = clock.now().monotonic;
        loop {
            let found = client.describe_topics(wanted.clone()).wait(FIND_CLUSTER);
            let found = found.map_err(|error| unreachable(error.to_string()))?;
            let (counts, missing) = partition_counts(found)?;
            if missing.is_empty() {
                return topics::check_copartitions(topology.graph(), &counts);
            }
            if clock.now().monotonic - since > FIND_TOPICS {
                let message = format!(
                    "the cluster at {bootstrap} does not have {}: create what the application reads and writes before it starts",
                    missing.join(", ")
                );
                return Err(Error::new(ErrorKind::Broker, message));
            }
            client.wait(Duration::from_millis(100));
        }
    }

    pub(super) fn thread_name(&self, process: Uuid, index: usize) -> String {
        format!("{}-StreamThread-{}", self.client_name(process), index + 1)
    }

    pub(super) fn global_thread_name(&self, process: Uuid) -> String {
        format!("{}-GlobalStreamThread", self.client_name(process))
    }

    fn client_name(&self, process: Uuid) -> String {
        let client = self.settings.client_id.clone();
        client.unwrap_or_else(|| format!("{}-{process}", self.settings.application.id))
    }

    /// How producers write, without transactions.
    pub(super) fn producer_config(&self) -> ProducerConfig {
        let wire = &self.settings.wire;
        ProducerConfig {
            batch_size: wire.batch_size,
            linger: wire.linger,
            max_request_size: wire.max_request_size,
            // The thread pauses at the bound by itself; a record in hand is never refused.
            buffer_memory: usize::MAX,
            compression: Compression::from_name(&wire.compression).unwrap_or(Compression::None),
            delivery_timeout: wire.delivery_timeout,
            ..ProducerConfig::default()
        }
    }

    /// How many partitions a topic has.
    pub(super) fn partitions(&self, client: &mut Client, topic: &Arc<str>) -> Result<i32> {
        let failed =
            |error: ClientError| Error::new(ErrorKind::Broker, format!("topic {topic}: {error}"));
        let found = client.describe_topics(vec![topic.clone()]).wait(FIND_CLUSTER);
        match found.map_err(failed)?.remove(topic) {
            Some(description) => Ok(description.map_err(failed)?.partitions),
            None => Err(Error::new(
                ErrorKind::Broker,
                format!("the cluster says nothing about topic {topic}"),
            )),
        }
    }

    pub(super) fn thread_parts(
        &self,
        instance: &Instance,
        index: usize,
        client: Client,
        clock: Arc<dyn Clock>,
    ) -> ThreadParts {
        let Instance { topology, directory, process, limits, globals, queries } = instance;
        let settings = &self.settings;
        let group = topics::group_topology(topology.graph(), settings);
        let producer = self.producer_config();
        let producer = match limits.transaction {
            None => producer,
            // The same one after a restart, so that what a crash left open ends at once.
            Some(timeout) => ProducerConfig {
                transactional_id: Some(format!(
                    "{}-{process}-{}",
                    settings.application.id,
                    index + 1
                )),
                transaction_timeout: timeout,
                ..producer
            },
        };
        ThreadParts {
            index,
            name: self.thread_name(*process, index),
            queries: queries.clone(),
            client,
            settings: settings.clone(),
            plan: {
                let clock = clock.clone();
                let elapsed = Elapsed::by(move || clock.now().monotonic);
                TaskPlan::new(topology.clone(), settings, globals.clone(), elapsed)
            },
            group: GroupConfig {
                session_timeout: limits.session,
                endpoint: settings.application_server.clone(),
                description: Some(topics::description(topology.graph(), &settings.application.id)),
                ..GroupConfig::new(&*settings.application.id, process.to_string(), group)
            },
            producer,
            directory: directory.clone(),
            cleans: index == 0,
            clock,
        }
    }
}

fn no_network(error: io::Error) -> Error {
    Error::new(ErrorKind::Broker, "cannot open the network").with_source(error)
}

/// How long a transaction may take. A member that stops without a word keeps its tasks for its session; a transaction of it that is
/// still open then would keep the next owner waiting.
fn transaction_timeout(settings: &Settings, session: Option<Duration>) -> Result<Duration> {
    let timeout = settings.transaction_timeout.unwrap_or_else(|| {
        session.map_or(TRANSACTION_TIMEOUT, |session| TRANSACTION_TIMEOUT.min(session / 2))
    });
    let refuse = |why: String| {
        let default =
            if settings.transaction_timeout.is_none() { " (its default here)" } else { "" };
        let ms = timeout.as_millis();
        Err(Error::config(format!("transaction.timeout.ms={ms}{default}: {why}")))
    };
    if let Some(session) = session.filter(|session| timeout >= *session) {
        return refuse(format!(
            "it has to be less than the session timeout of the group, {} ms (group config {SESSION_TIMEOUT}): \
             after it another member takes the tasks over",
            session.as_millis()
        ));
    }
    let interval = settings.commit_interval;
    if timeout <= interval {
        return refuse(format!(
            "it has to be more than commit.interval.ms={}: transactions are committed that often; lower commit.interval.ms, or \
             raise this and, as it has to be less, {SESSION_TIMEOUT} of the group",
            interval.as_millis()
        ));
    }
    Ok(timeout)
}

/// How many partitions the topics have, and those that the cluster says it does not have.
fn partition_counts(
    found: Results<Topic, TopicDescription>,
) -> Result<(BTreeMap<Topic, i32>, Vec<String>)> {
    let (mut counts, mut missing) = (BTreeMap::new(), Vec::new());
    for (topic, result) in found {
        match result {
            Ok(description) => {
                counts.insert(topic, description.partitions);
            }
            Err(error) if error.kind() == ClientErrorKind::NotFound => {
                missing.push(topic.to_string());
            }
            Err(error) => {
                return Err(Error::new(ErrorKind::Broker, format!("topic {topic}: {error}")));
            }
        }
    }
    Ok((counts, missing))
}

//! `KafkaStreams`: the handle of a running application.

use super::clock::{Clock, SystemClock};
use super::lifecycle::{State, ThreadState, of_threads};
use super::thread::ThreadParts;
use super::{thread_main, topics};
use crate::config::{Settings, StreamsConfig};
use crate::error::{Error, ErrorKind, Result};
use crate::state::{StateDirectory, clean_up};
use crate::task::TaskPlan;
use crate::topology::Topology;
use kstreams_client::driver::tcp::TcpNetwork;
use kstreams_client::{
    Client, ClientConfig, Compression, ErrorKind as ClientErrorKind, FetchConfig, GroupConfig,
    Isolation, Network, ProducerConfig, Results, Topic, TopicDescription, Waker,
};
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use uuid::Uuid;

/// How long `start` looks for the cluster and its topics.
const FIND_CLUSTER: Duration = Duration::from_secs(10);
/// How long a topic may be missing: one that was just made needs a moment to be known everywhere.
const FIND_TOPICS: Duration = Duration::from_secs(3);
/// How long a handle that is dropped waits for its threads.
const CLOSE_ON_DROP: Duration = Duration::from_secs(30);

type Listener = Box<dyn Fn(State, State) + Send + Sync>;
type Networks = Arc<dyn Fn() -> io::Result<Box<dyn Network>> + Send + Sync>;

/// A running application. The handle is the only thing that threads share; dropping it closes the application.
///
/// ```no_run
/// use kstreams::prelude::*;
///
/// # fn topology() -> Result<Topology> { StreamsBuilder::new().build() }
/// fn main() -> Result<()> {
///     let config = StreamsConfig::new("word-count", "localhost:9092").stream_threads(4);
///     let app = KafkaStreams::start(topology()?, config)?;
///     app.run_until_signal()
/// }
/// ```
pub struct KafkaStreams {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl KafkaStreams {
    /// Starts an application.
    ///
    /// # Errors
    /// When settings are wrong, no broker can be reached within 10 s, a topic that the application reads or writes does not exist,
    /// or another process has the state directory.
    pub fn start(topology: Topology, config: StreamsConfig) -> Result<Self> {
        KafkaStreams::builder(topology, config).start()
    }

    /// Starts with what is not data: listeners, and where the brokers are.
    pub fn builder(topology: Topology, config: StreamsConfig) -> KafkaStreamsBuilder {
        KafkaStreamsBuilder { topology, config, listener: None, networks: None }
    }

    /// The state.
    pub fn state(&self) -> State {
        self.shared.lock().state
    }

    /// Waits until `wanted` is reached, at most `timeout`; gives the state at that moment.
    pub fn wait_for(&self, timeout: Duration, wanted: impl Fn(State) -> bool) -> State {
        let guard = self.shared.lock();
        let waited =
            self.shared.changed.wait_timeout_while(guard, timeout, |inner| !wanted(inner.state));
        waited.unwrap_or_else(PoisonError::into_inner).0.state
    }

    /// Commits, closes all tasks and leaves the group; waits for it at most `timeout`.
    ///
    /// # Errors
    /// The first fatal error of the application, if there was one; a timeout if the threads are still closing.
    pub fn close(&self, timeout: Duration) -> Result<()> {
        self.shared.request_close();
        let state = self.wait_for(timeout, State::is_terminal);
        if !state.is_terminal() {
            let message = format!("the stream threads are still closing after {timeout:?}");
            return Err(Error::new(ErrorKind::Timeout, message));
        }
        for thread in self.threads.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            // A panic was reported by the thread itself.
            let _ = thread.join();
        }
        self.shared.lock().error.take().map_or(Ok(()), Err)
    }

    /// Runs until Ctrl-C or SIGTERM, then closes; or until the application fails. A second signal ends the process at once.
    ///
    /// # Errors
    /// The first fatal error of the application.
    pub fn run_until_signal(&self) -> Result<()> {
        let signals = [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM];
        let mut signals = signal_hook::iterator::Signals::new(signals).map_err(|error| {
            Error::new(ErrorKind::InvalidState, "cannot listen for signals").with_source(error)
        })?;
        let handle = signals.handle();
        let shared = self.shared.clone();
        let waiting = spawn("kstreams-signals", move || {
            let mut signals = signals.forever();
            if signals.next().is_some() {
                shared.request_close();
            }
            // Who asks twice does not want to wait.
            if let Some(signal) = signals.next() {
                let _ = signal_hook::low_level::emulate_default_handler(signal);
            }
        })?;
        self.wait_for(Duration::MAX, State::is_terminal);
        handle.close();
        let _ = waiting.join();
        self.close(CLOSE_ON_DROP)
    }

    /// Deletes all local state of an application that does not run here; it is read from the changelogs again.
    ///
    /// # Errors
    /// When a process has the directory.
    pub fn clean_up(config: &StreamsConfig) -> Result<()> {
        let settings = config.resolve()?;
        clean_up(&settings.state_dir, &settings.application_id)
    }
}

impl Drop for KafkaStreams {
    fn drop(&mut self) {
        if let Err(error) = self.close(CLOSE_ON_DROP) {
            tracing::warn!("while closing: {error}");
        }
    }
}

impl fmt::Debug for KafkaStreams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaStreams").field("state", &self.state()).finish()
    }
}

/// Prepares an application.
pub struct KafkaStreamsBuilder {
    topology: Topology,
    config: StreamsConfig,
    listener: Option<Listener>,
    networks: Option<Networks>,
}

impl fmt::Debug for KafkaStreamsBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaStreamsBuilder").field("config", &self.config).finish()
    }
}

impl KafkaStreamsBuilder {
    /// Is told each change of the state: the new one and the one before. Called on the thread that caused it; it must not block.
    #[must_use]
    pub fn on_state_change(
        mut self,
        listener: impl Fn(State, State) + Send + Sync + 'static,
    ) -> Self {
        self.listener = Some(Box::new(listener));
        self
    }

    /// How brokers are reached; default: TCP. Called once for each client.
    #[must_use]
    pub fn networks<F>(mut self, networks: F) -> Self
    where
        F: Fn() -> io::Result<Box<dyn Network>> + Send + Sync + 'static,
    {
        self.networks = Some(Arc::new(networks));
        self
    }

    /// Starts the application.
    ///
    /// # Errors
    /// As [`KafkaStreams::start`].
    pub fn start(self) -> Result<KafkaStreams> {
        let settings = Arc::new(self.config.resolve()?);
        if topics::external_topics(self.topology.graph()).is_empty() {
            let message = "the topology reads no topic: there is nothing to run";
            return Err(Error::new(ErrorKind::InvalidTopology, message));
        }
        let networks = self
            .networks
            .unwrap_or_else(|| Arc::new(|| Ok(Box::new(TcpNetwork::new()?) as Box<dyn Network>)));
        let cluster = Cluster { settings: settings.clone(), networks };
        cluster.find_topics(&self.topology)?;
        let directory = open_directory(&self.topology, &settings)?;
        let process =
            directory.as_ref().map_or_else(Uuid::new_v4, |directory| directory.process_id());
        let shared = Arc::new(Shared::new(self.listener));
        // From here on a failure closes what was started: the handle is dropped.
        let app = KafkaStreams { shared, threads: Mutex::default() };
        app.shared.become_state(State::Rebalancing);
        for index in 0..settings.stream_threads {
            let name = cluster.thread_name(process, index);
            let parts = cluster.thread_parts(&self.topology, &directory, process, &name, index)?;
            app.shared.add_thread(parts.client.waker());
            let shared = app.shared.clone();
            let thread = spawn(&name, move || {
                let clock = SystemClock::default();
                thread_main::run(index, parts, &shared, &clock as &dyn Clock);
            });
            let thread = thread.inspect_err(|_| {
                app.shared.thread_state(index, ThreadState::Dead);
            })?;
            app.threads.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
        }
        Ok(app)
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    let thread = std::thread::Builder::new().name(name.to_string()).spawn(run);
    thread.map_err(|error| {
        Error::new(ErrorKind::InvalidState, "cannot start a thread").with_source(error)
    })
}

fn open_directory(topology: &Topology, settings: &Settings) -> Result<Option<Arc<StateDirectory>>> {
    if !topology.graph().stores.iter().any(|store| store.persistent) {
        return Ok(None);
    }
    let directory =
        StateDirectory::open(&settings.state_dir, &settings.application_id, Uuid::new_v4())?;
    Ok(Some(Arc::new(directory)))
}

/// What all clients of the application have in common.
struct Cluster {
    settings: Arc<Settings>,
    networks: Networks,
}

impl Cluster {
    fn client(&self, name: &str) -> Result<Client> {
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
        let changelog = FetchConfig { isolation: Isolation::ReadUncommitted, ..fetch.clone() };
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
            seed: Uuid::new_v4().as_u64_pair().0,
            ..ClientConfig::new(&settings.bootstrap_servers.join(","))
        };
        let no_network = |error: io::Error| {
            Error::new(ErrorKind::Broker, "cannot open the network").with_source(error)
        };
        let network = (self.networks)().map_err(no_network)?;
        let (client, driver) = Client::new(config, network);
        let clock = Arc::new(kstreams_client::SystemClock::new());
        driver.spawn(&format!("{name}-driver"), clock).map_err(no_network)?;
        Ok(client)
    }

    /// Checks that the cluster is there and has the topics of users.
    fn find_topics(&self, topology: &Topology) -> Result<()> {
        let bootstrap = self.settings.bootstrap_servers.join(",");
        let unreachable = |why: String| {
            let message = format!(
                "no broker of bootstrap.servers={bootstrap} can be reached: {why}; check the address and that the broker runs"
            );
            Error::new(ErrorKind::Broker, message)
        };
        let mut client = self.client(&format!("{}-admin", self.settings.application_id))?;
        let wanted: Vec<Topic> = topics::external_topics(topology.graph()).into_iter().collect();
        let clock = SystemClock::default();
        let since = clock.now().monotonic;
        loop {
            let found = client.describe_topics(wanted.clone()).wait(FIND_CLUSTER);
            let missing = missing_topics(found.map_err(|error| unreachable(error.to_string()))?)?;
            if missing.is_empty() {
                return Ok(());
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

    fn thread_name(&self, process: Uuid, index: usize) -> String {
        let client = self.settings.client_id.clone();
        let client =
            client.unwrap_or_else(|| format!("{}-{process}", self.settings.application_id));
        format!("{client}-StreamThread-{}", index + 1)
    }

    fn thread_parts(
        &self,
        topology: &Topology,
        directory: &Option<Arc<StateDirectory>>,
        process: Uuid,
        name: &str,
        index: usize,
    ) -> Result<ThreadParts> {
        let settings = &self.settings;
        let group = topics::group_topology(topology.graph(), settings);
        let wire = &settings.wire;
        let producer = ProducerConfig {
            batch_size: wire.batch_size,
            linger: wire.linger,
            max_request_size: wire.max_request_size,
            // The thread pauses at the bound by itself; a record in hand is never refused.
            buffer_memory: usize::MAX,
            compression: Compression::from_name(&wire.compression).unwrap_or(Compression::None),
            delivery_timeout: wire.delivery_timeout,
            ..ProducerConfig::default()
        };
        Ok(ThreadParts {
            client: self.client(name)?,
            settings: settings.clone(),
            plan: TaskPlan {
                topology: topology.clone(),
                application_id: settings.application_id.clone(),
                source: settings.source.clone(),
                log_mode: settings.log_mode,
            },
            group: GroupConfig {
                description: Some(topics::description(topology.graph(), &settings.application_id)),
                ..GroupConfig::new(&*settings.application_id, process.to_string(), group)
            },
            producer,
            directory: directory.clone(),
            cleans: index == 0,
        })
    }
}

/// The topics that the cluster says it does not have.
fn missing_topics(found: Results<Topic, TopicDescription>) -> Result<Vec<String>> {
    let mut missing = Vec::new();
    for (topic, result) in found {
        match result {
            Ok(_) => {}
            Err(error) if error.kind() == ClientErrorKind::NotFound => {
                missing.push(topic.to_string());
            }
            Err(error) => {
                return Err(Error::new(ErrorKind::Broker, format!("topic {topic}: {error}")));
            }
        }
    }
    Ok(missing)
}

/// What the handle and the threads share.
pub(super) struct Shared {
    inner: Mutex<Inner>,
    changed: Condvar,
    listener: Option<Listener>,
}

struct Inner {
    state: State,
    threads: Vec<ThreadState>,
    closing: bool,
    error: Option<Error>,
    wakers: Vec<Waker>,
    /// Changes of the state that the listener was not told yet.
    untold: VecDeque<(State, State)>,
    telling: bool,
}

impl Shared {
    fn new(listener: Option<Listener>) -> Self {
        let inner = Inner {
            state: State::Created,
            threads: Vec::new(),
            closing: false,
            error: None,
            wakers: Vec::new(),
            untold: VecDeque::new(),
            telling: false,
        };
        Shared { inner: Mutex::new(inner), changed: Condvar::new(), listener }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add_thread(&self, waker: Waker) {
        let mut inner = self.lock();
        inner.threads.push(ThreadState::Starting);
        inner.wakers.push(waker);
    }

    pub(super) fn is_closing(&self) -> bool {
        self.lock().closing
    }

    fn request_close(&self) {
        self.become_state(State::PendingShutdown);
        let mut inner = self.lock();
        inner.closing = true;
        inner.wakers.iter().for_each(Waker::wake);
        let has_threads = !inner.threads.is_empty();
        drop(inner);
        if !has_threads {
            self.become_state(State::NotRunning);
        }
    }

    /// A thread failed: the whole instance stops.
    pub(super) fn thread_failed(&self, error: Error) {
        self.lock().error.get_or_insert(error);
        self.become_state(State::PendingError);
        let mut inner = self.lock();
        inner.closing = true;
        inner.wakers.iter().for_each(Waker::wake);
    }

    pub(super) fn thread_state(&self, index: usize, state: ThreadState) {
        let next = {
            let mut inner = self.lock();
            if inner.threads[index] == state {
                return;
            }
            inner.threads[index] = state;
            match inner.threads.iter().all(|thread| *thread == ThreadState::Dead) {
                true if inner.state == State::PendingError => Some(State::Error),
                true => Some(State::NotRunning),
                false => of_threads(&inner.threads),
            }
        };
        if let Some(next) = next {
            self.become_state(next);
        }
    }

    fn become_state(&self, next: State) {
        let mut inner = self.lock();
        if !inner.state.may_become(next) {
            return;
        }
        let before = std::mem::replace(&mut inner.state, next);
        tracing::info!(from = %before, to = %next, "application");
        inner.untold.push_back((next, before));
        self.changed.notify_all();
        if std::mem::replace(&mut inner.telling, true) {
            return;
        }
        // One thread at a time tells, outside the lock and in order; the listener may use the handle.
        while let Some((next, before)) = inner.untold.pop_front() {
            drop(inner);
            if let Some(listener) = &self.listener {
                listener(next, before);
            }
            inner = self.lock();
        }
        inner.telling = false;
    }
}

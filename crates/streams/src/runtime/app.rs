//! `KafkaStreams`: the handle of a running application.

use super::clock::{Clock, SystemClock};
use super::cluster::{Cluster, Instance, Networks};
use super::lifecycle::{State, ThreadState};
use super::queries::Queries;
use super::shared::{Listener, Shared};
use super::store_writer::{StoreWriter, Updates};
use super::thread_main::ThreadMain;
use super::uncaught::{ThreadResponse, UncaughtHandler};
use super::{global_thread, topics};
use crate::config::{Settings, StreamsConfig};
use crate::error::{Error, ErrorKind, Result};
use crate::processor::Elapsed;
use crate::state::{GlobalStores, StateDirectory, StoreToken, Writable, clean_up};
use crate::task::TaskPlan;
use crate::topology::{Severity, Topology};
use kstreams_client::Network;
use kstreams_client::driver::tcp::TcpNetwork;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use uuid::Uuid;

/// How long a handle that is dropped waits for its threads.
const CLOSE_ON_DROP: Duration = Duration::from_secs(30);

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
    pub(super) shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    pub(super) topology: Topology,
    cluster: Cluster,
    pub(super) globals: Arc<GlobalStores>,
    pub(super) queries: Arc<Queries>,
    /// The store writers that were asked for, by topic.
    writers: Mutex<BTreeMap<Arc<str>, Arc<Updates>>>,
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
        KafkaStreamsBuilder { topology, config, listener: None, uncaught: None, networks: None }
    }

    /// The state.
    pub fn state(&self) -> State {
        self.shared.state()
    }

    /// Waits until `wanted` is reached, at most `timeout`; gives the state at that moment.
    pub fn wait_for(&self, timeout: Duration, wanted: impl Fn(State) -> bool) -> State {
        self.shared.wait_for(timeout, wanted)
    }

    /// Commits, closes all tasks and leaves the group; waits for it at most `timeout`, whatever user code does meanwhile. From a
    /// listener or handler, which is called on a thread of the application, it returns at once: the application closes when that
    /// call has returned.
    ///
    /// # Errors
    /// The first fatal error of the application, if there was one; a timeout if the threads are still closing.
    pub fn close(&self, timeout: Duration) -> Result<()> {
        let writers: Vec<_> = self.writers().values().cloned().collect();
        writers.iter().for_each(|writer| writer.close());
        self.shared.request_close();
        if self.is_own_thread() {
            return Ok(());
        }
        let clock = SystemClock::default();
        let since = clock.now().monotonic;
        let left = || timeout.saturating_sub(clock.now().monotonic - since);
        if !self.wait_for(timeout, State::is_terminal).is_terminal()
            || !self.shared.wait_ended(left())
        {
            let message = format!("the stream threads are still closing after {timeout:?}");
            return Err(Error::new(ErrorKind::Timeout, message));
        }
        let threads = std::mem::take(&mut *self.threads());
        for thread in threads {
            // A panic was reported by the thread itself.
            let _ = thread.join();
        }
        writers.iter().for_each(|writer| writer.wait_closed(left()));
        self.shared.take_error().map_or(Ok(()), Err)
    }

    fn is_own_thread(&self) -> bool {
        let current = std::thread::current().id();
        self.threads().iter().any(|thread| thread.thread().id() == current)
    }

    fn threads(&self) -> MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs what a thread of the application does.
    fn spawn(&self, name: &str, run: impl FnOnce(&Shared) + Send + 'static) -> Result<()> {
        let living = self.shared.thread_begins();
        let thread = spawn(name, move || run(living.shared()))?;
        self.threads().push(thread);
        Ok(())
    }

    fn start_thread(&self, instance: &Instance, index: usize) -> Result<()> {
        let (cluster, instance) = (self.cluster.clone(), instance.clone());
        let name = cluster.thread_name(instance.process, index);
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
        let renew = {
            let (name, clock) = (name.clone(), clock.clone());
            move || {
                let client = cluster.client(&name)?;
                Ok(cluster.thread_parts(&instance, index, client, clock.clone()))
            }
        };
        let parts = renew()?;
        self.shared.add_thread(parts.client.waker());
        let started = self.spawn(&name, move |shared| {
            ThreadMain { index, shared, clock: &*clock, renew: &renew }.run(parts);
        });
        started.inspect_err(|_| self.shared.thread_state(index, ThreadState::Dead))
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
        // Closing has an end, also when user code has none.
        self.wait_for(Duration::MAX, |state| {
            state.is_terminal() || matches!(state, State::PendingShutdown | State::PendingError)
        });
        let closed = self.close(CLOSE_ON_DROP);
        handle.close();
        let _ = waiting.join();
        closed
    }

    /// The way to write to a store from any thread: its updates go through the topic that [`StreamsBuilder::store_writer`] names,
    /// and reach the task that owns the key in the order in which they were put. Each is written once, whatever the connection
    /// does; what was put and not waited for when the process dies may be lost.
    ///
    /// ```no_run
    /// use kstreams::prelude::*;
    ///
    /// # fn main() -> Result<()> {
    /// let prices = Stores::key_value::<String, f64>("prices");
    /// let builder = StreamsBuilder::new();
    /// builder.store_writer(&prices, "price-updates");
    /// let app = KafkaStreams::start(builder.build()?, StreamsConfig::new("prices", "localhost:9092"))?;
    /// let writer = app.store_writer(&prices)?;
    /// writer.put("EUR", 1.08)?.wait()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// [`StreamsBuilder::store_writer`]: crate::dsl::StreamsBuilder::store_writer
    ///
    /// # Errors
    /// When the topology names no topic for the store, or the topic cannot be looked up.
    pub fn store_writer<S: Writable>(&self, token: &StoreToken<S>) -> Result<StoreWriter<S>> {
        let Some(topic) = self.topology.graph().writers.get(token.name()) else {
            let name = token.name();
            let message = format!(
                "store {name} has no writer: name a topic for its updates with StreamsBuilder::store_writer"
            );
            return Err(Error::new(ErrorKind::InvalidTopology, message));
        };
        if self.shared.is_closing() {
            let message = "the application is closed: it takes no updates of stores";
            return Err(Error::new(ErrorKind::InvalidState, message));
        }
        let mut stores = self.topology.graph().stores.iter();
        if let Some(store) = stores.find(|store| *store.name == *token.name()) {
            store.check_token(token.spec)?;
        }
        let serdes = S::serdes(token);
        let updates = self.updates(topic)?;
        Ok(StoreWriter::new(updates, serdes.key.clone(), serdes.value.clone()))
    }

    /// The queue of a topic's updates; its thread is started with the first use.
    fn updates(&self, topic: &Arc<str>) -> Result<Arc<Updates>> {
        let mut writers = self.writers();
        if let Some(updates) = writers.get(topic) {
            return Ok(updates.clone());
        }
        let name = format!("{}-{topic}-writer", self.cluster.settings.application.id);
        let mut client = self.cluster.client(&name)?;
        let partitions = self.cluster.partitions(&mut client, topic)?;
        let wire = &self.cluster.settings.wire;
        let updates =
            Updates::new(topic.clone(), partitions, wire.buffer_memory, wire.delivery_timeout);
        let (updates, config) = (Arc::new(updates), self.cluster.producer_config());
        let writing = updates.clone();
        // It ends when the writer is closed; nobody has to wait for longer than `close` may take.
        drop(spawn(&name, move || writing.run(client, &config))?);
        writers.insert(topic.clone(), updates.clone());
        Ok(updates)
    }

    fn writers(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, Arc<Updates>>> {
        self.writers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the thread that fills the global tables.
    fn read_globals(&self, instance: &Instance) -> Result<()> {
        let cluster = &self.cluster;
        let name = cluster.global_thread_name(instance.process);
        let (topology, globals) = (instance.topology.clone(), instance.globals.clone());
        let plan = TaskPlan::new(topology, &cluster.settings, globals, Elapsed::none());
        let client = cluster.client(&name)?;
        self.spawn(&name, move |shared| global_thread::run(client, plan, shared))
    }

    /// Deletes all local state of an application that does not run here; it is read from the changelogs again.
    ///
    /// # Errors
    /// When a process has the directory.
    pub fn clean_up(config: &StreamsConfig) -> Result<()> {
        let settings = config.resolve()?;
        clean_up(&settings.state_dir, &settings.application.id)
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
    uncaught: Option<UncaughtHandler>,
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

    /// Is asked about errors that no other handler has dealt with, and that ended a stream thread: whether another thread takes its
    /// place, this instance stops (the default), or all instances of the application. It is called on the thread that failed.
    ///
    /// ```no_run
    /// use kstreams::prelude::*;
    ///
    /// # fn main() -> Result<()> {
    /// # let topology = StreamsBuilder::new().build()?;
    /// let app = KafkaStreams::builder(topology, StreamsConfig::new("orders", "localhost:9092"))
    ///     .on_uncaught(|error| match error.kind() {
    ///         // Another service may be back in a moment.
    ///         ErrorKind::Processing => ThreadResponse::ReplaceThread,
    ///         _ => ThreadResponse::ShutdownClient,
    ///     })
    ///     .start()?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn on_uncaught(
        mut self,
        handler: impl Fn(&Error) -> ThreadResponse + Send + Sync + 'static,
    ) -> Self {
        self.uncaught = Some(Box::new(handler));
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
        for finding in self.topology.lint() {
            match finding.severity {
                Severity::Warning => tracing::warn!("topology: {finding}"),
                Severity::Note => tracing::info!("topology: {finding}"),
            }
        }
        let networks = self
            .networks
            .unwrap_or_else(|| Arc::new(|| Ok(Box::new(TcpNetwork::new()?) as Box<dyn Network>)));
        let cluster = Cluster { settings: settings.clone(), networks };
        let limits = cluster.find(&self.topology)?;
        let directory = open_directory(&self.topology, &settings)?;
        let process =
            directory.as_ref().map_or_else(Uuid::new_v4, |directory| directory.process_id());
        let globals = Arc::new(GlobalStores::new(&self.topology.graph().globals));
        let topology = self.topology;
        let id = settings.application.id.clone();
        let queries = Queries::new(topology.clone(), id, settings.stream_threads);
        let (all_globals, all_queries) = (globals.clone(), queries.clone());
        let instance = Instance { topology, directory, process, limits, globals, queries };
        let shared = Arc::new(Shared::new(self.listener, self.uncaught));
        // From here on a failure closes what was started: the handle is dropped.
        let (threads, writers) = (Mutex::default(), Mutex::default());
        let topology = instance.topology.clone();
        let app = KafkaStreams {
            shared,
            threads,
            topology,
            cluster,
            globals: all_globals,
            queries: all_queries,
            writers,
        };
        app.shared.become_state(State::Rebalancing);
        if !instance.globals.are_filled() {
            app.read_globals(&instance)?;
        }
        for index in 0..settings.stream_threads {
            app.start_thread(&instance, index)?;
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
        StateDirectory::open(&settings.state_dir, &settings.application.id, Uuid::new_v4())?;
    Ok(Some(Arc::new(directory)))
}

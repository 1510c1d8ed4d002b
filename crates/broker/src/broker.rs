//! The handle: builds a node, puts the fronts around it, runs its timer, and stops it all.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use bytes::Bytes;

use crate::clock::{Clock, SystemClock};
use crate::config::BrokerConfig;
use crate::error::BrokerError;
use crate::faults::Fault;
use crate::listener::{Bound, Listener};
use crate::mailbox::{Mailbox, Outgoing};
use crate::memory::MemoryConnection;
use crate::node::{ConnectionId, Node, Output};

/// How to start a [`Broker`]: in memory, on a free port of 127.0.0.1, with Kafka's defaults, unless
/// told otherwise.
#[derive(Debug)]
#[must_use]
pub struct BrokerBuilder {
    config: BrokerConfig,
    directory: Option<PathBuf>,
    port: Option<u16>,
    clock: Option<Arc<dyn Clock>>,
}

impl BrokerBuilder {
    /// Keeps everything in memory.
    pub fn in_memory(mut self) -> Self {
        self.directory = None;
        self
    }

    /// Keeps records, topics, committed offsets, transactions and streams groups with their members
    /// under `path`, which is made if it is missing. They outlive a crash of the process (not one of
    /// the machine: nothing waits for the disk).
    pub fn directory(mut self, path: impl Into<PathBuf>) -> Self {
        self.directory = Some(path.into());
        self
    }

    /// Takes these settings.
    pub fn config(mut self, config: BrokerConfig) -> Self {
        self.config = config;
        self
    }

    /// Listens on this port of 127.0.0.1; 0 takes a free one.
    pub fn port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
    }

    /// Opens no socket: the broker is reached by [`Broker::connect`] only.
    pub fn without_tcp(mut self) -> Self {
        self.port = None;
        self
    }

    /// Takes the time from `clock`, and starts no timer thread: what is due happens in
    /// [`Broker::tick`].
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Starts the broker.
    ///
    /// # Errors
    /// The port or the directory cannot be had, or a file in it cannot be read.
    pub fn start(self) -> Result<Broker, BrokerError> {
        let timed = self.clock.is_none();
        let clock = self.clock.unwrap_or_else(|| Arc::new(SystemClock::new()));
        let bound = self.port.map(Bound::new).transpose()?;
        let address = bound.as_ref().map(Bound::address);
        let node = Node::open(self.config, self.directory, address, clock.now_ms())?;
        let shared = Arc::new(Shared::new(node, clock));
        let listener = bound.map(|bound| bound.serve(Arc::clone(&shared))).transpose()?;
        let timer = timed.then(|| spawn_timer(&shared)).transpose()?;
        Ok(Broker { shared, address, listener, timer })
    }
}

/// A running broker; dropping it stops it and joins its threads.
#[derive(Debug)]
pub struct Broker {
    shared: Arc<Shared>,
    address: Option<SocketAddr>,
    listener: Option<Listener>,
    timer: Option<JoinHandle<()>>,
}

/// A record as it lies in the broker, for tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredRecord {
    /// The partition it is in.
    pub partition: i32,
    /// Its offset.
    pub offset: i64,
    /// Its timestamp in milliseconds.
    pub timestamp: i64,
    /// Its key.
    pub key: Option<Bytes>,
    /// Its value.
    pub value: Option<Bytes>,
    /// Its headers, in order.
    pub headers: Vec<(String, Option<Bytes>)>,
    /// Whether readers of committed records see it: not while a transaction is open before it, nor if its own was aborted.
    pub committed: bool,
}

impl Broker {
    /// What to start, in memory and with TCP on a free port, if nothing else is said.
    pub fn builder() -> BrokerBuilder {
        BrokerBuilder {
            config: BrokerConfig::default(),
            directory: None,
            port: Some(0),
            clock: None,
        }
    }

    /// The address for `bootstrap.servers`, as `127.0.0.1:port`; without TCP a name that only
    /// memory connections understand.
    #[must_use]
    pub fn bootstrap(&self) -> String {
        self.address.map_or_else(|| "memory:9092".to_owned(), |address| address.to_string())
    }

    /// A new connection without a socket.
    #[must_use]
    pub fn connect(&self) -> MemoryConnection {
        MemoryConnection::new(Arc::clone(&self.shared))
    }

    /// Something that makes memory connections, for clients that connect on their own. A connection
    /// made after the broker stopped is closed.
    pub fn connector(&self) -> impl Fn() -> MemoryConnection + Send + Sync + Clone + use<> {
        let shared = Arc::clone(&self.shared);
        move || MemoryConnection::new(Arc::clone(&shared))
    }

    /// Creates a topic with the default settings.
    ///
    /// # Errors
    /// The name or the number is not valid, or the topic exists.
    pub fn create_topic(&self, name: &str, partitions: i32) -> Result<(), BrokerError> {
        self.create_topic_with(name, partitions, &[])
    }

    /// Creates a topic with settings by Kafka's names (`cleanup.policy`, `retention.ms`, ...).
    ///
    /// # Errors
    /// The name, the number or a setting is not valid, or the topic exists.
    pub fn create_topic_with(
        &self,
        name: &str,
        partitions: i32,
        configs: &[(&str, &str)],
    ) -> Result<(), BrokerError> {
        self.shared.step(|node| node.create_topic(name, partitions, configs))?;
        Ok(())
    }

    /// All records of a topic in partition and offset order, for tests: also those of open and
    /// aborted transactions, without control records.
    ///
    /// # Errors
    /// The topic does not exist, or a stored batch cannot be read.
    pub fn records(&self, topic: &str) -> Result<Vec<StoredRecord>, BrokerError> {
        self.shared.step(|node| node.stored_records(topic))
    }

    /// The offset that `group` committed for a partition, if there is one.
    #[must_use]
    pub fn committed(&self, group: &str, topic: &str, partition: i32) -> Option<i64> {
        self.shared.step(|node| node.committed_offset(group, topic, partition))
    }

    /// The first offset of a partition and the one its next record will get.
    #[must_use]
    pub fn offsets(&self, topic: &str, partition: i32) -> Option<(i64, i64)> {
        self.shared.step(|node| node.log_offsets(topic, partition))
    }

    /// Does the cleaning that `topic`'s settings ask for (compaction, retention) now.
    ///
    /// # Errors
    /// The topic does not exist, or its files cannot be written.
    pub fn compact(&self, topic: &str) -> Result<(), BrokerError> {
        self.shared.step(|node| node.clean_topic(topic))
    }

    /// Lets something go wrong for the requests to come.
    pub fn inject(&self, fault: Fault) {
        self.shared.step(|node| node.faults.add(fault));
    }

    /// Takes back all faults that have not happened yet.
    pub fn clear_faults(&self) {
        self.shared.step(|node| node.faults.clear());
    }

    /// Closes all connections, as a broker that restarts does; state stays.
    pub fn cut_connections(&self) {
        self.shared.step(Node::cut_connections);
    }

    /// Does what is due (long polls, sessions, rebalances, cleaning); says when, in the clock's
    /// milliseconds, it wants to be called next. Only needed with a clock of one's own.
    pub fn tick(&self) -> Option<i64> {
        let now = self.shared.clock.now_ms();
        self.shared.step(|node| {
            node.tick(now);
            node.next_deadline()
        })
    }

    /// Stops the broker: closes connections and files and joins its threads.
    pub fn stop(self) {}
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.shared.stop();
        self.listener = None;
        if let Some(timer) = self.timer.take() {
            let _ = timer.join();
        }
    }
}

/// The node behind its lock, as the fronts and the timer see it.
pub(crate) struct Shared {
    node: Mutex<Guarded>,
    due: Condvar,
    clock: Arc<dyn Clock>,
    max_request_bytes: usize,
}

#[derive(Debug)]
struct Guarded {
    node: Node,
    /// What the timer waits for.
    armed: Option<i64>,
    stopped: bool,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

impl Shared {
    fn new(node: Node, clock: Arc<dyn Clock>) -> Self {
        let max_request_bytes = node.config.socket_request_max_bytes;
        let guarded = Guarded { node, armed: None, stopped: false };
        Self { node: Mutex::new(guarded), due: Condvar::new(), clock, max_request_bytes }
    }

    pub(crate) fn max_request_bytes(&self) -> usize {
        self.max_request_bytes
    }

    pub(crate) fn connect(&self, peer: &str, mailbox: &Arc<Mailbox>) -> ConnectionId {
        let mut guarded = self.guarded();
        let id = guarded.node.connect(peer, Arc::clone(mailbox));
        if guarded.stopped {
            mailbox.put(Outgoing::Close);
        }
        id
    }

    pub(crate) fn disconnect(&self, id: ConnectionId) {
        self.step(|node| node.disconnect(id));
    }

    pub(crate) fn handle(&self, id: ConnectionId, request: Bytes) {
        self.step(|node| node.handle(id, request));
    }

    /// Runs one step of the node, hands out its answers and sets the timer.
    fn step<R>(&self, step: impl FnOnce(&mut Node) -> R) -> R {
        let mut guarded = self.guarded();
        guarded.node.set_time(self.clock.now_ms());
        let result = step(&mut guarded.node);
        let outputs = guarded.node.take_outputs();
        for Output { mailbox, outgoing } in &outputs {
            mailbox.put(outgoing.clone());
        }
        let next = guarded.node.next_deadline();
        if next.is_some_and(|next| guarded.armed.is_none_or(|armed| next < armed)) {
            self.due.notify_all();
        }
        drop(guarded);
        for Output { mailbox, .. } in outputs {
            mailbox.wake();
        }
        result
    }

    fn stop(&self) {
        self.step(Node::close);
        let mut guarded = self.guarded();
        guarded.stopped = true;
        self.due.notify_all();
    }

    fn guarded(&self) -> MutexGuard<'_, Guarded> {
        self.node.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `tick` when it is due, until the broker is stopped.
    fn run_timer(&self) {
        loop {
            {
                let mut guarded = self.guarded();
                loop {
                    if guarded.stopped {
                        return;
                    }
                    let next = guarded.node.next_deadline();
                    let wait = next.map(|next| next - self.clock.now_ms());
                    guarded.armed = next;
                    guarded = match wait {
                        Some(ms) if ms <= 0 => break,
                        Some(ms) => {
                            let wait = Duration::from_millis(ms.unsigned_abs());
                            let waited = self.due.wait_timeout(guarded, wait);
                            waited.unwrap_or_else(PoisonError::into_inner).0
                        }
                        None => self.due.wait(guarded).unwrap_or_else(PoisonError::into_inner),
                    };
                }
            }
            let now = self.clock.now_ms();
            self.step(|node| node.tick(now));
        }
    }
}

fn spawn_timer(shared: &Arc<Shared>) -> Result<JoinHandle<()>, BrokerError> {
    let shared = Arc::clone(shared);
    thread::Builder::new()
        .name("kafka-timer".into())
        .spawn(move || shared.run_timer())
        .map_err(|source| BrokerError::Listen { address: "the timer thread".into(), source })
}

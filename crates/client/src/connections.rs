//! All connections of a client: which are wanted, open, pausing after a failure.
//!
//! A connection has a broker and a lane. Brokers answer the requests of a connection in order, and
//! a fetch may wait for records: so nothing else travels on a fetch lane.
//!
//! ```text
//!          use            opened             versions known
//! Idle ----------> Opening ----> Negotiating --------------> Ready
//!   ^                 |              |                         |
//!   |   pause over    v   failed     v        closed           |
//!   +------------- Pausing <---------+-------------------------+
//! ```

use crate::config::{ClientConfig, address};
use crate::connection::{Connection, Received, Ticket};
use crate::error::{ClientError, ErrorKind};
use crate::random::Random;
use crate::requests::{Api, Request, Response};
use crate::types::{BrokerId, Now};
use bytes::Bytes;
use kstreams_protocol::protocol::StrBytes;
use std::collections::BTreeMap;
use std::time::Duration;

/// One of the brokers that the client knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Node {
    /// By its place in `bootstrap.servers`.
    Bootstrap(usize),
    /// By its id.
    Broker(BrokerId),
}

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lane {
    /// Metadata and whatever any broker answers at once.
    Control,
    /// Topics and logs: what may take a broker a while.
    Admin,
    /// Heartbeats and positions of a group, begin and end of transactions: they never wait for what
    /// a topic's creation takes.
    Group,
    /// Produce requests.
    Produce,
    /// Fetch requests of one fetcher. Two take turns, so that a partition which becomes due never
    /// waits for the long poll of others.
    Fetch { fetcher: usize, slot: u8 },
}

/// Names an open or opening stream to the driver. Never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Token(pub usize);

/// How long nobody looks for another broker while one is being connected or asked.
const PATIENCE: Duration = Duration::from_secs(1);

#[derive(Debug)]
enum State {
    Idle,
    Pausing { until: Now },
    Opening { token: Token, deadline: Now },
    Open { token: Token, connection: Connection },
}

#[derive(Debug)]
struct Slot {
    host: String,
    port: u16,
    state: State,
    /// When it was last begun to open it.
    since: Now,
    failures: u32,
    muted_until: Now,
}

impl Slot {
    fn address(&self) -> (&str, u16) {
        (&self.host, self.port)
    }

    fn is_opening(&self) -> bool {
        match &self.state {
            State::Opening { .. } => true,
            State::Open { connection, .. } => !connection.is_ready(),
            State::Idle | State::Pausing { .. } => false,
        }
    }
}

/// A stream that the driver shall open.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) token: Token,
    pub(crate) host: String,
    pub(crate) port: u16,
}

/// An answer or the lack of one.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) ticket: Ticket,
    pub(crate) node: Node,
    pub(crate) result: Result<Response, ClientError>,
}

#[derive(Debug)]
pub(crate) struct Connections {
    addresses: BTreeMap<Node, (String, u16)>,
    slots: BTreeMap<(Node, Lane), Slot>,
    tokens: BTreeMap<Token, (Node, Lane)>,
    next_token: usize,
    wanted: Vec<Wanted>,
    closing: Vec<Token>,
    answers: Vec<Answer>,
    client_id: StrBytes,
    request_timeout: Duration,
    setup_timeout: Duration,
    backoff: Duration,
    backoff_max: Duration,
    random: Random,
    /// When a broker was last known to be well.
    pub(crate) last_ready: Now,
    /// How the last attempt failed.
    pub(crate) last_failure: Option<String>,
    /// The newest that a broker said of `transaction.version`, see [`Connection`].
    transaction_version: (i64, i16),
    /// Whether a broker was lost, or one is wanted that is not in the cluster any more: what it led
    /// has moved, or will.
    lost_broker: bool,
}

impl Connections {
    pub(crate) fn new(config: &ClientConfig) -> Self {
        let addresses = config.bootstrap.iter().enumerate();
        let addresses =
            addresses.filter_map(|(at, server)| Some((Node::Bootstrap(at), address(server)?)));
        Self {
            addresses: addresses.collect(),
            slots: BTreeMap::new(),
            tokens: BTreeMap::new(),
            next_token: 0,
            wanted: Vec::new(),
            closing: Vec::new(),
            answers: Vec::new(),
            client_id: StrBytes::from_string(config.client_id.clone()),
            request_timeout: config.request_timeout,
            setup_timeout: config.connection_setup_timeout,
            backoff: config.reconnect_backoff,
            backoff_max: config.reconnect_backoff_max,
            random: Random::new(!config.seed),
            last_ready: Now::ZERO,
            last_failure: None,
            transaction_version: (-1, 0),
            lost_broker: false,
        }
    }

    /// The brokers as metadata shows them. Connections to old addresses are cut.
    pub(crate) fn set_brokers(&mut self, brokers: &BTreeMap<BrokerId, (String, u16)>, now: Now) {
        let known = |node: &Node| match node {
            Node::Bootstrap(_) => true,
            Node::Broker(id) => brokers.contains_key(id),
        };
        self.addresses.retain(|node, _| known(node));
        for (id, address) in brokers {
            self.addresses.insert(Node::Broker(*id), address.clone());
        }
        let stale = self.slots.iter().filter(|((node, _), slot)| {
            self.addresses
                .get(node)
                .is_none_or(|(host, port)| *host != slot.host || *port != slot.port)
        });
        let stale: Vec<_> = stale.map(|(key, _)| *key).collect();
        for key in stale {
            self.fail(key, "the broker has another address now", now);
            self.slots.remove(&key);
        }
    }

    /// A broker that something else than metadata named.
    pub(crate) fn add_broker(&mut self, id: BrokerId, host: &str, port: u16) {
        self.addresses.entry(Node::Broker(id)).or_insert_with(|| (host.to_owned(), port));
    }

    pub(crate) fn brokers(&self) -> impl Iterator<Item = Node> + '_ {
        self.addresses.keys().copied().filter(|node| matches!(node, Node::Broker(_)))
    }

    pub(crate) fn nodes(&self) -> impl Iterator<Item = Node> + '_ {
        // Brokers first: a bootstrap server may be a balancer in front of them.
        let bootstraps = self.addresses.keys().copied().filter(|n| matches!(n, Node::Bootstrap(_)));
        self.brokers().chain(bootstraps)
    }

    /// Whether a request can be sent now. If not, the connection is on its way, or pauses.
    pub(crate) fn is_ready(&mut self, node: Node, lane: Lane, now: Now) -> bool {
        let Some((host, port)) = self.addresses.get(&node) else {
            self.lost_broker = true;
            return false;
        };
        let slot = self.slots.entry((node, lane)).or_insert_with(|| Slot {
            host: host.clone(),
            port: *port,
            state: State::Idle,
            since: now,
            failures: 0,
            muted_until: Now::ZERO,
        });
        match &slot.state {
            State::Open { connection, .. } => connection.is_ready() && slot.muted_until <= now,
            State::Opening { .. } => false,
            State::Pausing { until } if *until > now => false,
            State::Idle | State::Pausing { .. } => {
                let token = Token(self.next_token);
                self.next_token += 1;
                slot.state = State::Opening { token, deadline: now + self.setup_timeout };
                slot.since = now;
                self.tokens.insert(token, (node, lane));
                self.wanted.push(Wanted { token, host: slot.host.clone(), port: slot.port });
                false
            }
        }
    }

    /// Whether the connection is open and its versions are known.
    pub(crate) fn in_use(&self, node: Node, lane: Lane) -> bool {
        matches!(self.slots.get(&(node, lane)).map(|slot| &slot.state),
            Some(State::Open { connection, .. }) if connection.is_ready())
    }

    /// Whether the connection is being set up, without asking for it.
    pub(crate) fn is_opening(&self, node: Node, lane: Lane) -> bool {
        self.slots.get(&(node, lane)).is_some_and(Slot::is_opening)
    }

    /// Whether it is being set up, and has not been for long.
    pub(crate) fn is_opening_soon(&self, node: Node, lane: Lane, now: Now) -> bool {
        let soon = |slot: &&Slot| slot.is_opening() && now < slot.since + PATIENCE;
        self.slots.get(&(node, lane)).filter(soon).is_some()
    }

    /// Whether the broker leaves a request unanswered for longer than it should: it may hang.
    pub(crate) fn is_suspect(&self, node: Node, now: Now) -> bool {
        let Some((host, port)) = self.addresses.get(&node) else { return true };
        let of = |slot: &&Slot| slot.address() == (host.as_str(), *port);
        let lanes = self.slots.iter().filter(|((_, lane), _)| *lane != Lane::Admin);
        let mut slow = lanes.map(|(_, slot)| slot).filter(of);
        slow.any(|slot| match &slot.state {
            State::Open { connection, .. } => connection
                .deadline()
                .is_some_and(|deadline| deadline + PATIENCE < now + self.request_timeout),
            State::Idle | State::Pausing { .. } | State::Opening { .. } => false,
        })
    }

    /// Whether the broker is gone from the cluster, or the last attempts failed and the next one
    /// has to wait.
    pub(crate) fn is_down(&self, node: Node, lane: Lane, now: Now) -> bool {
        let pausing = matches!(self.slots.get(&(node, lane)).map(|slot| &slot.state),
            Some(State::Pausing { until }) if *until > now);
        pausing || !self.addresses.contains_key(&node)
    }

    /// The version that an open connection speaks; an error if the broker knows none of ours.
    pub(crate) fn version(&self, node: Node, lane: Lane, api: Api) -> Result<i16, ClientError> {
        match self.slots.get(&(node, lane)).map(|slot| &slot.state) {
            Some(State::Open { connection, .. }) => {
                connection.version(api).map_err(|error| error.within(self.name(node)))
            }
            _ => Err(ClientError::retriable(format!("{} is not connected", self.name(node)))),
        }
    }

    /// Level of the cluster's feature `transaction.version`, as far as a broker told.
    pub(crate) fn transaction_version(&self) -> i16 {
        self.transaction_version.1
    }

    /// Sends a request on a connection that [`Self::is_ready`].
    pub(crate) fn send(
        &mut self,
        node: Node,
        lane: Lane,
        request: &Request,
        ticket: Ticket,
        now: Now,
    ) -> Result<(), ClientError> {
        self.send_up_to(i16::MAX, node, lane, request, ticket, now)
    }

    /// Sends a request in a version up to `limit`.
    pub(crate) fn send_up_to(
        &mut self,
        limit: i16,
        node: Node,
        lane: Lane,
        request: &Request,
        ticket: Ticket,
        now: Now,
    ) -> Result<(), ClientError> {
        let name = self.name(node);
        match self.slots.get_mut(&(node, lane)).map(|slot| &mut slot.state) {
            Some(State::Open { connection, .. }) => connection
                .send(request, limit, ticket, now + self.request_timeout)
                .map_err(|error| error.within(name)),
            _ => Err(ClientError::retriable(format!("{name} is not connected"))),
        }
    }

    pub(crate) fn in_flight(&self, node: Node, lane: Lane) -> usize {
        match self.slots.get(&(node, lane)).map(|slot| &slot.state) {
            Some(State::Open { connection, .. }) => connection.in_flight(),
            _ => 0,
        }
    }

    /// A name of the broker for messages.
    pub(crate) fn name(&self, node: Node) -> String {
        let address = self.addresses.get(&node);
        let address =
            address.map_or_else(|| "?".to_owned(), |(host, port)| format!("{host}:{port}"));
        match node {
            Node::Bootstrap(_) => format!("bootstrap server {address}"),
            Node::Broker(id) => format!("broker {id} ({address})"),
        }
    }

    /// The driver opened the stream.
    pub(crate) fn opened(&mut self, token: Token, now: Now) {
        let Some(slot) = self.tokens.get(&token).and_then(|key| self.slots.get_mut(key)) else {
            return;
        };
        if matches!(slot.state, State::Opening { .. }) {
            // A broker that hangs is found at the versions: its system accepts connections.
            let timeout = self.setup_timeout.min(self.request_timeout);
            let connection = Connection::new(self.client_id.clone(), now, timeout);
            slot.state = State::Open { token, connection };
        }
    }

    /// The driver lost the stream, or could not open it.
    pub(crate) fn lost(&mut self, token: Token, why: &str, now: Now) {
        if let Some(key) = self.tokens.get(&token).copied() {
            self.fail(key, why, now);
        }
    }

    /// One frame came.
    pub(crate) fn received(&mut self, token: Token, frame: Bytes, now: Now) {
        let Some(key) = self.tokens.get(&token).copied() else { return };
        let Some(slot) = self.slots.get_mut(&key) else { return };
        let State::Open { connection, .. } = &mut slot.state else { return };
        match connection.receive(frame, now) {
            Ok(Received::Ready) => {
                slot.failures = 0;
                self.transaction_version =
                    self.transaction_version.max(connection.transaction_version());
                self.last_ready = now;
                self.last_failure = None;
                tracing::debug!(broker = %self.name(key.0), lane = ?key.1, "connected");
            }
            Ok(Received::Again) => {}
            Ok(Received::Answer(ticket, response)) => {
                self.last_ready = now;
                let throttle = response.throttle_time_ms();
                if throttle > 0 {
                    slot.muted_until = now + Duration::from_millis(throttle as u64);
                }
                self.answers.push(Answer { ticket, node: key.0, result: Ok(response) });
            }
            Err(error) => {
                tracing::warn!(broker = %self.name(key.0), %error, "the connection is given up");
                self.fail(key, &error.to_string(), now);
            }
        }
    }

    /// Ends a connection: its requests are answered with an error, and it pauses.
    fn fail(&mut self, key: (Node, Lane), why: &str, now: Now) {
        let name = self.name(key.0);
        let Some(slot) = self.slots.get_mut(&key) else { return };
        let (token, unanswered, was_ready) = match std::mem::replace(&mut slot.state, State::Idle) {
            State::Opening { token, .. } => (token, Vec::new(), false),
            State::Open { token, connection } => {
                let ready = connection.is_ready();
                (token, connection.unanswered().collect(), ready)
            }
            other => {
                slot.state = other;
                return;
            }
        };
        self.tokens.remove(&token);
        self.closing.push(token);
        self.lost_broker |= matches!(key.0, Node::Broker(_));
        self.last_failure = Some(format!("{name}: {why}"));
        let pause = self.backoff.saturating_mul(1 << slot.failures.min(10)).min(self.backoff_max);
        slot.failures = slot.failures.saturating_add(1);
        // Clients that lost the same broker do not all come back at once.
        slot.state = State::Pausing { until: now + self.random.around(pause) };
        tracing::debug!(broker = %name, lane = ?key.1, why, was_ready, "disconnected");
        for ticket in unanswered {
            let error = ClientError::new(ErrorKind::Retriable, format!("{name}: {why}"));
            self.answers.push(Answer { ticket, node: key.0, result: Err(error) });
        }
    }

    /// Gives up what takes too long: a broker that does not answer on one connection does not on the
    /// others either.
    pub(crate) fn expire(&mut self, now: Now) {
        let overdue = self.slots.iter().filter_map(|(key, slot)| match &slot.state {
            State::Opening { deadline, .. } if *deadline <= now => {
                Some((*key, "it could not be connected in time".to_owned()))
            }
            State::Open { connection, .. } => connection
                .overdue(now)
                .map(|api| (*key, format!("the {api:?} request was not answered in time"))),
            _ => None,
        });
        let overdue: Vec<_> = overdue.collect();
        for (key, why) in overdue {
            let Some(slot) = self.slots.get(&key) else { continue };
            // It may also be known as a bootstrap server.
            let same = self.slots.iter().filter(|(_, other)| other.address() == slot.address());
            for key in same.map(|(key, _)| *key).collect::<Vec<_>>() {
                self.fail(key, &why, now);
            }
        }
    }

    /// When [`Self::expire`] or a pause's end is due.
    pub(crate) fn deadline(&self, now: Now) -> Option<Now> {
        let of = |slot: &Slot| {
            let impatient = Some(slot.since + PATIENCE).filter(|at| slot.is_opening() && *at > now);
            let due = match &slot.state {
                State::Idle => None,
                State::Pausing { until } => (*until > now).then_some(*until),
                State::Opening { deadline, .. } => Some(*deadline),
                State::Open { connection, .. } => {
                    let muted = (slot.muted_until > now).then_some(slot.muted_until);
                    connection.deadline().into_iter().chain(muted).min()
                }
            };
            due.into_iter().chain(impatient).min()
        };
        self.slots.values().filter_map(of).min()
    }

    pub(crate) fn take_wanted(&mut self) -> Vec<Wanted> {
        std::mem::take(&mut self.wanted)
    }

    pub(crate) fn take_closing(&mut self) -> Vec<Token> {
        std::mem::take(&mut self.closing)
    }

    /// Whether metadata should be asked for, as a broker is gone; once for each time.
    pub(crate) fn take_lost_broker(&mut self) -> bool {
        std::mem::take(&mut self.lost_broker)
    }

    pub(crate) fn has_answers(&self) -> bool {
        !self.answers.is_empty()
    }

    /// Whether any broker is connected.
    pub(crate) fn any_in_use(&self) -> bool {
        self.slots.values().any(|slot| match &slot.state {
            State::Open { connection, .. } => connection.is_ready(),
            _ => false,
        })
    }

    pub(crate) fn take_answers(&mut self) -> Vec<Answer> {
        std::mem::take(&mut self.answers)
    }

    /// The open connection of a stream, for its bytes to be written.
    pub(crate) fn connection(&mut self, token: Token) -> Option<&mut Connection> {
        let key = self.tokens.get(&token)?;
        match &mut self.slots.get_mut(key)?.state {
            State::Open { connection, .. } => Some(connection),
            _ => None,
        }
    }
}

//! The driver: the only I/O of the client. It moves bytes between streams and the machines in
//! `Core`, and commands and events between the stream thread and them.

pub mod memory;
pub mod tcp;

use crate::clock::Clock;
use crate::command::{Command, CommandSender};
use crate::config::ClientConfig;
use crate::connection::Connection;
pub use crate::connections::Token;
use crate::core::Core;
use crate::types::Now;
use bytes::{Buf, Bytes};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::{self, Debug};
use std::io::{self, ErrorKind, Read, Write};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// A stream of bytes to a broker that never blocks: when nothing can be read or written now, it
/// says [`ErrorKind::WouldBlock`]. Reading nothing means that the other side closed it.
pub trait ByteStream: Read + Write + Send {}

impl<T: Read + Write + Send> ByteStream for T {}

/// What happened to a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NetworkEvent {
    /// It is open.
    Opened(Token),
    /// It could not be opened.
    Failed(Token, String),
    /// There may be something to read, or room to write.
    Ready(Token),
}

/// Opens streams and tells when they can be used: TCP ([`tcp::TcpNetwork`]) or memory
/// ([`memory::MemoryNetwork`]). TLS will be a layer on its streams.
pub trait Network: Send {
    /// Ends a [`Self::poll`] from any thread, also one that begins later.
    fn waker(&self) -> Arc<dyn Fn() + Send + Sync>;

    /// Begins to open a stream; [`NetworkEvent::Opened`] or [`NetworkEvent::Failed`] follows.
    fn open(&mut self, token: Token, host: &str, port: u16);

    /// Closes a stream, open or not.
    fn close(&mut self, token: Token);

    /// An open stream.
    fn stream(&mut self, token: Token) -> Option<&mut dyn ByteStream>;

    /// Waits for events, at most `timeout` (forever if `None`), and appends them.
    fn poll(&mut self, timeout: Option<Duration>, events: &mut Vec<NetworkEvent>);
}

/// Longest frame that a broker may send, in bytes: longer ones are taken for noise.
const FRAME_MAX: usize = 256 << 20;
/// Frames taken from one stream before the others have their turn.
const FRAMES_A_TURN: usize = 4;

/// What has come of the next frame.
#[derive(Debug, Default)]
struct Inbound {
    head: Vec<u8>,
    frame: Vec<u8>,
    length: Option<usize>,
}

/// The working half of a [`Client`](crate::Client).
pub struct Driver {
    core: Core,
    network: Box<dyn Network>,
    commands: CommandSender,
    inbox: VecDeque<Command>,
    events: Vec<NetworkEvent>,
    inbound: BTreeMap<Token, Inbound>,
    readable: BTreeSet<Token>,
    writable: BTreeSet<Token>,
}

impl Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").field("streams", &self.inbound.len()).finish_non_exhaustive()
    }
}

impl Driver {
    pub(crate) fn new(
        config: ClientConfig,
        network: Box<dyn Network>,
        commands: CommandSender,
        member_id: String,
    ) -> Self {
        Self {
            core: Core::new(config, commands.clone(), member_id),
            network,
            commands,
            inbox: VecDeque::new(),
            events: Vec::new(),
            inbound: BTreeMap::new(),
            readable: BTreeSet::new(),
            writable: BTreeSet::new(),
        }
    }

    /// Runs on a thread of its own until the client is dropped.
    ///
    /// # Errors
    /// When the thread cannot be made.
    pub fn spawn(mut self, name: &str, clock: Arc<dyn Clock>) -> io::Result<JoinHandle<()>> {
        std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            loop {
                let now = clock.now();
                let deadline = self.step(now);
                if self.is_closed() {
                    // At once: the deadline may be minutes away.
                    return;
                }
                let timeout = deadline.map(|deadline| deadline.saturating_sub(clock.now()));
                self.network.poll(timeout, &mut self.events);
            }
        })
    }

    /// Whether the client was dropped and nothing is left to do.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.core.is_closed()
    }

    /// Does all that can be done at `now` without waiting. Gives when it wants to be called again
    /// at the latest; earlier if the network's waker is used or a stream becomes ready.
    pub fn step(&mut self, now: Now) -> Option<Now> {
        self.network.poll(Some(Duration::ZERO), &mut self.events);
        self.commands.boxes.commands.drain(&mut self.inbox);
        for command in self.inbox.drain(..) {
            self.core.command(command, now);
        }
        for event in std::mem::take(&mut self.events) {
            self.on_event(event, now);
        }
        for token in std::mem::take(&mut self.readable) {
            self.read(token, now);
        }
        let deadline = self.core.poll(now);
        for token in self.core.connections.take_closing() {
            self.forget(token);
        }
        for wanted in self.core.connections.take_wanted() {
            self.network.open(wanted.token, &wanted.host, wanted.port);
        }
        let tokens: Vec<Token> = self.inbound.keys().copied().collect();
        let mut broken = false;
        for token in tokens {
            broken |= self.write(token, now);
        }
        if self.core.is_closed() {
            for token in self.inbound.keys().copied().collect::<Vec<_>>() {
                self.forget(token);
            }
        }
        if broken || !self.readable.is_empty() { Some(now) } else { deadline }
    }

    fn on_event(&mut self, event: NetworkEvent, now: Now) {
        match event {
            NetworkEvent::Opened(token) => {
                self.inbound.insert(token, Inbound::default());
                self.writable.insert(token);
                self.core.connections.opened(token, now);
            }
            NetworkEvent::Failed(token, why) => {
                self.forget(token);
                self.core.connections.lost(token, &why, now);
            }
            NetworkEvent::Ready(token) => {
                if self.inbound.contains_key(&token) {
                    self.readable.insert(token);
                    self.writable.insert(token);
                }
            }
        }
    }

    fn forget(&mut self, token: Token) {
        self.inbound.remove(&token);
        self.readable.remove(&token);
        self.writable.remove(&token);
        self.network.close(token);
    }

    fn read(&mut self, token: Token, now: Now) {
        for _ in 0..FRAMES_A_TURN {
            let Some(inbound) = self.inbound.get_mut(&token) else { return };
            let Some(stream) = self.network.stream(token) else { return };
            match inbound.read(stream) {
                Ok(Some(frame)) => self.core.connections.received(token, frame, now),
                Ok(None) => return,
                Err(error) => {
                    self.core.connections.lost(token, &error.to_string(), now);
                    return;
                }
            }
        }
        self.readable.insert(token);
    }

    /// Writes what a connection has to say; gives whether it broke.
    fn write(&mut self, token: Token, now: Now) -> bool {
        if !self.writable.contains(&token) {
            return false;
        }
        let Some(connection) = self.core.connections.connection(token) else { return false };
        let Some(stream) = self.network.stream(token) else { return false };
        match write_out(connection, stream) {
            Ok(true) => false,
            Ok(false) => {
                self.writable.remove(&token);
                false
            }
            Err(error) => {
                self.core.connections.lost(token, &error.to_string(), now);
                true
            }
        }
    }
}

/// Writes until nothing is left (true) or the stream takes no more (false).
fn write_out(connection: &mut Connection, stream: &mut dyn ByteStream) -> io::Result<bool> {
    while let Some(mut bytes) = connection.take_out() {
        while !bytes.is_empty() {
            match stream.write(&bytes) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(written) => bytes.advance(written),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    connection.put_back(bytes);
                    return Ok(false);
                }
                Err(error) => return Err(error),
            }
        }
    }
    Ok(true)
}

impl Inbound {
    /// Reads on; gives a frame once it is whole, without its length.
    fn read(&mut self, stream: &mut dyn ByteStream) -> io::Result<Option<Bytes>> {
        if self.length.is_none() {
            if !read_to(stream, &mut self.head, 4)? {
                return Ok(None);
            }
            let length = self.head.first_chunk::<4>().map_or(-1, |head| i32::from_be_bytes(*head));
            let length = usize::try_from(length).ok().filter(|length| *length <= FRAME_MAX);
            let message = "a frame has an impossible length: is this a Kafka broker, without TLS?";
            let length = length.ok_or_else(|| io::Error::new(ErrorKind::InvalidData, message))?;
            self.length = Some(length);
            // Room for the whole is only taken as its bytes come.
            self.frame = Vec::with_capacity(length.min(16 << 20));
        }
        let length = self.length.unwrap_or(0);
        if !read_to(stream, &mut self.frame, length)? {
            return Ok(None);
        }
        self.head.clear();
        self.length = None;
        Ok(Some(std::mem::take(&mut self.frame).into()))
    }
}

/// Reads until `into` has `length` bytes (true) or no more comes for now (false).
fn read_to(stream: &mut dyn ByteStream, into: &mut Vec<u8>, length: usize) -> io::Result<bool> {
    if into.len() == length {
        return Ok(true);
    }
    let missing = (length - into.len()) as u64;
    match stream.take(missing).read_to_end(into) {
        Ok(_) if into.len() == length => Ok(true),
        Ok(_) => Err(io::Error::new(ErrorKind::UnexpectedEof, "the broker closed the connection")),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(into.len() == length),
        Err(error) => Err(error),
    }
}

//! Streams over TCP.

use super::{ByteStream, Network, NetworkEvent, Token};
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Waker};
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// TCP, with names looked up off the driver's thread.
pub struct TcpNetwork {
    poll: Poll,
    ready: Events,
    waker: Arc<Waker>,
    streams: BTreeMap<Token, Stream>,
    found: Receiver<(Token, io::Result<Vec<SocketAddr>>)>,
    finder: Sender<(Token, io::Result<Vec<SocketAddr>>)>,
    failed: Vec<NetworkEvent>,
}

enum Stream {
    /// Its name is being looked up.
    Finding,
    /// It is being connected; other addresses are left to try.
    Connecting {
        stream: TcpStream,
        others: Vec<SocketAddr>,
    },
    Open(TcpStream),
}

const WAKE: mio::Token = mio::Token(usize::MAX);

impl fmt::Debug for TcpNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TcpNetwork").field("streams", &self.streams.len()).finish_non_exhaustive()
    }
}

impl TcpNetwork {
    /// A network without streams.
    ///
    /// # Errors
    /// When the system has no room for a poll.
    pub fn new() -> io::Result<Self> {
        let poll = Poll::new()?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKE)?);
        let (finder, found) = channel();
        let (streams, failed) = (BTreeMap::new(), Vec::new());
        Ok(Self { poll, ready: Events::with_capacity(64), waker, streams, found, finder, failed })
    }

    fn connect(&mut self, token: Token, mut addresses: Vec<SocketAddr>) {
        let mut why = "its name has no address".to_owned();
        while !addresses.is_empty() {
            let address = addresses.remove(0);
            match self.begin(token, address) {
                Ok(stream) => {
                    self.streams.insert(token, Stream::Connecting { stream, others: addresses });
                    return;
                }
                Err(error) => why = error.to_string(),
            }
        }
        self.streams.remove(&token);
        self.failed.push(NetworkEvent::Failed(token, why));
    }

    fn begin(&self, token: Token, address: SocketAddr) -> io::Result<TcpStream> {
        let mut stream = TcpStream::connect(address)?;
        let interest = Interest::READABLE | Interest::WRITABLE;
        self.poll.registry().register(&mut stream, mio::Token(token.0), interest)?;
        Ok(stream)
    }

    fn on_ready(&mut self, token: Token, events: &mut Vec<NetworkEvent>) {
        match self.streams.remove(&token) {
            Some(Stream::Connecting { stream, others }) => match connected(&stream) {
                Ok(true) => {
                    // Requests are whole when they are written: waiting for more only delays them.
                    if let Err(error) = stream.set_nodelay(true) {
                        tracing::debug!(%error, "TCP_NODELAY is not to be had");
                    }
                    self.streams.insert(token, Stream::Open(stream));
                    events.push(NetworkEvent::Opened(token));
                    events.push(NetworkEvent::Ready(token));
                }
                Ok(false) => {
                    self.streams.insert(token, Stream::Connecting { stream, others });
                }
                Err(error) if others.is_empty() => {
                    events.push(NetworkEvent::Failed(token, error.to_string()));
                }
                Err(_) => self.connect(token, others),
            },
            Some(open) => {
                self.streams.insert(token, open);
                events.push(NetworkEvent::Ready(token));
            }
            None => {}
        }
    }
}

/// Whether the connection is there, not yet there, or failed.
fn connected(stream: &TcpStream) -> io::Result<bool> {
    if let Some(error) = stream.take_error()? {
        return Err(error);
    }
    match stream.peer_addr() {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(false),
        Err(error) => Err(error),
    }
}

impl Network for TcpNetwork {
    fn waker(&self) -> Arc<dyn Fn() + Send + Sync> {
        let waker = self.waker.clone();
        Arc::new(move || {
            if let Err(error) = waker.wake() {
                tracing::error!(%error, "the driver cannot be woken");
            }
        })
    }

    fn open(&mut self, token: Token, host: &str, port: u16) {
        if let Ok(address) = host.parse::<IpAddr>() {
            self.connect(token, vec![SocketAddr::new(address, port)]);
            return;
        }
        // A look-up can take seconds, in which heartbeats would not go out.
        self.streams.insert(token, Stream::Finding);
        let (host, finder, waker) = (host.to_owned(), self.finder.clone(), self.waker.clone());
        let find = move || {
            let found = (host.as_str(), port).to_socket_addrs().map(Iterator::collect);
            // Nobody listens any more: then nobody wants to know.
            if finder.send((token, found)).is_ok() {
                let _ = waker.wake();
            }
        };
        if let Err(error) = std::thread::Builder::new().name("kafka-names".to_owned()).spawn(find) {
            self.streams.remove(&token);
            self.failed.push(NetworkEvent::Failed(token, error.to_string()));
        }
    }

    fn close(&mut self, token: Token) {
        if let Some(Stream::Open(mut stream) | Stream::Connecting { mut stream, .. }) =
            self.streams.remove(&token)
            && let Err(error) = self.poll.registry().deregister(&mut stream)
        {
            tracing::debug!(%error, "a closed stream was not registered");
        }
    }

    fn stream(&mut self, token: Token) -> Option<&mut dyn ByteStream> {
        match self.streams.get_mut(&token)? {
            Stream::Open(stream) => Some(stream),
            Stream::Finding | Stream::Connecting { .. } => None,
        }
    }

    fn poll(&mut self, timeout: Option<Duration>, events: &mut Vec<NetworkEvent>) {
        let timeout = if self.failed.is_empty() && events.is_empty() {
            timeout
        } else {
            Some(Duration::ZERO)
        };
        if let Err(error) = self.poll.poll(&mut self.ready, timeout)
            && error.kind() != io::ErrorKind::Interrupted
        {
            tracing::error!(%error, "waiting for the network failed");
        }
        let ready: Vec<Token> =
            self.ready.iter().filter(|e| e.token() != WAKE).map(|e| Token(e.token().0)).collect();
        for token in ready {
            self.on_ready(token, events);
        }
        while let Ok((token, found)) = self.found.try_recv() {
            if !matches!(self.streams.get(&token), Some(Stream::Finding)) {
                continue;
            }
            match found {
                Ok(addresses) => self.connect(token, addresses),
                Err(error) => {
                    self.streams.remove(&token);
                    self.failed.push(NetworkEvent::Failed(token, error.to_string()));
                }
            }
        }
        events.append(&mut self.failed);
    }
}

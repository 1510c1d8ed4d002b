//! Streams within the process: to the embedded broker, in tests and in the simulation.

use super::{ByteStream, Network, NetworkEvent, Token};
use crate::mailbox::{Mailbox, Waker};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What is called when a stream may have something to read or room to write.
pub type Ready = Arc<dyn Fn() + Send + Sync>;

/// Connects to brokers within the process.
pub trait Connector: Send {
    /// A stream to the broker at `host` and `port`; the other side calls `ready` whenever it wrote,
    /// read or closed.
    ///
    /// # Errors
    /// When no broker is there.
    fn connect(&mut self, host: &str, port: u16, ready: Ready) -> io::Result<Box<dyn ByteStream>>;
}

impl<F> Connector for F
where
    F: FnMut(&str, u16, Ready) -> io::Result<Box<dyn ByteStream>> + Send,
{
    fn connect(&mut self, host: &str, port: u16, ready: Ready) -> io::Result<Box<dyn ByteStream>> {
        self(host, port, ready)
    }
}

/// A network of memory streams.
pub struct MemoryNetwork {
    connector: Box<dyn Connector>,
    streams: BTreeMap<Token, Box<dyn ByteStream>>,
    opened: Vec<NetworkEvent>,
    bell: Mailbox<()>,
    ready: Ready,
}

impl fmt::Debug for MemoryNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryNetwork")
            .field("streams", &self.streams.len())
            .finish_non_exhaustive()
    }
}

impl MemoryNetwork {
    /// A network that opens its streams with `connector`.
    #[must_use]
    pub fn new(connector: Box<dyn Connector>) -> Self {
        let bell = Mailbox::new();
        let waker: Waker = bell.waker();
        let ready: Ready = Arc::new(move || waker.wake());
        Self { connector, streams: BTreeMap::new(), opened: Vec::new(), bell, ready }
    }
}

impl Network for MemoryNetwork {
    fn waker(&self) -> Arc<dyn Fn() + Send + Sync> {
        self.ready.clone()
    }

    fn open(&mut self, token: Token, host: &str, port: u16) {
        match self.connector.connect(host, port, self.ready.clone()) {
            Ok(stream) => {
                self.streams.insert(token, stream);
                self.opened.push(NetworkEvent::Opened(token));
            }
            Err(error) => self.opened.push(NetworkEvent::Failed(token, error.to_string())),
        }
    }

    fn close(&mut self, token: Token) {
        self.streams.remove(&token);
    }

    fn stream(&mut self, token: Token) -> Option<&mut dyn ByteStream> {
        match self.streams.get_mut(&token) {
            Some(stream) => Some(stream.as_mut()),
            None => None,
        }
    }

    fn poll(&mut self, timeout: Option<Duration>, events: &mut Vec<NetworkEvent>) {
        if self.opened.is_empty() && events.is_empty() && timeout != Some(Duration::ZERO) {
            self.bell.wait(timeout.unwrap_or(Duration::from_secs(3600)));
        }
        events.append(&mut self.opened);
        // Which stream it was is not told: asking each costs little.
        events.extend(self.streams.keys().map(|token| NetworkEvent::Ready(*token)));
    }
}

/// One end of a pair of streams; what is written to one is read from the other. Dropping an end
/// closes both directions.
pub struct MemoryStream {
    incoming: Arc<Mutex<Pipe>>,
    outgoing: Arc<Mutex<Pipe>>,
    other_ready: Ready,
}

impl fmt::Debug for MemoryStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MemoryStream")
    }
}

#[derive(Default)]
struct Pipe {
    bytes: VecDeque<u8>,
    closed: bool,
}

/// Bytes that one direction holds before the writer has to wait.
const PIPE_MAX: usize = 1 << 20;

/// Two connected ends, each with what to call when it becomes ready.
#[must_use]
pub fn pair(left_ready: Ready, right_ready: Ready) -> (MemoryStream, MemoryStream) {
    let (there, back) = (Arc::<Mutex<Pipe>>::default(), Arc::<Mutex<Pipe>>::default());
    let left =
        MemoryStream { incoming: back.clone(), outgoing: there.clone(), other_ready: right_ready };
    (left, MemoryStream { incoming: there, outgoing: back, other_ready: left_ready })
}

fn lock(pipe: &Mutex<Pipe>) -> MutexGuard<'_, Pipe> {
    pipe.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Read for MemoryStream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut pipe = lock(&self.incoming);
        if pipe.bytes.is_empty() && !into.is_empty() {
            return if pipe.closed { Ok(0) } else { Err(ErrorKind::WouldBlock.into()) };
        }
        let was_full = pipe.bytes.len() >= PIPE_MAX;
        let read = pipe.bytes.read(into)?;
        drop(pipe);
        if was_full {
            (self.other_ready)();
        }
        Ok(read)
    }
}

impl Write for MemoryStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut pipe = lock(&self.outgoing);
        if pipe.closed {
            return Err(ErrorKind::BrokenPipe.into());
        }
        let room = PIPE_MAX.saturating_sub(pipe.bytes.len()).min(bytes.len());
        if room == 0 && !bytes.is_empty() {
            return Err(ErrorKind::WouldBlock.into());
        }
        pipe.bytes.extend(&bytes[..room]);
        drop(pipe);
        (self.other_ready)();
        Ok(room)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for MemoryStream {
    fn drop(&mut self) {
        lock(&self.incoming).closed = true;
        lock(&self.outgoing).closed = true;
        (self.other_ready)();
    }
}

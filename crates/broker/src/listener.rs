//! The front for everyone else: TCP on the loopback, a thread a connection.
//!
//! A connection's thread reads a request, lets the node handle it, and writes the answer when it
//! is there: one request at a time, in order, as Kafka does. Threads block, they never spin.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use bytes::Bytes;

use crate::broker::Shared;
use crate::error::BrokerError;
use crate::mailbox::{Mailbox, Outgoing};

/// Requests are read in steps of this size, so a claimed length alone allocates nothing.
const READ_STEP: usize = 1 << 20;

/// Between two tries to accept a connection, when the first failed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The open listener; dropping it closes all its connections and joins all its threads.
#[derive(Debug)]
pub(crate) struct Listener {
    address: SocketAddr,
    stopped: Arc<AtomicBool>,
    open: Arc<Mutex<Open>>,
    acceptor: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Open {
    streams: BTreeMap<u64, (TcpStream, Arc<Mailbox>)>,
    threads: Vec<JoinHandle<()>>,
}

/// A bound socket: the port is known, nobody is served yet.
#[derive(Debug)]
pub(crate) struct Bound(TcpListener, SocketAddr);

impl Bound {
    pub(crate) fn new(port: u16) -> Result<Self, BrokerError> {
        let wanted = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
        let failed = |source| BrokerError::Listen { address: wanted.to_string(), source };
        let listener = TcpListener::bind(wanted).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self(listener, address))
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.1
    }

    pub(crate) fn serve(self, shared: Arc<Shared>) -> Result<Listener, BrokerError> {
        let Self(listener, address) = self;
        let stopped = Arc::new(AtomicBool::new(false));
        let open = Arc::new(Mutex::new(Open::default()));
        let acceptor = {
            let (stopped, open) = (Arc::clone(&stopped), Arc::clone(&open));
            thread::Builder::new()
                .name("kafka-accept".into())
                .spawn(move || accept(&listener, &shared, &stopped, &open))
                .map_err(|source| BrokerError::Listen { address: address.to_string(), source })?
        };
        Ok(Listener { address, stopped, open, acceptor: Some(acceptor) })
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::SeqCst);
        // The acceptor blocks in accept: a connection of our own makes it look at `stopped`.
        let woken = TcpStream::connect(self.address).is_ok();
        if let Some(acceptor) = self.acceptor.take()
            && woken
        {
            let _ = acceptor.join();
        }
        let threads = {
            let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
            for (stream, mailbox) in open.streams.values() {
                let _ = stream.shutdown(Shutdown::Both);
                mailbox.put(Outgoing::Close);
            }
            std::mem::take(&mut open.threads)
        };
        for thread in threads {
            let _ = thread.join();
        }
    }
}

fn accept(
    listener: &TcpListener,
    shared: &Arc<Shared>,
    stopped: &AtomicBool,
    open: &Arc<Mutex<Open>>,
) {
    let mut number = 0;
    loop {
        let accepted = listener.accept();
        if stopped.load(Ordering::SeqCst) {
            return;
        }
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of files, say: others may be given back.
                tracing::warn!(%error, "no connection can be accepted");
                thread::park_timeout(ACCEPT_PAUSE);
                continue;
            }
        };
        number += 1;
        if let Err(error) = admit(number, stream, peer, shared, open) {
            tracing::warn!(%peer, %error, "a connection could not be served");
        }
    }
}

fn admit(
    number: u64,
    stream: TcpStream,
    peer: SocketAddr,
    shared: &Arc<Shared>,
    open: &Arc<Mutex<Open>>,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let second = stream.try_clone()?;
    let mailbox = Arc::new(Mailbox::default());
    let mut held = open.lock().unwrap_or_else(PoisonError::into_inner);
    held.threads.retain(|thread| !thread.is_finished());
    held.streams.insert(number, (second, Arc::clone(&mailbox)));
    let (shared, all) = (Arc::clone(shared), Arc::clone(open));
    let thread = thread::Builder::new().name("kafka-connection".into()).spawn(move || {
        let ended = serve(stream, peer, &shared, &mailbox);
        tracing::debug!(%peer, ?ended, "connection closed");
        all.lock().unwrap_or_else(PoisonError::into_inner).streams.remove(&number);
    });
    match thread {
        Ok(thread) => held.threads.push(thread),
        Err(error) => {
            held.streams.remove(&number);
            return Err(error);
        }
    }
    Ok(())
}

fn serve(
    mut stream: TcpStream,
    peer: SocketAddr,
    shared: &Shared,
    mailbox: &Arc<Mailbox>,
) -> io::Result<()> {
    let id = shared.connect(&format!("/{}", peer.ip()), mailbox);
    let served = (|| {
        while let Some(request) = read_frame(&mut stream, shared.max_request_bytes())? {
            shared.handle(id, request);
            match mailbox.wait() {
                Outgoing::Answer(frame) => stream.write_all(&frame)?,
                Outgoing::Nothing => {}
                Outgoing::Close => break,
            }
        }
        Ok(())
    })();
    shared.disconnect(id);
    let _ = stream.shutdown(Shutdown::Both);
    served
}

/// The next request, or `None` when the client closed the connection.
fn read_frame(stream: &mut impl Read, max_bytes: usize) -> io::Result<Option<Bytes>> {
    let mut size = [0; 4];
    match stream.read_exact(&mut size) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    }
    let size = usize::try_from(i32::from_be_bytes(size)).unwrap_or(usize::MAX);
    if size > max_bytes {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the request is too large"));
    }
    let mut frame = Vec::with_capacity(size.min(READ_STEP));
    let read = stream.take(size as u64).read_to_end(&mut frame)?;
    if read < size {
        return Ok(None);
    }
    Ok(Some(Bytes::from(frame)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_end_with_the_stream() {
        let mut bytes: &[u8] = &[0, 0, 0, 2, 7, 8, 0, 0, 0, 3, 1];
        assert_eq!(read_frame(&mut bytes, 10).unwrap().as_deref(), Some(&[7, 8][..]));
        assert_eq!(read_frame(&mut bytes, 10).unwrap(), None, "cut inside a frame");
        assert_eq!(read_frame(&mut bytes, 10).unwrap(), None);
    }

    #[test]
    fn a_negative_or_huge_size_is_an_error() {
        for size in [[0xff; 4], [0x7f, 0, 0, 0], [0, 0, 0, 11]] {
            assert!(read_frame(&mut &size[..], 10).is_err());
        }
    }
}

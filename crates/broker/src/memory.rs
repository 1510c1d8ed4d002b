//! The front for clients of the same process: a pipe of bytes without a socket or a thread.
//!
//! What a client writes is cut into requests and handled before `write` returns, in the caller's
//! thread; answers that come later (long polls) are put in by whoever caused them.

use std::fmt;
use std::io;
use std::sync::Arc;

use bytes::{Buf, Bytes, BytesMut};

use crate::broker::Shared;
use crate::mailbox::{Mailbox, Outgoing};
use crate::node::ConnectionId;

/// A client's end of an in-process connection to the broker. Dropping it closes the connection.
pub struct MemoryConnection {
    shared: Arc<Shared>,
    id: ConnectionId,
    mailbox: Arc<Mailbox>,
    unread: BytesMut,
    answer: Bytes,
    closed: bool,
}

impl fmt::Debug for MemoryConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryConnection").field("id", &self.id).finish_non_exhaustive()
    }
}

impl MemoryConnection {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let mailbox = Arc::new(Mailbox::default());
        let id = shared.connect("memory", &mailbox);
        Self { shared, id, mailbox, unread: BytesMut::new(), answer: Bytes::new(), closed: false }
    }

    /// Calls `wake` whenever there may be something to read (or the connection was closed), from
    /// any thread that uses the broker. It must not block, and should only note that it was called.
    pub fn on_ready(&mut self, wake: impl Fn() + Send + Sync + 'static) {
        self.mailbox.set_wake(Arc::new(wake));
    }

    /// Takes all of `bytes`; never blocks.
    ///
    /// # Errors
    /// `BrokenPipe` after the broker closed the connection, and `InvalidData`, which also closes
    /// it, for a request that is larger than the broker reads.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.closed {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        self.unread.extend_from_slice(bytes);
        while let Some(size) = self.unread.get(..4).map(|mut size| size.get_i32()) {
            let size = usize::try_from(size).unwrap_or(usize::MAX);
            if size > self.shared.max_request_bytes() {
                self.close();
                return Err(io::ErrorKind::InvalidData.into());
            }
            if self.unread.len() < 4 + size {
                break;
            }
            self.unread.advance(4);
            let request = self.unread.split_to(size).freeze();
            self.shared.handle(self.id, request);
        }
        Ok(bytes.len())
    }

    /// Reads what is there into `buffer`; 0 says that the broker closed the connection.
    ///
    /// # Errors
    /// `WouldBlock` when there is nothing to read now.
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.answer.is_empty() {
            match self.mailbox.take() {
                Some(Outgoing::Answer(frame)) => self.answer = frame,
                Some(Outgoing::Nothing) => {}
                Some(Outgoing::Close) => self.closed = true,
                None if self.closed => return Ok(0),
                None => return Err(io::ErrorKind::WouldBlock.into()),
            }
        }
        let size = buffer.len().min(self.answer.len());
        self.answer.split_to(size).copy_to_slice(&mut buffer[..size]);
        Ok(size)
    }

    fn close(&mut self) {
        self.closed = true;
        self.shared.disconnect(self.id);
    }
}

impl io::Read for MemoryConnection {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        Self::read(self, buffer)
    }
}

impl io::Write for MemoryConnection {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Self::write(self, bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for MemoryConnection {
    fn drop(&mut self) {
        self.shared.disconnect(self.id);
    }
}

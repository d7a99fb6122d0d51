//! A counting socket with std's I/O traits: no call waits.

use std::io::{self, IoSlice, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tokio::net::TcpStream;

use crate::tcp::socket;

/// A tokio socket that fails with `WouldBlock` instead of waiting.
#[derive(Debug)]
pub(super) struct Pipe {
    pub(super) socket: Arc<TcpStream>,
    pub(super) counts: Arc<ByteCounts>,
}

/// Byte counters of a socket.
#[derive(Debug, Default)]
pub(in crate::tcp) struct ByteCounts {
    sent: AtomicU64,
    received: AtomicU64,
}

impl ByteCounts {
    pub(in crate::tcp) fn sent(&self) -> u64 {
        self.sent.load(Relaxed)
    }

    pub(in crate::tcp) fn received(&self) -> u64 {
        self.received.load(Relaxed)
    }

    pub(in crate::tcp) fn add_sent(&self, bytes: usize) {
        self.sent.fetch_add(bytes as u64, Relaxed);
    }

    pub(in crate::tcp) fn add_received(&self, bytes: usize) {
        self.received.fetch_add(bytes as u64, Relaxed);
    }
}

impl Pipe {
    pub(super) fn new(socket: TcpStream) -> Self {
        Self {
            socket: Arc::new(socket),
            counts: Arc::default(),
        }
    }

    /// Takes the socket out of the run-time.
    ///
    /// Fails   if something else holds the socket, or the run-time does not let go of it
    pub(super) fn into_std(self) -> io::Result<(std::net::TcpStream, Arc<ByteCounts>)> {
        let socket = Arc::into_inner(self.socket);
        let socket = socket.ok_or_else(|| io::Error::other("the socket is in use"))?;
        Ok((socket.into_std()?, self.counts))
    }

    fn sent(&self, sent: io::Result<usize>) -> io::Result<usize> {
        sent.inspect(|count| self.counts.add_sent(*count))
    }
}

impl Read for &Pipe {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        socket::read(&self.socket, buffer).inspect(|count| self.counts.add_received(*count))
    }
}

impl Write for &Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.sent(self.socket.try_write(bytes))
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        // A single part needs no vectored write.
        match parts {
            [part] => self.write(part),
            _ => self.sent(self.socket.try_write_vectored(parts)),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the number of bytes moved; `None` if the call would block.
pub(super) fn now(result: io::Result<usize>) -> io::Result<Option<usize>> {
    match result {
        Ok(count) => Ok(Some(count)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

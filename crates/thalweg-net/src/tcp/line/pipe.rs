//! A socket that counts what goes over it, for who wants std's traits: nothing here waits.

use std::io::{self, IoSlice, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tokio::net::TcpStream;

use crate::tcp::socket;

/// Tokio's socket; it fails with `WouldBlock` instead of waiting.
#[derive(Debug)]
pub(super) struct Pipe {
    pub(super) socket: Arc<TcpStream>,
    pub(super) moved: Arc<Moved>,
}

/// Bytes that have gone over a socket, for whoever wants to know.
#[derive(Debug, Default)]
pub(in crate::tcp) struct Moved {
    sent: AtomicU64,
    received: AtomicU64,
}

impl Moved {
    pub(in crate::tcp) fn sent(&self) -> u64 {
        self.sent.load(Relaxed)
    }

    pub(in crate::tcp) fn received(&self) -> u64 {
        self.received.load(Relaxed)
    }
}

impl Pipe {
    pub(super) fn new(socket: TcpStream) -> Self {
        Self {
            socket: Arc::new(socket),
            moved: Arc::default(),
        }
    }

    fn sent(&self, sent: io::Result<usize>) -> io::Result<usize> {
        sent.inspect(|count| {
            self.moved.sent.fetch_add(*count as u64, Relaxed);
        })
    }
}

impl Read for &Pipe {
    fn read(&mut self, place: &mut [u8]) -> io::Result<usize> {
        socket::read(&self.socket, place).inspect(|count| {
            self.moved.received.fetch_add(*count as u64, Relaxed);
        })
    }
}

impl Write for &Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.sent(self.socket.try_write(bytes))
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        // One part alone is spared the list.
        match parts {
            [part] => self.write(part),
            _ => self.sent(self.socket.try_write_vectored(parts)),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns how many bytes a socket took or gave; nothing if it would have to be waited for.
pub(super) fn now(moved: io::Result<usize>) -> io::Result<Option<usize>> {
    match moved {
        Ok(count) => Ok(Some(count)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

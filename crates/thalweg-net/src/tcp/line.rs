//! One TCP connection with TLS on it: bytes in, bytes out, never waiting.
//!
//! *The idea.* rustls turns bytes into records and knows no socket; the socket is asked for what it has and takes. What one
//! call of [`Line::say`] is given is one record if it is small, so that the peer can read it as soon as it is there.
//!
//! *What it does not do.* It knows frames only for the greeting.
//!
//! *Sources.* rustls 0.23 `ConnectionCommon`; RFC 8446 §5.

use std::io::{self, Read, Write};
use std::sync::Arc;

use rustls::Connection;
use rustls::pki_types::CertificateDer;
use thalweg_core::hop::{CloseCode, settings::REASON_CHARS_MAX};
use thalweg_core::id::NodeId;
use thalweg_core::pace::{Decoder, Frame};
use thalweg_core::wire::WireError;
use tokio::io::Interest;
use tokio::net::TcpStream;

use super::{ALPN, tls};

/// Bytes taken from TLS at once: a record.
const READ_BYTES: usize = 16 << 10;

/// Reads from the socket in one turn, so that a fast peer does not keep its reader from writing.
const READS_PER_TURN: usize = 16;

/// A TCP connection and its cipher.
#[derive(Debug)]
pub(super) struct Line {
    socket: Arc<TcpStream>,
    tls: Connection,
    is_ended: bool,
    moved: Moved,
}

/// Bytes that have gone over a socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Moved {
    pub(super) sent: u64,
    pub(super) received: u64,
}

/// A connection does not come about, or is of no use any more.
#[derive(Debug, thiserror::Error)]
pub(super) enum LineError {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("{0}")]
    Tls(#[from] rustls::Error),
    #[error("{0}")]
    Wire(#[from] WireError),
    #[error("the peer does not speak `{ALPN}`")]
    Protocol,
    #[error("the connection was closed")]
    Ended,
    #[error("closed by the peer: {0}: {1}")]
    Closed(CloseCode, String),
    #[error("the peer did not begin with a greeting")]
    Greeting,
}

/// Tokio's socket for who wants std's traits; it fails with `WouldBlock` instead of waiting.
struct NoWait<'a>(&'a TcpStream);

impl Read for NoWait<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.try_read(buffer)
    }
}

impl Write for NoWait<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn write_vectored(&mut self, bytes: &[io::IoSlice<'_>]) -> io::Result<usize> {
        self.0.try_write_vectored(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Line {
    /// Makes the handshake; what came behind it is in the decoder.
    pub(super) async fn establish(
        socket: TcpStream,
        tls: impl Into<Connection>,
    ) -> Result<(Self, Decoder), LineError> {
        let mut decoder = Decoder::default();
        let mut tls = tls.into();
        // One batch is given at a time, and written before the next.
        tls.set_buffer_limit(None);
        let mut line = Self {
            socket: Arc::new(socket),
            tls,
            is_ended: false,
            moved: Moved::default(),
        };
        while line.tls.is_handshaking() {
            let done = line.hear(|bytes| decoder.handle_bytes(bytes));
            // An alert that says why is worth the attempt.
            let is_written = line.flush();
            done?;
            if line.is_ended {
                return Err(LineError::Ended);
            }
            let interest = if is_written? {
                Interest::READABLE
            } else {
                Interest::READABLE | Interest::WRITABLE
            };
            if line.tls.is_handshaking() {
                line.socket.ready(interest).await?;
            }
        }
        if line.tls.alpn_protocol() != Some(ALPN.as_bytes()) {
            return Err(LineError::Protocol);
        }
        Ok((line, decoder))
    }

    /// Returns the key that the peer has proved.
    pub(super) fn peer(&self) -> Option<NodeId> {
        let presented: Option<&[CertificateDer<'_>]> = self.tls.peer_certificates();
        tls::proved(presented)
    }

    pub(super) const fn socket(&self) -> &Arc<TcpStream> {
        &self.socket
    }

    /// Returns how much has gone over the socket.
    pub(super) const fn moved(&self) -> Moved {
        self.moved
    }

    /// Hands out what has arrived; returns whether there may be more at once.
    ///
    /// Fails   the connection is broken, or bytes came that the peer's cipher did not make
    pub(super) fn hear(&mut self, mut sink: impl FnMut(&[u8])) -> Result<bool, LineError> {
        let mut buffer = [0; READ_BYTES];
        for _ in 0..READS_PER_TURN {
            match self.tls.read_tls(&mut NoWait(&self.socket)) {
                Ok(0) => {
                    self.is_ended = true;
                    return Ok(false);
                }
                Ok(count) => self.moved.received += count as u64,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error.into()),
            }
            self.tls.process_new_packets()?;
            loop {
                match self.tls.reader().read(&mut buffer) {
                    Ok(0) => {
                        self.is_ended = true;
                        return Ok(false);
                    }
                    Ok(count) => sink(&buffer[..count]),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(true)
    }

    /// Returns whether the peer will say nothing more.
    pub(super) const fn is_ended(&self) -> bool {
        self.is_ended
    }

    /// Takes bytes to be written by [`Line::flush`].
    pub(super) fn say(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.tls.writer().write_all(bytes)
    }

    /// Writes what the socket takes; returns whether that was all.
    pub(super) fn flush(&mut self) -> io::Result<bool> {
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut NoWait(&self.socket)) {
                Ok(count) => self.moved.sent += count as u64,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Says that nothing more will come, as far as the socket takes it.
    pub(super) fn end(&mut self) {
        self.tls.send_close_notify();
        // The connection is going either way.
        let _ = self.flush();
    }

    /// Waits until the peer has ended too: a socket closed with something unread takes back what was written last.
    pub(super) async fn drain(&mut self) -> Result<(), LineError> {
        while !self.is_ended {
            self.socket.readable().await?;
            self.hear(|_| {})?;
        }
        Ok(())
    }

    /// Writes one frame and waits until the socket has it.
    pub(super) async fn say_frame(&mut self, frame: &Frame) -> Result<(), LineError> {
        let mut bytes = Vec::new();
        frame.encode(&mut bytes);
        self.say(&bytes)?;
        while !self.flush()? {
            self.socket.writable().await?;
        }
        Ok(())
    }

    /// Waits for the greeting; what came behind it stays in `decoder`.
    pub(super) async fn hear_greeting(
        &mut self,
        decoder: &mut Decoder,
    ) -> Result<Frame, LineError> {
        loop {
            match decoder.poll_frame()? {
                Some((frame @ Frame::Hello { .. }, _)) => return Ok(frame),
                Some((Frame::Close { code, reason }, _)) => {
                    return Err(LineError::Closed(code, printable(&reason)));
                }
                Some(_) => return Err(LineError::Greeting),
                None if self.is_ended => return Err(LineError::Ended),
                None => {}
            }
            if !self.hear(|bytes| decoder.handle_bytes(bytes))? && !self.is_ended {
                self.socket.readable().await?;
                self.hear(|bytes| decoder.handle_bytes(bytes))?;
            }
        }
    }
}

/// Returns a peer's words without what a terminal would take for orders.
pub(super) fn printable(reason: &str) -> String {
    let letters = reason.chars().filter(|letter| !letter.is_control());
    letters.take(REASON_CHARS_MAX).collect()
}

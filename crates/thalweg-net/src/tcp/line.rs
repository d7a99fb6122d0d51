//! One TCP connection with TLS on it: bytes in, bytes out, never waiting.
//!
//! *The idea.* rustls turns bytes into records and knows no socket; the socket is asked for what it has and takes. What one
//! call of [`Line::say`] is given is one record if it is small, so that the peer can read it as soon as it is there.
//!
//! A line that goes on in the clear takes the handshake record by record, so that no byte behind it is taken for one of TLS;
//! from then on the socket's bytes are the peer's.
//!
//! *What it does not do.* It knows frames only for the greeting. In the clear, nobody but TCP looks at whether bytes are
//! the peer's.
//!
//! *Sources.* rustls 0.23 `ConnectionCommon`; RFC 8446 §5.

use std::io::{self, BufRead as _, IoSlice, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use rustls::Connection;
use rustls::pki_types::CertificateDer;
use thalweg_core::hop::{CloseCode, settings::REASON_CHARS_MAX};
use thalweg_core::id::NodeId;
use thalweg_core::pace::{Decoder, Frame, Out};
use thalweg_core::wire::WireError;
use tokio::io::Interest;
use tokio::net::TcpStream;

use super::{ALPN, ALPN_DOOR, ALPN_PLAIN, socket, tls};

/// Bytes taken at once: a record of TLS.
const READ_BYTES: usize = 16 << 10;

/// The same while only words come: a peer that says what it has received needs ten bytes, and place costs as much to clear as to
/// fill.
const WORDS_BYTES: usize = 512;

/// The header of a record of TLS, and what follows it at most (RFC 8446 §5.1, §5.2).
const HEADER_BYTES: usize = 5;
const BODY_BYTES_MAX: usize = (16 << 10) + 256;

/// Parts that one writing takes: eight ADUs with their headers.
const PARTS_MAX: usize = 16;

/// Reads from the socket in one turn, so that a fast peer does not keep its reader from writing.
const READS_PER_TURN: usize = 16;

/// A TCP connection and its cipher, if it has one.
#[derive(Debug)]
pub(super) struct Line {
    socket: Arc<TcpStream>,
    tls: Connection,
    /// What is to be written, once no cipher stands between.
    clear: Option<Clear>,
    /// Whether more than words came last.
    is_bulk: bool,
    is_ended: bool,
    moved: Arc<Moved>,
}

/// Bytes that wait for the socket as they are.
#[derive(Debug, Default)]
struct Clear {
    out: Out,
    written: usize,
}

/// Bytes that have gone over a socket, for whoever wants to know.
#[derive(Debug, Default)]
pub(super) struct Moved {
    sent: AtomicU64,
    received: AtomicU64,
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
        socket::read(self.0, buffer)
    }
}

impl Write for NoWait<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn write_vectored(&mut self, bytes: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.try_write_vectored(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Moved {
    pub(super) fn sent(&self) -> u64 {
        self.sent.load(Relaxed)
    }

    pub(super) fn received(&self) -> u64 {
        self.received.load(Relaxed)
    }

    fn add_sent(&self, bytes: usize) {
        self.sent.fetch_add(bytes as u64, Relaxed);
    }

    fn add_received(&self, bytes: usize) {
        self.received.fetch_add(bytes as u64, Relaxed);
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
            clear: None,
            is_bulk: false,
            is_ended: false,
            moved: Arc::default(),
        };
        let mut behind = Vec::new();
        while line.tls.is_handshaking() {
            let done = line.shake(&mut behind);
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
        match line.tls.alpn_protocol() {
            Some(alpn) if alpn == ALPN.as_bytes() || alpn == ALPN_DOOR.as_bytes() => {
                let mut behind = behind.as_slice();
                while !behind.is_empty() {
                    line.tls.read_tls(&mut behind)?;
                    line.decipher(&mut |bytes| decoder.handle_bytes(bytes))?;
                }
            }
            Some(alpn) if alpn == ALPN_PLAIN.as_bytes() => {
                // The handshake's last record goes before the first byte in the clear.
                while !line.flush()? {
                    line.socket.writable().await?;
                }
                line.clear = Some(Clear::default());
                decoder.handle_bytes(&behind);
            }
            _ => return Err(LineError::Protocol),
        }
        Ok((line, decoder))
    }

    /// Takes in the handshake; what has come and is not of it stays in `behind`.
    fn shake(&mut self, behind: &mut Vec<u8>) -> Result<(), LineError> {
        let mut buffer = [0; READ_BYTES];
        while self.tls.is_handshaking() {
            let body = behind.get(3..HEADER_BYTES);
            let body = body.map(|length| {
                length
                    .iter()
                    .fold(0, |sum, byte| sum << 8 | usize::from(*byte))
            });
            match body.map(|body| HEADER_BYTES + body) {
                Some(record)
                    if behind.len() >= record || record > HEADER_BYTES + BODY_BYTES_MAX =>
                {
                    let taken = record.min(behind.len());
                    let mut bytes = &behind[..taken];
                    while !bytes.is_empty() {
                        self.tls.read_tls(&mut bytes)?;
                        self.tls.process_new_packets()?;
                    }
                    behind.drain(..taken);
                }
                _ => match self.read(&mut buffer)? {
                    Some(bytes) => behind.extend_from_slice(bytes),
                    None => return Ok(()),
                },
            }
        }
        Ok(())
    }

    /// Returns whether what is written goes in the clear.
    pub(super) const fn is_plain(&self) -> bool {
        self.clear.is_some()
    }

    /// Returns whether the peer has come to the door, and wants no session.
    pub(super) fn is_at_door(&self) -> bool {
        self.tls.alpn_protocol() == Some(ALPN_DOOR.as_bytes())
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
    pub(super) const fn moved(&self) -> &Arc<Moved> {
        &self.moved
    }

    /// Hands out what has arrived; returns whether there may be more at once.
    ///
    /// Fails   the connection is broken, or bytes came that the peer's cipher did not make
    pub(super) fn hear(&mut self, mut sink: impl FnMut(&[u8])) -> Result<bool, LineError> {
        if self.is_plain() {
            for _ in 0..READS_PER_TURN {
                let is_more = if self.is_bulk {
                    self.hear_clear::<READ_BYTES>(&mut sink)?
                } else {
                    self.hear_clear::<WORDS_BYTES>(&mut sink)?
                };
                if !is_more {
                    return Ok(false);
                }
            }
            return Ok(true);
        }
        for _ in 0..READS_PER_TURN {
            match self.tls.read_tls(&mut NoWait(&self.socket)) {
                Ok(0) => {
                    self.is_ended = true;
                    return Ok(false);
                }
                Ok(count) => self.moved.add_received(count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error.into()),
            }
            self.decipher(&mut sink)?;
            if self.is_ended {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Hands out what one reading in the clear gives; returns whether there may be more at once.
    fn hear_clear<const N: usize>(&mut self, sink: &mut impl FnMut(&[u8])) -> io::Result<bool> {
        let mut buffer = [0; N];
        let Some(bytes) = self.read(&mut buffer)? else {
            return Ok(false);
        };
        self.is_bulk = bytes.len() >= WORDS_BYTES;
        sink(bytes);
        // A place that is not full is all that there was, and the socket says when there is more.
        Ok(bytes.len() == N)
    }

    /// Reads what the socket has; nothing if it has none now, or has ended.
    fn read<'b>(&mut self, buffer: &'b mut [u8]) -> io::Result<Option<&'b [u8]>> {
        match socket::read(&self.socket, buffer) {
            Ok(0) => {
                self.is_ended = true;
                Ok(None)
            }
            Ok(count) => {
                self.moved.add_received(count);
                Ok(Some(&buffer[..count]))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Hands out what is in the records that TLS has been given.
    fn decipher(&mut self, sink: &mut impl FnMut(&[u8])) -> Result<(), LineError> {
        self.tls.process_new_packets()?;
        loop {
            let mut reader = self.tls.reader();
            match reader.fill_buf() {
                Ok([]) => {
                    self.is_ended = true;
                    return Ok(());
                }
                Ok(bytes) => {
                    let count = bytes.len();
                    sink(bytes);
                    reader.consume(count);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Returns whether the peer will say nothing more.
    pub(super) const fn is_ended(&self) -> bool {
        self.is_ended
    }

    /// Takes bytes to be written by [`Line::flush`], and leaves an empty place for the next.
    pub(super) fn say(&mut self, out: &mut Out) -> io::Result<()> {
        if let Some(clear) = &mut self.clear {
            if clear.out.is_empty() {
                std::mem::swap(&mut clear.out, out);
            } else {
                clear.out.append(out);
            }
            return Ok(());
        }
        let mut said = 0;
        while said < out.len() {
            said += gather(out, said, |parts| self.tls.writer().write_vectored(parts))?;
        }
        out.clear();
        Ok(())
    }

    /// Writes what the socket takes; returns whether that was all.
    pub(super) fn flush(&mut self) -> io::Result<bool> {
        if let Some(clear) = &mut self.clear {
            while clear.written < clear.out.len() {
                let written = gather(&clear.out, clear.written, |parts| match parts {
                    [part] => self.socket.try_write(part),
                    _ => self.socket.try_write_vectored(parts),
                });
                match written {
                    Ok(count) => {
                        clear.written += count;
                        self.moved.add_sent(count);
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                    Err(error) => return Err(error),
                }
            }
            clear.out.clear();
            clear.written = 0;
            return Ok(true);
        }
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut NoWait(&self.socket)) {
                Ok(count) => self.moved.add_sent(count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Says that nothing more will come, as far as the socket takes it.
    pub(super) fn end(&mut self) {
        if self.is_plain() {
            // The connection is going either way; the peer sees that nothing follows.
            let _ = self.flush();
            let _ = socket::end(&self.socket);
            return;
        }
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
        let mut out = Out::new();
        frame.encode(out.words());
        self.say(&mut out)?;
        while !self.flush()? {
            self.socket.writable().await?;
        }
        Ok(())
    }

    /// Waits for the first frame; what came behind it stays in `decoder`.
    pub(super) async fn hear_frame(&mut self, decoder: &mut Decoder) -> Result<Frame, LineError> {
        loop {
            match decoder.poll_frame()? {
                Some((Frame::Close { code, reason }, _)) => {
                    return Err(LineError::Closed(code, printable(&reason)));
                }
                Some((frame, _)) => return Ok(frame),
                None if self.is_ended => return Err(LineError::Ended),
                None => {}
            }
            let mut is_news = false;
            let is_more = self.hear(|bytes| {
                is_news = true;
                decoder.handle_bytes(bytes);
            })?;
            // What has come is looked at before more is waited for.
            if !is_news && !is_more && !self.is_ended {
                self.socket.readable().await?;
            }
        }
    }
}

/// Lays out the next parts for one writing, as many as it takes; none of them is empty, and there is one at least.
fn gather<T>(out: &Out, written: usize, write: impl FnOnce(&[IoSlice<'_>]) -> T) -> T {
    let mut parts = [IoSlice::new(&[]); PARTS_MAX];
    let mut count = 0;
    for (place, part) in parts.iter_mut().zip(out.parts(written)) {
        *place = IoSlice::new(part);
        count += 1;
    }
    write(&parts[..count])
}

/// Returns a peer's words without what a terminal would take for orders.
pub(super) fn printable(reason: &str) -> String {
    let letters = reason.chars().filter(|letter| !letter.is_control());
    letters.take(REASON_CHARS_MAX).collect()
}

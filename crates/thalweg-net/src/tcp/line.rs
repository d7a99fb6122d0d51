//! One TCP connection with TLS on it: bytes in, bytes out, never waiting.
//!
//! *The idea.* rustls turns bytes into records and knows no socket; the socket is asked for what it has and takes. What one
//! call of [`Line::say`] is given is one record if it is small, so that the peer can read it as soon as it is there.
//!
//! A line that goes on in the clear takes the handshake record by record, so that no byte behind it is taken for one of TLS;
//! from then on the socket's bytes are the peer's, and the cipher is let go of.
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
    speech: Speech,
    /// The key that the peer has proved.
    peer: Option<NodeId>,
    /// Whether the peer has come to the door, and wants no session.
    is_at_door: bool,
    /// Whether more than words came last.
    is_bulk: bool,
    is_ended: bool,
    moved: Arc<Moved>,
}

/// How what is said goes over the socket.
#[derive(Debug)]
enum Speech {
    /// By a cipher.
    Secret(Box<Connection>),
    /// As it is: no cipher stands between.
    Clear(Clear),
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

impl Clear {
    /// Writes what the socket takes; returns whether that was all.
    fn flush(&mut self, socket: &TcpStream, moved: &Moved) -> io::Result<bool> {
        while self.written < self.out.len() {
            let written = gather(&self.out, self.written, |parts| match parts {
                [part] => socket.try_write(part),
                _ => socket.try_write_vectored(parts),
            });
            match written {
                Ok(count) => {
                    self.written += count;
                    moved.add_sent(count);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        self.out.clear();
        self.written = 0;
        Ok(true)
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
            speech: Speech::Secret(Box::new(tls)),
            peer: None,
            is_at_door: false,
            is_bulk: false,
            is_ended: false,
            moved: Arc::default(),
        };
        let mut behind = Vec::new();
        while line.is_handshaking() {
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
            if line.is_handshaking() {
                line.socket.ready(interest).await?;
            }
        }
        if line.take_terms()? {
            // The handshake's last record goes before the first byte in the clear.
            while !line.flush()? {
                line.socket.writable().await?;
            }
            line.speech = Speech::Clear(Clear::default());
            decoder.handle_bytes(&behind);
        } else {
            line.decipher_all(&behind, &mut |bytes| decoder.handle_bytes(bytes))?;
        }
        Ok((line, decoder))
    }

    fn is_handshaking(&self) -> bool {
        matches!(&self.speech, Speech::Secret(tls) if tls.is_handshaking())
    }

    /// Takes in what the handshake has settled; returns whether it goes on in the clear.
    fn take_terms(&mut self) -> Result<bool, LineError> {
        let Speech::Secret(tls) = &self.speech else {
            return Ok(true);
        };
        let presented: Option<&[CertificateDer<'_>]> = tls.peer_certificates();
        self.peer = tls::proved(presented);
        match tls.alpn_protocol() {
            Some(alpn) if alpn == ALPN.as_bytes() => Ok(false),
            Some(alpn) if alpn == ALPN_DOOR.as_bytes() => {
                self.is_at_door = true;
                Ok(false)
            }
            Some(alpn) if alpn == ALPN_PLAIN.as_bytes() => Ok(true),
            _ => Err(LineError::Protocol),
        }
    }

    /// Takes in the handshake; what has come and is not of it stays in `behind`.
    fn shake(&mut self, behind: &mut Vec<u8>) -> Result<(), LineError> {
        let mut buffer = [0; READ_BYTES];
        while self.is_handshaking() {
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
                    self.take_record(&behind[..taken])?;
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

    /// Gives the cipher a record, or a piece of one that is too long.
    fn take_record(&mut self, mut bytes: &[u8]) -> Result<(), LineError> {
        if let Speech::Secret(tls) = &mut self.speech {
            while !bytes.is_empty() {
                tls.read_tls(&mut bytes)?;
                tls.process_new_packets()?;
            }
        }
        Ok(())
    }

    /// Returns whether what is written goes in the clear.
    pub(super) const fn is_plain(&self) -> bool {
        matches!(self.speech, Speech::Clear(_))
    }

    /// Returns whether the peer has come to the door, and wants no session.
    pub(super) const fn is_at_door(&self) -> bool {
        self.is_at_door
    }

    /// Returns the key that the peer has proved.
    pub(super) const fn peer(&self) -> Option<NodeId> {
        self.peer
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
        for _ in 0..READS_PER_TURN {
            let is_more = match &self.speech {
                Speech::Secret(_) => self.hear_secret(&mut sink)?,
                Speech::Clear(_) if self.is_bulk => self.hear_clear::<READ_BYTES>(&mut sink)?,
                Speech::Clear(_) => self.hear_clear::<WORDS_BYTES>(&mut sink)?,
            };
            if !is_more {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Hands out what the cipher makes of one reading; returns whether there may be more at once.
    fn hear_secret(&mut self, sink: &mut impl FnMut(&[u8])) -> Result<bool, LineError> {
        let Speech::Secret(tls) = &mut self.speech else {
            return Ok(false);
        };
        match tls.read_tls(&mut NoWait(&self.socket)) {
            Ok(0) => {
                self.is_ended = true;
                return Ok(false);
            }
            Ok(count) => self.moved.add_received(count),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        self.decipher(sink)?;
        Ok(!self.is_ended)
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
        let Speech::Secret(tls) = &mut self.speech else {
            return Ok(());
        };
        tls.process_new_packets()?;
        loop {
            let mut reader = tls.reader();
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

    /// Gives the cipher what came behind the handshake, and hands out what is in it.
    fn decipher_all(
        &mut self,
        mut bytes: &[u8],
        sink: &mut impl FnMut(&[u8]),
    ) -> Result<(), LineError> {
        while let (Speech::Secret(tls), false) = (&mut self.speech, bytes.is_empty()) {
            tls.read_tls(&mut bytes)?;
            self.decipher(sink)?;
        }
        Ok(())
    }

    /// Returns whether the peer will say nothing more.
    pub(super) const fn is_ended(&self) -> bool {
        self.is_ended
    }

    /// Takes bytes to be written by [`Line::flush`], and leaves an empty place for the next.
    pub(super) fn say(&mut self, out: &mut Out) -> io::Result<()> {
        match &mut self.speech {
            Speech::Clear(clear) if clear.out.is_empty() => std::mem::swap(&mut clear.out, out),
            Speech::Clear(clear) => clear.out.append(out),
            Speech::Secret(tls) => {
                let mut said = 0;
                while said < out.len() {
                    said += gather(out, said, |parts| tls.writer().write_vectored(parts))?;
                }
                out.clear();
            }
        }
        Ok(())
    }

    /// Writes what the socket takes; returns whether that was all.
    pub(super) fn flush(&mut self) -> io::Result<bool> {
        let tls = match &mut self.speech {
            Speech::Secret(tls) => tls,
            Speech::Clear(clear) => return clear.flush(&self.socket, &self.moved),
        };
        while tls.wants_write() {
            match tls.write_tls(&mut NoWait(&self.socket)) {
                Ok(count) => self.moved.add_sent(count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Says that nothing more will come, as far as the socket takes it.
    pub(super) fn end(&mut self) {
        if let Speech::Secret(tls) = &mut self.speech {
            tls.send_close_notify();
        }
        // The connection is going either way; in the clear the peer sees by this that nothing follows.
        let _ = self.flush();
        if self.is_plain() {
            let _ = socket::end(&self.socket);
        }
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

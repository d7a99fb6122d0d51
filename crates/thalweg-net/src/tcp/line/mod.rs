//! One TCP connection with TLS: bytes in, bytes out, never waiting.
//!
//! *The idea.* rustls converts bytes to records and knows no socket; the socket is read and written
//! without blocking. The bytes of one [`Line::queue`] call become one record if they are few, so
//! that the peer can decrypt them as soon as they arrive.
//!
//! A plain line reads the handshake record by record, so that no byte after it is mistaken for TLS;
//! afterwards the socket's bytes are the peer's, and the TLS state is dropped.
//!
//! *What it does not do.* It knows frames only for the greeting. A plain line has no integrity
//! check but TCP's checksum.
//!
//! *Sources.* rustls 0.23 `ConnectionCommon`; RFC 8446 §5.

mod pipe;
mod speech;
#[cfg(test)]
mod tests;

use std::io::{self, Read as _};
use std::sync::Arc;

use rustls::Connection;
use rustls::pki_types::CertificateDer;
use thalweg_base::id::NodeId;
use thalweg_base::wire::WireError;
use thalweg_link::hop::{CloseCode, settings::REASON_CHARS_MAX};
use thalweg_link::tcp_mux::{Decoder, Frame, Out};
use tokio::io::Interest;
use tokio::net::TcpStream;

pub(super) use self::pipe::ByteCounts;
use self::pipe::{Pipe, now};
use self::speech::{Encoding, Encrypted, Input, Plain, READ_BYTES};
use super::{ALPN, ALPN_DOOR, ALPN_PLAIN, socket};
use crate::raw_key::proved;

/// Size of a TLS record's header, and of the longest record after it (RFC 8446 §5.1, §5.2).
const HEADER_BYTES: usize = 5;
const BODY_BYTES_MAX: usize = (16 << 10) + 256;

/// Maximum number of socket reads per turn, so that a fast peer does not starve this end's writes.
const READS_PER_TURN: usize = 16;

/// A TCP connection with its TLS state, if it is encrypted.
#[derive(Debug)]
pub(super) struct Line {
    pipe: Pipe,
    encoding: Encoding,
    /// The key that the peer has proved.
    peer: Option<NodeId>,
    /// Whether the peer wants the door rather than a session.
    is_at_door: bool,
    is_ended: bool,
}

/// Why a connection fails or is refused.
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

impl Line {
    /// Runs the handshake; bytes received after it are in the decoder.
    pub(super) async fn establish(
        socket: TcpStream,
        tls: impl Into<Connection>,
    ) -> Result<(Self, Decoder), LineError> {
        let pipe = Pipe::new(socket);
        let mut tls = tls.into();
        // Unlimited: one batch is queued at a time, and written before the next.
        tls.set_buffer_limit(None);
        let mut encrypted = Encrypted(Box::new(tls));
        let mut after = Vec::new();
        while encrypted.0.is_handshaking() {
            let done = handshake(&mut encrypted, &pipe, &mut after);
            // Flushed even on an error: the alert tells the peer why.
            let is_written = encrypted.flush(&pipe);
            if done? == Input::End {
                return Err(LineError::Ended);
            }
            let interest = if is_written? {
                Interest::READABLE
            } else {
                Interest::READABLE | Interest::WRITABLE
            };
            if encrypted.0.is_handshaking() {
                pipe.socket.ready(interest).await?;
            }
        }
        let presented: Option<&[CertificateDer<'_>]> = encrypted.0.peer_certificates();
        let peer = proved(presented);
        let chosen = encrypted.0.alpn_protocol();
        let mut known = [ALPN, ALPN_DOOR, ALPN_PLAIN].into_iter();
        let spoken = known.find(|alpn| Some(alpn.as_bytes()) == chosen);
        let spoken = spoken.ok_or(LineError::Protocol)?;
        let mut decoder = Decoder::default();
        let mut is_ended = false;
        let encoding = if spoken == ALPN_PLAIN {
            // The handshake's last record must precede the first plain byte.
            while !encrypted.flush(&pipe)? {
                pipe.socket.writable().await?;
            }
            decoder.handle_bytes(&after);
            Encoding::Plain(Plain::default())
        } else {
            let input = encrypted.take(&after, &mut |bytes| decoder.handle_bytes(bytes))?;
            is_ended = input == Input::End;
            Encoding::Encrypted(encrypted)
        };
        let line = Self {
            pipe,
            encoding,
            peer,
            is_at_door: spoken == ALPN_DOOR,
            is_ended,
        };
        Ok((line, decoder))
    }

    /// Returns whether the line is unencrypted.
    pub(super) const fn is_plain(&self) -> bool {
        matches!(self.encoding, Encoding::Plain(_))
    }

    /// Returns whether the peer wants the door rather than a session.
    pub(super) const fn is_at_door(&self) -> bool {
        self.is_at_door
    }

    /// Returns the key that the peer has proved.
    pub(super) const fn peer(&self) -> Option<NodeId> {
        self.peer
    }

    pub(super) const fn socket(&self) -> &Arc<TcpStream> {
        &self.pipe.socket
    }

    /// Returns the counters of the socket's bytes.
    pub(super) const fn counts(&self) -> &Arc<ByteCounts> {
        &self.pipe.counts
    }

    /// Returns the socket of a plain line that has written all it was given; it still never waits.
    ///
    /// Fails   if the run-time does not let go of it
    pub(super) fn into_plain(self) -> io::Result<(std::net::TcpStream, Arc<ByteCounts>)> {
        self.pipe.into_std()
    }

    /// Passes received bytes to `sink`; returns whether there may be more at once.
    ///
    /// Fails   if the connection is broken, or bytes arrive that do not decrypt
    pub(super) fn receive(&mut self, mut sink: impl FnMut(&[u8])) -> Result<bool, LineError> {
        for _ in 0..READS_PER_TURN {
            match self.encoding.receive(&self.pipe, &mut sink)? {
                Input::More => {}
                Input::Blocked => return Ok(false),
                Input::End => {
                    self.is_ended = true;
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Returns whether the peer will send nothing more.
    pub(super) const fn is_ended(&self) -> bool {
        self.is_ended
    }

    /// Queues bytes for [`Line::flush`] and leaves `out` empty.
    pub(super) fn queue(&mut self, out: &mut Out) -> io::Result<()> {
        self.encoding.queue(out)
    }

    /// Writes what the socket accepts; returns whether that was all.
    pub(super) fn flush(&mut self) -> io::Result<bool> {
        self.encoding.flush(&self.pipe)
    }

    /// Signals the end of sending, as far as the socket accepts it.
    pub(super) fn end(&mut self) {
        if let Encoding::Encrypted(encrypted) = &mut self.encoding {
            encrypted.0.send_close_notify();
        }
        // Errors do not matter: the connection is closing. The end of a plain line is the socket's
        // own.
        let _ = self.flush();
        if self.is_plain() {
            let _ = socket::end(self.socket());
        }
    }

    /// Waits for the peer's end: closing a socket with unread bytes resets it and discards what was
    /// written last.
    pub(super) async fn drain(&mut self) -> Result<(), LineError> {
        while !self.is_ended {
            self.socket().readable().await?;
            self.receive(|_| {})?;
        }
        Ok(())
    }

    /// Writes one frame and waits until the socket has it.
    pub(super) async fn send_frame(&mut self, frame: &Frame) -> Result<(), LineError> {
        let mut out = Out::new();
        frame.encode(out.words());
        self.queue(&mut out)?;
        while !self.flush()? {
            self.socket().writable().await?;
        }
        Ok(())
    }

    /// Waits for the first frame; bytes after it stay in `decoder`.
    pub(super) async fn receive_frame(
        &mut self,
        decoder: &mut Decoder,
    ) -> Result<Frame, LineError> {
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
            let is_more = self.receive(|bytes| {
                is_news = true;
                decoder.handle_bytes(bytes);
            })?;
            // Received bytes are decoded before more are awaited.
            if !is_news && !is_more && !self.is_ended {
                self.socket().readable().await?;
            }
        }
    }
}

/// Advances the handshake until it is complete or more bytes are needed; bytes after it stay in
/// `after`.
fn handshake(
    encrypted: &mut Encrypted,
    mut pipe: &Pipe,
    after: &mut Vec<u8>,
) -> Result<Input, LineError> {
    let mut buffer = [0; READ_BYTES];
    while encrypted.0.is_handshaking() {
        let body = after.get(3..HEADER_BYTES);
        let body = body.map(|length| {
            length
                .iter()
                .fold(0, |sum, byte| sum << 8 | usize::from(*byte))
        });
        match body.map(|body| HEADER_BYTES + body) {
            Some(record) if after.len() >= record || record > HEADER_BYTES + BODY_BYTES_MAX => {
                // TLS itself refuses a record that is too long.
                let taken = record.min(after.len());
                let input = encrypted.take(&after[..taken], &mut |_| {})?;
                after.drain(..taken);
                if input == Input::End {
                    return Ok(input);
                }
            }
            _ => match now(pipe.read(&mut buffer))? {
                None => return Ok(Input::Blocked),
                Some(0) => return Ok(Input::End),
                Some(count) => after.extend_from_slice(&buffer[..count]),
            },
        }
    }
    Ok(Input::Blocked)
}

/// Returns a peer's text without control characters, which a terminal might interpret.
pub(super) fn printable(reason: &str) -> String {
    let letters = reason.chars().filter(|letter| !letter.is_control());
    letters.take(REASON_CHARS_MAX).collect()
}

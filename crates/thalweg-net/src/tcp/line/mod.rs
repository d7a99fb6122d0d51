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

mod pipe;
mod speech;
#[cfg(test)]
mod tests;

use std::io::{self, Read as _};
use std::sync::Arc;

use rustls::Connection;
use rustls::pki_types::CertificateDer;
use thalweg_core::hop::{CloseCode, settings::REASON_CHARS_MAX};
use thalweg_core::id::NodeId;
use thalweg_core::pace::{Decoder, Frame, Out};
use thalweg_core::wire::WireError;
use tokio::io::Interest;
use tokio::net::TcpStream;

pub(super) use self::pipe::Moved;
use self::pipe::{Pipe, now};
use self::speech::{Clear, READ_BYTES, Rest, Secret, Speech};
use super::{ALPN, ALPN_DOOR, ALPN_PLAIN, socket, tls};

/// The header of a record of TLS, and what follows it at most (RFC 8446 §5.1, §5.2).
const HEADER_BYTES: usize = 5;
const BODY_BYTES_MAX: usize = (16 << 10) + 256;

/// Reads from the socket in one turn, so that a fast peer does not keep its reader from writing.
const READS_PER_TURN: usize = 16;

/// A TCP connection and its cipher, if it has one.
#[derive(Debug)]
pub(super) struct Line {
    pipe: Pipe,
    speech: Speech,
    /// The key that the peer has proved.
    peer: Option<NodeId>,
    /// Whether the peer has come to the door, and wants no session.
    is_at_door: bool,
    is_ended: bool,
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

impl Line {
    /// Makes the handshake; what came behind it is in the decoder.
    pub(super) async fn establish(
        socket: TcpStream,
        tls: impl Into<Connection>,
    ) -> Result<(Self, Decoder), LineError> {
        let pipe = Pipe::new(socket);
        let mut tls = tls.into();
        // One batch is given at a time, and written before the next.
        tls.set_buffer_limit(None);
        let mut secret = Secret(Box::new(tls));
        let mut behind = Vec::new();
        while secret.0.is_handshaking() {
            let done = shake(&mut secret, &pipe, &mut behind);
            // An alert that says why is worth the attempt.
            let is_written = secret.flush(&pipe);
            if done? == Rest::Over {
                return Err(LineError::Ended);
            }
            let interest = if is_written? {
                Interest::READABLE
            } else {
                Interest::READABLE | Interest::WRITABLE
            };
            if secret.0.is_handshaking() {
                pipe.socket.ready(interest).await?;
            }
        }
        let presented: Option<&[CertificateDer<'_>]> = secret.0.peer_certificates();
        let peer = tls::proved(presented);
        let chosen = secret.0.alpn_protocol();
        let mut known = [ALPN, ALPN_DOOR, ALPN_PLAIN].into_iter();
        let spoken = known.find(|alpn| Some(alpn.as_bytes()) == chosen);
        let spoken = spoken.ok_or(LineError::Protocol)?;
        let mut decoder = Decoder::default();
        let mut is_ended = false;
        let speech = if spoken == ALPN_PLAIN {
            // The handshake's last record goes before the first byte in the clear.
            while !secret.flush(&pipe)? {
                pipe.socket.writable().await?;
            }
            decoder.handle_bytes(&behind);
            Speech::Clear(Clear::default())
        } else {
            let rest = secret.take(&behind, &mut |bytes| decoder.handle_bytes(bytes))?;
            is_ended = rest == Rest::Over;
            Speech::Secret(secret)
        };
        let line = Self {
            pipe,
            speech,
            peer,
            is_at_door: spoken == ALPN_DOOR,
            is_ended,
        };
        Ok((line, decoder))
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
        &self.pipe.socket
    }

    /// Returns how much has gone over the socket.
    pub(super) const fn moved(&self) -> &Arc<Moved> {
        &self.pipe.moved
    }

    /// Hands out what has arrived; returns whether there may be more at once.
    ///
    /// Fails   the connection is broken, or bytes came that the peer's cipher did not make
    pub(super) fn hear(&mut self, mut sink: impl FnMut(&[u8])) -> Result<bool, LineError> {
        for _ in 0..READS_PER_TURN {
            match self.speech.hear(&self.pipe, &mut sink)? {
                Rest::More => {}
                Rest::Nothing => return Ok(false),
                Rest::Over => {
                    self.is_ended = true;
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Returns whether the peer will say nothing more.
    pub(super) const fn is_ended(&self) -> bool {
        self.is_ended
    }

    /// Takes bytes to be written by [`Line::flush`], and leaves an empty place for the next.
    pub(super) fn say(&mut self, out: &mut Out) -> io::Result<()> {
        self.speech.say(out)
    }

    /// Writes what the socket takes; returns whether that was all.
    pub(super) fn flush(&mut self) -> io::Result<bool> {
        self.speech.flush(&self.pipe)
    }

    /// Says that nothing more will come, as far as the socket takes it.
    pub(super) fn end(&mut self) {
        if let Speech::Secret(secret) = &mut self.speech {
            secret.0.send_close_notify();
        }
        // The connection is going either way; in the clear the peer sees by this that nothing follows.
        let _ = self.flush();
        if self.is_plain() {
            let _ = socket::end(self.socket());
        }
    }

    /// Waits until the peer has ended too: a socket closed with something unread takes back what was written last.
    pub(super) async fn drain(&mut self) -> Result<(), LineError> {
        while !self.is_ended {
            self.socket().readable().await?;
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
            self.socket().writable().await?;
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
                self.socket().readable().await?;
            }
        }
    }
}

/// Takes in the handshake, until it is over or nothing more has come; what is not of it stays in `behind`.
fn shake(secret: &mut Secret, mut pipe: &Pipe, behind: &mut Vec<u8>) -> Result<Rest, LineError> {
    let mut place = [0; READ_BYTES];
    while secret.0.is_handshaking() {
        let body = behind.get(3..HEADER_BYTES);
        let body = body.map(|length| {
            length
                .iter()
                .fold(0, |sum, byte| sum << 8 | usize::from(*byte))
        });
        match body.map(|body| HEADER_BYTES + body) {
            Some(record) if behind.len() >= record || record > HEADER_BYTES + BODY_BYTES_MAX => {
                // One that is too long the cipher refuses.
                let taken = record.min(behind.len());
                let rest = secret.take(&behind[..taken], &mut |_| {})?;
                behind.drain(..taken);
                if rest == Rest::Over {
                    return Ok(rest);
                }
            }
            _ => match now(pipe.read(&mut place))? {
                None => return Ok(Rest::Nothing),
                Some(0) => return Ok(Rest::Over),
                Some(count) => behind.extend_from_slice(&place[..count]),
            },
        }
    }
    Ok(Rest::Nothing)
}

/// Returns a peer's words without what a terminal would take for orders.
pub(super) fn printable(reason: &str) -> String {
    let letters = reason.chars().filter(|letter| !letter.is_control());
    letters.take(REASON_CHARS_MAX).collect()
}

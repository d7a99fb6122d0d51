//! The frames on one TCP connection.
//!
//! *The idea.* A type, varints, and for data its bytes. Streams are unidirectional and numbered
//! from zero by the end that opens them: `open`, `data` and `reset` concern the sender's streams,
//! `stop` and `window` the receiver's. Both ends count every frame but `received`, so one
//! cumulative number acknowledges all of them.
//!
//! ```text
//! 0 hello     version:8 session:128 carrier(i)      the first frame each way, not counted
//! 1 open      stream(i)                             in order: 0, 1, 2 …
//! 2 data      stream(i) offset(i) length(i) bytes
//! 3 data, the last of its stream
//! 4 reset     stream(i) code(i) offset(i)           offset: how many bytes were sent before
//! 5 stop      stream(i) code(i)
//! 6 received  position(i)                           bytes of counted frames, on this carrier
//! 7 window    stream(i) limit(i)                    the offset up to which may be sent
//! 8 total     limit(i)                              the same, for all streams together
//! 9 streams   limit(i)                              how many may have been opened in all
//! 10 datagram length(i) bytes
//! 11 ping
//! 12 takeover                                       from here on this carrier is the active one
//! 13 close    code(i) length(i) reason
//! 14 tell     bytes(i) delay(i)                     how seldom `received` need come; milliseconds
//! ```
//!
//! *What it does not do.* It checks syntax only; [`super::session`] checks meaning.
//!
//! *Sources.* RFC 9000 §19; docs/concepts/tcp.md.

#[cfg(test)]
mod tests;

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use bytes::{Buf as _, Bytes, BytesMut};
use thalweg_base::limits::TEXT_BYTES_MAX;
use thalweg_base::wire::{Reader, VARINT_MAX, WireError, Write as _};

use super::settings::{DATAGRAM_BYTES_MAX, FRAME_BYTES_MAX, VERSION};
use crate::hop::{CloseCode, StreamCode};
use crate::outbox::CHUNK_BYTES_MAX;

/// A stream of one end of a session, in the order of opening.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamNumber(pub u64);

/// Common to the connections of one session; drawn by the end that dials.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub [u8; 16]);

/// One frame of a carrier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// The session of this connection, and its carrier number within it.
    Hello {
        /// The session.
        session: SessionId,
        /// The carrier: 0 starts the session, others join it.
        carrier: u64,
    },
    /// A stream begins.
    Open {
        /// The stream.
        stream: StreamNumber,
    },
    /// Bytes of a stream.
    Data {
        /// The stream.
        stream: StreamNumber,
        /// The offset of the first byte in the stream.
        offset: u64,
        /// Whether the stream ends after these bytes.
        is_last: bool,
        /// The bytes, [`CHUNK_BYTES_MAX`] at most.
        bytes: Bytes,
    },
    /// The sender cancels a stream.
    Reset {
        /// The stream.
        stream: StreamNumber,
        /// The reason.
        code: StreamCode,
        /// How many of its bytes were sent.
        offset: u64,
    },
    /// The receiver stops a stream.
    Stop {
        /// The stream.
        stream: StreamNumber,
        /// The reason.
        code: StreamCode,
    },
    /// A report of the counted bytes that have arrived over this carrier.
    Received {
        /// Bytes of counted frames.
        position: u64,
    },
    /// The flow control limit of a stream.
    Window {
        /// The stream.
        stream: StreamNumber,
        /// The offset up to which may be sent.
        limit: u64,
    },
    /// The flow control limit of all streams together.
    Total {
        /// Bytes since the session began.
        limit: u64,
    },
    /// The limit on opened streams.
    Streams {
        /// Streams since the session began.
        limit: u64,
    },
    /// A message that is never resent.
    Datagram {
        /// Its bytes, [`DATAGRAM_BYTES_MAX`] at most.
        bytes: Bytes,
    },
    /// Requests a report.
    Ping,
    /// This carrier becomes the active one.
    Takeover,
    /// Requests that [`Frame::Received`] come no more often than this, from now on and over every
    /// carrier.
    Tell {
        /// Report after this many bytes,
        bytes: u64,
        /// or after this long, in milliseconds.
        delay_ms: u64,
    },
    /// The session ends.
    Close {
        /// The reason as a number.
        code: CloseCode,
        /// The reason in words.
        reason: String,
    },
}

/// Assembles frames from the pieces in which a connection delivers them.
#[derive(Debug, Default)]
pub struct Decoder {
    buffer: BytesMut,
}

impl fmt::Display for StreamNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stream {}", self.0)
    }
}

impl Frame {
    /// Returns whether both ends count the frame's bytes; an acknowledgement is not itself acknowledged.
    pub const fn is_counted(&self) -> bool {
        !matches!(self, Self::Received { .. } | Self::Hello { .. })
    }

    /// Appends the encoded frame.
    ///
    /// Cost    one copy of the bytes of a data frame or datagram
    /// Fails   panics above [`CHUNK_BYTES_MAX`], [`DATAGRAM_BYTES_MAX`] or 2⁶² − 1 (a caller's bug)
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Hello { session, carrier } => {
                out.extend_from_slice(&[0, VERSION]);
                out.extend_from_slice(&session.0);
                out.varint(*carrier);
            }
            Self::Open { stream } => put(out, 1, &[stream.0]),
            Self::Data {
                stream,
                offset,
                is_last,
                bytes,
            } => {
                assert!(
                    bytes.len() <= CHUNK_BYTES_MAX as usize,
                    "a chunk is cut to size"
                );
                put_data(out, *stream, *offset, *is_last, bytes.len());
                out.extend_from_slice(bytes);
            }
            Self::Reset {
                stream,
                code,
                offset,
            } => put(out, 4, &[stream.0, number(code.number()), *offset]),
            Self::Stop { stream, code } => put(out, 5, &[stream.0, number(code.number())]),
            Self::Received { position } => put(out, 6, &[*position]),
            Self::Window { stream, limit } => put(out, 7, &[stream.0, *limit]),
            Self::Total { limit } => put(out, 8, &[*limit]),
            Self::Streams { limit } => put(out, 9, &[*limit]),
            Self::Datagram { bytes } => {
                assert!(bytes.len() <= DATAGRAM_BYTES_MAX, "a datagram is small");
                out.push(10);
                out.blob(bytes);
            }
            Self::Ping => out.push(11),
            Self::Takeover => out.push(12),
            Self::Close { code, reason } => {
                put(out, 13, &[number(code.number())]);
                out.blob(cut(reason).as_bytes());
            }
            Self::Tell { bytes, delay_ms } => put(out, 14, &[*bytes, *delay_ms]),
        }
    }
}

impl Decoder {
    /// Appends bytes that have arrived.
    ///
    /// If [`Decoder::poll_frame`] is drained after each call, it holds at most [`FRAME_BYTES_MAX`]
    /// and these bytes.
    pub fn handle_bytes(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns the next frame and its encoded length; `None` until all of it has arrived.
    ///
    /// Cost    one copy of a data frame's bytes, so that keeping them keeps nothing else alive
    /// Fails   [`WireError`] if no further bytes can complete a frame; the connection is then of no use
    pub fn poll_frame(&mut self) -> Result<Option<(Frame, u64)>, WireError> {
        let mut reader = Reader::new(&self.buffer);
        match read(&mut reader) {
            Ok(frame) => {
                let used = self.buffer.len() - reader.remaining();
                self.buffer.advance(used);
                Ok(Some((frame, used as u64)))
            }
            // A frame that is longer than the longest never becomes whole.
            Err(WireError::Truncated(_)) if self.buffer.len() < FRAME_BYTES_MAX => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Appends the header of a [`Frame::Data`].
pub(super) fn put_data(
    out: &mut Vec<u8>,
    stream: StreamNumber,
    offset: u64,
    is_last: bool,
    bytes: usize,
) {
    let kind = 2 + u8::from(is_last);
    put(out, kind, &[stream.0, offset, bytes as u64]);
}

fn put(out: &mut Vec<u8>, kind: u8, values: &[u64]) {
    out.push(kind);
    for value in values {
        out.varint(*value);
    }
}

/// Caps a code at the largest varint: a larger one cannot be encoded, and means no more than that.
fn number(code: u64) -> u64 {
    code.min(VARINT_MAX)
}

/// Cuts a reason at a character boundary.
fn cut(reason: &str) -> &str {
    let end = (0..=reason.len().min(TEXT_BYTES_MAX))
        .rev()
        .find(|end| reason.is_char_boundary(*end));
    &reason[..end.unwrap_or(0)]
}

fn read(reader: &mut Reader<'_>) -> Result<Frame, WireError> {
    let frame = match reader.byte("frame type")? {
        0 => hello(reader)?,
        1 => Frame::Open {
            stream: stream(reader)?,
        },
        kind @ (2 | 3) => Frame::Data {
            stream: stream(reader)?,
            offset: reader.varint("offset")?,
            is_last: kind == 3,
            bytes: Bytes::copy_from_slice(reader.blob("data", CHUNK_BYTES_MAX as usize)?),
        },
        4 => Frame::Reset {
            stream: stream(reader)?,
            code: StreamCode::from_number(reader.varint("code")?),
            offset: reader.varint("offset")?,
        },
        5 => Frame::Stop {
            stream: stream(reader)?,
            code: StreamCode::from_number(reader.varint("code")?),
        },
        6 => Frame::Received {
            position: reader.varint("position")?,
        },
        7 => Frame::Window {
            stream: stream(reader)?,
            limit: reader.varint("limit")?,
        },
        8 => Frame::Total {
            limit: reader.varint("limit")?,
        },
        9 => Frame::Streams {
            limit: reader.varint("limit")?,
        },
        10 => Frame::Datagram {
            bytes: Bytes::copy_from_slice(reader.blob("datagram", DATAGRAM_BYTES_MAX)?),
        },
        11 => Frame::Ping,
        12 => Frame::Takeover,
        13 => Frame::Close {
            code: CloseCode::from_number(reader.varint("code")?),
            reason: reader.text("reason", TEXT_BYTES_MAX)?,
        },
        14 => Frame::Tell {
            bytes: reader.varint("bytes")?,
            delay_ms: reader.varint("delay")?,
        },
        kind => return Err(WireError::Kind(kind.into())),
    };
    Ok(frame)
}

fn hello(reader: &mut Reader<'_>) -> Result<Frame, WireError> {
    let version = reader.byte("version")?;
    if version != VERSION {
        return Err(WireError::Version(version));
    }
    Ok(Frame::Hello {
        session: SessionId(reader.array("session")?),
        carrier: reader.varint("carrier")?,
    })
}

fn stream(reader: &mut Reader<'_>) -> Result<StreamNumber, WireError> {
    reader.varint("stream").map(StreamNumber)
}

//! The bytes of one stream, in the chunks in which they arrived.
//!
//! *The idea.* A transport hands out slices of its receive buffers; the reader keeps them unchanged
//! and in order, so that a payload can be forwarded without a copy. Only a header split across
//! chunks is joined.
//!
//! *What it does not do.* It knows no format and no deadline.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use bytes::{Bytes, BytesMut};
use thalweg_base::time::Instant;
use thalweg_base::trace::Trace;
use thalweg_base::wire::WireError;
use thalweg_base::wire::adu::{Decoded, decode_header, decode_trace, window};
use thalweg_link::hop::Pieces;

use super::stream::Inbound;
use crate::close::StreamCode;
use crate::error::BodyError;

/// Chunks taken per lock of the connection at first: a small ADU has one or two, and each slot
/// costs something to create and to drop.
const CHUNKS_FEW: usize = 4;

/// The same for a bulk stream: two thirds of a 60 kB ADU. At 8, frequent locking slowed bulk
/// transfer.
const CHUNKS_MANY: usize = 32;

/// A stream and its buffered chunks.
#[derive(Debug)]
pub(crate) struct Reader {
    stream: Option<Inbound>,
    buffered: Pieces,
    /// Whether a read ever filled all [`CHUNKS_FEW`] slots.
    is_bulk: bool,
    ended: bool,
}

/// Why the next header cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HeaderError {
    /// The stream ended before its first byte.
    #[error("the stream is empty")]
    End,
    /// The stream ended before a header did.
    #[error("the stream ended within a header")]
    Within,
    #[error(transparent)]
    Body(BodyError),
    #[error(transparent)]
    Wire(WireError),
}

impl Reader {
    pub(crate) fn new(stream: Inbound) -> Self {
        Self {
            stream: Some(stream),
            buffered: Pieces::default(),
            is_bulk: false,
            ended: false,
        }
    }

    /// Returns a reader of bytes in memory.
    pub(crate) fn whole(bytes: Bytes) -> Self {
        Self {
            stream: None,
            buffered: bytes.into(),
            is_bulk: false,
            ended: true,
        }
    }

    /// Returns a reader of pieces in memory.
    pub(crate) fn chunks(buffered: Pieces) -> Self {
        Self {
            stream: None,
            buffered,
            is_bulk: false,
            ended: true,
        }
    }

    /// Returns whether no byte is buffered.
    pub(crate) fn is_empty(&self) -> bool {
        self.buffered.is_empty()
    }

    /// Returns the length of the next buffered chunk.
    pub(crate) fn first_bytes(&self) -> usize {
        self.buffered.first().len()
    }

    pub(crate) fn buffered_bytes(&self) -> usize {
        self.buffered.bytes()
    }

    /// Takes the next buffered chunk, cut at `bytes_max`; empty if nothing is buffered.
    pub(crate) fn take(&mut self, bytes_max: usize) -> Bytes {
        self.buffered.take(bytes_max)
    }

    /// Waits for more bytes; returns whether there were any before the end.
    pub(crate) async fn fill(&mut self) -> Result<bool, BodyError> {
        let Some(stream) = self.stream.as_mut().filter(|_| !self.ended) else {
            return Ok(false);
        };
        let buffered = &mut self.buffered;
        let push = |chunk| buffered.push(chunk);
        let read = if self.is_bulk {
            stream.read::<CHUNKS_MANY>(push).await?
        } else {
            stream.read::<CHUNKS_FEW>(push).await?
        };
        self.is_bulk |= read == Some(CHUNKS_FEW);
        self.ended = read.is_none();
        Ok(read.is_some())
    }

    /// Buffers what has arrived, without waiting; errors are left for the next [`Reader::fill`].
    pub(crate) fn fill_now(&mut self) {
        let mut context = Context::from_waker(Waker::noop());
        while let Poll::Ready(Ok(true)) = pin!(self.fill()).poll(&mut context) {}
    }

    /// Takes one byte.
    pub(crate) async fn byte(&mut self) -> Result<Option<u8>, BodyError> {
        while self.is_empty() {
            if !self.fill().await? {
                return Ok(None);
            }
        }
        Ok(Some(self.take(1)[0]))
    }

    /// Takes exactly `count` bytes as one slice; `None` if the stream ends before.
    ///
    /// Cost    no copy if one chunk holds them; never allocates more than has arrived
    pub(crate) async fn exactly(&mut self, count: usize) -> Result<Option<Bytes>, BodyError> {
        while self.buffered_bytes() < count {
            if !self.fill().await? {
                return Ok(None);
            }
        }
        if self.buffered.first().len() >= count {
            return Ok(Some(self.take(count)));
        }
        let mut whole = BytesMut::with_capacity(count);
        while whole.len() < count {
            whole.extend_from_slice(&self.take(count - whole.len()));
        }
        Ok(Some(whole.freeze()))
    }

    /// Takes an ADU's header, with its trace stamps if it is traced; calls `now` once its bytes
    /// have arrived.
    pub(crate) async fn header(
        &mut self,
        now: impl Fn() -> Instant,
    ) -> Result<(Decoded, Option<Box<Trace>>), HeaderError> {
        loop {
            // The second byte tells whether stamps follow.
            self.buffered.join(2);
            self.buffered.join(window(self.buffered.first()));
            let now = now();
            if !self.is_empty()
                && let Some(decoded) =
                    decode_header(self.buffered.first(), now).map_err(HeaderError::Wire)?
            {
                let trace = trace(self.buffered.first(), &decoded, now);
                self.take(decoded.header_bytes);
                return Ok((decoded, trace));
            }
            if !self.fill().await.map_err(HeaderError::Body)? {
                return Err(match self.buffered_bytes() {
                    0 => HeaderError::End,
                    _ => HeaderError::Within,
                });
            }
        }
    }

    /// Asks the sender to stop.
    pub(crate) fn stop(&mut self, code: StreamCode) {
        if let Some(stream) = &mut self.stream {
            stream.stop(code);
        }
        self.ended = true;
    }
}

/// Decodes the trace stamps behind a header, if there are any.
pub(super) fn trace(bytes: &[u8], decoded: &Decoded, now: Instant) -> Option<Box<Trace>> {
    let is_traced = decoded.trace_bytes > 0;
    is_traced
        .then(|| decode_trace(bytes, decoded, now).map(Box::new))
        .flatten()
}

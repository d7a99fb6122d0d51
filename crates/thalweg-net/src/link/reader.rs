//! Bytes of one stream in the chunks in which they arrived.
//!
//! *The idea.* A transport hands out slices of its own receive buffers; this keeps them as they are, in order, so that a
//! payload can be passed on without a copy. Only a header that is split over two chunks is put together.
//!
//! *What it does not do.* It knows no format and no deadline.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use bytes::{Bytes, BytesMut};
use thalweg_core::hop::Pieces;
use thalweg_core::time::Instant;
use thalweg_core::trace::Trace;
use thalweg_core::wire::WireError;
use thalweg_core::wire::adu::{Decoded, decode_header, decode_trace, window};

use super::stream::Inbound;
use crate::close::StreamCode;
use crate::error::BodyError;

/// Chunks taken under one lock of the connection at first: a small ADU is one or two, and each place costs something to
/// make and to let go.
const CHUNKS_FEW: usize = 4;

/// The same once so many were there: two thirds of a 60 kB ADU. At 8 the lock was taken so often that bulk suffered.
const CHUNKS_MANY: usize = 32;

/// What is buffered of a stream, and the stream.
#[derive(Debug)]
pub(crate) struct Reader {
    stream: Option<Inbound>,
    here: Pieces,
    /// Whether there was ever more than a few chunks at once.
    is_bulk: bool,
    ended: bool,
}

/// Why the next header cannot be had.
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
            here: Pieces::default(),
            is_bulk: false,
            ended: false,
        }
    }

    /// Returns a reader of bytes that are all here.
    pub(crate) fn whole(bytes: Bytes) -> Self {
        Self {
            stream: None,
            here: bytes.into(),
            is_bulk: false,
            ended: true,
        }
    }

    /// Returns a reader of pieces that are all here.
    pub(crate) fn chunks(here: Pieces) -> Self {
        Self {
            stream: None,
            here,
            is_bulk: false,
            ended: true,
        }
    }

    /// Returns whether no byte is buffered.
    pub(crate) fn is_empty(&self) -> bool {
        self.here.is_empty()
    }

    pub(crate) fn buffered_bytes(&self) -> usize {
        self.here.bytes()
    }

    /// Takes the next buffered chunk, cut at `bytes_max`; empty if nothing is buffered.
    pub(crate) fn take(&mut self, bytes_max: usize) -> Bytes {
        self.here.take(bytes_max)
    }

    /// Waits for more bytes; returns whether there were any before the end.
    pub(crate) async fn fill(&mut self) -> Result<bool, BodyError> {
        let Some(stream) = self.stream.as_mut().filter(|_| !self.ended) else {
            return Ok(false);
        };
        let here = &mut self.here;
        let push = |chunk| here.push(chunk);
        let read = if self.is_bulk {
            stream.read::<CHUNKS_MANY>(push).await?
        } else {
            stream.read::<CHUNKS_FEW>(push).await?
        };
        self.is_bulk |= read == Some(CHUNKS_FEW);
        self.ended = read.is_none();
        Ok(read.is_some())
    }

    /// Takes in what has arrived by now, without waiting; errors are left for the next [`Reader::fill`].
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
    /// Cost    no copy if one chunk holds them; no more is allocated than has arrived
    pub(crate) async fn exactly(&mut self, count: usize) -> Result<Option<Bytes>, BodyError> {
        while self.buffered_bytes() < count {
            if !self.fill().await? {
                return Ok(None);
            }
        }
        if self.here.first().len() >= count {
            return Ok(Some(self.take(count)));
        }
        let mut whole = BytesMut::with_capacity(count);
        while whole.len() < count {
            whole.extend_from_slice(&self.take(count - whole.len()));
        }
        Ok(Some(whole.freeze()))
    }

    /// Takes an ADU's header, with its stamps if it is traced; `now` is asked for when its bytes are there.
    pub(crate) async fn header(
        &mut self,
        now: impl Fn() -> Instant,
    ) -> Result<(Decoded, Option<Box<Trace>>), HeaderError> {
        loop {
            // The second byte says whether stamps follow.
            self.here.join(2);
            self.here.join(window(self.here.first()));
            let now = now();
            if !self.is_empty()
                && let Some(decoded) =
                    decode_header(self.here.first(), now).map_err(HeaderError::Wire)?
            {
                let trace = trace(self.here.first(), &decoded, now);
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

    /// Tells the sender to stop.
    pub(crate) fn stop(&mut self, code: StreamCode) {
        if let Some(stream) = &mut self.stream {
            stream.stop(code);
        }
        self.ended = true;
    }
}

/// Returns the stamps behind a header, if it bears any.
pub(super) fn trace(bytes: &[u8], decoded: &Decoded, now: Instant) -> Option<Box<Trace>> {
    let is_traced = decoded.trace_bytes > 0;
    is_traced
        .then(|| decode_trace(bytes, decoded, now).map(Box::new))
        .flatten()
}

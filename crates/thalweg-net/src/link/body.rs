//! The payload of an ADU while it arrives.
//!
//! *The idea.* A body is read once, in the chunks in which it came, by whoever holds it: a local subscriber collects
//! it, a relay gives it to the next link as it is. Reading waits no longer than the ADU's deadline. Dropping a body
//! half read tells the sender to stop; on an ordered stream, what is left is skipped instead.
//!
//! *What it does not do.* It allocates nothing by what a peer claims: what it holds has arrived.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use bytes::Bytes;
use thalweg_core::adu::Header;
use thalweg_core::hop::Pieces;
use thalweg_core::time::Instant;
use thalweg_core::trace::Trace;
use tokio::sync::oneshot;

use super::gathering::Gathering;
use super::reader::Reader;
use crate::alarm::Alarm;
use crate::clock::Clock;
use crate::close::StreamCode;
use crate::error::BodyError;

/// An ADU whose header is here and whose payload may still be arriving.
#[derive(Debug)]
pub struct Arriving {
    /// What every node may read; its deadline is on this node's clock.
    pub header: Header,
    /// How long the payload is; `body` yields exactly so many bytes or fails.
    pub payload_bytes: usize,
    /// The payload.
    pub body: Body,
    /// What the nodes before say of it, if it is traced.
    pub trace: Option<Box<Trace>>,
}

/// A payload that is read in the chunks in which it arrives.
#[derive(Debug)]
pub struct Body {
    reader: Reader,
    remaining: usize,
    failed: Option<BodyError>,
    deadline: Option<Deadline>,
    /// What its link gathers, if it was not whole when its header was read.
    gathering: Option<Gathering>,
    /// Where the stream goes when this body is done with it, for other ADUs follow on it.
    home: Option<oneshot::Sender<(Reader, usize)>>,
    rest: Option<Rest>,
    twin: Option<Box<Copying>>,
}

/// The payload a second time, for who wants it beside the one who reads it.
#[derive(Debug)]
pub struct Twin(oneshot::Receiver<Bytes>);

/// What has been read so far, and who gets it.
#[derive(Debug)]
struct Copying {
    bytes: Vec<u8>,
    to: oneshot::Sender<Bytes>,
}

/// Until when a payload is waited for.
#[derive(Debug)]
struct Deadline {
    at: Instant,
    /// Set when something has to be waited for, and kept: what arrives in many pieces waits often.
    alarm: Alarm,
    is_set: bool,
}

/// Tells what became of the rest of a payload, when its body is gone.
#[derive(Clone, Debug, Default)]
pub struct Rest(Arc<OnceLock<bool>>);

impl Rest {
    /// Returns whether the rest failed to come; else it came, or whoever had the body wanted no more of it. `None` while
    /// the body is there.
    pub fn has_failed(&self) -> Option<bool> {
        self.0.get().copied()
    }
}

impl Twin {
    /// Waits until the payload has been read, and returns it; nothing if it did not come, or was not wanted to its end.
    pub async fn whole(self) -> Option<Bytes> {
        self.0.await.ok()
    }
}

impl Arriving {
    /// Returns the whole payload, as [`Body::collect`].
    pub async fn collect(self) -> Result<Bytes, BodyError> {
        self.body.collect().await
    }
}

impl Body {
    /// Returns a body that is all here.
    pub fn whole(payload: Bytes) -> Self {
        Self {
            remaining: payload.len(),
            reader: Reader::whole(payload),
            failed: None,
            deadline: None,
            gathering: None,
            home: None,
            rest: None,
            twin: None,
        }
    }

    /// Returns a body that is all here, in pieces.
    pub(crate) fn of_chunks(chunks: Pieces) -> Self {
        Self {
            remaining: chunks.bytes(),
            reader: Reader::chunks(chunks),
            failed: None,
            deadline: None,
            gathering: None,
            home: None,
            rest: None,
            twin: None,
        }
    }

    /// Returns the body of the one ADU of a stream.
    pub(crate) fn of_stream(
        reader: Reader,
        payload_bytes: usize,
        clock: Clock,
        deadline: Instant,
        gathering: &Gathering,
    ) -> Self {
        let mut body = Self {
            reader,
            remaining: payload_bytes,
            failed: None,
            deadline: Some(Deadline {
                at: deadline,
                alarm: Alarm::new(clock),
                is_set: false,
            }),
            gathering: None,
            home: None,
            rest: None,
            twin: None,
        };
        // What came with the header is taken along, so that a small ADU is whole from the start.
        body.reader.fill_now();
        body.gathering = (!body.is_whole()).then(|| gathering.clone());
        body
    }

    /// Returns the body of one ADU among others of a stream, and where the stream is given back.
    pub(crate) fn of_lane(
        reader: Reader,
        payload_bytes: usize,
        gathering: &Gathering,
    ) -> (Self, oneshot::Receiver<(Reader, usize)>) {
        let (home, back) = oneshot::channel();
        let mut body = Self {
            reader,
            remaining: payload_bytes,
            failed: None,
            deadline: None,
            gathering: None,
            home: Some(home),
            rest: None,
            twin: None,
        };
        body.gathering = (!body.is_whole()).then(|| gathering.clone());
        (body, back)
    }

    /// Returns how many bytes are still to be read.
    pub const fn remaining_bytes(&self) -> usize {
        self.remaining
    }

    /// Returns what will tell, when this body is gone, what became of the rest.
    pub fn rest(&mut self) -> Rest {
        self.rest.get_or_insert_default().clone()
    }

    /// Returns what will have the payload too, of which nothing has been read yet.
    ///
    /// Cost    a copy of each chunk when it is read
    pub fn twin(&mut self) -> Twin {
        let (to, twin) = oneshot::channel();
        self.twin = Some(Box::new(Copying {
            bytes: Vec::new(),
            to,
        }));
        Twin(twin)
    }

    /// Returns whether all of the payload has arrived, so that reading it waits for nothing.
    pub fn is_whole(&self) -> bool {
        self.reader.buffered_bytes() >= self.remaining
    }

    /// Returns the next chunk, `None` after the last; waits for it to arrive.
    ///
    /// The chunk is a slice of the receive buffer, not a copy.
    ///
    /// Fails   the sender gave up, the deadline passed, the link was lost
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, BodyError> {
        if let Some(failed) = self.failed {
            return Err(failed);
        }
        if self.remaining == 0 {
            return Ok(None);
        }
        while self.reader.is_empty() {
            if let Err(error) = self.wait().await {
                self.fail(error);
                return Err(error);
            }
        }
        Ok(Some(self.take()))
    }

    fn take(&mut self) -> Bytes {
        let chunk = self.reader.take(self.remaining);
        self.remaining -= chunk.len();
        if let Some(twin) = &mut self.twin {
            twin.bytes.extend_from_slice(&chunk);
        }
        chunk
    }

    /// Returns the whole payload.
    ///
    /// Fails   as [`Body::chunk`], and if too much is gathered of ADUs that are not whole
    /// Cost    no copy if it arrived in one chunk; else one copy into one buffer
    pub async fn collect(mut self) -> Result<Bytes, BodyError> {
        let mut chunks = self.gather().await?;
        match chunks.len() {
            0 => Ok(Bytes::new()),
            1 => Ok(chunks.swap_remove(0)),
            _ => Ok(chunks.concat().into()),
        }
    }

    /// Gives the ADU up for this reason, which the sender is told.
    pub fn refuse(mut self, code: StreamCode) {
        if self.home.is_none() && self.remaining > 0 {
            self.reader.stop(code);
        }
    }

    /// Returns the whole payload in the chunks in which it came.
    pub(crate) async fn gather(&mut self) -> Result<Vec<Bytes>, BodyError> {
        let mut share = self.gathering.take().map(Gathering::share);
        let mut chunks = Vec::new();
        while let Some(chunk) = self.chunk().await? {
            if let Some(share) = share.as_mut().filter(|_| self.remaining > 0)
                && let Err(error) = share.grow(chunk.len())
            {
                self.fail(error);
                return Err(error);
            }
            chunks.push(chunk);
        }
        Ok(chunks)
    }

    /// Takes a chunk if one has arrived.
    pub(crate) fn chunk_now(&mut self) -> Option<Bytes> {
        if self.failed.is_some() || self.remaining == 0 || self.reader.is_empty() {
            return None;
        }
        Some(self.take())
    }

    async fn wait(&mut self) -> Result<(), BodyError> {
        // Where others may follow it, an ADU that its sender gave up is what the stream ends with.
        let cut_off = match self.home {
            Some(_) => BodyError::Reset(StreamCode::Cancelled),
            None => BodyError::Truncated {
                missing: self.remaining,
            },
        };
        let mut arrival = pin!(self.reader.fill());
        let deadline = &mut self.deadline;
        poll_fn(|context| {
            if let Poll::Ready(arrived) = arrival.as_mut().poll(context) {
                return Poll::Ready(match arrived {
                    Ok(true) => Ok(()),
                    Ok(false) => Err(cut_off),
                    Err(error) => Err(error),
                });
            }
            let is_late = deadline
                .as_mut()
                .is_some_and(|deadline| deadline.has_passed(context));
            if is_late {
                return Poll::Ready(Err(BodyError::Expired));
            }
            Poll::Pending
        })
        .await
    }

    fn fail(&mut self, error: BodyError) {
        self.failed = Some(error);
        match error {
            BodyError::Expired => self.reader.stop(StreamCode::Expired),
            // In a sequence, what is left is skipped.
            BodyError::Overflow if self.home.is_none() => self.reader.stop(StreamCode::Overload),
            _ => {}
        }
    }
}

impl Deadline {
    /// Returns whether it has passed; else it wakes who asks when it does.
    fn has_passed(&mut self, context: &mut Context<'_>) -> bool {
        if !self.is_set {
            self.is_set = true;
            self.alarm.set(self.at);
        }
        self.alarm.has_gone_off(context)
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        if let Some(rest) = &self.rest {
            // Set nowhere else, and a body is dropped once.
            let _ = rest.0.set(self.failed.is_some());
        }
        if let Some(twin) = self.twin.take().filter(|_| self.remaining == 0) {
            // Who wanted it may be gone.
            let _ = twin.to.send(twin.bytes.into());
        }
        if let Some(home) = self.home.take() {
            let reader = std::mem::replace(&mut self.reader, Reader::whole(Bytes::new()));
            // Nobody waits for it any more once the link is gone.
            let _ = home.send((reader, self.remaining));
        } else if self.remaining > 0 {
            self.reader.stop(StreamCode::Cancelled);
        } else {
            // Looks whether the stream's end is here; if not, dropping the stream stops it with `Whole`.
            self.reader.fill_now();
            if !self.reader.is_empty() {
                self.reader.stop(StreamCode::Protocol);
            }
        }
    }
}

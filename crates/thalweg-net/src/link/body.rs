//! The payload of an ADU while it arrives.
//!
//! *The idea.* A body is read once, in chunks as they arrived: a local subscriber collects it, a
//! relay passes the chunks to the next link unchanged. Reading waits no longer than the ADU's
//! deadline. Dropping an unfinished body makes the sender stop; on an ordered stream the rest is
//! skipped instead.
//!
//! *What it does not do.* It never allocates by a length that a peer claims, only for bytes that
//! have arrived.

use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use thalweg_base::adu::Header;
use thalweg_base::time::Instant;
use thalweg_base::trace::Trace;
use thalweg_link::hop::Pieces;
use tokio::sync::oneshot;

use super::gathering::Gathering;
use super::reader::Reader;
use crate::alarm::Alarm;
use crate::clock::Clock;
use crate::close::StreamCode;
use crate::error::BodyError;

/// An ADU with its header here and its payload perhaps still arriving.
#[derive(Debug)]
pub struct Arriving {
    /// The header; its deadline is on this node's clock.
    pub header: Header,
    /// Length of the payload; `body` yields exactly as many bytes or fails.
    pub payload_bytes: usize,
    /// The payload.
    pub body: Body,
    /// The trace stamps of the nodes before this one, if the ADU is traced.
    pub trace: Option<Box<Trace>>,
}

/// A payload that is read in the chunks in which it arrives.
#[derive(Debug)]
pub struct Body {
    reader: Reader,
    remaining: usize,
    failed: Option<BodyError>,
    deadline: Option<Deadline>,
    /// The link's limit on incomplete ADUs, unless the payload was whole when its header was read.
    gathering: Option<Gathering>,
    /// Returns the stream and its unread bytes when this body is dropped, for the next ADU in
    /// order.
    return_to: Option<oneshot::Sender<(Reader, usize)>>,
    watch: Option<Box<Watch>>,
}

/// Learns how bodies end.
pub trait BodyEnd: Send + Sync {
    /// Handles the end of a body, under the number with which it is [watched](Body::watch): before
    /// the next ADU of its ordered stream begins.
    fn handle_end(&self, number: u64, end: End);
}

/// How the reading of a body ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// It was read to its end; with the payload if a copy was asked for.
    Whole(Option<Bytes>),
    /// The rest failed to arrive.
    Failed(BodyError),
    /// Its reader wanted no more of it.
    LetGo,
}

/// The watcher of a body's end, and the copy that it is to get.
struct Watch {
    by: Arc<dyn BodyEnd>,
    number: u64,
    copy: Option<Vec<u8>>,
}

/// The deadline of a payload that is still arriving.
#[derive(Debug)]
struct Deadline {
    at: Instant,
    /// Set at the first wait, then reused, since a payload in many pieces waits often.
    alarm: Alarm,
    is_set: bool,
}

impl Arriving {
    /// Returns the whole payload, like [`Body::collect`].
    pub async fn collect(self) -> Result<Bytes, BodyError> {
        self.body.collect().await
    }
}

impl Body {
    /// Returns a body with its payload in memory.
    pub fn whole(payload: Bytes) -> Self {
        Self {
            remaining: payload.len(),
            reader: Reader::whole(payload),
            failed: None,
            deadline: None,
            gathering: None,
            return_to: None,
            watch: None,
        }
    }

    /// Returns a body with its payload in memory, in pieces.
    pub(crate) fn of_chunks(chunks: Pieces) -> Self {
        Self {
            remaining: chunks.bytes(),
            reader: Reader::chunks(chunks),
            failed: None,
            deadline: None,
            gathering: None,
            return_to: None,
            watch: None,
        }
    }

    /// Returns the body of the only ADU of a stream.
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
            return_to: None,
            watch: None,
        };
        // Buffers what came with the header, so that a small ADU is whole from the start.
        body.reader.fill_now();
        body.gathering = (!body.is_whole()).then(|| gathering.clone());
        body
    }

    /// Returns the body of one ADU of an ordered stream, and the channel that returns the stream.
    pub(crate) fn of_ordered(
        reader: Reader,
        payload_bytes: usize,
        gathering: &Gathering,
    ) -> (Self, oneshot::Receiver<(Reader, usize)>) {
        let (return_to, back) = oneshot::channel();
        let mut body = Self {
            reader,
            remaining: payload_bytes,
            failed: None,
            deadline: None,
            gathering: None,
            return_to: Some(return_to),
            watch: None,
        };
        body.gathering = (!body.is_whole()).then(|| gathering.clone());
        (body, back)
    }

    /// Returns the number of unread bytes.
    pub const fn remaining_bytes(&self) -> usize {
        self.remaining
    }

    /// Reports the end of this body under a number, with a copy of the payload if that is asked for;
    /// call it before the first read.
    ///
    /// Cost    with a copy, one of each chunk when it is read
    pub fn watch(&mut self, by: Arc<dyn BodyEnd>, number: u64, with_copy: bool) {
        let copy = with_copy.then(Vec::new);
        self.watch = Some(Box::new(Watch { by, number, copy }));
    }

    /// Returns whether the whole payload has arrived, and in one piece.
    pub fn is_one_piece(&self) -> bool {
        self.remaining == 0 || self.reader.first_bytes() >= self.remaining
    }

    /// Takes the whole payload if it is here in one piece.
    pub fn take_piece(&mut self) -> Option<Bytes> {
        if self.failed.is_some() || !self.is_one_piece() {
            return None;
        }
        Some(match self.remaining {
            0 => Bytes::new(),
            _ => self.take(),
        })
    }

    /// Returns whether the whole payload has arrived, so that reading it never waits.
    pub fn is_whole(&self) -> bool {
        self.reader.buffered_bytes() >= self.remaining
    }

    /// Returns the next chunk, `None` after the last; waits for it to arrive.
    ///
    /// The chunk is a slice of the receive buffer, not a copy.
    ///
    /// Fails   if the sender gave up, the deadline passed, or the link was lost
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
        if let Some(copy) = self.watch.as_mut().and_then(|watch| watch.copy.as_mut()) {
            copy.extend_from_slice(&chunk);
        }
        chunk
    }

    /// Returns the whole payload.
    ///
    /// Fails   like [`Body::chunk`], and if the link collects too much of incomplete ADUs
    /// Cost    no copy if it arrived in one chunk; otherwise one copy into one buffer
    pub async fn collect(mut self) -> Result<Bytes, BodyError> {
        let mut chunks = self.gather().await?;
        match chunks.len() {
            0 => Ok(Bytes::new()),
            1 => Ok(chunks.swap_remove(0)),
            _ => Ok(chunks.concat().into()),
        }
    }

    /// Refuses the ADU; the sender receives the code.
    pub fn refuse(mut self, code: StreamCode) {
        if self.return_to.is_none() && self.remaining > 0 {
            self.reader.stop(code);
        }
    }

    /// Returns the whole payload in the chunks in which it arrived.
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

    /// Takes a chunk if one is buffered.
    pub(crate) fn chunk_now(&mut self) -> Option<Bytes> {
        if self.failed.is_some() || self.remaining == 0 || self.reader.is_empty() {
            return None;
        }
        Some(self.take())
    }

    async fn wait(&mut self) -> Result<(), BodyError> {
        // A sender that gives up an ordered ADU ends the stream there, so an early end means
        // cancelled.
        let cut_off = match self.return_to {
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
            // On an ordered stream, the rest is skipped instead.
            BodyError::Overflow if self.return_to.is_none() => {
                self.reader.stop(StreamCode::Overload);
            }
            _ => {}
        }
    }
}

impl Deadline {
    /// Returns whether it has passed; until then it registers the task to be woken.
    fn has_passed(&mut self, context: &mut Context<'_>) -> bool {
        if !self.is_set {
            self.is_set = true;
            self.alarm.set(self.at);
        }
        self.alarm.has_fired(context)
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch")
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        if let Some(watch) = self.watch.take() {
            let end = match self.failed {
                Some(error) => End::Failed(error),
                None if self.remaining == 0 => End::Whole(watch.copy.map(Bytes::from)),
                None => End::LetGo,
            };
            watch.by.handle_end(watch.number, end);
        }
        if let Some(return_to) = self.return_to.take() {
            let reader = std::mem::replace(&mut self.reader, Reader::whole(Bytes::new()));
            // The receiver is gone if the link is.
            let _ = return_to.send((reader, self.remaining));
        } else if self.remaining > 0 {
            self.reader.stop(StreamCode::Cancelled);
        } else {
            // Checks whether the stream's end has arrived; if not, dropping the stream stops it
            // with `Whole`.
            self.reader.fill_now();
            if !self.reader.is_empty() {
                self.reader.stop(StreamCode::Protocol);
            }
        }
    }
}

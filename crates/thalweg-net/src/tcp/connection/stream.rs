//! One stream of a session, with calls that wait: its arriving chunks, or its writes.
//!
//! *The idea.* Each stream has its own notification, which the session triggers when there is news.
//! A waiter checks the session first, so an early notification costs one check, and none is missed.
//!
//! *What it does not do.* It does not pace: the session does.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use thalweg_base::time::Instant;
use thalweg_link::hop::{BodyError, StreamCode};
use thalweg_link::tcp_mux::{Read, StreamNumber, Written};
use tokio::sync::Notify;

use super::super::shared::End;
use super::Connection;
use crate::reading::{self, Source, Then};

/// An incoming stream. Dropped before its end, it is stopped with [`StreamCode::Whole`]: no more of
/// it is wanted.
pub struct Arriving {
    connection: Connection,
    stream: StreamNumber,
    since: Instant,
    wake: Arc<Notify>,
    is_over: bool,
}

/// An outgoing stream with writes that wait. Dropped unfinished, it is reset.
pub struct Writer {
    connection: Connection,
    stream: StreamNumber,
    end: Arc<End>,
    is_finished: bool,
}

/// The stream accepts no more bytes: the peer has stopped it, or the session is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the stream accepts no more bytes")]
pub struct WriteEnded;

impl Arriving {
    pub(super) const fn new(
        connection: Connection,
        stream: StreamNumber,
        since: Instant,
        wake: Arc<Notify>,
    ) -> Self {
        Self {
            connection,
            stream,
            since,
            wake,
            is_over: false,
        }
    }

    /// Returns the peer's number of the stream, counted from zero in the order of opening.
    pub const fn number(&self) -> StreamNumber {
        self.stream
    }

    /// Returns when the stream's first frame was read; it may have waited since to be accepted.
    pub const fn since(&self) -> Instant {
        self.since
    }

    /// Returns the next bytes, `None` after the last; waits for them to arrive.
    ///
    /// Fails   if the sender gave up, or the session is over
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, BodyError> {
        reading::chunk(self).await
    }

    /// Passes arrived chunks to `sink`, at least one and at most `most`; returns how many, `None`
    /// after the last.
    ///
    /// Fails   like [`Arriving::chunk`]
    pub async fn chunks(
        &mut self,
        most: usize,
        sink: impl FnMut(Bytes),
    ) -> Result<Option<usize>, BodyError> {
        reading::chunks(self, most, sink).await
    }

    /// Returns the whole content.
    ///
    /// Fails   like [`Arriving::chunk`]; with [`BodyError::Truncated`], after stopping the stream,
    ///         if it exceeds `bytes_max`
    pub async fn collect(mut self, bytes_max: usize) -> Result<Vec<u8>, BodyError> {
        let mut all = Vec::new();
        while let Some(chunk) = self.chunk().await? {
            if all.len() + chunk.len() > bytes_max {
                self.stop(StreamCode::Overload);
                return Err(BodyError::Truncated { missing: 0 });
            }
            all.extend_from_slice(&chunk);
        }
        Ok(all)
    }

    /// Stops the stream with this code.
    pub fn stop(mut self, code: StreamCode) {
        self.stop_now(code);
    }

    /// Like [`Arriving::stop`], without consuming it; later reads return nothing.
    pub(crate) fn stop_now(&mut self, code: StreamCode) {
        let shared = self.connection.shared();
        shared.act(|state| {
            state.forget_reader(self.stream);
            if !self.is_over {
                state.session.stop(self.stream, code);
            }
        });
        self.is_over = true;
    }
}

impl Source for Arriving {
    fn news(&self) -> &Notify {
        &self.wake
    }

    fn read(&self, most: usize, sink: &mut impl FnMut(Bytes)) -> (usize, Then) {
        self.connection.shared().act(|state| {
            for count in 0..most {
                let then = match state.session.read(self.stream) {
                    Read::Bytes(bytes) => {
                        sink(bytes);
                        continue;
                    }
                    Read::Blocked => Then::Blocked,
                    Read::Finished => Then::Finished,
                    Read::Reset(code) => Then::Reset(code),
                    Read::Unknown => Then::Unknown,
                };
                return (count, then);
            }
            (most, Then::More)
        })
    }

    fn is_lost(&self) -> bool {
        self.connection.is_over()
    }

    fn is_over(&mut self) -> &mut bool {
        &mut self.is_over
    }
}

impl fmt::Debug for Arriving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Arriving").field(&self.stream).finish()
    }
}

impl Drop for Arriving {
    fn drop(&mut self) {
        self.stop_now(StreamCode::Whole);
    }
}

impl Writer {
    pub(super) const fn new(connection: Connection, stream: StreamNumber, end: Arc<End>) -> Self {
        Self {
            connection,
            stream,
            end,
            is_finished: false,
        }
    }

    /// Writes all of these pieces; waits for room.
    ///
    /// Fails   if the peer has stopped the stream, or the session is over
    pub async fn write_all(&mut self, pieces: &mut [Bytes]) -> Result<(), WriteEnded> {
        loop {
            let notified = self.end.wake.notified();
            match self.connection.write_pieces(self.stream, pieces) {
                Written::All => return Ok(()),
                Written::Stopped(_) | Written::Lost => return Err(WriteEnded),
                Written::Blocked | Written::StreamBlocked if self.connection.is_over() => {
                    return Err(WriteEnded);
                }
                Written::Blocked | Written::StreamBlocked => notified.await,
            }
        }
    }

    /// Finishes the stream, and waits until the peer has all of it, has stopped it, or is gone.
    pub async fn finish(&mut self) {
        self.is_finished = true;
        self.connection.finish(self.stream);
        loop {
            let notified = self.end.wake.notified();
            if self.end.how.get().is_some() || self.connection.is_over() {
                return;
            }
            notified.await;
        }
    }
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Writer").field(&self.stream).finish()
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if !self.is_finished {
            self.connection.reset(self.stream, StreamCode::Cancelled);
        }
        self.connection.forget_writer(self.stream);
    }
}

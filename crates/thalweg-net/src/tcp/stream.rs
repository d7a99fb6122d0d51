//! One stream of a session, for who waits: what arrives, chunk by chunk, and what leaves.
//!
//! *The idea.* Each stream has a bell of its own, which the session rings when there is something new of it. Whoever waits
//! asks the session first, so a bell that rang too early costs a look and nothing is missed.
//!
//! *What it does not do.* It does not pace: the session does.

use std::fmt;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use thalweg_core::hop::{BodyError, StreamCode};
use thalweg_core::pace::{Read, StreamNumber, Written};
use thalweg_core::time::Instant;
use tokio::sync::Notify;

use super::Connection;

/// A stream that arrives. Dropped before its end, it is stopped with [`StreamCode::Whole`]: no more of it is wanted.
pub struct Arriving {
    connection: Connection,
    stream: StreamNumber,
    since: Instant,
    wake: Arc<Notify>,
    is_over: bool,
}

/// A stream that leaves, for who waits until it is taken. Dropped unfinished, it is reset.
pub struct Writer {
    connection: Connection,
    stream: StreamNumber,
    end: Arc<End>,
    is_finished: bool,
}

/// How a [`Writer`] is told of its stream.
#[derive(Debug, Default)]
pub(super) struct End {
    pub(super) wake: Notify,
    /// Nothing: the peer has all of it; a code: it wants no more.
    pub(super) how: OnceLock<Option<StreamCode>>,
}

/// A stream takes no more bytes: the peer has stopped it, or the session is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the stream takes no more")]
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

    /// Returns the stream's number at the peer, which counts from zero in the order of opening.
    pub const fn number(&self) -> StreamNumber {
        self.stream
    }

    /// Returns when the peer's word that it is open was read; it may have waited since to be accepted.
    pub const fn since(&self) -> Instant {
        self.since
    }

    /// Returns the next bytes, nothing after the last; waits for them to arrive.
    ///
    /// Fails   the sender gave up, or the session is over
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, BodyError> {
        let mut chunk = Bytes::new();
        let count = self.chunks(1, |bytes| chunk = bytes).await?;
        Ok(count.map(|_| chunk))
    }

    /// Gives what has arrived to `sink`, one chunk at least and no more than `most`; returns how many, nothing after the
    /// last.
    ///
    /// Fails   as [`Arriving::chunk`]
    pub async fn chunks(
        &mut self,
        most: usize,
        mut sink: impl FnMut(Bytes),
    ) -> Result<Option<usize>, BodyError> {
        while !self.is_over {
            let arrival = self.wake.notified();
            let (count, then) = self.read(most, &mut sink);
            match then {
                Some(Read::Finished) => self.is_over = true,
                Some(Read::Reset(code)) => {
                    self.is_over = true;
                    return Err(BodyError::Reset(code));
                }
                Some(Read::Unknown) => return Err(BodyError::LinkLost),
                Some(Read::Blocked) if count == 0 && self.connection.is_over() => {
                    return Err(BodyError::LinkLost);
                }
                Some(Read::Blocked) if count == 0 => arrival.await,
                _ => {}
            }
            if count > 0 {
                return Ok(Some(count));
            }
        }
        Ok(None)
    }

    /// Takes what is here; returns how much that was, and why it was not more.
    fn read(&self, most: usize, sink: &mut impl FnMut(Bytes)) -> (usize, Option<Read>) {
        self.connection.shared().act(|state| {
            for count in 0..most {
                match state.session.read(self.stream) {
                    Read::Bytes(bytes) => sink(bytes),
                    then => return (count, Some(then)),
                }
            }
            (most, None)
        })
    }

    /// Returns all of it.
    ///
    /// Fails   as [`Arriving::chunk`]; or with [`BodyError::Truncated`] if there is more than `bytes_max`, and it is stopped
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

    /// Wants no more of it, for this reason.
    pub fn stop(mut self, code: StreamCode) {
        self.stop_now(code);
    }

    /// The same for who keeps it: what is read of it afterwards is nothing.
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

    /// Hands over all of these pieces; waits for room.
    ///
    /// Fails   the peer wants no more, or the session is over
    pub async fn write_all(&mut self, pieces: &mut [Bytes]) -> Result<(), WriteEnded> {
        loop {
            let ring = self.end.wake.notified();
            match self.connection.write_pieces(self.stream, pieces) {
                Written::All => return Ok(()),
                Written::Stopped(_) | Written::Lost => return Err(WriteEnded),
                Written::Blocked | Written::StreamBlocked if self.connection.is_over() => {
                    return Err(WriteEnded);
                }
                Written::Blocked | Written::StreamBlocked => ring.await,
            }
        }
    }

    /// Says that nothing follows, and waits until the peer has all of it, wants no more, or is gone.
    pub async fn finish(&mut self) {
        self.is_finished = true;
        self.connection.finish(self.stream);
        loop {
            let ring = self.end.wake.notified();
            if self.end.how.get().is_some() || self.connection.is_over() {
                return;
            }
            ring.await;
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

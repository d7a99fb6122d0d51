//! One stream of a connection, with calls that wait: its arriving chunks, or its writes.
//!
//! *The idea.* Each stream has its own notification, which the loop triggers when there is news. A
//! waiter checks the connection first, so an early notification costs one check, and none is
//! missed.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use noq_proto::{ReadError, StreamId, WriteError};
use thalweg_link::hop::{BodyError, StreamCode};
use tokio::sync::Notify;

use super::shared::Shared;
use crate::close::ToVarInt as _;
use crate::reading::{self, Source, Then};

/// An incoming stream. Dropped before its end, it is stopped with [`StreamCode::Whole`]: no more of
/// it is wanted.
pub struct Arriving {
    shared: Arc<Shared>,
    stream: StreamId,
    news: Arc<Notify>,
    is_over: bool,
}

/// An outgoing stream with writes that wait. Dropped unfinished, it is reset.
pub struct Writer {
    shared: Arc<Shared>,
    stream: StreamId,
    news: Arc<Notify>,
    is_finished: bool,
}

/// The stream accepts no more bytes: the peer has stopped it, or the connection is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the stream accepts no more bytes")]
pub struct WriteEnded;

impl Arriving {
    pub(super) const fn new(shared: Arc<Shared>, stream: StreamId, news: Arc<Notify>) -> Self {
        Self {
            shared,
            stream,
            news,
            is_over: false,
        }
    }

    /// Returns the next bytes, `None` after the last; waits for them to arrive.
    ///
    /// Fails   if the sender gave up, or the connection is over
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

    /// Stops the stream with this code; later reads return nothing.
    pub fn stop(&mut self, code: StreamCode) {
        if std::mem::replace(&mut self.is_over, true) {
            return;
        }
        self.shared.act(|state| {
            state.readers.remove(&self.stream);
            // An error means that the stream is over already.
            let _ = state.quic.recv_stream(self.stream).stop(code.varint());
        });
    }
}

impl Source for Arriving {
    fn news(&self) -> &Notify {
        &self.news
    }

    fn read(&self, most: usize, sink: &mut impl FnMut(Bytes)) -> (usize, Then) {
        let mut state = self.shared.lock();
        let mut stream = state.quic.recv_stream(self.stream);
        let Ok(mut chunks) = stream.read(true) else {
            return (0, Then::Finished);
        };
        let mut count = 0;
        let then = loop {
            if count == most {
                break Then::More;
            }
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => {
                    count += 1;
                    sink(chunk.bytes);
                }
                Ok(None) => break Then::Finished,
                Err(ReadError::Blocked) => break Then::Blocked,
                Err(ReadError::Reset(code)) => {
                    break Then::Reset(StreamCode::from_number(code.into_inner()));
                }
            }
        };
        let gives_credit = chunks.finalize().should_transmit();
        if matches!(then, Then::Finished | Then::Reset(_)) {
            state.readers.remove(&self.stream);
        }
        drop(state);
        if gives_credit {
            self.shared.mark();
        }
        (count, then)
    }

    fn is_lost(&self) -> bool {
        self.shared.is_over()
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
        self.stop(StreamCode::Whole);
    }
}

impl Writer {
    pub(super) const fn new(shared: Arc<Shared>, stream: StreamId, news: Arc<Notify>) -> Self {
        Self {
            shared,
            stream,
            news,
            is_finished: false,
        }
    }

    /// Writes all of these pieces; waits for room.
    ///
    /// Fails   if the peer has stopped the stream, or the connection is over
    pub async fn write_all(&mut self, pieces: &mut [Bytes]) -> Result<(), WriteEnded> {
        let mut rest = pieces;
        loop {
            while rest.first().is_some_and(Bytes::is_empty) {
                rest = &mut rest[1..];
            }
            if rest.is_empty() {
                return Ok(());
            }
            let news = self.news.notified();
            let written = self.shared.act(|state| {
                let mut stream = state.quic.send_stream(self.stream);
                stream.write_chunks(&mut rest)
            });
            match written {
                Ok(_) => {}
                Err(WriteError::Blocked) if !self.shared.is_over() => news.await,
                Err(_) => return Err(WriteEnded),
            }
        }
    }

    /// Finishes the stream, and waits until the peer has all of it, has stopped it, or is gone.
    pub async fn finish(&mut self) {
        self.is_finished = true;
        self.shared.act(|state| {
            // An error means that the stream is over already.
            let _ = state.quic.send_stream(self.stream).finish();
        });
        loop {
            let news = self.news.notified();
            // The library forgets a stream that is acknowledged to the end.
            let stopped = self.shared.lock().quic.send_stream(self.stream).stopped();
            if !matches!(stopped, Ok(None)) || self.shared.is_over() {
                return;
            }
            news.await;
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
        self.shared.act(|state| {
            state.writers.remove(&self.stream);
            if !self.is_finished {
                let code = StreamCode::Cancelled.varint();
                // An error means that the stream is over already.
                let _ = state.quic.send_stream(self.stream).reset(code);
            }
        });
    }
}

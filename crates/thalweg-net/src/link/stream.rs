//! Streams of any transport, with calls that wait.
//!
//! *The idea.* They serve reading and the control stream; streams of outgoing ADUs are written
//! without waiting (`wire`).
//!
//! *What it does not do.* It knows no format.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use bytes::Bytes;
use iroh::endpoint::{ReadError, RecvStream, SendStream};
use thalweg_base::time::Instant;

use crate::close::{StreamCode, ToVarInt as _};
use crate::engine;
use crate::error::BodyError;
use crate::tcp::{Arriving, WriteEnded, Writer};

/// An incoming stream. Dropped before its end, it is stopped with [`StreamCode::Whole`].
#[derive(Debug)]
pub(crate) enum Inbound {
    Quic(RecvStream),
    Tcp(Arriving),
    Engine(engine::Arriving),
}

/// An outgoing stream.
#[derive(Debug)]
pub(crate) enum Outbound {
    Quic(SendStream),
    Tcp(Writer),
    Engine(engine::Writer),
}

impl Inbound {
    /// Returns when it arrived here, if the transport records that: a busy node may handle it long
    /// after.
    pub(crate) const fn since(&self) -> Option<Instant> {
        match self {
            Self::Quic(_) | Self::Engine(_) => None,
            Self::Tcp(stream) => Some(stream.since()),
        }
    }

    /// Passes arrived chunks to `sink`, at least one and at most `N`; returns how many, `None`
    /// after the last.
    pub(crate) async fn read<const N: usize>(
        &mut self,
        mut sink: impl FnMut(Bytes),
    ) -> Result<Option<usize>, BodyError> {
        match self {
            Self::Quic(stream) => {
                // QUIC fills slots for the chunks. They live on the stack of one poll: inside the
                // future they would be moved and allocated with every waiting reader.
                let read = poll_fn(|context| {
                    let mut chunks = [const { Bytes::new() }; N];
                    let reading = pin!(stream.read_many_chunks(&mut chunks)).poll(context);
                    if let Poll::Ready(Ok(Some(count))) = reading {
                        chunks.into_iter().take(count).for_each(&mut sink);
                    }
                    reading
                });
                read.await.map_err(|error| lost(&error))
            }
            Self::Tcp(stream) => stream.chunks(N, sink).await,
            Self::Engine(stream) => stream.chunks(N, sink).await,
        }
    }

    /// Asks the sender to stop.
    pub(crate) fn stop(&mut self, code: StreamCode) {
        match self {
            Self::Quic(stream) => {
                // An error means that the stream is already over.
                let _ = stream.stop(code.varint());
            }
            Self::Tcp(stream) => stream.stop_now(code),
            Self::Engine(stream) => stream.stop(code),
        }
    }
}

impl Outbound {
    /// Writes all of these pieces.
    pub(crate) async fn write_all(&mut self, pieces: &mut [Bytes]) -> Result<(), WriteEnded> {
        match self {
            Self::Quic(stream) => {
                let written = stream.write_all_chunks(pieces).await;
                written.map_err(|_| WriteEnded)
            }
            Self::Tcp(writer) => writer.write_all(pieces).await,
            Self::Engine(writer) => {
                let written = writer.write_all(pieces).await;
                written.map_err(|_| WriteEnded)
            }
        }
    }

    /// Finishes the stream, and waits until the peer has all of it or is gone.
    pub(crate) async fn finish(&mut self) {
        match self {
            Self::Quic(stream) => {
                if stream.finish().is_ok() {
                    let _ = stream.stopped().await;
                }
            }
            Self::Tcp(writer) => writer.finish().await,
            Self::Engine(writer) => writer.finish().await,
        }
    }
}

fn lost(error: &ReadError) -> BodyError {
    match error {
        ReadError::Reset(code) => BodyError::Reset(StreamCode::from_number(code.into_inner())),
        _ => BodyError::LinkLost,
    }
}

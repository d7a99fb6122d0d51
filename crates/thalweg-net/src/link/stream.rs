//! One stream of either transport, for who waits.
//!
//! *The idea.* What a link reads, and its control stream: the streams of ADUs are written without waiting (`wire`).
//!
//! *What it does not do.* It knows no format.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use bytes::Bytes;
use iroh::endpoint::{ReadError, RecvStream, SendStream};
use thalweg_core::time::Instant;

use crate::close::{StreamCode, ToVarInt as _};
use crate::error::BodyError;
use crate::tcp::{Arriving, WriteEnded, Writer};

/// A stream that arrives. Dropped before its end, it is stopped with [`StreamCode::Whole`].
#[derive(Debug)]
pub(crate) enum Inbound {
    Quic(RecvStream),
    Tcp(Arriving),
}

/// A stream that leaves.
#[derive(Debug)]
pub(crate) enum Outbound {
    Quic(SendStream),
    Tcp(Writer),
}

impl Inbound {
    /// Returns when it was opened here, if the transport says so: a node with much to do may come to it long after.
    pub(crate) const fn since(&self) -> Option<Instant> {
        match self {
            Self::Quic(_) => None,
            Self::Tcp(stream) => Some(stream.since()),
        }
    }

    /// Gives what has arrived to `sink`, one chunk at least and no more than `N`; returns how many, `None` after the last.
    pub(crate) async fn read<const N: usize>(
        &mut self,
        mut sink: impl FnMut(Bytes),
    ) -> Result<Option<usize>, BodyError> {
        match self {
            Self::Quic(stream) => {
                // QUIC wants places for the chunks. They are on the stack of one poll: in the future they would be moved,
                // and allocated, with each that waits for it.
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
        }
    }

    /// Tells the sender to stop.
    pub(crate) fn stop(&mut self, code: StreamCode) {
        match self {
            Self::Quic(stream) => {
                // An error says that the stream is over already.
                let _ = stream.stop(code.varint());
            }
            Self::Tcp(stream) => stream.stop_now(code),
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
        }
    }

    /// Says that nothing follows, and waits until the peer has all of it or is gone.
    pub(crate) async fn finish(&mut self) {
        match self {
            Self::Quic(stream) => {
                if stream.finish().is_ok() {
                    let _ = stream.stopped().await;
                }
            }
            Self::Tcp(writer) => writer.finish().await,
        }
    }
}

fn lost(error: &ReadError) -> BodyError {
    match error {
        ReadError::Reset(code) => BodyError::Reset(StreamCode::from_number(code.into_inner())),
        _ => BodyError::LinkLost,
    }
}

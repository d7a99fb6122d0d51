//! A connection as the transport of a link's sender.
//!
//! *The idea.* It makes the same calls as `link/quic.rs`, on the same QUIC; answers are immediate
//! under the connection's lock, which one operation of the sender takes once ([`Sending::hold`]).
//! The loop sends afterwards.
//!
//! *What it does not do.* It drives no sender.

use std::fmt;
use std::sync::{Arc, MutexGuard};
use std::task::Waker;

use bytes::Bytes;
use noq_proto::{Dir, SendDatagramError, Side, StreamId, VarInt, WriteError};
use thalweg_base::time::Instant;
use thalweg_base::units::DataSize;
use thalweg_link::hop::StreamCode;
use thalweg_link::hop::sender::{Datagram, Owner, PathRate, StreamEvent, Transport, Written};
use thalweg_link::hop::settings::{SEND_WINDOW_BYTES, STREAM_WINDOW_BYTES};
use thalweg_quic::Watch;

use super::connection::Connection;
use super::shared::{Owned, Shared, State};
use crate::close::ToVarInt as _;

/// A connection on which a sender opens streams.
#[derive(Debug)]
pub struct Sending {
    connection: Connection,
    watch: Option<Arc<Watch>>,
}

/// A locked connection; dropping it has the loop send what was written.
pub struct Held<'a> {
    // Dropped first: the loop that the mark wakes takes the lock.
    state: MutexGuard<'a, State>,
    mark: Mark<'a>,
    watch: Option<&'a Watch>,
}

/// Marks the connection when it is dropped, if something is to be sent.
struct Mark<'a> {
    shared: &'a Shared,
    is_due: bool,
}

impl Sending {
    /// Wraps a connection on which no stream was opened.
    pub fn new(connection: Connection) -> Self {
        let watch = connection.watch();
        Self { connection, watch }
    }

    /// Locks the connection for one operation of the sender.
    pub fn hold(&mut self) -> Held<'_> {
        let shared = self.connection.shared();
        Held {
            state: shared.lock(),
            mark: Mark {
                shared,
                is_due: false,
            },
            watch: self.watch.as_deref(),
        }
    }

    /// Returns the watch on the path.
    pub fn watch(&self) -> Option<&Watch> {
        self.watch.as_deref()
    }
}

impl Held<'_> {
    /// Takes the events of the sender's streams, each with its owner and its time.
    pub fn take_events(&mut self) -> impl Iterator<Item = (Owner, StreamEvent, Instant)> {
        self.state.events.drain()
    }

    /// Registers the waker for later events; if `is_patient`, not for acknowledgements alone.
    pub fn listen(&mut self, driver: &Waker, is_patient: bool) {
        self.state.events.listen(driver, is_patient);
    }

    fn handle_written(&mut self, bytes: usize) {
        self.mark.is_due = true;
        if let Some(watch) = self.watch {
            watch.handle_written(bytes);
        }
    }
}

impl fmt::Debug for Held<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held").finish_non_exhaustive()
    }
}

impl Transport for Held<'_> {
    type Stream = u64;

    fn open(&mut self, owner: Owner, rank: i32) -> Option<u64> {
        let stream = self.state.quic.streams().open(Dir::Uni)?;
        // A stream that was just opened fails only with its connection, which the next write
        // reports.
        let _ = self.state.quic.send_stream(stream).set_priority(rank);
        self.state.owned.insert(stream, Owned { owner, written: 0 });
        Some(number(stream))
    }

    fn write(&mut self, stream: u64, pieces: &mut [Bytes]) -> Written {
        let stream = id(stream);
        let offered: usize = pieces.iter().map(Bytes::len).sum();
        let mut rest = pieces;
        let state = &mut *self.state;
        let Some(owned) = state.owned.get_mut(&stream) else {
            return Written::Lost;
        };
        match state.quic.send_stream(stream).write_chunks(&mut rest) {
            Ok(bytes) => {
                owned.written += bytes;
                self.handle_written(bytes);
                Written::Some(bytes)
            }
            // QUIC does not report which window is full. A stream's own cannot be before this many
            // bytes.
            Err(WriteError::Blocked) if owned.written + offered > STREAM_WINDOW_BYTES as usize => {
                Written::StreamBlocked
            }
            Err(WriteError::Blocked) => Written::Blocked,
            Err(WriteError::Stopped(code)) => {
                Written::Stopped(StreamCode::from_number(code.into_inner()))
            }
            Err(WriteError::ClosedStream) => Written::Lost,
        }
    }

    fn finish(&mut self, stream: u64) {
        self.mark.is_due = true;
        // An error means that the stream is over already, which also ends it.
        let _ = self.state.quic.send_stream(id(stream)).finish();
    }

    fn reset(&mut self, stream: u64, code: StreamCode) {
        self.mark.is_due = true;
        self.state.owned.remove(&id(stream));
        // An error means that the stream is over already.
        let _ = self.state.quic.send_stream(id(stream)).reset(code.varint());
    }

    fn forget(&mut self, stream: u64) {
        self.state.owned.remove(&id(stream));
    }

    fn datagram_bytes_max(&mut self) -> usize {
        self.state.quic.datagrams().max_size().unwrap_or(0)
    }

    fn send_datagram(&mut self, datagram: Bytes) -> Datagram {
        let bytes = datagram.len();
        let mut datagrams = self.state.quic.datagrams();
        // Checked first: QUIC would silently drop older datagrams to make room.
        if datagrams.send_buffer_space() < bytes {
            return Datagram::Blocked;
        }
        match datagrams.send(datagram, true) {
            Ok(()) => {
                self.handle_written(bytes);
                Datagram::Sent
            }
            Err(SendDatagramError::Blocked(_)) => Datagram::Blocked,
            Err(_) if self.mark.shared.is_over() => Datagram::Lost,
            // The path's MTU has just shrunk, or the peer accepts no datagrams.
            Err(_) => Datagram::TooLarge,
        }
    }

    fn credit(&mut self) -> DataSize {
        let known = self.watch.map(Watch::credit);
        known.unwrap_or(DataSize::from_bytes(SEND_WINDOW_BYTES))
    }

    fn heard(&self) -> u64 {
        self.watch.map_or(0, Watch::heard)
    }

    fn let_one_through(&mut self) {
        if let Some(watch) = self.watch {
            watch.let_one_through();
            self.mark.is_due = true;
        }
    }

    fn path_rate(&self) -> PathRate {
        let reading = self.watch.map(Watch::reading);
        reading.map_or_else(PathRate::default, |reading| PathRate {
            sendable: reading.sendable,
            transit: reading.transit,
            packet: reading.packet,
            has_been_full: reading.has_been_full,
        })
    }
}

impl Drop for Mark<'_> {
    fn drop(&mut self) {
        if self.is_due {
            self.shared.mark();
        }
    }
}

fn number(stream: StreamId) -> u64 {
    VarInt::from(stream).into_inner()
}

/// Returns the stream of a number: two bits for its opener and direction, then its index (RFC 9000
/// §2.1).
fn id(number: u64) -> StreamId {
    let opener = match number & 1 {
        0 => Side::Client,
        _ => Side::Server,
    };
    StreamId::new(opener, Dir::Uni, number >> 2)
}

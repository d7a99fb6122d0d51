//! A virtual connection as the transport of `core`'s hop sender.
//!
//! It makes the same calls as `thalweg-net`'s `link/quic.rs`, on the same QUIC. Here answers are
//! immediate, and the connection's events wake the streams' owners.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use noq_proto::{Connection, Dir, PathId, SendDatagramError, StreamId, VarInt, WriteError};
use thalweg_base::time::{Duration, Instant};
use thalweg_base::units::DataSize;
use thalweg_link::congestion::Carried;
use thalweg_link::hop::StreamCode;
use thalweg_link::hop::sender::{Datagram, Owner, PathRate, Transport, Written};
use thalweg_link::hop::settings::{SEND_WINDOW_BYTES, STREAM_WINDOW_BYTES};
use thalweg_quic::Watch;

use super::time::instant;

/// State that outlives a call.
#[derive(Debug, Default)]
pub(super) struct Streams {
    open: BTreeMap<StreamId, Open>,
    watch: Option<Arc<Watch>>,
}

#[derive(Clone, Copy, Debug)]
struct Open {
    owner: Owner,
    written: usize,
}

/// A connection for the duration of a call.
pub(super) struct Quic<'a> {
    connection: &'a mut Connection,
    streams: &'a mut Streams,
}

impl Streams {
    /// Returns the connection with these streams on it.
    pub(super) fn on<'a>(&'a mut self, connection: &'a mut Connection) -> Quic<'a> {
        if self.watch.is_none() {
            let state = connection.congestion_state(PathId::ZERO);
            self.watch = state.and_then(|state| thalweg_quic::watch(state.clone_box()));
        }
        Quic {
            connection,
            streams: self,
        }
    }

    /// Primes the congestion controller with what an earlier connection on this path has learned.
    pub(super) fn recall(&mut self, connection: &mut Connection, carried: Carried) {
        self.on(connection);
        if let Some(watch) = &self.watch {
            watch.recall(carried);
        }
    }

    /// Returns what is worth keeping of the path for the next connection.
    pub(super) fn to_keep(&self) -> Option<Carried> {
        self.watch.as_ref()?.to_keep()
    }

    /// Returns the bytes in packets that are neither acknowledged nor lost.
    pub(super) fn in_flight(&self) -> DataSize {
        let reading = self.watch.as_ref().map(|watch| watch.reading());
        reading.map_or(DataSize::ZERO, |reading| reading.in_flight)
    }

    /// Returns since when an acknowledgement is awaited.
    pub(super) fn waiting_since(&self) -> Option<Instant> {
        let reading = self.watch.as_ref()?.reading();
        reading.waiting_since.map(instant)
    }

    /// Returns whether the congestion window is full.
    pub(super) fn is_full(&self) -> bool {
        self.watch.as_ref().is_some_and(|watch| !watch.is_open())
    }

    /// Returns the number of acknowledgements from the peer.
    pub(super) fn heard(&self) -> u64 {
        self.watch.as_ref().map_or(0, |watch| watch.heard())
    }

    /// Returns the recent minimum round-trip time; zero if none was measured.
    pub(super) fn rtt_min(&self) -> Duration {
        let reading = self.watch.as_ref().map(|watch| watch.reading());
        reading.map_or(Duration::ZERO, |reading| reading.transit + reading.transit)
    }

    /// Returns the round-trip time of the last acknowledged packet; zero if none.
    pub(super) fn rtt_latest(&self) -> Duration {
        let reading = self.watch.as_ref().map(|watch| watch.reading());
        reading.map_or(Duration::ZERO, |reading| reading.latest)
    }

    /// Returns the owner of a stream.
    pub(super) fn owner(&self, stream: StreamId) -> Option<Owner> {
        self.open.get(&stream).map(|open| open.owner)
    }
}

impl Transport for Quic<'_> {
    type Stream = StreamId;

    fn open(&mut self, owner: Owner, rank: i32) -> Option<StreamId> {
        let stream = open(self.connection, rank)?;
        self.streams.open.insert(stream, Open { owner, written: 0 });
        Some(stream)
    }

    fn write(&mut self, stream: StreamId, pieces: &mut [Bytes]) -> Written {
        let Some(open) = self.streams.open.get_mut(&stream) else {
            return Written::Lost;
        };
        let offered: usize = pieces.iter().map(Bytes::len).sum();
        let mut rest = pieces;
        match self.connection.send_stream(stream).write_chunks(&mut rest) {
            Ok(bytes) => {
                open.written += bytes;
                if let Some(watch) = &self.streams.watch {
                    watch.handle_written(bytes);
                }
                Written::Some(bytes)
            }
            // QUIC reports both kinds of blocking alike; tell them apart as the node must, by the
            // stream's window.
            Err(WriteError::Blocked) if open.written + offered > STREAM_WINDOW_BYTES as usize => {
                Written::StreamBlocked
            }
            Err(WriteError::Blocked) => Written::Blocked,
            Err(WriteError::Stopped(code)) => {
                Written::Stopped(StreamCode::from_number(code.into_inner()))
            }
            Err(WriteError::ClosedStream) => Written::Lost,
        }
    }

    fn finish(&mut self, stream: StreamId) {
        // An error means that the stream is over already, which also ends it.
        let _ = self.connection.send_stream(stream).finish();
    }

    fn reset(&mut self, stream: StreamId, code: StreamCode) {
        self.streams.open.remove(&stream);
        // An error means that the stream is over already.
        let _ = self.connection.send_stream(stream).reset(varint(code));
    }

    fn forget(&mut self, stream: StreamId) {
        self.streams.open.remove(&stream);
    }

    fn datagram_bytes_max(&mut self) -> usize {
        self.connection.datagrams().max_size().unwrap_or(0)
    }

    fn send_datagram(&mut self, datagram: Bytes) -> Datagram {
        let bytes = datagram.len();
        let mut datagrams = self.connection.datagrams();
        // QUIC would make room by silently dropping older datagrams.
        if datagrams.send_buffer_space() < bytes {
            return Datagram::Blocked;
        }
        match datagrams.send(datagram, true) {
            Ok(()) => {
                if let Some(watch) = &self.streams.watch {
                    watch.handle_written(bytes);
                }
                Datagram::Sent
            }
            Err(SendDatagramError::Blocked(_)) => Datagram::Blocked,
            Err(_) => Datagram::TooLarge,
        }
    }

    fn credit(&mut self) -> DataSize {
        let known = self.streams.watch.as_ref().map(|watch| watch.credit());
        known.unwrap_or(DataSize::from_bytes(SEND_WINDOW_BYTES))
    }

    fn heard(&self) -> u64 {
        self.streams.heard()
    }

    fn let_one_through(&mut self) {
        if let Some(watch) = &self.streams.watch {
            watch.let_one_through();
        }
    }

    fn path_rate(&self) -> PathRate {
        let reading = self.streams.watch.as_ref().map(|watch| watch.reading());
        reading.map_or_else(PathRate::default, |reading| PathRate {
            sendable: reading.sendable,
            transit: reading.transit,
            packet: reading.packet,
            has_been_full: reading.has_been_full,
        })
    }
}

/// Opens a stream with this priority, if the peer admits another.
pub(super) fn open(quic: &mut Connection, rank: i32) -> Option<StreamId> {
    let stream = quic.streams().open(Dir::Uni)?;
    // A stream that was just opened fails only with its connection, which the next write reports.
    let _ = quic.send_stream(stream).set_priority(rank);
    Some(stream)
}

pub(super) fn varint(code: StreamCode) -> VarInt {
    VarInt::from_u64(code.number()).unwrap_or(VarInt::MAX)
}

//! What a link's sender writes to: QUIC, or TCP where UDP is blocked.
//!
//! *The idea.* One enumeration that hands each question on, so that the sender above knows one transport and neither of the
//! two knows of the other.
//!
//! *What it does not do.* It decides nothing.

use std::task::Waker;

use bytes::Bytes;
use thalweg_core::hop::StreamCode;
use thalweg_core::hop::sender::{Datagram, Owner, PathRate, StreamEvent, Transport, Written};
use thalweg_core::pace::StreamNumber;
use thalweg_core::time::Instant;
use thalweg_core::units::DataSize;
use thalweg_quic::Reading;

use super::connection::Fresh;
use super::memory::PeerMemory;
use super::quic::Quic;
use super::tcp::Tcp;
use crate::tcp;

/// What has happened to streams: whose each is, what, and when.
pub(super) type Events = Vec<(Owner, StreamEvent, Instant)>;

pub(super) enum Wire {
    Quic(Quic),
    Tcp(Tcp),
}

/// The same while the sender does something with it: what it asks at a time of a session over TCP it asks under one lock.
pub(super) enum Held<'a> {
    Quic(&'a mut Quic),
    Tcp(tcp::Held<'a>, &'a Waker),
}

impl Wire {
    pub(super) fn new(now: Instant, connection: Fresh, memory: &PeerMemory) -> Self {
        match connection {
            Fresh::Quic(connection) => Self::Quic(Quic::new(now, connection, memory)),
            Fresh::Tcp(connection, events) => Self::Tcp(Tcp::new(connection, events)),
        }
    }

    /// Returns the transport for what the sender does at this moment.
    pub(super) fn hold(&mut self, now: Instant) -> Held<'_> {
        match self {
            Self::Quic(quic) => Held::Quic(quic),
            Self::Tcp(tcp) => Held::Tcp(tcp.sending.hold(now), &tcp.waker),
        }
    }

    /// Takes who is to be woken when there is something to do.
    pub(super) fn set_driver(&mut self, waker: &Waker) {
        match self {
            Self::Quic(quic) => quic.set_driver(waker),
            Self::Tcp(tcp) if !tcp.waker.will_wake(waker) => tcp.waker.clone_from(waker),
            Self::Tcp(_) => {}
        }
    }

    /// Wakes the driver.
    pub(super) fn wake_driver(&self) {
        match self {
            Self::Quic(quic) => quic.wake_driver(),
            Self::Tcp(tcp) => tcp.waker.wake_by_ref(),
        }
    }

    /// Returns the owners of streams that took nothing because nobody read them, for the driver to try again; a session over
    /// TCP tells of them.
    pub(super) fn take_unread(&mut self) -> Vec<Owner> {
        match self {
            Self::Quic(quic) => quic.take_unread(),
            Self::Tcp(_) => Vec::new(),
        }
    }

    /// Looks which path is taken now, and keeps what it carries.
    pub(super) fn look(&mut self, now: Instant, memory: &PeerMemory) {
        if let Self::Quic(quic) = self {
            quic.look(now, memory);
        }
    }

    /// Returns what is known of the path that is taken; nothing where TCP itself looks after it.
    pub(super) fn reading(&self) -> Option<Reading> {
        match self {
            Self::Quic(quic) => quic.reading(),
            Self::Tcp(_) => None,
        }
    }

    /// Asks for the driver to be woken when there is more credit; returns whether there is by now.
    ///
    /// A session over TCP was asked with the credit itself: it tells of room whenever it said that there is too little.
    pub(super) fn register(&self) -> bool {
        match self {
            Self::Quic(quic) => quic.register(),
            Self::Tcp(_) => false,
        }
    }
}

impl Held<'_> {
    /// Puts what has happened to streams into a list: whose each is, what, and when.
    pub(super) fn take_events(&mut self, now: Instant, events: &mut Events) {
        match self {
            Self::Quic(quic) => quic.take_events(now, events),
            Self::Tcp(tcp, _) => events.extend(std::iter::from_fn(|| tcp.next_event())),
        }
    }

    /// Has the driver woken for what happens from now on; over TCP, if it is patient, not for acknowledgements alone.
    ///
    /// Over QUIC it always is: there that is a small part of what an acknowledgement takes.
    pub(super) fn listen(&mut self, is_patient: bool) {
        if let Self::Tcp(tcp, driver) = self {
            tcp.listen(driver, is_patient);
        }
    }
}

impl Transport for Held<'_> {
    /// QUIC's are numbered by a table of 32 bits.
    type Stream = u64;

    fn open(&mut self, owner: Owner, rank: i32) -> Option<u64> {
        match self {
            Self::Quic(quic) => quic.open(owner, rank).map(u64::from),
            Self::Tcp(tcp, _) => Some(tcp.open(owner, rank)?.0),
        }
    }

    fn write(&mut self, stream: u64, pieces: &mut [Bytes]) -> Written {
        match self {
            Self::Quic(quic) => quic.write(stream as u32, pieces),
            Self::Tcp(tcp, _) => tcp.write(StreamNumber(stream), pieces),
        }
    }

    fn finish(&mut self, stream: u64) {
        match self {
            Self::Quic(quic) => quic.finish(stream as u32),
            Self::Tcp(tcp, _) => tcp.finish(StreamNumber(stream)),
        }
    }

    fn reset(&mut self, stream: u64, code: StreamCode) {
        match self {
            Self::Quic(quic) => quic.reset(stream as u32, code),
            Self::Tcp(tcp, _) => tcp.reset(StreamNumber(stream), code),
        }
    }

    fn forget(&mut self, stream: u64) {
        match self {
            Self::Quic(quic) => quic.forget(stream as u32),
            Self::Tcp(tcp, _) => tcp.forget(StreamNumber(stream)),
        }
    }

    fn datagram_bytes_max(&mut self) -> usize {
        match self {
            Self::Quic(quic) => quic.datagram_bytes_max(),
            Self::Tcp(tcp, _) => tcp.datagram_bytes_max(),
        }
    }

    fn send_datagram(&mut self, datagram: Bytes) -> Datagram {
        match self {
            Self::Quic(quic) => quic.send_datagram(datagram),
            Self::Tcp(tcp, _) => tcp.send_datagram(datagram),
        }
    }

    fn credit(&mut self) -> DataSize {
        match self {
            Self::Quic(quic) => quic.credit(),
            Self::Tcp(tcp, _) => tcp.credit(),
        }
    }

    fn heard(&self) -> u64 {
        match self {
            Self::Quic(quic) => quic.heard(),
            Self::Tcp(tcp, _) => tcp.heard(),
        }
    }

    fn let_one_through(&mut self) {
        match self {
            Self::Quic(quic) => quic.let_one_through(),
            Self::Tcp(tcp, _) => tcp.let_one_through(),
        }
    }

    fn path_rate(&self) -> PathRate {
        match self {
            Self::Quic(quic) => quic.path_rate(),
            Self::Tcp(tcp, _) => tcp.path_rate(),
        }
    }
}

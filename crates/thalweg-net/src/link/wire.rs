//! The transport that a link's sender writes to: QUIC, TCP where UDP is blocked, or the engine's.
//!
//! *The idea.* One enum that forwards each call, so that the sender knows one transport and neither
//! transport knows the other.
//!
//! *What it does not do.* It decides nothing.

use std::task::Waker;

use bytes::Bytes;
use thalweg_base::time::Instant;
use thalweg_base::units::DataSize;
use thalweg_link::hop::StreamCode;
use thalweg_link::hop::sender::{Datagram, Owner, PathRate, Transport, Written};
use thalweg_link::tcp_mux::StreamNumber;
use thalweg_quic::{Reading, Watch};

use super::Events;
use super::connection::NewConnection;
use super::direct::Direct;
use super::memory::PeerMemory;
use super::quic::Quic;
use super::tcp::Tcp;
use crate::{engine, tcp};

pub(super) enum Wire {
    Quic(Quic),
    Tcp(Tcp),
    Engine(Direct),
}

/// The transport during one operation of the sender; a TCP session and a connection of the engine's
/// are locked once for all its calls.
pub(super) enum Held<'a> {
    Quic(&'a mut Quic),
    Tcp(tcp::Held<'a>, &'a Waker),
    Engine(engine::Held<'a>, &'a Waker),
}

impl Wire {
    pub(super) fn new(now: Instant, connection: NewConnection, memory: &PeerMemory) -> Self {
        match connection {
            NewConnection::Quic(connection) => Self::Quic(Quic::new(now, connection, memory)),
            NewConnection::Tcp(connection, events) => Self::Tcp(Tcp::new(connection, events)),
            NewConnection::Engine(connection) => Self::Engine(Direct::new(now, connection, memory)),
        }
    }

    /// Locks the transport for one operation of the sender.
    pub(super) fn hold(&mut self, now: Instant) -> Held<'_> {
        match self {
            Self::Quic(quic) => Held::Quic(quic),
            Self::Tcp(tcp) => Held::Tcp(tcp.sending.hold(now), &tcp.waker),
            Self::Engine(direct) => Held::Engine(direct.sending.hold(), &direct.waker),
        }
    }

    /// Sets the driver's waker.
    pub(super) fn set_driver(&mut self, waker: &Waker) {
        match self {
            Self::Quic(quic) => quic.set_driver(waker),
            Self::Tcp(tcp) if !tcp.waker.will_wake(waker) => tcp.waker.clone_from(waker),
            Self::Tcp(_) => {}
            Self::Engine(direct) => direct.waker.clone_from(waker),
        }
    }

    /// Wakes the driver.
    pub(super) fn wake_driver(&self) {
        match self {
            Self::Quic(quic) => quic.wake_driver(),
            Self::Tcp(tcp) => tcp.waker.wake_by_ref(),
            Self::Engine(direct) => direct.waker.wake_by_ref(),
        }
    }

    /// Returns the owners of streams blocked by stream flow control, for the driver to retry; the
    /// other transports report these as events.
    pub(super) fn take_unread(&mut self) -> Vec<Owner> {
        match self {
            Self::Quic(quic) => quic.take_unread(),
            Self::Tcp(_) | Self::Engine(_) => Vec::new(),
        }
    }

    /// Finds the path in use, and records what it carries.
    pub(super) fn check_path(&mut self, now: Instant, memory: &PeerMemory) {
        match self {
            Self::Quic(quic) => quic.check_path(now, memory),
            Self::Tcp(_) => {}
            Self::Engine(direct) => direct.keep(now, memory),
        }
    }

    /// Returns the controller's reading of the path in use; `None` over TCP, which the kernel
    /// controls.
    pub(super) fn reading(&self) -> Option<Reading> {
        match self {
            Self::Quic(quic) => quic.reading(),
            Self::Tcp(_) => None,
            Self::Engine(direct) => direct.sending.watch().map(Watch::reading),
        }
    }

    /// Registers the driver for more credit; returns whether there is some by now.
    ///
    /// A TCP session needs no registration: it notifies whenever it has reported too little credit.
    pub(super) fn register(&self) -> bool {
        match self {
            Self::Quic(quic) => quic.register(),
            Self::Tcp(_) => false,
            Self::Engine(direct) => direct.register(),
        }
    }
}

impl Held<'_> {
    /// Appends stream events to a list.
    pub(super) fn take_events(&mut self, now: Instant, events: &mut Events) {
        match self {
            Self::Quic(quic) => quic.take_events(now, events),
            Self::Tcp(tcp, _) => events.extend(std::iter::from_fn(|| tcp.next_event())),
            Self::Engine(direct, _) => events.extend(direct.take_events()),
        }
    }

    /// Wakes the driver for later events; if `is_patient`, not for acknowledgements alone.
    ///
    /// QUIC over iroh always wakes it: that is a small part of the cost of an acknowledgement there.
    pub(super) fn listen(&mut self, is_patient: bool) {
        match self {
            Self::Quic(_) => {}
            Self::Tcp(tcp, driver) => tcp.listen(driver, is_patient),
            Self::Engine(direct, driver) => direct.listen(driver, is_patient),
        }
    }
}

impl Transport for Held<'_> {
    /// QUIC's table has 32-bit slots; TCP's stream numbers have 64 bits.
    type Stream = u64;

    fn open(&mut self, owner: Owner, rank: i32) -> Option<u64> {
        match self {
            Self::Quic(quic) => quic.open(owner, rank).map(u64::from),
            Self::Tcp(tcp, _) => Some(tcp.open(owner, rank)?.0),
            Self::Engine(direct, _) => direct.open(owner, rank),
        }
    }

    fn write(&mut self, stream: u64, pieces: &mut [Bytes]) -> Written {
        match self {
            Self::Quic(quic) => quic.write(stream as u32, pieces),
            Self::Tcp(tcp, _) => tcp.write(StreamNumber(stream), pieces),
            Self::Engine(direct, _) => direct.write(stream, pieces),
        }
    }

    fn finish(&mut self, stream: u64) {
        match self {
            Self::Quic(quic) => quic.finish(stream as u32),
            Self::Tcp(tcp, _) => tcp.finish(StreamNumber(stream)),
            Self::Engine(direct, _) => direct.finish(stream),
        }
    }

    fn reset(&mut self, stream: u64, code: StreamCode) {
        match self {
            Self::Quic(quic) => quic.reset(stream as u32, code),
            Self::Tcp(tcp, _) => tcp.reset(StreamNumber(stream), code),
            Self::Engine(direct, _) => direct.reset(stream, code),
        }
    }

    fn forget(&mut self, stream: u64) {
        match self {
            Self::Quic(quic) => quic.forget(stream as u32),
            Self::Tcp(tcp, _) => tcp.forget(StreamNumber(stream)),
            Self::Engine(direct, _) => direct.forget(stream),
        }
    }

    fn datagram_bytes_max(&mut self) -> usize {
        match self {
            Self::Quic(quic) => quic.datagram_bytes_max(),
            Self::Tcp(tcp, _) => tcp.datagram_bytes_max(),
            Self::Engine(direct, _) => direct.datagram_bytes_max(),
        }
    }

    fn send_datagram(&mut self, datagram: Bytes) -> Datagram {
        match self {
            Self::Quic(quic) => quic.send_datagram(datagram),
            Self::Tcp(tcp, _) => tcp.send_datagram(datagram),
            Self::Engine(direct, _) => direct.send_datagram(datagram),
        }
    }

    fn credit(&mut self) -> DataSize {
        match self {
            Self::Quic(quic) => quic.credit(),
            Self::Tcp(tcp, _) => tcp.credit(),
            Self::Engine(direct, _) => direct.credit(),
        }
    }

    fn heard(&self) -> u64 {
        match self {
            Self::Quic(quic) => quic.heard(),
            Self::Tcp(tcp, _) => tcp.heard(),
            Self::Engine(direct, _) => direct.heard(),
        }
    }

    fn let_one_through(&mut self) {
        match self {
            Self::Quic(quic) => quic.let_one_through(),
            Self::Tcp(tcp, _) => tcp.let_one_through(),
            Self::Engine(direct, _) => direct.let_one_through(),
        }
    }

    fn path_rate(&self) -> PathRate {
        match self {
            Self::Quic(quic) => quic.path_rate(),
            Self::Tcp(tcp, _) => tcp.path_rate(),
            Self::Engine(direct, _) => direct.path_rate(),
        }
    }
}

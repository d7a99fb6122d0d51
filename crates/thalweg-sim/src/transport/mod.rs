//! One end of one link: control frames and ADUs on QUIC, in virtual time.
//!
//! *The idea.* The node's QUIC has a half without sockets and clocks, noq-proto. A [`Port`] drives it by a time that is
//! a number, and carries on it what `thalweg-net`'s link carries, in the same way:
//!
//! ```text
//! 0  control   one each way, opened first, before all else in priority: (length:32, frame)*
//! 1  ADU       header, payload, end
//! 2  ordered   (header, payload)*
//!    datagram  header, payload: one whole ADU
//! ```
//!
//! A port obeys the contract of the core's state machines. Every call that takes `now` does all that can be done at that
//! time but send; so after any of them, drain [`Port::poll_datagram`] and [`Port::poll_event`], in either order, and
//! come back at [`Port::poll_timeout`].
//!
//! *What it does not do.* It encrypts nothing (`crypto.rs`: tags have their size, keys are none), so TLS brings no
//! randomness and its handshake fewer bytes; it has one path, where iroh negotiates several; it reports no addresses and
//! punches no holes. It chooses nothing that is worth sending.
//!
//! *Sources.* docs/protocol.md §2, §3; `thalweg-net`'s `link` and `endpoint/transport.rs`; noq-proto 1.4
//! `tests/util.rs` for how it is driven.

mod config;
mod control;
mod crypto;
mod event;
// mod live;
// mod ordered;
// mod receive;
// mod send;
mod time;

use std::collections::VecDeque;

use bytes::Bytes;
use thalweg_core::adu::Header;
use thalweg_core::hop::{CloseCode, DownCause, OrderedId, SendOptions, StreamCode};
use thalweg_core::random::SplitMix;
use thalweg_core::time::{Duration, Instant};

pub use self::config::PortSettings;
pub use self::control::ControlError;
pub use self::event::{Datagram, PortCounters, PortEvent, PortStats, RecvId, SendId, Source};

/// One end of one link. It has one connection at a time, and may dial or be dialled again after that is gone.
#[derive(Debug)]
pub struct Port {}

impl Port {
    /// Returns a port that dials its other end at once.
    ///
    /// Every random choice of QUIC follows the seed; give each port, and each start of a node, another.
    pub fn dial(now: Instant, settings: PortSettings, seed: u64) -> Self {
        unimplemented!()
    }

    /// Returns a port that waits to be dialled. It takes a new connection while it has one: the old one is lost then.
    pub fn listen(settings: PortSettings, seed: u64) -> Self {
        unimplemented!()
    }

    /// Dials again; for a port that dials, after [`PortEvent::Down`]. Otherwise nothing happens.
    pub fn redial(&mut self, now: Instant) {
        unimplemented!()
    }

    /// Takes what came out of a line.
    pub fn handle_datagram(&mut self, now: Instant, datagram: Datagram) {
        unimplemented!()
    }

    /// Gives out what is to be put on the line now.
    pub fn poll_datagram(&mut self, now: Instant) -> Option<Datagram> {
        unimplemented!()
    }

    /// Says when to call [`Port::handle_timeout`]; `NEVER` if only something that comes in can change anything.
    pub fn poll_timeout(&self) -> Instant {
        unimplemented!()
    }

    /// Does what is due by now: retransmissions, keep-alives, expired ADUs, a dead peer.
    pub fn handle_timeout(&mut self, now: Instant) {
        unimplemented!()
    }

    /// Gives out what has happened, in the order in which it did.
    pub fn poll_event(&mut self) -> Option<PortEvent> {
        unimplemented!()
    }

    /// Returns whether the link is up and takes what is to be sent.
    pub fn is_up(&self) -> bool {
        unimplemented!()
    }

    /// Queues a control frame, which goes before every ADU that is not in packets yet.
    ///
    /// Fails   the frame is above the limit; too many wait already (they go when QUIC has room); there is no link
    pub fn send_control(&mut self, now: Instant, frame: Bytes) -> Result<(), ControlError> {
        unimplemented!()
    }

    /// Begins to send an ADU; what becomes of it is a [`PortEvent::Outcome`], perhaps at once.
    ///
    /// The header's deadline is on the clock of `now`; what is left of it goes on the wire when the stream is opened.
    /// Above `limits::ADUS_IN_FLIGHT_MAX` an ADU with a deadline overflows; one without waits, as many again at most.
    pub fn send_adu(
        &mut self,
        now: Instant,
        header: Header,
        source: Source,
        options: SendOptions,
    ) -> SendId {
        unimplemented!()
    }

    /// Takes more of a payload that arrives; the last byte finishes the ADU. Returns whether it is still being sent.
    ///
    /// Fails   panics if more comes than was announced (a caller's bug)
    pub fn push_chunk(&mut self, now: Instant, send: SendId, chunk: Bytes) -> bool {
        unimplemented!()
    }

    /// Gives an ADU up, with this code to the peer: `Expired` if that is why its payload does not come, else `Cancelled`.
    ///
    /// Nothing happens to one that has ended already.
    pub fn cancel(&mut self, now: Instant, send: SendId, code: StreamCode) {
        unimplemented!()
    }

    /// Ends an ordered sequence after what is queued of it; [`PortEvent::OrderedEnded`] says when the peer has it.
    pub fn finish_ordered(&mut self, now: Instant, id: OrderedId) {
        unimplemented!()
    }

    /// Refuses the rest of an ADU that arrives, which its sender is told; of an ordered one the rest is skipped.
    ///
    /// No event of this ADU follows. Nothing happens to one that has ended already.
    pub fn refuse(&mut self, now: Instant, recv: RecvId, code: StreamCode) {
        unimplemented!()
    }

    /// Stops reading an ADU that arrives, so that flow control holds its sender back; at most a stream's window of it
    /// comes in QUIC's buffers. Of an ordered sequence what follows waits as well.
    pub fn hold(&mut self, recv: RecvId) {
        unimplemented!()
    }

    /// Reads on.
    pub fn resume(&mut self, now: Instant, recv: RecvId) {
        unimplemented!()
    }

    /// Sends nothing new, waits until all that was sent is acknowledged, then closes; cuts after `grace`.
    pub fn drain(&mut self, now: Instant, code: CloseCode, grace: Duration) {
        unimplemented!()
    }

    /// Closes at once; what is in flight ends as `LinkLost`. The peer learns of it if the datagram arrives.
    pub fn close(&mut self, now: Instant, code: CloseCode) {
        unimplemented!()
    }

    /// Returns measurements of the present link.
    pub fn stats(&mut self) -> PortStats {
        unimplemented!()
    }

    /// Returns what has been counted.
    pub fn counters(&self) -> PortCounters {
        unimplemented!()
    }

    /// Returns how many more ADUs can be on their way at once.
    pub fn room(&self) -> u32 {
        unimplemented!()
    }
}

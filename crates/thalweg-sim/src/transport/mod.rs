//! One end of one link: control frames and ADUs on QUIC, in virtual time.
//!
//! The node's QUIC has a sans-IO core, noq-proto. A [`Port`] drives it by numeric time, and carries on
//! it what `thalweg-net`'s link carries, in the same way:
//!
//! ```text
//! 0  control   one each way, opened first, before all else in priority: (length:32, frame)*
//! 1  ADU       header, payload, end
//! 2  ordered   (header, payload)*
//!    datagram  header, payload: one whole ADU
//! ```
//!
//! A port obeys the contract of the core's state machines: every call that takes `now` does all work
//! possible at that time except sending. After each, drain [`Port::poll_datagram`] and
//! [`Port::poll_event`], in either order, and come back at [`Port::poll_timeout`].
//!
//! Differences from a real link: nothing is encrypted (`crypto.rs`), so TLS adds no randomness and its
//! handshake is smaller; there is one path, where iroh negotiates several; no addresses are reported
//! and no NAT is traversed.
//!
//! *Sources.* docs/reference/protocol.md §2, §3; `thalweg-net`'s `link` and `transport.rs`;
//! noq-proto 1.4
//! `tests/util.rs` for how it is driven.

mod config;
mod control;
mod crypto;
mod event;
mod io;
mod live;
mod quic;
mod receive;
mod send;
mod time;

use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::collections::VecDeque;
use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use noq_proto::{
    Connection, ConnectionHandle, DatagramEvent, EcnCodepoint, Endpoint, FourTuple, Incoming,
    PathId,
};
use thalweg_base::adu::Header;
use thalweg_base::random::SplitMix;
use thalweg_base::time::{Duration, Instant};
use thalweg_base::trace::Trace;
use thalweg_base::units::DataSize;
use thalweg_link::congestion::{Controller, Memory};
use thalweg_link::hop::{CloseCode, DownCause, OrderedId, Outcome, SendOptions, StreamCode};

pub use self::config::PortSettings;
pub use self::control::ControlError;
pub use self::event::{Datagram, PortCounters, PortEvent, PortStats, RecvId, SendId, Source};
use self::io::{Io, Shared};
use self::live::{Live, Parts};
use self::time::{instant, moment};

/// The peer's address, a placeholder that QUIC requires: the line leads to the only peer.
const PEER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), 1);

/// One end of one link. It has one link at a time, and may dial or be dialled again when that is gone.
pub struct Port {
    settings: PortSettings,
    is_dialling: bool,
    random: SplitMix,
    endpoint: Endpoint,
    /// The connection that is the link.
    link: Option<Box<Live>>,
    /// The connection that is being established.
    pending: Option<Box<Live>>,
    /// Connections that have ended and still have packets to send.
    closing: Vec<(ConnectionHandle, Connection)>,
    /// The endpoint's responses to packets of no connection.
    answers: VecDeque<Datagram>,
    shared: Shared,
    /// What was learned of the path, for the next link.
    memory: Memory,
    sends: u64,
    /// Whether anything has come in since QUIC last had nothing to send.
    has_input: bool,
    /// QUIC's packet buffer; kept for its capacity.
    buffer: Vec<u8>,
}

impl Port {
    /// Returns a port that dials its other end at once.
    ///
    /// Every random choice of QUIC follows the seed; use a different seed for each port and each start
    /// of a node.
    pub fn dial(now: Instant, settings: PortSettings, seed: u64) -> Self {
        let mut random = SplitMix::new(seed);
        let config = config::endpoint(&mut random);
        let mut port = Self::new(
            Endpoint::new(Arc::new(config), None, true),
            random,
            settings,
        );
        port.is_dialling = true;
        port.redial(now);
        port
    }

    /// Returns a port that listens. A new connection replaces an existing link, which goes down as
    /// [`DownCause::Replaced`], because a peer dials only when it has none.
    pub fn listen(settings: PortSettings, seed: u64) -> Self {
        let mut random = SplitMix::new(seed);
        let config = config::endpoint(&mut random);
        let server = config::server(settings, &mut random);
        let endpoint = Endpoint::new(Arc::new(config), Some(Arc::new(server)), true);
        Self::new(endpoint, random, settings)
    }

    fn new(endpoint: Endpoint, random: SplitMix, settings: PortSettings) -> Self {
        Self {
            settings,
            is_dialling: false,
            random,
            endpoint,
            link: None,
            pending: None,
            closing: Vec::new(),
            answers: VecDeque::new(),
            shared: Shared::default(),
            memory: Memory::default(),
            sends: 0,
            has_input: false,
            buffer: Vec::new(),
        }
    }

    /// Dials again; for a dialling port after [`PortEvent::Down`]. Otherwise it does nothing.
    pub fn redial(&mut self, now: Instant) {
        if !self.is_dialling || self.link.is_some() || self.pending.is_some() {
            return;
        }
        let config = config::client(self.settings, &mut self.random);
        let dialled = self
            .endpoint
            .connect(moment(now), config, PEER, "peer")
            .expect("the address is one, the version is noq's own, and eight bytes of ids are never used up");
        self.pending = Some(Box::new(Live::new(now, dialled.0, dialled.1)));
        self.has_input = true;
    }

    /// Handles a datagram that left a line.
    pub fn handle_datagram(&mut self, now: Instant, datagram: Datagram) {
        let path = FourTuple::new(PEER, None);
        // Lines keep the ECN field and never mark congestion, so ECT(0) arrives as it was sent.
        let ecn = Some(EcnCodepoint::Ect0);
        let event = self
            .endpoint
            .handle(moment(now), path, ecn, datagram.0, &mut self.buffer);
        match event {
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                if let Some(quic) = self.quic(handle) {
                    quic.handle_event(event);
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) => self.accept(now, incoming),
            Some(DatagramEvent::Response(answer)) => self.answer(answer.size),
            None => {}
        }
        self.buffer.clear();
        self.run(now);
    }

    /// Returns the next datagram to put on the line.
    pub fn poll_datagram(&mut self, now: Instant) -> Option<Datagram> {
        if let Some(answer) = self.answers.pop_front() {
            return Some(answer);
        }
        // QUIC changes only on input, so an idle port need not be asked.
        while self.has_input {
            let at = moment(now);
            let lives = [&mut self.link, &mut self.pending].into_iter().flatten();
            let closing = self.closing.iter_mut().map(|(_, quic)| quic);
            for quic in lives.map(|live| &mut live.quic).chain(closing) {
                if let Some(transmit) = quic.poll_transmit(at, NonZeroUsize::MIN, &mut self.buffer)
                {
                    let datagram = BytesMut::from(&self.buffer[..transmit.size]);
                    self.buffer.clear();
                    return Some(Datagram(datagram));
                }
            }
            // Sending may have made room.
            self.has_input = self.advance(now);
        }
        None
    }

    /// Returns when to call [`Port::handle_timeout`]; `NEVER` if only input can change anything. A time
    /// in the past means at once: QUIC may notice late that something was due.
    pub fn poll_timeout(&self) -> Instant {
        let lives = [&self.link, &self.pending].into_iter().flatten();
        let closing = self
            .closing
            .iter()
            .filter_map(|(_, quic)| quic.poll_timeout());
        lives
            .map(|live| live.poll_timeout())
            .chain(closing.map(instant))
            .min()
            .unwrap_or(Instant::NEVER)
    }

    /// Handles the timers due by now: retransmissions, keep-alives, expired ADUs, a dead peer.
    pub fn handle_timeout(&mut self, now: Instant) {
        for live in [&mut self.link, &mut self.pending].into_iter().flatten() {
            live.handle_timeout(now, &mut self.shared);
        }
        for (_, quic) in &mut self.closing {
            if quic.poll_timeout().is_some_and(|at| at <= moment(now)) {
                quic.handle_timeout(moment(now));
            }
        }
        self.run(now);
    }

    /// Returns the next event, in the order of occurrence.
    pub fn poll_event(&mut self) -> Option<PortEvent> {
        self.shared.events.pop_front()
    }

    /// Returns whether the link is up and accepts data to send.
    pub fn is_up(&self) -> bool {
        self.link.as_ref().is_some_and(|live| !live.is_draining())
    }

    /// Queues a control frame, which precedes every ADU that is not in packets yet.
    ///
    /// Fails   the frame is above the limit; too many are queued already (they go when QUIC has room);
    ///         there is no link
    pub fn send_control(&mut self, now: Instant, frame: Bytes) -> Result<(), ControlError> {
        control::check(&frame)?;
        if !self.is_up() {
            return Err(ControlError::LinkLost);
        }
        self.with(now, |parts, io| parts.control.send(io, frame))
            .unwrap_or(Err(ControlError::LinkLost))
    }

    /// Begins to send an ADU; a [`PortEvent::Outcome`] follows, perhaps at once.
    ///
    /// The header's deadline is on the clock of `now`; the remaining time goes on the wire when the
    /// stream is opened. An ADU without a deadline, or of an ordered sequence, waits for room
    /// (`thalweg_link::hop::sender::room`).
    pub fn send_adu(
        &mut self,
        now: Instant,
        header: Header,
        source: Source,
        options: SendOptions,
    ) -> SendId {
        self.send_traced(now, header, source, options, None)
    }

    /// Begins to send an ADU with these stamps, if any, followed by this node's.
    pub fn send_traced(
        &mut self,
        now: Instant,
        header: Header,
        source: Source,
        options: SendOptions,
        trace: Option<Box<Trace>>,
    ) -> SendId {
        self.sends += 1;
        let send = SendId(self.sends);
        let is_up = self.is_up();
        let sent = self.with(now, |parts, io| {
            if is_up {
                parts
                    .sender
                    .begin(io, send, (header, trace), source, options);
            } else {
                io.outcome(send, Outcome::LinkLost);
            }
        });
        if sent.is_none() {
            self.shared.outcome(send, Outcome::LinkLost);
        }
        send
    }

    /// Adds to a payload that is arriving; the last byte finishes the ADU. Returns whether it is still
    /// being sent.
    ///
    /// Fails   panics if more comes than was announced (a caller's bug)
    pub fn push_chunk(&mut self, now: Instant, send: SendId, chunk: Bytes) -> bool {
        self.with(now, |parts, io| parts.sender.push_chunk(io, send, chunk))
            .unwrap_or(false)
    }

    /// Cancels an ADU, with this code to the peer: `Expired` if its payload does not come for that
    /// reason, else `Cancelled`.
    ///
    /// An ADU that has already ended is unaffected.
    pub fn cancel(&mut self, now: Instant, send: SendId, code: StreamCode) {
        self.with(now, |parts, io| parts.sender.cancel(io, send, code));
    }

    /// Ends an ordered sequence after what is queued of it; [`PortEvent::OrderedEnded`] reports when
    /// the peer has it.
    pub fn finish_ordered(&mut self, now: Instant, id: OrderedId) {
        self.with(now, |parts, io| parts.sender.finish_ordered(io, id));
    }

    /// Refuses the rest of an arriving ADU and notifies its sender; of an ordered one the rest is skipped.
    ///
    /// Afterwards only events already queued come for this ADU. An ADU that has ended is unaffected.
    pub fn refuse(&mut self, now: Instant, recv: RecvId, code: StreamCode) {
        self.with(now, |parts, io| parts.receiver.refuse(io, recv, code));
    }

    /// Stops reading an arriving ADU, so that flow control holds its sender back; QUIC buffers at most
    /// a stream's window of it. ADUs behind it in an ordered sequence wait as well.
    pub fn hold(&mut self, recv: RecvId) {
        if let Some(link) = &mut self.link {
            link.receiver.hold(recv);
        }
    }

    /// Resumes reading.
    pub fn resume(&mut self, now: Instant, recv: RecvId) {
        self.with(now, |parts, io| parts.receiver.resume(io, recv));
    }

    /// Sends nothing new, waits until everything sent is acknowledged, then closes; closes anyway after
    /// `grace`.
    pub fn drain(&mut self, now: Instant, code: CloseCode, grace: Duration) {
        if let Some(link) = &mut self.link {
            link.begin_drain(now, &mut self.shared, code, grace);
        }
        self.run(now);
    }

    /// Closes at once; what is in flight ends as `LinkLost`. The peer learns of it if the datagram arrives.
    pub fn close(&mut self, now: Instant, code: CloseCode) {
        for live in [&mut self.link, &mut self.pending].into_iter().flatten() {
            live.close(now, code, "");
        }
        self.run(now);
    }

    /// Returns the statistics of the current link.
    pub fn stats(&mut self) -> PortStats {
        let link = self.link.as_mut();
        link.map(|live| live.stats()).unwrap_or_default()
    }

    /// Returns the bytes that the current link dropped because its path was full, since the last call.
    pub fn take_crowded_out(&mut self) -> DataSize {
        let link = self.link.as_mut();
        link.map_or(DataSize::ZERO, |live| live.sender.take_crowded_out())
    }

    /// Returns the congestion controller's state on the current link, if it is our own.
    pub fn congestion(&self) -> Option<Controller> {
        let quic = &self.link.as_ref()?.quic;
        let state = quic.congestion_state(PathId::ZERO)?.clone_box();
        thalweg_quic::controller(state)
    }

    /// Returns the counters.
    pub fn counters(&self) -> PortCounters {
        self.shared.counters
    }

    /// Returns the room for ADUs that would wait rather than be dropped, in KiB; zero without a link.
    pub fn room_kib(&self) -> u32 {
        let room = |live: &Live| live.sender.room_kib();
        self.link.as_deref().map_or(0, room)
    }

    /// Runs `work` on the link, if there is one, and then everything that follows from it.
    fn with<T>(
        &mut self,
        now: Instant,
        work: impl FnOnce(&mut Parts<'_>, &mut Io<'_>) -> T,
    ) -> Option<T> {
        let link = self.link.as_mut()?;
        let result = link.with(now, &mut self.shared, |parts, io| work(parts, io));
        self.run(now);
        Some(result)
    }

    fn quic(&mut self, handle: ConnectionHandle) -> Option<&mut Connection> {
        let lives = [&mut self.link, &mut self.pending].into_iter().flatten();
        lives
            .map(|live| (live.handle, &mut live.quic))
            .chain(
                self.closing
                    .iter_mut()
                    .map(|(handle, quic)| (*handle, quic)),
            )
            .find(|(candidate, _)| *candidate == handle)
            .map(|(_, quic)| quic)
    }

    fn accept(&mut self, now: Instant, incoming: Incoming) {
        match self
            .endpoint
            .accept(incoming, moment(now), &mut self.buffer, None)
        {
            Ok((handle, quic)) => {
                if let Some(mut older) =
                    self.pending.replace(Box::new(Live::new(now, handle, quic)))
                {
                    older.close(now, CloseCode::Duplicate, "");
                    self.closing.push((older.handle, older.quic));
                }
            }
            Err(error) => {
                if let Some(answer) = error.response {
                    self.answer(answer.size);
                }
            }
        }
    }

    fn answer(&mut self, bytes: usize) {
        let datagram = BytesMut::from(&self.buffer[..bytes]);
        self.answers.push_back(Datagram(datagram));
    }

    /// Handles new input.
    fn run(&mut self, now: Instant) {
        self.has_input = true;
        self.advance(now);
    }

    /// Runs all connections until nothing more happens; returns whether anything did.
    fn advance(&mut self, now: Instant) -> bool {
        let mut has_moved = false;
        loop {
            let Self {
                link,
                pending,
                endpoint,
                shared,
                ..
            } = self;
            let mut moves = false;
            for live in [link, pending].into_iter().flatten() {
                moves |= live.run(endpoint, now, shared);
            }
            moves |= self.reap(now);
            moves |= self.establish(now);
            if !moves {
                break;
            }
            has_moved = true;
        }
        self.closing.retain_mut(|(handle, quic)| {
            live::forward(&mut self.endpoint, *handle, quic);
            while quic.poll().is_some() {}
            !quic.is_drained()
        });
        has_moved
    }

    /// Removes connections that are over.
    fn reap(&mut self, now: Instant) -> bool {
        let mut is_gone = false;
        if let Some(mut live) = self.link.take_if(|live| live.over.is_some()) {
            is_gone = true;
            let cause = live.over.take().unwrap_or(DownCause::ByUs);
            self.remember(now, &live);
            self.end(now, live, cause);
        }
        if let Some(mut live) = self.pending.take_if(|live| live.over.is_some()) {
            is_gone = true;
            let cause = live.over.take().unwrap_or(DownCause::ByUs);
            if self.is_dialling {
                self.end(now, live, cause);
            } else {
                self.closing.push((live.handle, live.quic));
            }
        }
        is_gone
    }

    /// Makes a connection the link once both ends have greeted.
    fn establish(&mut self, now: Instant) -> bool {
        let Some(mut live) = self.pending.take_if(|live| live.is_greeted()) else {
            return false;
        };
        if let Some(mut older) = self.link.take() {
            older.close(now, CloseCode::Duplicate, "");
            self.remember(now, &older);
            self.end(now, older, DownCause::Replaced);
        }
        if let Some(carried) = self.memory.recall(now) {
            live.recall(carried);
        }
        self.shared.events.push_back(PortEvent::Up);
        live.begin(now, &mut self.shared);
        self.link = Some(live);
        true
    }

    /// Keeps what was learned of the path.
    fn remember(&mut self, now: Instant, link: &Live) {
        if let Some(carried) = link.sender.to_keep() {
            self.memory.keep(now, carried);
        }
    }

    fn end(&mut self, now: Instant, mut live: Box<Live>, cause: DownCause) {
        live.lose(now, &mut self.shared);
        self.shared.events.push_back(PortEvent::Down { cause });
        self.closing.push((live.handle, live.quic));
    }
}

impl fmt::Debug for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Port")
            .field("is_dialling", &self.is_dialling)
            .field("is_up", &self.is_up())
            .finish_non_exhaustive()
    }
}

//! One turn of the loop: take, timers, settle those that are marked, flush, wait.
//!
//! *The idea.* Whatever has happened to a connection marks it: datagrams, a timer, a task. A turn
//! takes all there is, then settles each marked connection once: reports go to the tasks, packets
//! to the socket. Nothing in the thread waits but one `ppoll` on the socket and the bell.

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use noq_proto::{
    Connection as Quic, ConnectionError, ConnectionHandle, DatagramEvent, Endpoint, Event,
    Incoming, Transmit,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use thalweg_base::id::NodeId;
use thalweg_base::time::Duration as Span;
use tokio::sync::{mpsc, oneshot};

use super::accept::{self, BEGUN_PER_TURN, Pending, Refusal, Shares, Verdict};
use super::config::{self, Config, Options};
use super::connection::Connection;
use super::counters::Counters;
use super::dial::{self, DialError};
use super::inbox::{Inbox, Request};
use super::marks::Marks;
use super::peers::{BegunBy, Handshake, Peers, Stage};
use super::shared::Shared;
use super::socket::{Datagram, Sent, Socket};
use crate::close::{CloseCode, ToVarInt as _};
use crate::lobby::Host;

/// Batches of datagrams that one turn takes.
const BATCHES_PER_TURN: usize = 8;

/// Buffers that one connection sends in one turn.
const BUFFERS_PER_TURN: usize = 64;

/// Interval at which pending handshakes and silent peers are looked for.
const SWEEP_EVERY: Duration = Duration::from_millis(250);

/// The loop's state.
pub(super) struct Turn {
    options: Options,
    config: Config,
    endpoint: Endpoint,
    socket: Socket,
    peers: Peers,
    pending: Pending,
    shares: Shares,
    outgoing: Outgoing,
    /// Memory of received datagrams, which are slices of it.
    pool: BytesMut,
    received: Vec<Datagram>,
    /// Connections that have more to send than their part of this turn.
    unfinished: Vec<ConnectionHandle>,
    swept: Instant,
    marks: Arc<Marks>,
    inbox: Arc<Inbox>,
    counters: Arc<Counters>,
    accepted: mpsc::UnboundedSender<Connection>,
}

/// What is about to be sent.
struct Outgoing {
    arena: Vec<u8>,
    /// The buffer that the kernel had no room for.
    blocked: Option<(Transmit, Vec<u8>)>,
}

impl Turn {
    pub(super) fn new(
        options: Options,
        config: Config,
        socket: Socket,
        (marks, inbox): (Arc<Marks>, Arc<Inbox>),
        counters: Arc<Counters>,
        accepted: mpsc::UnboundedSender<Connection>,
    ) -> Self {
        let endpoint = Endpoint::new(Arc::new(config::endpoint()), Some(config.server()), true);
        Self {
            options,
            config,
            endpoint,
            socket,
            peers: Peers::default(),
            pending: Pending::default(),
            shares: Shares::default(),
            outgoing: Outgoing {
                arena: Vec::new(),
                blocked: None,
            },
            pool: BytesMut::new(),
            received: Vec::new(),
            unfinished: Vec::new(),
            swept: Instant::now(),
            marks,
            inbox,
            counters,
            accepted,
        }
    }

    /// Turns until it is told to stop.
    pub(super) fn run(mut self) {
        loop {
            self.wait();
            self.counters.turns.add_one();
            let now = Instant::now();
            self.receive(now);
            let mut is_stopped = false;
            for request in self.inbox.take() {
                match request {
                    Request::Dial {
                        peer,
                        address,
                        reply,
                    } => self.dial(now, (peer, address), reply),
                    Request::Stop => is_stopped = true,
                    Request::Abort => return,
                }
            }
            self.begin_pending(now);
            while let Some(handle) = self.peers.pop_due(now) {
                self.peers.act(handle, |quic| quic.handle_timeout(now));
            }
            self.sweep(now);
            let mut marked = Vec::new();
            self.marks.take(&mut marked);
            for handle in marked {
                self.peers.mark(handle);
            }
            if is_stopped {
                self.close_all(now);
            }
            self.settle_marked(now);
            if is_stopped {
                return;
            }
        }
    }

    /// Waits for datagrams, room to send, a mark, a request or a timer.
    fn wait(&mut self) {
        let has_work = self.marks.doze()
            || !self.inbox.is_empty()
            || self.pending.is_waiting()
            || (self.peers.has_marked() && self.outgoing.blocked.is_none());
        let sweep = self.swept + SWEEP_EVERY;
        let until = self.peers.next_timer().map_or(sweep, |at| at.min(sweep));
        let mut pause = Timespec::default();
        if !has_work {
            let left = until.saturating_duration_since(Instant::now());
            // At most the interval of sweeps, so it fits.
            pause.tv_nsec = left.min(SWEEP_EVERY).subsec_nanos().into();
        }
        let wanted = match self.outgoing.blocked {
            Some(_) => PollFlags::IN | PollFlags::OUT,
            None => PollFlags::IN,
        };
        let mut polled = [
            PollFd::from_borrowed_fd(self.socket.as_fd(), wanted),
            PollFd::from_borrowed_fd(self.marks.as_fd(), PollFlags::IN),
        ];
        // An interrupted wait is an early turn.
        let _ = poll(&mut polled, Some(&pause));
        self.marks.rise();
    }

    /// Takes the datagrams that have arrived.
    fn receive(&mut self, now: Instant) {
        let mut received = std::mem::take(&mut self.received);
        for _ in 0..BATCHES_PER_TURN {
            let has_more = self
                .socket
                .receive(&mut self.pool, |datagram| received.push(datagram));
            for datagram in received.drain(..) {
                self.handle_datagram(now, datagram);
            }
            if !has_more {
                break;
            }
        }
        self.received = received;
    }

    fn handle_datagram(&mut self, now: Instant, (path, ecn, bytes): Datagram) {
        self.counters.datagrams.add_one();
        self.outgoing.arena.clear();
        let response = &mut self.outgoing.arena;
        match self.endpoint.handle(now, path, ecn, bytes, response) {
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                self.peers.act(handle, |quic| quic.handle_event(event));
            }
            Some(DatagramEvent::NewConnection(incoming)) => self.handle_incoming(incoming),
            Some(DatagramEvent::Response(transmit)) => {
                self.counters.stray.add_one();
                self.send_response(&transmit);
            }
            None => self.counters.stray.add_one(),
        }
    }

    /// Sends an answer that belongs to no connection; it is lost if there is no room.
    fn send_response(&mut self, transmit: &Transmit) {
        if self.outgoing.blocked.is_none() {
            let _ = self.socket.send(transmit, &self.outgoing.arena);
        }
    }

    fn handle_incoming(&mut self, incoming: Incoming) {
        let host = Host::of(incoming.remote_address().ip());
        let is_validated = incoming.remote_address_validated() || !incoming.may_retry();
        match self.pending.judge(host, is_validated) {
            Verdict::Begin => self.pending.push(host, incoming),
            Verdict::Retry => {
                self.counters.retries.add_one();
                self.outgoing.arena.clear();
                // It fails only for an address that is validated already.
                let retried = self.endpoint.retry(incoming, &mut self.outgoing.arena);
                if let Ok(transmit) = retried {
                    self.send_response(&transmit);
                }
            }
            Verdict::Ignore => {
                self.counters.crowded_out.add_one();
                self.endpoint.ignore(incoming);
            }
        }
    }

    /// Begins a few of the handshakes that wait.
    fn begin_pending(&mut self, now: Instant) {
        for _ in 0..BEGUN_PER_TURN {
            let Some((host, incoming)) = self.pending.pop() else {
                return;
            };
            let remote = incoming.remote_address();
            self.outgoing.arena.clear();
            match self
                .endpoint
                .accept(incoming, now, &mut self.outgoing.arena, None)
            {
                Ok((handle, quic)) => {
                    let handshake = Handshake {
                        since: now,
                        remote,
                        begun_by: BegunBy::Peer(host),
                    };
                    let stage = Stage::Shaking(Box::new(quic), handshake);
                    self.peers.insert(handle, stage);
                }
                Err(error) => {
                    self.counters.unfinished.add_one();
                    self.pending.leave(host);
                    if let Some(transmit) = error.response {
                        self.send_response(&transmit);
                    }
                }
            }
        }
    }

    fn dial(
        &mut self,
        now: Instant,
        (peer, address): (NodeId, SocketAddr),
        reply: oneshot::Sender<Result<Connection, DialError>>,
    ) {
        if !self.options.admission.admits(peer) {
            // A caller that stopped waiting needs no answer, here and below.
            let _ = reply.send(Err(DialError::NotAdmittedHere(peer)));
            return;
        }
        let remote = match self.socket.local() {
            Ok(local) => dial::for_socket(address, local),
            Err(_) => address,
        };
        match dial::begin(&mut self.endpoint, &self.config, now, peer, remote) {
            Ok((handle, quic)) => {
                let begun_by = BegunBy::Here(peer, reply);
                let handshake = Handshake {
                    since: now,
                    remote,
                    begun_by,
                };
                let stage = Stage::Shaking(Box::new(quic), handshake);
                self.peers.insert(handle, stage);
            }
            Err(error) => {
                let _ = reply.send(Err(error));
            }
        }
    }

    /// Ends handshakes that take too long, and connections whose peer acknowledges nothing.
    fn sweep(&mut self, now: Instant) {
        if now.saturating_duration_since(self.swept) < SWEEP_EVERY {
            return;
        }
        self.swept = now;
        for handle in self.peers.handles() {
            let Some(slot) = self.peers.get(handle) else {
                continue;
            };
            match &mut slot.stage {
                Stage::Shaking(_, handshake) => {
                    let lasted = now.saturating_duration_since(handshake.since);
                    let lasted = Span::from(lasted);
                    let is_unwanted = match &handshake.begun_by {
                        BegunBy::Peer(_) => false,
                        BegunBy::Here(_, reply) => reply.is_closed(),
                    };
                    if is_unwanted || lasted > self.options.handshake_timeout {
                        self.end_handshake(handle, now, &ConnectionError::TimedOut);
                    }
                }
                Stage::Up(shared) if shared.is_over() => {}
                Stage::Up(shared) => {
                    if shared.unheard_for(now) > self.options.idle_timeout {
                        tracing::debug!(peer = %shared.peer.short(), "the peer acknowledges nothing");
                        self.counters.unacknowledged.add_one();
                        let reason = Bytes::from_static(b"nothing is acknowledged");
                        shared.end(ConnectionError::TimedOut, |quic| {
                            quic.close(now, CloseCode::Protocol.varint(), reason);
                        });
                        self.peers.mark(handle);
                    }
                }
                Stage::Closing(_) => {}
            }
        }
    }

    /// Gives up a handshake.
    fn end_handshake(&mut self, handle: ConnectionHandle, now: Instant, why: &ConnectionError) {
        let Some(mut slot) = self.peers.remove(handle) else {
            return;
        };
        if let Stage::Shaking(mut quic, handshake) = slot.stage {
            self.counters.unfinished.add_one();
            quic.close(now, CloseCode::Protocol.varint(), Bytes::new());
            self.leave(handshake.begun_by, why);
            slot.stage = Stage::Closing(quic);
        }
        self.peers.put(handle, slot);
        self.peers.mark(handle);
    }

    /// Records that a handshake has failed.
    fn leave(&mut self, begun_by: BegunBy, why: &ConnectionError) {
        match begun_by {
            BegunBy::Peer(host) => self.pending.leave(host),
            BegunBy::Here(_, reply) => {
                let _ = reply.send(Err(DialError::Lost(why.clone())));
            }
        }
    }

    fn close_all(&mut self, now: Instant) {
        for handle in self.peers.handles() {
            let Some(slot) = self.peers.get(handle) else {
                continue;
            };
            match &slot.stage {
                Stage::Up(shared) => shared.close(CloseCode::Fault, "the engine has ended"),
                Stage::Shaking(..) => {
                    self.end_handshake(handle, now, &ConnectionError::LocallyClosed);
                }
                Stage::Closing(_) => {}
            }
            self.peers.mark(handle);
        }
    }

    /// Settles each marked connection once.
    fn settle_marked(&mut self, now: Instant) {
        if let Some((transmit, contents)) = self.outgoing.blocked.take()
            && self.socket.send(&transmit, &contents) == Sent::Full
        {
            self.outgoing.blocked = Some((transmit, contents));
            return;
        }
        for handle in self.peers.take_marked() {
            self.settle(handle, now);
        }
        for handle in std::mem::take(&mut self.unfinished) {
            self.peers.mark(handle);
        }
    }

    fn settle(&mut self, handle: ConnectionHandle, now: Instant) {
        match self.peers.get(handle).map(|slot| &slot.stage) {
            Some(Stage::Up(shared)) => {
                let shared = shared.clone();
                self.settle_up(handle, &shared, now);
            }
            Some(_) => self.settle_other(handle, now),
            None => {}
        }
    }

    /// Settles a connection that a link holds.
    fn settle_up(&mut self, handle: ConnectionHandle, shared: &Shared, now: Instant) {
        shared.handle_settled();
        let at = self.options.clock.at(now);
        let mut state = shared.lock();
        let is_drained = self.drive(handle, &mut state.quic, now);
        let end = shared.take_reports(&mut state, at);
        let timeout = state.quic.poll_timeout();
        drop(state);
        self.peers.wake_at(handle, timeout);
        if let Some(end) = end {
            shared.end(end, |_| {});
        }
        if is_drained || (shared.is_over() && self.outgoing.blocked.is_none()) {
            shared
                .gone
                .send_if_modified(|gone| !std::mem::replace(gone, true));
        }
        if is_drained {
            // The library drains a connection only after its end.
            shared.end(ConnectionError::LocallyClosed, |_| {});
            self.shares.leave(shared.peer);
            self.peers.remove(handle);
        }
    }

    /// Settles a handshake or a closing connection.
    fn settle_other(&mut self, handle: ConnectionHandle, now: Instant) {
        let Some(mut slot) = self.peers.remove(handle) else {
            return;
        };
        let was_shaking = matches!(slot.stage, Stage::Shaking(..));
        let is_drained = match slot.stage {
            Stage::Shaking(mut quic, handshake) => {
                let is_drained = self.drive(handle, &mut quic, now);
                slot.stage = self.advance(handle, quic, handshake, now);
                is_drained
            }
            Stage::Closing(mut quic) => {
                let is_drained = self.drive(handle, &mut quic, now);
                while quic.poll().is_some() {}
                slot.stage = Stage::Closing(quic);
                is_drained
            }
            Stage::Up(_) => false,
        };
        if is_drained {
            if let Stage::Shaking(_, handshake) = slot.stage {
                self.leave(handshake.begun_by, &ConnectionError::TimedOut);
            }
            return;
        }
        // The next settling takes what the handshake has left, or sends the refusal.
        let has_advanced = was_shaking && !matches!(slot.stage, Stage::Shaking(..));
        let timeout = match &slot.stage {
            Stage::Shaking(quic, _) | Stage::Closing(quic) => quic.poll_timeout(),
            Stage::Up(_) => None,
        };
        self.peers.put(handle, slot);
        self.peers.wake_at(handle, timeout);
        if has_advanced {
            self.peers.mark(handle);
        }
    }

    /// Takes what a handshake reports; returns its next stage.
    fn advance(
        &mut self,
        handle: ConnectionHandle,
        mut quic: Box<Quic>,
        handshake: Handshake,
        now: Instant,
    ) -> Stage {
        loop {
            match quic.poll() {
                Some(Event::Connected) => break,
                Some(Event::ConnectionLost { reason }) => {
                    self.counters.unfinished.add_one();
                    self.leave(handshake.begun_by, &reason);
                    return Stage::Closing(quic);
                }
                Some(_) => {}
                None => return Stage::Shaking(quic, handshake),
            }
        }
        let own = self.options.identity.id();
        let proved = accept::peer(&quic).filter(|peer| handshake.begun_by.expects(*peer));
        let Some(peer) = proved else {
            // The handshake itself has checked the key already.
            quic.close(now, CloseCode::Protocol.varint(), Bytes::new());
            self.leave(handshake.begun_by, &ConnectionError::LocallyClosed);
            return Stage::Closing(quic);
        };
        if let Err(refusal) = self.shares.judge(own, peer, &self.options.admission) {
            match refusal {
                Refusal::NotAdmitted(_) => self.counters.not_admitted.add_one(),
                Refusal::Overload => self.counters.overload.add_one(),
            }
            let (code, reason) = refusal.parts();
            quic.close(
                now,
                code.varint(),
                Bytes::copy_from_slice(reason.as_bytes()),
            );
            self.leave(handshake.begun_by, &ConnectionError::LocallyClosed);
            return Stage::Closing(quic);
        }
        self.shares.join(peer);
        let ends = (peer, handshake.remote);
        let shared = Shared::new(*quic, ends, handle, self.marks.clone());
        let connection = Connection::new(shared.clone());
        // A connection that nobody takes closes itself.
        match handshake.begun_by {
            BegunBy::Peer(host) => {
                self.pending.leave(host);
                let _ = self.accepted.send(connection);
            }
            BegunBy::Here(_, reply) => {
                let _ = reply.send(Ok(connection));
            }
        }
        Stage::Up(shared)
    }

    /// Exchanges events with the endpoint and sends what there is; returns whether the connection is
    /// drained.
    fn drive(&mut self, handle: ConnectionHandle, quic: &mut Quic, now: Instant) -> bool {
        let mut is_drained = false;
        while let Some(event) = quic.poll_endpoint_events() {
            is_drained |= event.is_drained();
            if let Some(event) = self.endpoint.handle_event(handle, event) {
                quic.handle_event(event);
            }
        }
        if is_drained {
            return true;
        }
        let segments = self.socket.segments();
        let mut buffers = 0;
        let has_more = loop {
            if buffers == BUFFERS_PER_TURN || self.outgoing.blocked.is_some() {
                break true;
            }
            buffers += 1;
            self.outgoing.arena.clear();
            let arena = &mut self.outgoing.arena;
            let Some(transmit) = quic.poll_transmit(now, segments, arena) else {
                break false;
            };
            match self.socket.send(&transmit, &self.outgoing.arena) {
                Sent::Yes => {}
                Sent::Lost => self.counters.unsent.add_one(),
                Sent::Full => {
                    let contents = self.outgoing.arena.clone();
                    self.outgoing.blocked = Some((transmit, contents));
                }
            }
        };
        if has_more {
            self.unfinished.push(handle);
        }
        false
    }
}

impl Drop for Turn {
    /// Releases all that wait on the loop, also if it has panicked.
    fn drop(&mut self) {
        self.inbox.close();
        for handle in self.peers.handles() {
            if let Some(Stage::Up(shared)) = self.peers.get(handle).map(|slot| &slot.stage) {
                shared.end(ConnectionError::LocallyClosed, |_| {});
                shared.gone.send_replace(true);
            }
        }
    }
}

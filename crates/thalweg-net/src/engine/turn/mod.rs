//! One turn of the loop: take, timers, settle those that are marked, flush, wait.
//!
//! *The idea.* Whatever has happened to a connection marks it: datagrams, a timer, a task. A turn
//! takes all there is, then settles each marked connection once: reports go to the tasks, packets
//! to the socket (`settle`). Nothing in the thread waits but one `ppoll` on the socket and the bell.

mod settle;

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use noq_proto::{ConnectionError, ConnectionHandle, DatagramEvent, Endpoint, Incoming, Transmit};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use thalweg_base::id::NodeId;
use thalweg_base::time::Duration as Span;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};

use super::accept::{BEGUN_PER_TURN, Pending, Shares, Verdict};
use super::config::{self, Config, Options};
use super::connection::Connection;
use super::counters::Counters;
use super::dial::{self, DialError};
use super::inbox::{Inbox, Request};
use super::marks::Marks;
use super::peers::{BegunBy, Handshake, Peers, Stage};
use super::sizes::Sizes;
use super::socket::Socket;
use super::udp::{Datagram, Udp};
use crate::close::{CloseCode, ToVarInt as _};
use crate::lobby::Host;
use crate::lot::Lot;

/// Batches of datagrams that one turn takes.
const BATCHES_PER_TURN: usize = 8;

/// Buffers that one connection sends in one turn.
const BUFFERS_PER_TURN: usize = 64;

/// Connections of lots that one turn writes to: a millisecond or two, as acknowledgements wait meanwhile.
const STEPS_PER_TURN: usize = 64;

/// How often one turn polls a driver that its own writes have woken.
const POLLS_PER_TURN: usize = 4;

/// Interval at which pending handshakes and silent peers are looked for.
const SWEEP_EVERY: Duration = Duration::from_millis(250);

/// The loop's state.
pub(super) struct Turn<U> {
    options: Options,
    config: Config,
    endpoint: Endpoint,
    socket: U,
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
    /// The lot that is being done.
    lot: Option<Box<dyn Lot>>,
    counters: Arc<Counters>,
    accepted: mpsc::UnboundedSender<Connection>,
    /// The host's run-time, for the drivers.
    runtime: Option<Handle>,
}

/// What is about to be sent.
struct Outgoing {
    arena: Vec<u8>,
    /// The buffer that the kernel had no room for.
    blocked: Option<(Transmit, Vec<u8>)>,
}

impl<U: Udp> Turn<U> {
    pub(super) fn new(
        options: Options,
        config: Config,
        socket: U,
        (marks, inbox): (Arc<Marks>, Arc<Inbox>),
        counters: Arc<Counters>,
        accepted: mpsc::UnboundedSender<Connection>,
    ) -> Self {
        let endpoint = Endpoint::new(Arc::new(config::endpoint()), Some(config.server()), true);
        Self {
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
            swept: (options.moment)(),
            marks,
            inbox,
            lot: None,
            options,
            counters,
            accepted,
            runtime: Handle::try_current().ok(),
        }
    }

    /// Returns the port.
    pub(super) const fn port(&mut self) -> &mut U {
        &mut self.socket
    }

    /// Returns what is held.
    pub(super) fn sizes(&self) -> Sizes {
        let (shares, most_of_a_key) = self.shares.count();
        let (slots, timers) = self.peers.count();
        Sizes {
            slots,
            shares,
            most_of_a_key,
            pending: self.pending.count(),
            timers,
        }
    }

    /// Does one turn; returns whether another follows.
    pub(super) fn turn(&mut self) -> bool {
        self.counters.turns.add_one();
        let now = (self.options.moment)();
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
                Request::Abort => return false,
            }
        }
        self.begin_pending(now);
        while let Some(handle) = self.peers.pop_due(now) {
            self.peers.handle_due(handle, now);
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
        if !is_stopped {
            self.carry_lots();
        }
        self.mark_unfinished();
        !is_stopped
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

    /// Ends handshakes that take too long, and connections on which nothing is acknowledged.
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
}

impl Turn<Socket> {
    /// Turns until it is told to stop.
    pub(super) fn run(mut self) {
        // Drivers set timers and start tasks.
        let runtime = self.runtime.clone();
        let _entered = runtime.as_ref().map(Handle::enter);
        let around = self.options.around;
        let mut goes_on = true;
        while goes_on {
            self.wait();
            around(&mut || goes_on = self.turn());
        }
    }

    /// Waits for datagrams, room to send, a mark, a request or a timer.
    fn wait(&mut self) {
        let has_work = self.marks.doze()
            || self.lot.is_some()
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
}

impl<U> Drop for Turn<U> {
    /// Releases all that wait on the loop, also if it has panicked.
    fn drop(&mut self) {
        // Its end, and that of those that wait, writes to connections that send no more.
        self.lot = None;
        self.inbox.close();
        for handle in self.peers.handles() {
            if let Some(Stage::Up(shared)) = self.peers.get(handle).map(|slot| &slot.stage) {
                let shared = shared.clone();
                shared.end(ConnectionError::LocallyClosed, |_| {});
                shared.gone.send_replace(true);
                shared.driver.close(self.runtime.as_ref());
            }
        }
    }
}

//! The loop without socket, thread and clock, for the fuzzer.
//!
//! *The idea.* The same turns, over a port in memory: its user decides what arrives, in which order,
//! and when. Time is the thread's own, and stands still until it is advanced. A peer is another such
//! loop; the user changes its datagrams on their way.
//!
//! *What it does not do.* It runs no driver of a link's sender: a link needs a run-time.

use std::cell::Cell;
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use noq_proto::{FourTuple, Transmit};
use thalweg_base::id::NodeId;
use tokio::sync::{mpsc, oneshot};

use super::config::{Config, Options};
use super::connection::Connection;
use super::counters::{Counters, EngineCounters};
use super::dial::DialError;
use super::inbox::{Inbox, Request};
use super::marks::Marks;
pub use super::sizes::Sizes;
use super::turn::Turn;
use super::udp::{Datagram, Sent, Udp};
use crate::admission::Admission;
use crate::clock::Clock;
use crate::identity::Identity;
use crate::lot::{Lot, LotSize, TakesLots};

/// Packets in one buffer to send.
const SEGMENTS: NonZeroUsize = NonZeroUsize::new(3).expect("it is not zero");

thread_local! {
    static NOW: Cell<Instant> = Cell::new(Instant::now());
}

/// Lets this thread's time pass.
pub fn advance(by: Duration) {
    NOW.set(NOW.get() + by);
}

/// An engine; its user is its network.
pub struct Bare {
    turn: Turn<Memory>,
    inbox: Arc<Inbox>,
    counters: Arc<Counters>,
    accepted: mpsc::UnboundedReceiver<Connection>,
}

/// A dial that has not ended.
pub struct Dialling(oneshot::Receiver<Result<Connection, DialError>>);

/// A port in memory.
struct Memory {
    local: SocketAddr,
    incoming: VecDeque<(SocketAddr, Vec<u8>)>,
    outgoing: VecDeque<(SocketAddr, Vec<u8>)>,
    is_full: bool,
}

/// A lot that writes a stream to each of its connections.
struct Writing {
    connections: Vec<Connection>,
    next: usize,
    payload: Bytes,
}

impl Bare {
    /// Returns an engine at an address.
    ///
    /// Fails   where there are no engines
    pub fn new(identity: Identity, admission: Admission, local: SocketAddr) -> io::Result<Self> {
        let mut options = Options::new(identity, admission, local, Clock::start());
        options.moment = || NOW.get();
        let config = Config::new(&options).map_err(io::Error::other)?;
        let port = Memory {
            local,
            incoming: VecDeque::new(),
            outgoing: VecDeque::new(),
            is_full: false,
        };
        let marks = Arc::new(Marks::new()?);
        let inbox = Arc::new(Inbox::new(marks.clone()));
        let counters = Arc::<Counters>::default();
        let (accepting, accepted) = mpsc::unbounded_channel();
        let asked = (marks, inbox.clone());
        let turn = Turn::new(options, config, port, asked, counters.clone(), accepting);
        Ok(Self {
            turn,
            inbox,
            counters,
            accepted,
        })
    }

    /// Has a datagram arrive before the next turn.
    pub fn handle_datagram(&mut self, from: SocketAddr, bytes: Vec<u8>) {
        self.turn.port().incoming.push_back((from, bytes));
    }

    /// Sets whether the port's buffer to send is full.
    pub fn set_full(&mut self, is_full: bool) {
        self.turn.port().is_full = is_full;
    }

    /// Begins to dial; the next turn sends.
    pub fn dial(&mut self, peer: NodeId, address: SocketAddr) -> Dialling {
        let (reply, dialled) = oneshot::channel();
        self.inbox.push(Request::Dial {
            peer,
            address,
            reply,
        });
        Dialling(dialled)
    }

    /// Hands over a lot: one stream with this payload for each of the connections.
    pub fn hand_over(&mut self, connections: Vec<Connection>, payload: Bytes) {
        let lot = Writing {
            connections,
            next: 0,
            payload,
        };
        // What comes back is done when it is dropped.
        drop(TakesLots::take(&*self.inbox, Box::new(lot)));
    }

    /// Does one turn.
    pub fn turn(&mut self) {
        self.turn.turn();
    }

    /// Returns the next datagram to send, and where to.
    pub fn poll_transmit(&mut self) -> Option<(SocketAddr, Vec<u8>)> {
        self.turn.port().outgoing.pop_front()
    }

    /// Returns the next connection that a peer has begun.
    pub fn accept(&mut self) -> Option<Connection> {
        self.accepted.try_recv().ok()
    }

    /// Returns the counters.
    pub fn counters(&self) -> EngineCounters {
        self.counters.read()
    }

    /// Returns what it holds.
    pub fn sizes(&mut self) -> Sizes {
        self.turn.sizes()
    }
}

impl Dialling {
    /// Returns the connection once it is there; an error if there will be none.
    pub fn poll(&mut self) -> Poll<Result<Connection, DialError>> {
        let future = std::pin::pin!(&mut self.0);
        let polled = future.poll(&mut Context::from_waker(Waker::noop()));
        polled.map(|dialled| dialled.unwrap_or(Err(DialError::Stopped)))
    }
}

impl Lot for Writing {
    fn size(&self) -> LotSize {
        LotSize {
            adus: self.connections.len(),
            bytes: self.payload.len(),
        }
    }

    fn step(&mut self) -> bool {
        if let Some(connection) = self.connections.get(self.next) {
            self.next += 1;
            if let Some(mut writer) = connection.open_writer(0) {
                let mut pieces = [self.payload.clone()];
                let mut context = Context::from_waker(Waker::noop());
                // What does not fit at once is not written.
                let _ = std::pin::pin!(writer.write_all(&mut pieces)).poll(&mut context);
                let _ = std::pin::pin!(writer.finish()).poll(&mut context);
            }
        }
        self.next < self.connections.len()
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        while self.step() {}
    }
}

impl Udp for Memory {
    fn local(&self) -> io::Result<SocketAddr> {
        Ok(self.local)
    }

    fn segments(&self) -> NonZeroUsize {
        SEGMENTS
    }

    fn receive(&mut self, _pool: &mut BytesMut, mut sink: impl FnMut(Datagram)) -> bool {
        if let Some((from, bytes)) = self.incoming.pop_front() {
            let path = FourTuple::from_remote(from);
            sink((path, None, BytesMut::from(&bytes[..])));
        }
        !self.incoming.is_empty()
    }

    fn send(&mut self, transmit: &Transmit, contents: &[u8]) -> Sent {
        if self.is_full {
            return Sent::Full;
        }
        let contents = &contents[..transmit.size];
        let length = transmit.segment_size.unwrap_or(transmit.size).max(1);
        let packets = contents.chunks(length);
        let to = transmit.destination;
        self.outgoing
            .extend(packets.map(|packet| (to, packet.to_vec())));
        Sent::Yes
    }
}

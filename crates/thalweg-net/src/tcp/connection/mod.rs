//! One session as the application sees it: streams and messages both ways, and their events.
//!
//! *The idea.* The session has one lock, held while it decides and never while a task waits. A
//! caller that changes the session wakes the carrier that has something to send; the session's
//! events are dispatched at once: to the stream's reader, to the task that accepts streams, or to
//! [`Events`].
//!
//! *What it does not do.* It knows no ADUs. It orders writes by rank only: the outbox above does
//! the rest.

mod stream;

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use thalweg_base::id::NodeId;
use thalweg_base::time::{Duration, Instant};
use thalweg_base::units::DataSize;
use thalweg_link::hop::sender::PathRate;
use thalweg_link::hop::{CloseCode, DownCause, StreamCode};
use thalweg_link::tcp_mux::{
    Carried, CarrierNumber, DatagramError, Session, StreamNumber, Written,
};
use tokio::sync::mpsc::UnboundedReceiver;

use super::clear::ClearLoop;
use super::events::Events;
use super::shared::{End, Shared};
use super::traffic::{LineTraffic, Traffic};
use crate::clock::Clock;
use crate::lot::TakesLots;

pub use self::stream::{Arriving, WriteEnded, Writer};

/// A session with a peer; clones share it, and dropping the last closes it.
#[derive(Clone)]
pub struct Connection(Arc<Handle>);

struct Handle {
    shared: Arc<Shared>,
    /// Incoming streams, with the times at which they were opened.
    arrivals: tokio::sync::Mutex<UnboundedReceiver<(StreamNumber, Instant)>>,
}

/// Begins a session without a TCP connection; those that it gets are run by the loop, if there is one.
pub(super) fn begin(
    session: Session,
    peer: NodeId,
    clock: Clock,
    clear: Option<Arc<ClearLoop>>,
) -> (Arc<Shared>, Connection, Events) {
    let (shared, arrivals) = Shared::new(session, peer, clock, clear);
    let events = Events::new(shared.clone());
    let handle = Handle {
        shared: shared.clone(),
        arrivals: tokio::sync::Mutex::new(arrivals),
    };
    (shared, Connection(Arc::new(handle)), events)
}

impl Connection {
    /// Returns the peer's key, which it has proved.
    pub fn peer(&self) -> NodeId {
        self.0.shared.peer
    }

    /// Returns the next incoming stream; `None` once the session is over.
    pub async fn accept(&self) -> Option<Arriving> {
        let (stream, since) = self.0.arrivals.lock().await.recv().await?;
        let wake = self.0.shared.lock().readers.get(stream)?.clone();
        Some(Arriving::new(self.clone(), stream, since, wake))
    }

    /// Opens a stream for a writer that waits for room itself: its events are not among the
    /// [`Events`].
    pub fn open_writer(&self, rank: i32) -> Option<Writer> {
        let end = Arc::new(End::default());
        let stream = self.0.shared.act(|state| {
            let stream = state.session.open(rank)?;
            state.writers.insert(stream, end.clone());
            Some(stream)
        })?;
        Some(Writer::new(self.clone(), stream, end))
    }

    /// Returns the next datagram; `None` once the session is over. Each datagram wakes one task.
    pub async fn datagram(&self) -> Option<Bytes> {
        let shared = &self.0.shared;
        loop {
            let arrival = shared.datagrams.notified();
            if let Some(datagram) = shared.lock().session.poll_datagram() {
                return Some(datagram);
            }
            if shared.is_over() {
                return None;
            }
            arrival.await;
        }
    }

    /// Opens a stream; bytes of higher rank go first. Returns `None` while the peer's stream limit
    /// is reached.
    pub fn open(&self, rank: i32) -> Option<StreamNumber> {
        self.0.shared.act(|state| state.session.open(rank))
    }

    /// Writes bytes to a stream; takes from the front of `bytes` what there is room for.
    pub fn write(&self, stream: StreamNumber, bytes: &mut Bytes) -> Written {
        self.write_pieces(stream, std::slice::from_mut(bytes))
    }

    /// Like [`Connection::write`] with several pieces, which are sent together as far as there is
    /// room.
    pub fn write_pieces(&self, stream: StreamNumber, pieces: &mut [Bytes]) -> Written {
        self.0.shared.act(|state| {
            let mut written = pieces
                .iter_mut()
                .map(|piece| state.session.write(stream, piece));
            let cut_short = written.find(|written| *written != Written::All);
            cut_short.unwrap_or(Written::All)
        })
    }

    /// Finishes a stream; [`Event::Acknowledged`](thalweg_link::tcp_mux::Event::Acknowledged) follows
    /// when the peer has every byte.
    pub fn finish(&self, stream: StreamNumber) {
        self.0.shared.act(|state| state.session.finish(stream));
    }

    /// Gives up a stream: unsent bytes are dropped, and the peer discards its part.
    pub fn reset(&self, stream: StreamNumber, code: StreamCode) {
        self.0.shared.act(|state| state.session.reset(stream, code));
    }

    /// Sends a message once, ahead of all streams.
    ///
    /// Fails   returns it if it is too large, if too many earlier ones are queued, or if the
    ///         session is over
    pub fn send_datagram(&self, datagram: Bytes) -> Result<(), (DatagramError, Bytes)> {
        let shared = &self.0.shared;
        shared.act(|state| state.session.send_datagram(datagram))
    }

    /// Returns how much may be written now so that only little stays queued below the writer.
    ///
    /// If that is less than a packet, [`Event::Room`](thalweg_link::tcp_mux::Event::Room) follows when
    /// there is more.
    pub fn credit(&self) -> DataSize {
        let now = self.0.shared.clock.now();
        self.0.shared.lock().credit(now)
    }

    /// Returns the rate estimate of the active TCP connection.
    pub fn path_rate(&self) -> PathRate {
        self.0.shared.lock().path_rate()
    }

    /// Ends the session for this reason and drops unsent bytes.
    pub fn close(&self, code: CloseCode, reason: &str) {
        self.0.shared.close(code, reason);
    }

    /// Waits for the end of the session and returns the cause.
    pub async fn closed(&self) -> DownCause {
        let mut over = self.0.shared.over.subscribe();
        let cause = over.wait_for(Option::is_some).await;
        // The sender lives as long as this handle does.
        cause
            .ok()
            .and_then(|cause| cause.clone())
            .unwrap_or(DownCause::ByUs)
    }

    /// Runs the driver of a link's sender until it ends: in the loop that runs the session's carriers, or as
    /// a task.
    pub(crate) fn drive(&self, driver: impl Future<Output = ()> + Send + 'static) {
        match self.0.shared.clear() {
            Some(clear) => clear.drive(driver),
            None => drop(tokio::spawn(driver)),
        }
    }

    /// Returns the loop that takes lots for it, if one runs its carriers.
    pub(crate) fn takes_lots(&self) -> Option<&Arc<dyn TakesLots>> {
        self.0.shared.takes_lots()
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.0.shared
    }

    pub(super) fn forget_writer(&self, stream: StreamNumber) {
        self.0.shared.lock().writers.remove(stream);
    }

    /// Returns whether the session has ended, for whatever reason.
    pub fn is_over(&self) -> bool {
        self.0.shared.is_over()
    }

    /// Returns why the session has ended, if it has.
    pub fn end(&self) -> Option<DownCause> {
        self.0.shared.over.borrow().clone()
    }

    /// Waits until all carriers of a session that is over have sent their last bytes.
    pub async fn gone(&self) {
        let mut running = self.0.shared.running.subscribe();
        // The sender lives as long as this handle does.
        let _ = running.wait_for(|running| *running == 0).await;
    }

    /// Returns whether everything written, and not given up, has been acknowledged.
    pub fn is_settled(&self) -> bool {
        self.0.shared.lock().session.is_settled()
    }

    /// Returns the session's counters.
    pub fn carried(&self) -> Carried {
        self.0.shared.lock().session.carried()
    }

    /// Returns the smoothed time from sending to the peer's acknowledgement; zero before the first
    /// one.
    pub fn rtt(&self) -> Duration {
        self.0.shared.lock().session.rtt()
    }

    /// Returns the traffic of the session's TCP connections, and their state.
    pub fn traffic(&self) -> Traffic {
        let mut state = self.0.shared.lock();
        let mut traffic = state.past.clone();
        let active = state.session.active();
        for (number, slot) in state.carriers.iter_mut() {
            let is_active = active == Some(number);
            let known = slot.reading(is_active);
            slot.add_to(&mut traffic, known.as_ref());
            let known = known.map(|known| known.path);
            if let (true, Some(path)) = (is_active, known) {
                (traffic.rtt, traffic.window) = (path.rtt, path.window);
            }
            traffic.lines.push(LineTraffic {
                remote: slot.remote,
                is_active,
                rtt: known.map_or(Duration::ZERO, |path| path.rtt),
                sent: DataSize::from_bytes(slot.counts.sent()),
                received: DataSize::from_bytes(slot.counts.received()),
            });
        }
        if traffic.rtt == Duration::ZERO {
            traffic.rtt = state.session.rtt();
        }
        traffic
    }

    /// Returns the number of TCP connections, standbys included.
    pub fn carriers(&self) -> usize {
        self.0.shared.lock().session.carriers()
    }

    /// Returns the number of the active TCP connection.
    pub fn active(&self) -> Option<CarrierNumber> {
        self.0.shared.lock().session.active()
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Connection").field(&self.peer()).finish()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.close(CloseCode::Shutdown, "connection dropped");
    }
}

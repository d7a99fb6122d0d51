//! One connection as its link holds it.
//!
//! *The idea.* The same calls as on a session over TCP: streams and datagrams both ways, and an end
//! with a code and a reason. Calls that cannot proceed wait for the loop's notification.
//!
//! *What it does not do.* It sends no packet: the loop does.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use noq_proto::{ConnectionError, ConnectionStats, Dir, PathId, PathStats};
use thalweg_base::id::NodeId;
use thalweg_link::hop::CloseCode;
use thalweg_quic::Watch;
use tokio::sync::Notify;

use super::shared::Shared;
use super::stream::{Arriving, Writer};
use crate::lot::TakesLots;

/// A connection with a peer; clones share it, and dropping the last closes it.
#[derive(Clone)]
pub struct Connection(Arc<Handle>);

struct Handle(Arc<Shared>);

impl Connection {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self(Arc::new(Handle(shared)))
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.0.0
    }

    /// Returns the loop.
    pub(crate) fn takes_lots(&self) -> &Arc<dyn TakesLots> {
        &self.shared().takes_lots
    }

    /// Returns the peer's key, which it has proved.
    pub fn peer(&self) -> NodeId {
        self.shared().peer
    }

    /// Returns the peer's address.
    pub fn remote(&self) -> SocketAddr {
        self.shared().remote
    }

    /// Returns the next incoming stream; `None` once the connection is over.
    pub async fn accept(&self) -> Option<Arriving> {
        let shared = self.shared();
        loop {
            let arrival = shared.arrival.notified();
            let stream = {
                let mut state = shared.lock();
                let stream = state.quic.streams().accept(Dir::Uni);
                stream.map(|stream| {
                    let news = Arc::new(Notify::new());
                    state.readers.insert(stream, news.clone());
                    (stream, news)
                })
            };
            if let Some((stream, news)) = stream {
                return Some(Arriving::new(shared.clone(), stream, news));
            }
            if shared.is_over() {
                return None;
            }
            arrival.await;
        }
    }

    /// Opens a stream for a writer that waits for room itself; bytes of higher rank go first.
    /// Returns `None` while the peer's stream limit is reached.
    pub fn open_writer(&self, rank: i32) -> Option<Writer> {
        let shared = self.shared();
        let news = Arc::new(Notify::new());
        let mut state = shared.lock();
        let stream = state.quic.streams().open(Dir::Uni)?;
        // A stream that was just opened fails only with its connection.
        let _ = state.quic.send_stream(stream).set_priority(rank);
        state.writers.insert(stream, news.clone());
        drop(state);
        Some(Writer::new(shared.clone(), stream, news))
    }

    /// Returns the next datagram; `None` once the connection is over.
    pub async fn datagram(&self) -> Option<Bytes> {
        let shared = self.shared();
        loop {
            let arrival = shared.datagram.notified();
            if let Some(datagram) = shared.lock().quic.datagrams().recv() {
                return Some(datagram);
            }
            if shared.is_over() {
                return None;
            }
            arrival.await;
        }
    }

    /// Has the loop run the driver of the link's sender, until it ends by itself.
    ///
    /// Fails   panics outside a tokio run-time if the engine has ended (a caller's bug)
    pub(crate) fn drive(&self, driver: impl Future<Output = ()> + Send + 'static) {
        self.shared().drive(Box::pin(driver));
    }

    /// Closes the connection for this reason and drops unsent bytes.
    pub fn close(&self, code: CloseCode, reason: &str) {
        self.shared().close(code, reason);
    }

    /// Waits for the end of the connection and returns the cause.
    pub async fn closed(&self) -> ConnectionError {
        let mut over = self.shared().over.subscribe();
        let cause = over.wait_for(Option::is_some).await;
        // The sender lives as long as this handle does.
        let cause = cause.ok().and_then(|cause| cause.clone());
        cause.unwrap_or(ConnectionError::LocallyClosed)
    }

    /// Returns whether the connection has ended, for whatever reason.
    pub fn is_over(&self) -> bool {
        self.shared().is_over()
    }

    /// Returns why the connection has ended, if it has.
    pub fn end(&self) -> Option<ConnectionError> {
        self.shared().over.borrow().clone()
    }

    /// Waits until the close of a connection that is over has been sent.
    pub async fn gone(&self) {
        let mut gone = self.shared().gone.subscribe();
        // The sender lives as long as this handle does.
        let _ = gone.wait_for(|gone| *gone).await;
    }

    /// Returns the bytes that queued datagrams leave free.
    pub fn datagram_room(&self) -> usize {
        self.shared().lock().quic.datagrams().send_buffer_space()
    }

    /// Makes the peer acknowledge something.
    pub fn ping(&self) {
        self.shared().act(|state| state.quic.ping());
    }

    /// Returns the totals since the handshake, and those of its path.
    pub fn stats(&self) -> (ConnectionStats, PathStats) {
        let quic = &mut self.shared().lock().quic;
        (
            quic.stats(),
            quic.path_stats(PathId::ZERO).unwrap_or_default(),
        )
    }

    /// Returns the watch on the path.
    pub(super) fn watch(&self) -> Option<Arc<Watch>> {
        self.shared().lock().watch.clone()
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Connection").field(&self.peer()).finish()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.close(CloseCode::Shutdown, "connection dropped");
    }
}

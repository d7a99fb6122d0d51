//! A bounded set of connections that have not sent a request yet.
//!
//! *The idea.* Each connection is accepted at once. When too many have not sent a request, the
//! oldest of them is closed. So a program that sends its request right after it connects is served,
//! however many others stay idle.
//!
//! ```text
//! enter ─► place ─► request received: dropped
//!            └────► the room is full, and it is the oldest: revoked
//! ```
//!
//! *What it does not do.* It closes no connection; the holder of a revoked place does.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::sync::oneshot;

/// How long a connection may take after its place was revoked, since many may connect at once, each
/// with a request.
pub(crate) const REVOKE_GRACE: Duration = Duration::from_millis(200);

/// The places of waiting connections.
pub(crate) struct WaitingRoom {
    places: usize,
    /// The oldest first; dropping a sender revokes its place.
    taken: VecDeque<oneshot::Sender<()>>,
}

/// A place in the room, held for as long as the connection waits.
pub(crate) struct WaitingPlace(oneshot::Receiver<()>);

impl WaitingRoom {
    pub(crate) const fn new(places: usize) -> Self {
        Self {
            places,
            taken: VecDeque::new(),
        }
    }

    /// Returns a place; if none is free, revokes the oldest.
    pub(crate) fn enter(&mut self) -> WaitingPlace {
        if self.taken.len() >= self.places {
            self.taken.retain(|place| !place.is_closed());
        }
        while self.taken.len() >= self.places {
            self.taken.pop_front();
        }
        let (keep, place) = oneshot::channel();
        self.taken.push_back(keep);
        WaitingPlace(place)
    }
}

impl WaitingPlace {
    /// Waits until the place is revoked.
    pub(crate) async fn revoked(&mut self) {
        // Nothing is ever sent; the close of the channel is the signal.
        let _ = (&mut self.0).await;
    }
}

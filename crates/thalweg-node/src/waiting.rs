//! Connections that ask for nothing yet, so many at once.
//!
//! *The idea.* Whoever connects is let in at once, and of those that have not said what they want the oldest
//! leaves when there are too many. So a program that asks as soon as it has connected is served however many
//! others only dribble.
//!
//! ```text
//! enter ─► place ─► has asked: dropped
//!            └────► the room is full, and it is the oldest: wanted back
//! ```
//!
//! *What it does not do.* It closes no connection: whoever holds the place does, when it is wanted back.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::sync::oneshot;

/// How long a connection has whose place is wanted back, for many may come at once, each with its question.
pub(crate) const LAST_CHANCE: Duration = Duration::from_millis(200);

/// The places of connections that wait.
pub(crate) struct WaitingRoom {
    places: usize,
    /// The oldest first; dropped, its place is wanted back.
    taken: VecDeque<oneshot::Sender<()>>,
}

/// A place, for as long as it is held.
pub(crate) struct WaitingPlace(oneshot::Receiver<()>);

impl WaitingRoom {
    pub(crate) const fn new(places: usize) -> Self {
        Self {
            places,
            taken: VecDeque::new(),
        }
    }

    /// Gives a place; where there is none left, that of the connection that has waited for longest is wanted
    /// back.
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
    /// Waits until the place is wanted back.
    pub(crate) async fn wanted_back(&mut self) {
        // Nothing is ever sent.
        let _ = (&mut self.0).await;
    }
}

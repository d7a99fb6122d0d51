//! A TCP session as the link's sender needs it: no call waits.
//!
//! *The idea.* [`tcp::Sending`](crate::tcp::Sending) is the transport. The sender collects its
//! stream events whenever it sends, and the link's driver collects them when it is woken for an
//! urgent one. The session itself notifies of new credit.
//!
//! *What it does not do.* It decides nothing.

use std::task::Waker;

use crate::tcp::{Connection, Events, Sending};

/// One session and its open streams.
pub(super) struct Tcp {
    pub(super) sending: Sending,
    /// The waker of the link's driver.
    pub(super) waker: Waker,
}

impl Tcp {
    pub(super) fn new(connection: Connection, events: Events) -> Self {
        Self {
            sending: Sending::new(connection, events),
            waker: Waker::noop().clone(),
        }
    }
}

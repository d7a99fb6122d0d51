//! A TCP session, as the sender above it wants it: nothing here waits.
//!
//! *The idea.* [`tcp::Sending`](crate::tcp::Sending) is the transport; what happens to its streams is taken whenever something is
//! sent, and by the link's driver, which is woken for what cannot wait. The session itself says when there is credit again.
//!
//! *What it does not do.* It decides nothing.

use std::task::Waker;

use crate::tcp::{Connection, Events, Sending};

/// One session, with the streams that are open on it.
pub(super) struct Tcp {
    pub(super) sending: Sending,
    /// The driver's.
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

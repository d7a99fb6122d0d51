//! A connection of the engine's as the link's sender needs it: no call waits.
//!
//! *The idea.* [`engine::Sending`](crate::engine::Sending) is the transport; the engine's loop sends
//! what the sender writes. Its one path has one watch, which wakes the driver when there is credit.
//!
//! *What it does not do.* It decides nothing.

use std::task::Waker;

use thalweg_base::time::Instant;
use thalweg_quic::Watch;

use super::memory::PeerMemory;
use crate::engine::{Connection, Sending};

/// One connection and its open streams.
pub(super) struct Direct {
    pub(super) sending: Sending,
    /// The waker of the link's driver.
    pub(super) waker: Waker,
}

impl Direct {
    pub(super) fn new(now: Instant, connection: Connection, memory: &PeerMemory) -> Self {
        let sending = Sending::new(connection);
        if let Some((watch, carried)) = sending.watch().zip(memory.recall(now)) {
            watch.recall(carried);
        }
        Self {
            sending,
            waker: Waker::noop().clone(),
        }
    }

    /// Records what the path carries.
    pub(super) fn keep(&self, now: Instant, memory: &PeerMemory) {
        if let Some(carried) = self.sending.watch().and_then(Watch::to_keep) {
            memory.keep(now, carried);
        }
    }

    /// Registers the driver for more credit; returns whether there is some by now.
    pub(super) fn register(&self) -> bool {
        let Some(watch) = self.sending.watch() else {
            return false;
        };
        watch.register(&self.waker);
        watch.is_open()
    }
}

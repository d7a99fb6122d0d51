//! What an engine refused or ended, and how busy its loop is.

use std::sync::atomic::{AtomicU64, Ordering};

/// The counters of an engine since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EngineCounters {
    /// Turns of the loop.
    pub turns: u64,
    /// Datagrams received.
    pub datagrams: u64,
    /// Datagrams that belong to no connection and begin none.
    pub stray: u64,
    /// Handshakes that were sent back for proof of their address (RFC 9000 §8.1.2).
    pub retries: u64,
    /// Handshakes that were ignored because too many were pending.
    pub crowded_out: u64,
    /// Handshakes that failed, or were not complete in time.
    pub unfinished: u64,
    /// Connections closed because the key is not admitted.
    pub not_admitted: u64,
    /// Connections closed because the engine, or the peer's share of it, is full.
    pub overload: u64,
    /// Connections ended because the peer acknowledged nothing for too long.
    pub unacknowledged: u64,
    /// Packets that the system did not send.
    pub unsent: u64,
}

/// The loop's own counters.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) turns: Counter,
    pub(super) datagrams: Counter,
    pub(super) stray: Counter,
    pub(super) retries: Counter,
    pub(super) crowded_out: Counter,
    pub(super) unfinished: Counter,
    pub(super) not_admitted: Counter,
    pub(super) overload: Counter,
    pub(super) unacknowledged: Counter,
    pub(super) unsent: Counter,
}

#[derive(Debug, Default)]
pub(super) struct Counter(AtomicU64);

impl Counters {
    pub(super) fn read(&self) -> EngineCounters {
        EngineCounters {
            turns: self.turns.get(),
            datagrams: self.datagrams.get(),
            stray: self.stray.get(),
            retries: self.retries.get(),
            crowded_out: self.crowded_out.get(),
            unfinished: self.unfinished.get(),
            not_admitted: self.not_admitted.get(),
            overload: self.overload.get(),
            unacknowledged: self.unacknowledged.get(),
            unsent: self.unsent.get(),
        }
    }
}

impl Counter {
    pub(super) fn add_one(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

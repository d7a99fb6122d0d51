//! A host's processor: how long it copies, and what waits in its sockets meanwhile.
//!
//! *The idea.* Each copy of an ADU that is handed to a link takes the node's `copy_time`. A host that
//! copies does nothing else: what its links send leaves when it is done, timers wait, and datagrams stay
//! in its sockets. When it is done it reads all of them, and what they cause is its next *round*, as in
//! [`thalweg_dataplane::relay::lag`].
//!
//! ```text
//!  copies of a round │ time ─► busy: nothing is read or sent │ all that waits is read: the next round
//! ```
//!
//! *What it does not do.* A host without a `copy_time` is never busy, so nothing of its course changes.
//! Receiving, planning and ciphers take no time.

use std::collections::VecDeque;

use thalweg_base::time::{Duration, Instant};

use super::Parcel;

/// Datagrams that wait in the sockets of a busy or frozen host: about Linux's default for a UDP socket.
const SOCKET_DATAGRAMS_MAX: usize = 256;

/// A host's processor.
#[derive(Debug)]
pub(super) struct Processor {
    copy_time: Duration,
    /// Until when it copies; set until the host goes on.
    busy_until: Option<Instant>,
}

/// Datagrams that wait to be read, with their sender.
#[derive(Debug, Default)]
pub(super) struct Sockets(VecDeque<(usize, Parcel)>);

impl Processor {
    pub(super) const fn new(copy_time: Duration) -> Self {
        Self {
            copy_time,
            busy_until: None,
        }
    }

    /// Returns until when it copies; `None` if it is idle.
    pub(super) const fn busy_until(&self) -> Option<Instant> {
        self.busy_until
    }

    /// Adds copies to what it does.
    pub(super) fn copy(&mut self, copies: u64, now: Instant) {
        let time = self.copy_time.as_nanos().saturating_mul(copies);
        if time > 0 {
            let begin = self.busy_until.unwrap_or(now);
            self.busy_until = Some(begin + Duration::from_nanos(time));
        }
    }

    /// Lets it go on if it is done by now; returns whether it has just ended copying.
    pub(super) fn finish(&mut self, now: Instant) -> bool {
        self.busy_until.take_if(|until| *until <= now).is_some()
    }
}

impl Sockets {
    /// Keeps a datagram, if there is room.
    pub(super) fn keep(&mut self, from: usize, parcel: Parcel) {
        if self.0.len() < SOCKET_DATAGRAMS_MAX {
            self.0.push_back((from, parcel));
        }
    }

    /// Takes the datagrams that wait, the oldest first.
    pub(super) fn take(&mut self) -> VecDeque<(usize, Parcel)> {
        std::mem::take(&mut self.0)
    }
}

//! The end of a stream for a subscriber that takes ADUs in order of arrival.
//!
//! *The idea.* A subscriber in sequence gets the end when nothing missing before it is worth
//! waiting for. In order of arrival, the wait is the same: the headers alone go through a
//! [`Resequencer`] of their own. In a stream with repair, nothing is resent unless its sink asks,
//! and the sink knows what it lacks; so the wait is as short as if each ADU were sent once.
//!
//! *What it does not do.* It outputs no ADU and counts none: an ADU that arrives after its place
//! was given up is still of use here.
//!
//! *Sources.* docs/reference/protocol.md §7.

use bytes::Bytes;
use thalweg_base::adu::{Adu, Flags, Header};
use thalweg_base::needs::Reliability;
use thalweg_base::time::Instant;

use super::Resequencer;

/// Detects when the end of a stream is due.
#[derive(Debug, Default)]
pub struct Ending {
    headers: Resequencer,
    has_arrived: bool,
}

impl Ending {
    /// Handles an ADU with this much payload, of a stream with this reliability.
    ///
    /// Cost    O(log waiting); a header for each ADU that waits behind a gap
    pub fn handle_adu(
        &mut self,
        header: Header,
        payload_bytes: usize,
        reliability: Reliability,
        now: Instant,
    ) {
        self.poll(now);
        let is_resent = match reliability {
            Reliability::UntilDeadline | Reliability::Full => true,
            Reliability::None | Reliability::Repaired => false,
        };
        let adu = Adu {
            header,
            payload: Bytes::new(),
        };
        self.headers
            .handle_sized((adu, payload_bytes), is_resent, now);
    }

    /// Returns whether the end has arrived, and nothing missing before it is worth waiting for.
    pub fn poll(&mut self, now: Instant) -> bool {
        while let Some(adu) = self.headers.poll_adu(now) {
            self.has_arrived |= adu.header.flags.contains(Flags::END);
        }
        self.has_arrived
    }

    /// Returns when that may change without an arrival; `NEVER` if nothing waits.
    pub fn poll_timeout(&self) -> Instant {
        self.headers.poll_timeout()
    }
}

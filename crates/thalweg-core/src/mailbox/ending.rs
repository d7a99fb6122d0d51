//! When a stream is at its end for one who takes its ADUs as they come.
//!
//! *The idea.* One who has them in sequence is given the end when nothing that is missing before it is worth waiting for. Who takes
//! them as they come waits for as long: their headers alone go through a [`Resequencer`] of his own. Of a stream that sinks have
//! repaired nothing comes again that they do not ask for, and who asks knows what he lacks: it is waited for as if it were sent once.
//!
//! *What it does not do.* It gives out no ADU, and counts none: also what comes after its place was given up is worth having here.
//!
//! *Sources.* docs/protocol.md §7.

use bytes::Bytes;

use super::Resequencer;
use crate::adu::{Adu, Flags, Header};
use crate::needs::Reliability;
use crate::time::Instant;

/// Finds out when the end of a stream has its turn.
#[derive(Debug, Default)]
pub struct Ending {
    headers: Resequencer,
    has_come: bool,
}

impl Ending {
    /// Takes in that an ADU with so much payload has come, of a stream of this reliability.
    ///
    /// Cost    O(log waiting); a header for each that waits behind a gap
    pub fn handle_adu(
        &mut self,
        header: Header,
        payload_bytes: usize,
        reliability: Reliability,
        now: Instant,
    ) {
        self.poll(now);
        let is_sent_again = match reliability {
            Reliability::UntilDeadline | Reliability::Full => true,
            Reliability::None | Reliability::Repaired => false,
        };
        let adu = Adu {
            header,
            payload: Bytes::new(),
        };
        self.headers
            .handle_sized((adu, payload_bytes), is_sent_again, now);
    }

    /// Returns whether the end has come, and nothing that is missing before it is worth waiting for.
    pub fn poll(&mut self, now: Instant) -> bool {
        while let Some(adu) = self.headers.poll_adu(now) {
            self.has_come |= adu.header.flags.contains(Flags::END);
        }
        self.has_come
    }

    /// Returns when that may be so though nothing comes; `NEVER` if nothing waits.
    pub fn poll_timeout(&self) -> Instant {
        self.headers.poll_timeout()
    }
}

//! A path that is there again: what it carried before an outage.
//!
//! *The idea.* Where nothing arrives for long, QUIC speaks of persistent congestion, and two packets are left of the window (RFC 9002
//! §7.6). That is right where others have filled the path. But a line that was cut and is back carries what it did, and the link over it
//! may have been idle since: who comes back to it at the old rate would wait for four or five round trips until the window is again
//! what he needs. So the window is remembered, and if what arrives afterwards takes the round trip that the path had without a queue,
//! it is the same path, and empty: the window is again what it was, but no more than was tried of it, or half of it. It leaves paced, and what
//! it meets is seen as in any start.
//!
//! So with what an earlier connection over the path has left (`memory`).
//!
//! *What it does not do.* It takes no path for the same that has become longer or shorter, or on which a queue stands.
//!
//! *Sources.* draft-ietf-tsvwg-careful-resume (the round trip is confirmed first, and no more than what was measured is sent).

use super::{ACK_WAIT_MAX, Carried, Controller};
use crate::time::Duration;
use crate::units::DataSize;

impl Controller {
    /// Remembers the window of a path on which nothing arrives any more.
    pub(super) fn remember(&mut self) {
        let before = self.before.map_or(DataSize::ZERO, |before| before.window);
        self.before = Some(Carried {
            window: DataSize::from_bytes(self.tried() as u64).max(before),
            rtt: self.delay.base(),
        });
    }

    /// Takes the window again that was remembered, if by this round trip the path is as it was and empty.
    pub(super) fn resume(&mut self, rtt: Duration) {
        if let Some(before) = self.before.filter(|before| self.is_as_long(before, rtt)) {
            self.before = None;
            self.set_window(self.window.max(before.window.as_bytes() as f64));
        }
    }

    /// Returns whether a path on which a packet took this long may be the one that was, without a queue.
    pub(super) fn is_as_long(&self, before: &Carried, rtt: Duration) -> bool {
        let usual = before.rtt + self.delay.slack() + self.waited.min(ACK_WAIT_MAX);
        let limit = self.quiet_limit();
        rtt.saturating_sub(usual) <= limit && before.rtt.saturating_sub(rtt) <= limit
    }

    /// Returns the window as far as it was tried, half of it at least.
    pub(super) fn tried(&self) -> f64 {
        let window = self.lasting_window();
        self.used().max(window / 2.0).min(window)
    }
}

//! A path that is there again: what it carried before an outage.
//!
//! *The idea.* Where nothing arrives for long, QUIC speaks of persistent congestion, and two packets are left of the window (RFC 9002
//! §7.6). That is right where others have filled the path. But a line that was cut and is back carries what it did, and the link over it
//! may have been idle since: who comes back to it at the old rate would wait for four or five round trips until the window is again
//! what he needs. So the window is remembered, and if what arrives afterwards takes the round trip that the path had without a queue,
//! it is the same path, and empty: the window is again what it was, but no more than was tried of it, or half of it. It leaves paced, and what
//! it meets is seen as in any start.
//!
//! *What it does not do.* It takes no path for the same that has become longer, or on which a queue stands.
//!
//! *Sources.* draft-ietf-tsvwg-careful-resume (the round trip is confirmed first, and no more than what was measured is sent).

use super::ledger::Sample;
use super::{ACK_WAIT_MAX, Controller};

impl Controller {
    /// Remembers the window of a path on which nothing arrives any more.
    pub(super) fn remember(&mut self) {
        let window = self.lasting_window();
        let tried = self.used().max(window / 2.0).min(window);
        self.before = self.before.max(tried);
    }

    /// Takes the window again that was remembered, if the path is as it was and empty.
    pub(super) fn resume(&mut self, sample: &Sample) {
        let usual = self.delay.base() + self.delay.slack() + self.waited.min(ACK_WAIT_MAX);
        if self.before > 0.0 && sample.rtt_most.saturating_sub(usual) <= self.quiet_limit() {
            let before = core::mem::take(&mut self.before);
            self.set_window(self.window.max(before));
        }
    }
}

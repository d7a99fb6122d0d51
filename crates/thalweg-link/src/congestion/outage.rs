//! The return of a path after an outage: restores the window it carried before.
//!
//! *The idea.* When nothing arrives for long, QUIC declares persistent congestion, which leaves a
//! window of two packets (RFC 9002 §7.6). That is right where other flows have filled the path. But
//! a line that was cut carries what it did before once it is back, and growing the window again
//! would take four or five round trips. So the window is remembered. If a packet sent afterwards
//! takes the base round trip of before, it is the same path, and empty: the window is restored as
//! far as it was validated, half of it at least. It leaves paced, and slow start's exits still
//! apply.
//!
//! The same holds for what an earlier connection over the path has left (`memory`).
//!
//! *What it does not do.* It restores nothing on a path that became longer or shorter, or on which
//! a queue stands.
//!
//! *Sources.* draft-ietf-tsvwg-careful-resume (confirm the round trip first; send no more than was
//! measured).

use thalweg_base::time::Duration;
use thalweg_base::units::DataSize;

use super::{ACK_DELAY_MAX, Carried, Controller};

impl Controller {
    /// Remembers the window of a path in persistent congestion.
    pub(super) fn remember(&mut self) {
        let before = self
            .before_outage
            .map_or(DataSize::ZERO, |before| before.window);
        // The larger of both: repeated timeouts within one outage must not shrink the memory.
        self.before_outage = Some(Carried {
            window: DataSize::from_bytes(self.validated_window() as u64).max(before),
            rtt: self.delay.base(),
        });
    }

    /// Restores the remembered window, if this round trip shows the same path without a queue.
    pub(super) fn resume(&mut self, rtt: Duration) {
        if let Some(before) = self
            .before_outage
            .filter(|before| self.is_as_long(before, rtt))
        {
            self.before_outage = None;
            self.set_window(self.window.max(before.window.as_bytes() as f64));
        }
    }

    /// Returns whether this round trip may be that of the remembered path, without a queue.
    pub(super) fn is_as_long(&self, before: &Carried, rtt: Duration) -> bool {
        let usual = before.rtt + self.delay.slack() + self.ack_delay.min(ACK_DELAY_MAX);
        let limit = self.quiet_limit();
        // A shorter path is another path, too.
        rtt.saturating_sub(usual) <= limit && before.rtt.saturating_sub(rtt) <= limit
    }

    /// Returns the window as far as it was validated by bytes in flight, half of it at least (cf.
    /// RFC 7661).
    pub(super) fn validated_window(&self) -> f64 {
        let window = self.window_after_drain();
        self.peak_in_flight().max(window / 2.0).min(window)
    }
}

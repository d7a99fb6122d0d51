//! When to leave a connection for a standby.
//!
//! *The idea.* A connection has stalled if bytes are outstanding on it and no acknowledgement made
//! progress for two round trips, or if the kernel's retransmission timer for the oldest segment ran
//! out twice in a row. Then a standby takes over; but not again soon, for a sender that changes
//! whenever it meets a loss has no congestion control.
//!
//! Where the kernel can be asked, it tells two silences apart. While the peer's kernel acknowledges
//! without retransmissions, the connection works and the peer is busy: another connection leads to
//! the same peer, and costs it a handshake besides. So the wait is longer then; but bounded, for a
//! middlebox may acknowledge in the peer's name. A lossy line is acknowledged too, a little at a
//! time: it gets no longer wait.
//!
//! A busy peer gets no handshake afterwards either: the connection that took over stays without a
//! standby for a while. A peer with hundreds of neighbours that is behind by a second would
//! otherwise spend its time on their handshakes and fall behind further.
//!
//! ```text
//! stalled:  outstanding > 0  and  now − last progress ≥ max(2·RTT, 200 ms)      or  timeouts ≥ 2
//!           and the kernel saw no progress, or retransmitted, or now − last progress ≥ max(2·RTT, 1 s)
//! allowed:  now ≥ last fail-over + interval        interval: 1 s, doubled up to 16 s if soon repeated
//! dialled:  now ≥ last fail-over from a busy peer + rest        rest: 16 s, doubled up to 128 s likewise
//! ```
//!
//! *What it does not do.* It moves nothing: [`super::session`] resends. A connection that is closed
//! or reset is left at once, without asking here: no fairness is at stake.
//!
//! *Sources.* PL-13, PL-15; spec 3(d); RFC 6298.

#[cfg(test)]
mod tests;

use thalweg_base::time::{Duration, Instant};
use thalweg_base::units::DataSize;

use super::kernel::KernelPath;
use super::settings::{
    FAILOVER_INTERVAL_MAX, FAILOVER_INTERVAL_MIN, STALL_ACKNOWLEDGED, STALL_MIN, STALL_UNKNOWN,
    STANDBY_REST_MAX, STANDBY_REST_MIN,
};

/// Consecutive retransmission timeouts that are a stall by themselves.
const TIMEOUTS: u32 = 2;

/// Watches the active connection for stalls.
#[derive(Clone, Debug, Default)]
pub struct Failover {
    /// The last progress, or when bytes became outstanding; `None` while none are.
    waiting_since: Option<Instant>,
    /// The kernel's last state during this wait.
    kernel: Option<KernelSample>,
    /// Whether the kernel was asked, or its time had come, during this wait.
    is_asked: bool,
    /// When the peer's kernel was last seen to make progress, or to have all, during this wait.
    kernel_progress: Option<Instant>,
    /// No fail-over for a stall until this ends.
    switch_pause: Pause,
    /// No standby is dialled until this ends.
    dial_pause: Pause,
    count: u64,
    held_back: u64,
    is_hold_counted: bool,
}

/// A back-off: twice as long as the last one, up to a maximum, if it begins within the last one's
/// length after its end.
#[derive(Clone, Copy, Debug, Default)]
struct Pause {
    until: Instant,
    length: Duration,
}

/// The part of the kernel's state that shows progress.
#[derive(Clone, Copy, Debug)]
struct KernelSample {
    /// Bytes that the peer's kernel has acknowledged.
    acknowledged: DataSize,
    /// Segments retransmitted.
    segments_again: u64,
}

/// The verdict on the active connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It works.
    Steady,
    /// It has stalled, but there is no standby, or the last fail-over is too recent.
    Held,
    /// A standby is to take over.
    Switch,
}

impl Pause {
    fn begin(&mut self, now: Instant, least: Duration, most: Duration) {
        // Unless it was quiet for as long as the last pause, the next is twice as long.
        let is_soon = now < self.until + self.length;
        self.length = if is_soon {
            (self.length + self.length).min(most)
        } else {
            least
        };
        self.until = now + self.length;
    }

    fn end(&mut self, now: Instant) {
        self.until = self.until.min(now);
    }
}

impl Failover {
    /// Handles that bytes were handed to the connection.
    pub fn handle_sent(&mut self, now: Instant) {
        self.waiting_since.get_or_insert(now);
    }

    /// Handles progress, and whether bytes are still outstanding.
    pub fn handle_progress(&mut self, now: Instant, is_outstanding: bool) {
        self.wait(is_outstanding.then_some(now));
    }

    /// Handles the kernel's state.
    ///
    /// A state from before the wait began proves nothing about it.
    pub fn handle_kernel(&mut self, path: &KernelPath, now: Instant) {
        if self.waiting_since.is_none() {
            return;
        }
        let sample = KernelSample {
            acknowledged: path.acknowledged,
            segments_again: path.segments_again,
        };
        let carries = |before: KernelSample| {
            before.acknowledged < sample.acknowledged
                && before.segments_again == sample.segments_again
        };
        // Progress is more bytes acknowledged without a retransmission, or nothing left to acknowledge.
        let is_all = path.in_flight + path.unsent == DataSize::ZERO;
        if is_all || self.kernel.is_some_and(carries) {
            self.kernel_progress = Some(now);
        }
        (self.kernel, self.is_asked) = (Some(sample), true);
    }

    /// Returns whether the kernel is to be asked before the next verdict.
    pub fn wants_kernel(&self, now: Instant, rtt: Duration) -> bool {
        let asks = |since| {
            if self.is_asked {
                self.stalls_at(since, rtt)
            } else {
                since + first_query(rtt)
            }
        };
        self.waiting_since.is_some_and(|since| asks(since) <= now)
    }

    /// Handles that another connection became the active one, by this end's choice or the peer's.
    pub fn handle_switched(&mut self, now: Instant) {
        self.switch_pause
            .begin(now, FAILOVER_INTERVAL_MIN, FAILOVER_INTERVAL_MAX);
        self.count += 1;
        self.wait(None);
    }

    /// Returns when a standby may be dialled.
    pub const fn dial_at(&self) -> Instant {
        self.dial_pause.until
    }

    /// Returns the verdict now; a stall without a remedy is counted once.
    ///
    /// `rtt` is zero before the first sample.
    pub fn judge(
        &mut self,
        now: Instant,
        rtt: Duration,
        timeouts: u32,
        has_standby: bool,
    ) -> Verdict {
        let Some(since) = self.waiting_since else {
            return Verdict::Steady;
        };
        // A kernel that was not asked in time is not waited for.
        self.is_asked |= since + first_query(rtt) <= now;
        if now < self.stalls_at(since, rtt) && timeouts < TIMEOUTS {
            return Verdict::Steady;
        }
        let is_busy = self
            .kernel_progress
            .is_some_and(|kernel_progress| now < kernel_progress + patience(rtt));
        if !is_busy {
            // The line is at fault: another connection is wanted, however busy the peer was before.
            self.dial_pause.end(now);
        }
        if has_standby && now >= self.switch_pause.until {
            if is_busy {
                self.dial_pause
                    .begin(now, STANDBY_REST_MIN, STANDBY_REST_MAX);
            }
            return Verdict::Switch;
        }
        if !self.is_hold_counted {
            self.is_hold_counted = true;
            self.held_back += 1;
        }
        Verdict::Held
    }

    /// Returns when to judge again, if nothing happens before; earlier if the kernel can be asked
    /// and was not.
    pub fn poll_timeout(&self, rtt: Duration, has_standby: bool, has_kernel: bool) -> Instant {
        match self.waiting_since {
            Some(since) if has_kernel && !self.is_asked => since + first_query(rtt),
            Some(since) if !self.is_hold_counted => self.stalls_at(since, rtt),
            Some(since) if has_standby => self.stalls_at(since, rtt).max(self.switch_pause.until),
            _ => Instant::NEVER,
        }
    }

    /// Returns the number of fail-overs.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Returns the number of stalls without a fail-over.
    pub const fn held_back(&self) -> u64 {
        self.held_back
    }

    fn wait(&mut self, since: Option<Instant>) {
        self.waiting_since = since;
        (self.kernel, self.kernel_progress) = (None, None);
        (self.is_asked, self.is_hold_counted) = (false, false);
    }

    /// Returns when a wait since `since` counts as a stall, as far as is known.
    fn stalls_at(&self, since: Instant, rtt: Duration) -> Instant {
        let patience = patience(rtt);
        let kernel_progress = self.kernel_progress.unwrap_or(since);
        (kernel_progress + patience).min(since + patience.max(STALL_ACKNOWLEDGED))
    }
}

/// Returns how long a lack of progress is no stall.
fn patience(rtt: Duration) -> Duration {
    match rtt {
        Duration::ZERO => STALL_UNKNOWN,
        rtt => (rtt + rtt).max(STALL_MIN),
    }
}

/// Returns when the kernel is first asked, so that its later state can be compared with that.
fn first_query(rtt: Duration) -> Duration {
    Duration::from_nanos(patience(rtt).as_nanos() / 2)
}

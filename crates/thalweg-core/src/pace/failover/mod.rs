//! When to leave a connection for a standby.
//!
//! *The idea.* A connection has stalled if something is outstanding on it and no acknowledgement has made progress for two
//! round trips, or if the kernel's timer for the oldest segment has run out twice in a row. Then the standby takes over; but
//! not again soon, for a sender that changes whenever it meets a loss has no congestion control.
//!
//! Where the kernel is asked it tells apart two silences. While the peer's kernel acknowledges, and nothing has to be sent again,
//! the connection carries, and it is the peer that is busy: another connection would lead to the same peer, and give it a
//! handshake to reckon besides. Then the wait is longer; not endless, for something between the two may be acknowledging in the
//! peer's name. A line that loses much acknowledges too, a little at a time: it is not waited for.
//!
//! Nor does it get that handshake afterwards: the connection that took over stays without a standby for a while, for a peer
//! with hundreds of neighbours that is behind by a second would otherwise make their handshakes and nothing else, and be
//! behind by more.
//!
//! ```text
//! stalled:  outstanding > 0  and  now − last progress ≥ max(2·RTT, 200 ms)      or  timeouts ≥ 2
//!           and the kernel saw none either since then, or has sent again, or now − last progress ≥ max(2·RTT, 1 s)
//! allowed:  now ≥ last fail-over + interval        interval: 1 s, doubled up to 16 s while they follow one another
//! dialled:  now ≥ last fail-over from a busy peer + rest        rest: 16 s, doubled up to 128 s while they follow one another
//! ```
//!
//! *What it does not do.* It moves nothing: [`super::session`] sends again. A connection that is closed or reset is left at
//! once, without a question here: there is nothing to be fair on.
//!
//! *Sources.* PL-13, PL-15; spec 3(d); RFC 6298.

#[cfg(test)]
mod tests;

use super::kernel::KernelPath;
use super::settings::{
    FAILOVER_INTERVAL_MAX, FAILOVER_INTERVAL_MIN, STALL_ACKNOWLEDGED, STALL_MIN, STALL_UNKNOWN,
    STANDBY_REST_MAX, STANDBY_REST_MIN,
};
use crate::time::{Duration, Instant};
use crate::units::DataSize;

/// Timeouts in a row that are a stall by themselves.
const TIMEOUTS: u32 = 2;

/// Watches the active connection.
#[derive(Clone, Debug, Default)]
pub struct Failover {
    /// The last progress, or when something became outstanding; nothing while nothing is.
    waiting_since: Option<Instant>,
    /// What the kernel said last during this waiting.
    kernel: Option<Heard>,
    /// Whether the kernel was asked, or it was time to, during this waiting.
    is_asked: bool,
    /// When the peer's kernel was last seen to have more, or all, during this waiting.
    alive: Option<Instant>,
    /// While no other connection becomes the active one because of a stall.
    steady: Pause,
    /// While a busy peer is given no handshake.
    rest: Pause,
    count: u64,
    held_back: u64,
    is_held_told: bool,
}

/// A time that is twice as long as the one before, up to a most, if it begins as soon after that as that was long.
#[derive(Clone, Copy, Debug, Default)]
struct Pause {
    until: Instant,
    length: Duration,
}

/// What the kernel said.
#[derive(Clone, Copy, Debug)]
struct Heard {
    /// How much the peer's had.
    acknowledged: DataSize,
    /// How many segments had been sent again.
    segments_again: u64,
}

/// What to do about the active connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It carries.
    Steady,
    /// It has stalled, but there is no standby, or the last change was too short a time ago.
    Held,
    /// The standby is to take over.
    Switch,
}

impl Pause {
    fn begin(&mut self, now: Instant, least: Duration, most: Duration) {
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
    /// Takes in that something was handed to the connection.
    pub fn handle_sent(&mut self, now: Instant) {
        self.waiting_since.get_or_insert(now);
    }

    /// Takes in that more has arrived, and whether something is still outstanding.
    pub fn handle_progress(&mut self, now: Instant, is_outstanding: bool) {
        self.wait(is_outstanding.then_some(now));
    }

    /// Takes in what the kernel says.
    ///
    /// What it said before the waiting began proves nothing of it.
    pub fn handle_kernel(&mut self, path: &KernelPath, now: Instant) {
        if self.waiting_since.is_none() {
            return;
        }
        let heard = Heard {
            acknowledged: path.acknowledged,
            segments_again: path.segments_again,
        };
        let carries = |before: Heard| {
            before.acknowledged < heard.acknowledged
                && before.segments_again == heard.segments_again
        };
        let is_all = path.in_flight + path.unsent == DataSize::ZERO;
        if is_all || self.kernel.is_some_and(carries) {
            self.alive = Some(now);
        }
        (self.kernel, self.is_asked) = (Some(heard), true);
    }

    /// Returns whether the kernel is to be asked before this is judged.
    pub fn wants_kernel(&self, now: Instant, rtt: Duration) -> bool {
        let asks = |since| {
            if self.is_asked {
                self.stalls_at(since, rtt)
            } else {
                since + half(rtt)
            }
        };
        self.waiting_since.is_some_and(|since| asks(since) <= now)
    }

    /// Takes in that another connection is the active one, by our choice or the peer's.
    pub fn handle_switched(&mut self, now: Instant) {
        self.steady
            .begin(now, FAILOVER_INTERVAL_MIN, FAILOVER_INTERVAL_MAX);
        self.count += 1;
        self.wait(None);
    }

    /// Returns from when on a connection may be dialled to stand by.
    pub const fn dial_at(&self) -> Instant {
        self.rest.until
    }

    /// Returns what to do now; a stall about which nothing can be done is counted once.
    ///
    /// `rtt` is zero before a round trip was measured.
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
        self.is_asked |= since + half(rtt) <= now;
        if now < self.stalls_at(since, rtt) && timeouts < TIMEOUTS {
            return Verdict::Steady;
        }
        let is_busy = self.alive.is_some_and(|alive| now < alive + patience(rtt));
        if !is_busy {
            // It is another connection that is wanted then, whatever the peer had to do before.
            self.rest.end(now);
        }
        if has_standby && now >= self.steady.until {
            if is_busy {
                self.rest.begin(now, STANDBY_REST_MIN, STANDBY_REST_MAX);
            }
            return Verdict::Switch;
        }
        if !self.is_held_told {
            self.is_held_told = true;
            self.held_back += 1;
        }
        Verdict::Held
    }

    /// Returns when to judge again, if nothing happens before; earlier if the kernel can be asked and has not been.
    pub fn poll_timeout(&self, rtt: Duration, has_standby: bool, has_kernel: bool) -> Instant {
        match self.waiting_since {
            Some(since) if has_kernel && !self.is_asked => since + half(rtt),
            Some(since) if !self.is_held_told => self.stalls_at(since, rtt),
            Some(since) if has_standby => self.stalls_at(since, rtt).max(self.steady.until),
            _ => Instant::NEVER,
        }
    }

    /// Returns how often another connection became the active one.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Returns how many stalls had to be sat out.
    pub const fn held_back(&self) -> u64 {
        self.held_back
    }

    fn wait(&mut self, since: Option<Instant>) {
        self.waiting_since = since;
        (self.kernel, self.alive) = (None, None);
        (self.is_asked, self.is_held_told) = (false, false);
    }

    /// Returns when what waits since then has stalled, as far as is known.
    fn stalls_at(&self, since: Instant, rtt: Duration) -> Instant {
        let patience = patience(rtt);
        let alive = self.alive.unwrap_or(since);
        (alive + patience).min(since + patience.max(STALL_ACKNOWLEDGED))
    }
}

/// Returns how long no progress is no stall.
fn patience(rtt: Duration) -> Duration {
    match rtt {
        Duration::ZERO => STALL_UNKNOWN,
        rtt => (rtt + rtt).max(STALL_MIN),
    }
}

/// Returns when the kernel is asked first, so that what it says later can be held against that.
fn half(rtt: Duration) -> Duration {
    Duration::from_nanos(patience(rtt).as_nanos() / 2)
}

//! When to leave a connection for a standby.
//!
//! *The idea.* A connection has stalled if something is outstanding on it and no acknowledgement has made progress for two
//! round trips, or if the kernel's timer for the oldest segment has run out twice in a row. Then the standby takes over; but
//! not again soon, for a sender that changes whenever it meets a loss has no congestion control.
//!
//! ```text
//! stalled:  outstanding > 0  and  now − last progress ≥ max(2·RTT, 200 ms)      or  timeouts ≥ 2
//! allowed:  now ≥ last fail-over + interval        interval: 1 s, doubled up to 16 s while they follow one another
//! ```
//!
//! *What it does not do.* It moves nothing: [`super::session`] sends again. A connection that is closed or reset is left at
//! once, without a question here: there is nothing to be fair on.
//!
//! *Sources.* PL-13, PL-15; spec 3(d); RFC 6298.

#[cfg(test)]
mod tests;

use super::settings::{FAILOVER_INTERVAL_MAX, FAILOVER_INTERVAL_MIN, STALL_MIN, STALL_UNKNOWN};
use crate::time::{Duration, Instant};

/// Timeouts in a row that are a stall by themselves.
const TIMEOUTS: u32 = 2;

/// Watches the active connection.
#[derive(Clone, Debug)]
pub struct Failover {
    /// The last progress, or when something became outstanding; nothing while nothing is.
    waiting_since: Option<Instant>,
    last: Option<Instant>,
    interval: Duration,
    count: u64,
    held_back: u64,
    is_held_told: bool,
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

impl Default for Failover {
    fn default() -> Self {
        Self {
            waiting_since: None,
            last: None,
            interval: FAILOVER_INTERVAL_MIN,
            count: 0,
            held_back: 0,
            is_held_told: false,
        }
    }
}

impl Failover {
    /// Takes in that something was handed to the connection.
    pub fn handle_sent(&mut self, now: Instant) {
        self.waiting_since.get_or_insert(now);
    }

    /// Takes in that more has arrived, and whether something is still outstanding.
    pub fn handle_progress(&mut self, now: Instant, is_outstanding: bool) {
        self.waiting_since = is_outstanding.then_some(now);
        self.is_held_told = false;
    }

    /// Takes in that another connection is the active one, by our choice or the peer's.
    pub fn handle_switched(&mut self, now: Instant) {
        let is_soon = self.last.is_some_and(|last| {
            let calm = Duration::from_nanos(self.interval.as_nanos().saturating_mul(2));
            now.saturating_since(last) < calm
        });
        self.interval = if is_soon {
            let doubled = Duration::from_nanos(self.interval.as_nanos().saturating_mul(2));
            doubled.min(FAILOVER_INTERVAL_MAX)
        } else {
            FAILOVER_INTERVAL_MIN
        };
        self.last = Some(now);
        self.count += 1;
        self.waiting_since = None;
        self.is_held_told = false;
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
        if now < since + patience(rtt) && timeouts < TIMEOUTS {
            return Verdict::Steady;
        }
        if has_standby && now >= self.allowed() {
            return Verdict::Switch;
        }
        if !self.is_held_told {
            self.is_held_told = true;
            self.held_back += 1;
        }
        Verdict::Held
    }

    /// Returns when to judge again, if nothing happens before.
    pub fn poll_timeout(&self, rtt: Duration, has_standby: bool) -> Instant {
        match self.waiting_since {
            Some(since) if !self.is_held_told => since + patience(rtt),
            Some(since) if has_standby => (since + patience(rtt)).max(self.allowed()),
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

    fn allowed(&self) -> Instant {
        self.last.map_or(Instant::ZERO, |last| last + self.interval)
    }
}

/// Returns how long no progress is no stall.
fn patience(rtt: Duration) -> Duration {
    match rtt {
        Duration::ZERO => STALL_UNKNOWN,
        rtt => (rtt + rtt).max(STALL_MIN),
    }
}

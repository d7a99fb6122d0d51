//! The greatest rate of some rounds, the least round trip of some seconds.
//!
//! *The idea.* A rate shows what the line carries only if the line was asked for more: a sample of a sender that had
//! nothing else to send may raise the estimate and ages nothing. The least round trip is that of two half windows, so that
//! a longer path is believed after one of them at least and both at most.
//!
//! *What it does not do.* It decides nothing.
//!
//! *Sources.* As `congestion::estimate`, which counts in packets; draft-ietf-ccwg-bbr §4.1.2.

use crate::time::{Duration, Instant};
use crate::units::Bitrate;

/// Rounds in which a rate counts: half of BBR's ten, for what is given too much here waits in a socket and cannot be
/// overtaken.
const ROUNDS: usize = 5;

/// Half of the time in which a round trip counts; both together are BBR's ten seconds.
const HALF: Duration = Duration::from_secs(5);

/// The greatest rate of each of the last rounds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Filter {
    greatest: [Bitrate; ROUNDS],
}

/// The least round trip of late.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Least {
    present: Option<Duration>,
    before: Option<Duration>,
    since: Instant,
}

impl Filter {
    pub(super) fn handle_sample(&mut self, rate: Bitrate, is_limited: bool) {
        if is_limited || rate > self.greatest() {
            self.greatest[0] = self.greatest[0].max(rate);
        }
    }

    pub(super) fn handle_round(&mut self) {
        self.greatest.rotate_right(1);
        self.greatest[0] = Bitrate::ZERO;
    }

    pub(super) fn greatest(&self) -> Bitrate {
        self.greatest.into_iter().max().unwrap_or(Bitrate::ZERO)
    }
}

impl Least {
    pub(super) fn handle_sample(&mut self, now: Instant, rtt: Duration) {
        if now.saturating_since(self.since) >= HALF {
            self.before = self.present.take();
            self.since = now;
        }
        self.present = Some(self.present.map_or(rtt, |least| least.min(rtt)));
    }

    pub(super) fn get(&self) -> Duration {
        let least = self.present.into_iter().chain(self.before).min();
        least.unwrap_or(Duration::ZERO)
    }
}

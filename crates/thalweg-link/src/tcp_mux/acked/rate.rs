//! The greatest delivery rate of some rounds, and the minimum round trip of some seconds.
//!
//! *The idea.* A rate shows what the line carries only if the sender was limited by credit: any
//! other sample may raise the estimate and ages nothing. The minimum round trip covers two half
//! windows, so that a longer path is accepted after one of them at least and both at most.
//!
//! *What it does not do.* It decides nothing.
//!
//! *Sources.* As `congestion::estimate`, which counts in packets; draft-ietf-ccwg-bbr §4.1.2.

use thalweg_base::time::{Duration, Instant};
use thalweg_base::units::Bitrate;

/// Rounds for which a rate counts: half of BBR's ten, for surplus bytes wait in a socket here and
/// cannot be overtaken.
const ROUNDS: usize = 5;

/// Half of the window of the minimum round trip; both together are BBR's ten seconds.
const HALF: Duration = Duration::from_secs(5);

/// The greatest rate of each of the last rounds, the present one first.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MaxRate {
    rounds: [Bitrate; ROUNDS],
}

/// The recent minimum round trip.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MinRtt {
    present: Option<Duration>,
    before: Option<Duration>,
    since: Instant,
}

impl MaxRate {
    pub(super) fn handle_sample(&mut self, rate: Bitrate, is_limited: bool) {
        if is_limited || rate > self.max() {
            self.rounds[0] = self.rounds[0].max(rate);
        }
    }

    pub(super) fn handle_round(&mut self) {
        self.rounds.rotate_right(1);
        self.rounds[0] = Bitrate::ZERO;
    }

    pub(super) fn max(&self) -> Bitrate {
        self.rounds.into_iter().max().unwrap_or(Bitrate::ZERO)
    }
}

impl MinRtt {
    pub(super) fn handle_sample(&mut self, now: Instant, rtt: Duration) {
        // A new half window starts, and the old half before it is dropped.
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

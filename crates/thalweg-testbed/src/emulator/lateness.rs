//! The emulator's lateness: the instrument's own share of a latency.
//!
//! A histogram over powers of two of a microsecond: fine enough to distinguish 0.1 ms from 1 ms, and of
//! constant size.

use thalweg_base::time::Duration;

/// From under 1 µs to over 17 minutes.
const BUCKETS: usize = 31;

/// Histogram of packets by lateness.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lateness {
    buckets: [u64; BUCKETS],
    most: Duration,
}

impl Lateness {
    /// Counts a packet.
    pub fn handle_packet(&mut self, late: Duration) {
        let bits = u64::BITS - late.as_micros().leading_zeros();
        self.buckets[(bits as usize).min(BUCKETS - 1)] += 1;
        self.most = self.most.max(late);
    }

    /// Returns the maximum lateness.
    pub const fn most(&self) -> Duration {
        self.most
    }

    /// Returns an upper bound, at most twice the true value, of this quantile of the lateness; zero
    /// without packets.
    pub fn within(&self, share: f64) -> Duration {
        let all: u64 = self.buckets.iter().sum();
        let wanted = (all as f64 * share).ceil() as u64;
        let mut sum = 0;
        for (bits, count) in self.buckets.iter().enumerate() {
            sum += count;
            if sum >= wanted && all > 0 {
                return Duration::from_micros(1 << bits).min(self.most);
            }
        }
        Duration::ZERO
    }
}

#[cfg(test)]
mod tests {
    //! Proves that a quantile is an upper bound.

    use super::{Duration, Lateness};

    #[test]
    fn quantile_is_upper_bound() {
        let mut lateness = Lateness::default();
        assert_eq!(lateness.within(0.99), Duration::ZERO);
        for micros in 1..=1_000 {
            lateness.handle_packet(Duration::from_micros(micros));
        }
        assert_eq!(lateness.most(), Duration::from_millis(1));
        assert_eq!(lateness.within(0.5), Duration::from_micros(512));
        assert_eq!(lateness.within(1.0), Duration::from_millis(1));
    }
}

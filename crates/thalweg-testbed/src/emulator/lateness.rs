//! How late packets were let out: what of a latency is the instrument's own.
//!
//! *The idea.* A histogram over powers of two of a microsecond: enough to tell 0.1 ms from 1 ms, and it never grows.

use thalweg_core::time::Duration;

/// From under 1 µs to over 17 minutes.
const BUCKETS: usize = 31;

/// Counts of packets by how late they were.
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

    /// Returns the most that a packet was late.
    pub const fn most(&self) -> Duration {
        self.most
    }

    /// Returns a time within which this share of all packets was let out, up to twice what it was; zero of none.
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
    //! Proves that a share of the packets was as late as it says at most.

    use super::{Duration, Lateness};

    #[test]
    fn a_share_is_within_what_is_said() {
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

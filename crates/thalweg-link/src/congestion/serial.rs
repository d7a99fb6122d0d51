//! The rate of a slow line before it was ever full, from packets of two sizes.
//!
//! *The idea.* A packet that waits behind no other takes the path's delay plus its serialization
//! delay. So a large packet takes longer than a small one, and the difference gives the rate:
//!
//! ```text
//! rate = (large - small) / (round trip of the large - round trip of the small)
//! ```
//!
//! The small packet is the one of the shortest round trip. The large one is the MTU probe (RFC
//! 8899) that every connection sends once; packets of the handshake are answered by others as
//! large, and would show half of the rate. On a line on which a packet takes 50 ms the difference
//! is far above what clocks and jitter make of one sample. A faster line yields no estimate and
//! needs none: there the initial ten packets are gone in half a second.
//!
//! With this rate a flow caps its initial window. Ten packets are two seconds of a line of 64
//! kbit/s, and a live stream would wait behind them. The rate also tells a drain what the line
//! carries for a flow alone.
//!
//! *What it does not do.* It takes no samples once the window was full, for then packets wait for
//! each other.
//!
//! *Sources.* Bellovin, "A best-case network performance model" (1992), and Jacobson's pathchar:
//! the slope of the least round trips over packet sizes.

use thalweg_base::time::Duration;
use thalweg_base::units::{Bitrate, DataSize};

/// Least extra delay of a large packet for which an estimate is given.
const SLOW_MIN: Duration = Duration::from_millis(50);

/// The minimum packet size in bytes (RFC 9000 §14), above which a packet is large.
const PACKET_BYTES_MIN: u64 = 1_200;

/// A packet of at most this part of it is small.
const SMALL_PART: u64 = 3;

/// An estimate is refuted by a delivery rate above this multiple of it: the large packet may have
/// waited behind the two packets of a handshake, and other first messages.
const REFUTED: u64 = 4;

/// The shortest round trips of a small and of a large packet, with their sizes in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Serial {
    small: Option<(Duration, u64)>,
    large: Option<(Duration, u64)>,
}

impl Serial {
    /// Handles the round trip of a packet of this size.
    pub(super) fn handle_sample(&mut self, rtt: Duration, size: DataSize) {
        let size = size.as_bytes();
        // Sizes between small and large are ambiguous: a handshake's packets are answered by others
        // as large.
        let kept = if size > PACKET_BYTES_MIN {
            &mut self.large
        } else if size <= PACKET_BYTES_MIN / SMALL_PART {
            &mut self.small
        } else {
            return;
        };
        if kept.is_none_or(|(least, _)| rtt < least) {
            *kept = Some((rtt, size));
        }
    }

    /// Handles a measured delivery rate, which may refute the estimate.
    pub(super) fn handle_rate(&mut self, rate: Bitrate) {
        if self
            .rate()
            .is_some_and(|estimate| rate.as_bps() / REFUTED > estimate.as_bps())
        {
            *self = Self::default();
        }
    }

    /// Returns the line's rate, if the line is known to be slow.
    pub(super) fn rate(&self) -> Option<Bitrate> {
        let ((short, small), (long, large)) = (self.small?, self.large?);
        let time = long.saturating_sub(short);
        (time >= SLOW_MIN).then(|| DataSize::from_bytes(large - small) / time)
    }
}

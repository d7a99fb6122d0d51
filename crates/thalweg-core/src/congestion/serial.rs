//! How fast a slow line is, before it was ever full: two sizes of packets tell.
//!
//! *The idea.* A packet that waits for nobody takes what the way takes, and the time of its own bytes on the line. So one that is
//! large takes longer than one that is small, and by how much says what the line carries:
//!
//! ```text
//! rate = (large - small) / (round trip of the large - round trip of the small)
//! ```
//!
//! The small one is that of the shortest round trip. The large one is what looks whether packets may be larger than all paths bear
//! (RFC 8899), which every connection sends once; those of the handshake are answered by others as large, and tell half of the rate.
//! On a line on which a packet takes 50 ms that is far above what clocks and jitter make of one sample; on a faster one nothing is
//! said, and nobody needs it: there the ten packets of a start are gone in half a second.
//!
//! Who knows so much does not begin with ten packets, which are two seconds of a line of 64 kbit/s and would be what a live stream
//! waits behind; and he knows at which rate he has the line for himself.
//!
//! *What it does not do.* It says nothing once the window was full, for then packets wait for each other.
//!
//! *Sources.* Bellovin, "A best-case network performance model" (1992), and Jacobson's pathchar: the slope of the least round
//! trips over the sizes of packets.

use super::copa::DELTA;
use super::{Controller, PACKET_BYTES};
use crate::time::Duration;
use crate::units::{Bitrate, DataSize};

/// How long a large packet takes at least, or nothing is said of the line.
const SLOW_MIN: Duration = Duration::from_millis(50);

/// A packet of at most this part of a large one is small.
const SMALL_PART: u64 = 3;

/// A line that has delivered more than so many times what was told is another: the large packet may have waited for the two of a
/// handshake, and for what else is said at a beginning.
const REFUTED: u64 = 4;

/// The shortest round trips of a small and of a large packet, and their sizes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Serial {
    small: Option<(Duration, u64)>,
    large: Option<(Duration, u64)>,
}

impl Serial {
    /// Takes in how long a packet of this size took.
    pub(super) fn handle_sample(&mut self, rtt: Duration, size: DataSize) {
        let size = size.as_bytes();
        let kept = if size > *PACKET_BYTES.start() {
            &mut self.large
        } else if size <= *PACKET_BYTES.start() / SMALL_PART {
            &mut self.small
        } else {
            return;
        };
        if kept.is_none_or(|(least, _)| rtt < least) {
            *kept = Some((rtt, size));
        }
    }

    /// Takes in that the line has delivered at this rate, which may refute what was told.
    pub(super) fn handle_rate(&mut self, rate: Bitrate) {
        if self
            .rate()
            .is_some_and(|told| rate.as_bps() / REFUTED > told.as_bps())
        {
            *self = Self::default();
        }
    }

    /// Returns what the line carries, if it is known to be slow.
    pub(super) fn rate(&self) -> Option<Bitrate> {
        let ((short, small), (long, large)) = (self.small?, self.large?);
        let time = long.saturating_sub(short);
        (time >= SLOW_MIN).then(|| DataSize::from_bytes(large - small) / time)
    }
}

impl Controller {
    /// Returns what a line carries that was never full and is known to be slow, with the queue that is kept on it.
    pub(super) fn room_known(&self) -> Option<f64> {
        let rate = self.serial.rate()?;
        Some(self.carried(rate) + self.packet as f64 / DELTA)
    }

    /// Returns the rate that a slow line gave when nobody else was there: as looks found it, or as it was before the window was full;
    /// zero if neither is known.
    pub(super) fn rate_known(&self) -> Bitrate {
        match self.rate_alone {
            Bitrate::ZERO => self.serial.rate().unwrap_or(Bitrate::ZERO),
            rate => rate,
        }
    }
}

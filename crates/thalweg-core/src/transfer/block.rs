//! How large a block should be, by what the path is like.
//!
//! *The idea.* Each block costs a header and a hash, so the larger the better, where relays pass on what arrives
//! ([`Relay::Through`]). Where they pass on what they have whole ([`Relay::Whole`]) a block costs its length once more for each
//! further hop. The one falls and the other grows with the block:
//!
//! ```text
//! T(c) = S/c · max τ(c) + Σ of the other hops τ(c)           S bytes to send, c the block
//! τ(c) = (c + H) / B + t₀                                    on a hop of rate B; H bytes and t₀ for each ADU
//!      ≈ S/B (1 + (H + t₀B)/c) + c · Σ' 1/Bₖ + constant      Σ' over all hops but the slowest, whose rate is B
//! c*   = √( S (H/B + t₀) / Σ' 1/Bₖ )                         where T is least; one hop, or through: as large as may be
//! ```
//!
//! The block is the power of two nearest to c* by ratio, for hashes of other lengths do not fit the tree. By its
//! neighbours T is at most 6 % of its overhead worse than at c* (√2 + 1/√2 against 2).
//!
//! *What it does not do.* It does not look at loss, or at the round trip: a block is sent without waiting for a word on
//! the one before.
//!
//! *Sources.* docs/files.md §4; spec BM-R1 for the shape, which is store-and-forward at one end and headers at the other.

use crate::limits::{TRANSFER_BLOCK_BYTES_MAX, TRANSFER_BLOCKS_MAX, TRANSFER_FILES_MAX};
use crate::time::Duration;
use crate::units::{Bitrate, DataSize};

/// What one block costs on the line beside itself: an ADU's header (24 bytes in the middle of a stream), the block's
/// own (5), its hash in the manifest (32).
pub const OVERHEAD_BYTES: u64 = 61;

/// What a node takes for an ADU that does not depend on its length: a guess within a power of two of what the relay
/// benchmarks show, for it matters on fast links only, where the blocks are bounded anyway.
pub const OVERHEAD_TIME: Duration = Duration::from_micros(20);

/// The least block: a chunk of BLAKE3 is 1,024 bytes, and below this a packet would hold parts of several.
const BLOCK_BYTES_MIN: u64 = 1 << 10;

/// The largest block that is chosen: what is sent again is a block, and what is shown of progress too.
const BLOCK_BYTES_CHOSEN_MAX: u64 = 256 << 10;

/// How long a block may take of what a limit leaves: shorter than that nobody feels a burst.
const LIMIT_TIME: Duration = Duration::from_millis(250);

/// What a packet has that is not of the ADU in it (IPv4, UDP, QUIC's header, tag and frame), and what it has of that at most.
const PACKET_OVERHEAD_BYTES: u64 = 58;
const PACKET_ADU_BYTES: u64 = 1_400;

/// What a hop of unknown rate is taken for.
const RATE_UNKNOWN: Bitrate = Bitrate::from_kbps(1_000_000);

/// What the relays of a transfer do with a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relay {
    /// They pass it on while it arrives.
    Through,
    /// They pass it on when they have it: to several, or changed.
    Whole,
}

/// Returns the length of a block for so many bytes over these hops; the rate of each, if it is known. A limit makes it so short
/// that the limit holds in any second, but for one block, and not only in the long run.
///
/// Cost    O(hops)
pub fn choose(
    size: DataSize,
    hops: &[Option<Bitrate>],
    relay: Relay,
    limit: Option<Bitrate>,
) -> u64 {
    let seconds_a_bit = |rate: &Option<Bitrate>| {
        let rate = rate.unwrap_or(RATE_UNKNOWN);
        1.0 / rate.as_bps().max(1) as f64
    };
    let all: f64 = hops.iter().map(seconds_a_bit).sum();
    let slowest = hops.iter().map(seconds_a_bit).fold(0.0, f64::max);
    let others = match relay {
        Relay::Through => 0.0,
        Relay::Whole => all - slowest,
    };
    let size_bits = size.as_bytes() as f64 * 8.0;
    let each = OVERHEAD_BYTES as f64 * 8.0 * slowest + OVERHEAD_TIME.as_secs_f64();
    // Of one hop the quotient is infinite, and the bounds decide.
    let ideal_bytes = root(size_bits * each / others.max(f64::MIN_POSITIVE)) / 8.0;
    let mut block = BLOCK_BYTES_MIN;
    while block < BLOCK_BYTES_CHOSEN_MAX && (block * block * 2) as f64 <= ideal_bytes * ideal_bytes
    {
        block *= 2;
    }
    let burst = limit.map(|limit| limit * LIMIT_TIME);
    while block > BLOCK_BYTES_MIN && burst.is_some_and(|burst| block > burst.as_bytes()) {
        block /= 2;
    }
    block.max(least(size))
}

/// Returns what an ADU of so many bytes takes on a link, headers included.
pub(super) const fn on_the_wire(bytes: u64) -> u64 {
    bytes + OVERHEAD_BYTES + bytes.div_ceil(PACKET_ADU_BYTES) * PACKET_OVERHEAD_BYTES
}

/// Returns the least block by which a transfer of so many bytes has not too many.
///
/// A file that ends within a block has one more, so as many are kept aside as there may be files.
fn least(size: DataSize) -> u64 {
    let mut block = BLOCK_BYTES_MIN;
    while block < TRANSFER_BLOCK_BYTES_MAX as u64
        && size.as_bytes().div_ceil(block) > (TRANSFER_BLOCKS_MAX - TRANSFER_FILES_MAX) as u64
    {
        block *= 2;
    }
    block
}

/// Returns the square root, which `core` does not have: Heron's rule from above, to the last bit but one.
fn root(square: f64) -> f64 {
    if !square.is_finite() || square <= 0.0 {
        return if square > 0.0 { f64::MAX } else { 0.0 };
    }
    let mut x = square.max(1.0);
    loop {
        let next = f64::midpoint(x, square / x);
        if next >= x {
            return x;
        }
        x = next;
    }
}

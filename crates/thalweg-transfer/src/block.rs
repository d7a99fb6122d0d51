//! The choice of the block size from the properties of the path.
//!
//! *The idea.* Each block costs a header and a hash, so larger is better where relays forward data
//! while it arrives ([`Relay::Through`]). Where they store and forward ([`Relay::Whole`]), each
//! further hop costs the length of one block. The first cost falls with the block size and the
//! second rises:
//!
//! ```text
//! T(c) = S/c · max τ(c) + Σ of the other hops τ(c)           S bytes to send, c the block
//! τ(c) = (c + H) / B + t₀                                    on a hop of rate B; H bytes and t₀ for each ADU
//!      ≈ S/B (1 + (H + t₀B)/c) + c · Σ' 1/Bₖ + constant      Σ' over all hops but the slowest, of rate B
//! c*   = √( S (H/B + t₀) / Σ' 1/Bₖ )                         minimum of T; through, or one hop: the bound
//! ```
//!
//! The block size is the power of two closest to c* by ratio, because hashes of other lengths do
//! not fit the tree. At the neighbouring powers T exceeds its minimum by at most 6 % of the
//! overhead (√2 + 1/√2 against 2).
//!
//! *What it does not do.* It ignores loss and the round-trip time: blocks are sent without waiting
//! for acknowledgements.
//!
//! *Sources.* docs/concepts/files.md §4; spec BM-R1 for the shape, which is store-and-forward at one end and
//! headers at the other.

use thalweg_base::limits::{TRANSFER_BLOCK_BYTES_MAX, TRANSFER_BLOCKS_MAX, TRANSFER_FILES_MAX};
use thalweg_base::time::Duration;
use thalweg_base::units::{Bitrate, DataSize};

/// Bytes that a block adds on the link: an ADU's header (24 bytes in the middle of a stream), the
/// block's own (5), its hash in the manifest (32).
pub const OVERHEAD_BYTES: u64 = 61;

/// A node's fixed processing time per ADU: an estimate within a factor of two of the relay
/// benchmarks. It matters on fast links only, where the block size is bounded anyway.
pub const OVERHEAD_TIME: Duration = Duration::from_micros(20);

/// Minimum block size: a chunk of BLAKE3 is 1,024 bytes, and a packet would hold parts of several
/// smaller blocks.
const BLOCK_BYTES_MIN: u64 = 1 << 10;

/// Maximum chosen block size: the unit of resending, and of displayed progress.
const BLOCK_BYTES_CHOSEN_MAX: u64 = 256 << 10;

/// Maximum time of a block at the limited rate, so that a limited transfer is not bursty.
const LIMIT_TIME: Duration = Duration::from_millis(250);

/// Bytes of a packet outside the ADU (IPv4, UDP, QUIC's header, tag and frame), and maximum bytes
/// of an ADU in it.
const PACKET_OVERHEAD_BYTES: u64 = 58;
const PACKET_ADU_BYTES: u64 = 1_400;

/// Assumed rate of a hop with an unknown rate.
const RATE_UNKNOWN: Bitrate = Bitrate::from_kbps(1_000_000);

/// How the relays of a transfer forward a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relay {
    /// They forward it while it arrives.
    Through,
    /// They forward it when it is complete: to several sinks, or adapted.
    Whole,
}

/// Returns the block size in bytes for a transfer of `size` over hops of these rates, if known. A
/// limit makes it short enough to hold over any second, except for one block.
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
    // With one hop the quotient is infinite, and the bounds decide.
    let ideal_bytes = square_root(size_bits * each / others.max(f64::MIN_POSITIVE)) / 8.0;
    let mut block = BLOCK_BYTES_MIN;
    while block < BLOCK_BYTES_CHOSEN_MAX && (block * block * 2) as f64 <= ideal_bytes * ideal_bytes
    {
        block *= 2;
    }
    let burst = limit.map(|limit| limit * LIMIT_TIME);
    while block > BLOCK_BYTES_MIN && burst.is_some_and(|burst| block > burst.as_bytes()) {
        block /= 2;
    }
    block.max(block_min(size))
}

/// Returns the bytes that an ADU of this size takes on a link, headers included.
pub(super) const fn on_the_wire(bytes: u64) -> u64 {
    bytes + OVERHEAD_BYTES + bytes.div_ceil(PACKET_ADU_BYTES) * PACKET_OVERHEAD_BYTES
}

/// Returns the smallest block size that keeps the number of blocks within its limit.
///
/// A file's last block may be partial, so one block per possible file is reserved.
fn block_min(size: DataSize) -> u64 {
    let mut block = BLOCK_BYTES_MIN;
    while block < TRANSFER_BLOCK_BYTES_MAX as u64
        && size.as_bytes().div_ceil(block) > (TRANSFER_BLOCKS_MAX - TRANSFER_FILES_MAX) as u64
    {
        block *= 2;
    }
    block
}

/// Returns the square root, which `core` lacks: Heron's method from above, exact to the last bit
/// but one.
fn square_root(square: f64) -> f64 {
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

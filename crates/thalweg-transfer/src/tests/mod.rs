//! Proves that a file arrives intact, for any faults of parcels and receipts and any crash.
//!
//! A simulated path drops, duplicates and reorders what it carries, by a seed; now and then the
//! sender, a receiver or everything in flight is lost. Time is a number. At the end the bytes are
//! compared. The other laws concern no chance: what is never sent twice, block sizes, rate limits.

mod laws;
mod way;

use alloc::vec::Vec;

use thalweg_base::random::SplitMix;

use super::manifest::{File, Manifest};
use super::name::FileName;
use super::tree;
use crate::manifest::Mode;

/// Returns bytes determined by a seed.
pub(super) fn bytes(count: usize, seed: u64) -> Vec<u8> {
    let mut numbers = SplitMix::new(seed);
    (0..count).map(|_| numbers.next_u64() as u8).collect()
}

/// Returns the manifest of files in memory.
pub(super) fn manifest_of(files: &[(&str, &[u8])], block_bytes: u64) -> Manifest {
    let mut hashes = Vec::new();
    let entry = |(name, bytes): &(&str, &[u8])| {
        if bytes.len() as u64 > block_bytes {
            let blocks = bytes.chunks(block_bytes as usize).zip(0..);
            hashes
                .extend(blocks.map(|(block, place)| tree::block_hash(place * block_bytes, block)));
        }
        File {
            name: FileName::new(name.as_bytes()).expect("a name"),
            size: bytes.len() as u64,
            mode: Mode::of(0o644),
            changed: 0,
            hash: tree::whole_hash(bytes),
        }
    };
    let files = files.iter().map(entry).collect();
    Manifest::new(files, block_bytes, hashes).expect("is consistent")
}

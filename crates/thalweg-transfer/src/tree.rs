//! The hashes of blocks, and the hash of a file from them.
//!
//! *The idea.* BLAKE3 is a tree: the hash of a file follows from the hashes of its aligned blocks,
//! if a block has a power of two of BLAKE3 chunks. So a list of 32 bytes per block is verified by
//! the file's hash, and then verifies each block separately, in any order. The file's hash is the
//! one that `b3sum` prints.
//!
//! ```text
//! file of n ≥ 2 blocks      hash = root(merge(left), merge(right)),  left the largest power of two below n
//! file of one block         hash = BLAKE3 of it; the list is empty
//! file of none              hash = BLAKE3 of nothing
//! ```
//!
//! *Sources.* BLAKE3 §2.1; `blake3::hazmat`.

use blake3::Hasher;
use blake3::hazmat::{HasherExt as _, Mode, merge_subtrees_non_root, merge_subtrees_root};

/// A BLAKE3 hash.
pub type Hash = [u8; 32];

/// Returns the hash of a block of a file with at least two.
///
/// Fails   panics if `offset` is no multiple of the block's length, rounded up to a power of two
///         of 1,024 bytes (a caller's bug: a `Layout` yields no other)
pub fn block_hash(offset: u64, block: &[u8]) -> Hash {
    let mut hasher = Hasher::new();
    hasher.set_input_offset(offset);
    hasher.update(block);
    hasher.finalize_non_root()
}

/// Returns the hash of a file with at most one block.
pub fn whole_hash(bytes: &[u8]) -> Hash {
    *blake3::hash(bytes).as_bytes()
}

/// Returns the hash of a file from the hashes of its blocks.
///
/// Cost    O(blocks)
/// Fails   panics if there are fewer than two (a caller's bug)
pub fn file_hash(blocks: &[Hash]) -> Hash {
    let (left, right) = split(blocks);
    *merge_subtrees_root(&merge(left), &merge(right), Mode::Hash).as_bytes()
}

fn merge(blocks: &[Hash]) -> Hash {
    if let [one] = blocks {
        return *one;
    }
    let (left, right) = split(blocks);
    merge_subtrees_non_root(&merge(left), &merge(right), Mode::Hash)
}

fn split(blocks: &[Hash]) -> (&[Hash], &[Hash]) {
    blocks.split_at(blocks.len().next_power_of_two() / 2)
}

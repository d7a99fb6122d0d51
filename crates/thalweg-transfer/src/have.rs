//! The set of a transfer's blocks that are present.
//!
//! *The idea.* One bit per block: 32 KiB for the maximum number of blocks.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

/// A set of blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Have {
    bits: Vec<u64>,
    blocks: u32,
    count: u32,
}

impl Have {
    /// Returns the empty set of a transfer with `blocks` blocks.
    pub fn none(blocks: u32) -> Self {
        Self {
            bits: vec![0; (blocks as usize).div_ceil(64)],
            blocks,
            count: 0,
        }
    }

    /// Adds a block; returns whether it is new. A block beyond the transfer is ignored.
    pub fn insert(&mut self, block: u32) -> bool {
        if block >= self.blocks || self.contains(block) {
            return false;
        }
        self.bits[block as usize / 64] |= 1 << (block % 64);
        self.count += 1;
        true
    }

    /// Returns whether a block is present.
    pub fn contains(&self, block: u32) -> bool {
        let word = self.bits.get(block as usize / 64);
        word.is_some_and(|word| word >> (block % 64) & 1 == 1)
    }

    /// Returns the number of blocks present.
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// Returns the number of blocks of the transfer.
    pub const fn blocks(&self) -> u32 {
        self.blocks
    }

    /// Returns whether all blocks are present.
    pub const fn is_whole(&self) -> bool {
        self.count == self.blocks
    }

    /// Returns whether all blocks of a range are present.
    pub fn has_all(&self, mut range: Range<u32>) -> bool {
        range.all(|block| self.contains(block))
    }

    /// Returns the first `ranges_max` missing ranges, in order.
    ///
    /// Cost    O(blocks / 64 + ranges · 64)
    pub fn missing(&self, ranges_max: usize) -> Vec<Range<u32>> {
        let mut ranges: Vec<Range<u32>> = Vec::new();
        let mut block = 0;
        while block < self.blocks {
            if block % 64 == 0 && self.bits[block as usize / 64] == u64::MAX {
                block += 64;
                continue;
            }
            if !self.contains(block) {
                let count = ranges.len();
                match ranges.last_mut() {
                    Some(last) if last.end == block => last.end += 1,
                    _ if count == ranges_max => break,
                    _ => ranges.push(block..block + 1),
                }
            }
            block += 1;
        }
        ranges
    }
}

//! A set of block numbers as disjoint, non-adjacent ranges.

use alloc::collections::BTreeMap;
use core::ops::Range;

/// Blocks to send: end by first block.
#[derive(Clone, Debug, Default)]
pub(super) struct Ranges(BTreeMap<u32, u32>);

impl Ranges {
    /// Adds a range.
    ///
    /// Cost    O(log n) for each range merged into it
    pub(super) fn insert(&mut self, range: Range<u32>) {
        if range.is_empty() {
            return;
        }
        let Range { mut start, mut end } = range;
        if let Some((&first, &last)) = self.0.range(..=start).next_back()
            && last >= start
        {
            start = first;
            end = end.max(last);
        }
        while let Some((&first, &last)) = self.0.range(start..=end).next() {
            end = end.max(last);
            self.0.remove(&first);
        }
        self.0.insert(start, end);
    }

    /// Removes and returns the first block at or above `least`, or else the first block.
    ///
    /// Cost    O(log n)
    pub(super) fn pop_from(&mut self, least: u32) -> Option<u32> {
        let holding = self.0.range(..=least).next_back();
        let holding = holding.filter(|(_, end)| **end > least);
        let next = holding.or_else(|| self.0.range(least..).next());
        let (&start, &end) = next.or_else(|| self.0.first_key_value())?;
        self.0.remove(&start);
        let block = if end > least { start.max(least) } else { start };
        self.insert(start..block);
        self.insert(block + 1..end);
        Some(block)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsent_block_precedes_resend() {
        let mut todo = Ranges::default();
        todo.insert(0..3);
        todo.insert(6..9);
        let mut taken = alloc::vec::Vec::new();
        let mut least = 2;
        while let Some(block) = todo.pop_from(least) {
            taken.push(block);
            least = least.max(block + 1);
        }
        assert_eq!(taken, [2, 6, 7, 8, 0, 1]);
        assert!(todo.is_empty());
    }
}

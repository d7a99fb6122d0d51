//! A set of block numbers as ranges that neither touch nor overlap.

use alloc::collections::BTreeMap;
use core::ops::Range;

/// What is to be sent, by first block.
#[derive(Clone, Debug, Default)]
pub(super) struct Ranges(BTreeMap<u32, u32>);

impl Ranges {
    /// Adds a range.
    ///
    /// Cost    O(log n) for each range that it swallows
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

    /// Takes the first block out.
    pub(super) fn pop(&mut self) -> Option<u32> {
        let (first, last) = self.0.pop_first()?;
        if first + 1 < last {
            self.0.insert(first + 1, last);
        }
        Some(first)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

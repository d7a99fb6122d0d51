//! Streams with bytes to send: the highest rank first, within a rank the oldest first.
//!
//! *The idea.* The outbox above hands over little ahead of time, so there is nearly always one such
//! stream or none. The first lies at the end of a vector, where it is pushed and popped without a
//! search.
//!
//! *What it does not do.* It does not know what they have to send.

use alloc::vec::Vec;
use core::cmp::Reverse;

use crate::tcp_mux::frame::StreamNumber;

/// Streams in the order in which they are to send.
#[derive(Debug, Default)]
pub(super) struct Ready {
    /// The first stream lies last; no stream occurs twice.
    streams: Vec<(i32, Reverse<StreamNumber>)>,
}

impl Ready {
    pub(super) const fn new() -> Self {
        Self {
            streams: Vec::new(),
        }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.streams.is_empty()
    }

    /// Returns the first stream, with its rank.
    pub(super) fn first(&self) -> Option<(i32, StreamNumber)> {
        let (rank, Reverse(stream)) = *self.streams.last()?;
        Some((rank, stream))
    }

    /// Adds a stream, unless it is present.
    ///
    /// Cost    O(1) for the first, O(n) otherwise
    pub(super) fn insert(&mut self, rank: i32, stream: StreamNumber) {
        if let Err(at) = self.search(rank, stream) {
            self.streams.insert(at, (rank, Reverse(stream)));
        }
    }

    /// Adds many streams.
    ///
    /// Cost    O(n log n)
    pub(super) fn extend(&mut self, streams: impl IntoIterator<Item = (i32, StreamNumber)>) {
        let streams = streams.into_iter();
        self.streams
            .extend(streams.map(|(rank, stream)| (rank, Reverse(stream))));
        self.streams.sort_unstable();
        self.streams.dedup();
    }

    /// Removes a stream, if it is present.
    ///
    /// Cost    as `insert`
    pub(super) fn remove(&mut self, rank: i32, stream: StreamNumber) {
        if let Ok(at) = self.search(rank, stream) {
            self.streams.remove(at);
        }
    }

    fn search(&self, rank: i32, stream: StreamNumber) -> Result<usize, usize> {
        let wanted = (rank, Reverse(stream));
        match self.streams.last() {
            // Mostly it is the first, which lies last.
            Some(first) if *first == wanted => Ok(self.streams.len() - 1),
            Some(first) if *first > wanted => self.streams.binary_search(&wanted),
            _ => Err(self.streams.len()),
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn ready_equals_btree_set(
            steps in proptest::collection::vec((0_u8..3, -2_i32..3, 0_u64..6), 0..200),
        ) {
            let (mut ready, mut set) = (Ready::new(), BTreeSet::new());
            for (step, rank, number) in steps {
                let stream = StreamNumber(number);
                match step {
                    0 => {
                        ready.insert(rank, stream);
                        set.insert((Reverse(rank), stream));
                    }
                    1 => {
                        ready.remove(rank, stream);
                        set.remove(&(Reverse(rank), stream));
                    }
                    _ => {
                        let many = [number, number / 2, number].map(|number| (rank, StreamNumber(number)));
                        ready.extend(many);
                        set.extend(many.map(|(rank, stream)| (Reverse(rank), stream)));
                    }
                }
                let first = set.first().map(|(Reverse(rank), stream)| (*rank, *stream));
                prop_assert_eq!(ready.first(), first);
                prop_assert_eq!(ready.is_empty(), set.is_empty());
                prop_assert_eq!(ready.streams.len(), set.len());
            }
        }
    }
}

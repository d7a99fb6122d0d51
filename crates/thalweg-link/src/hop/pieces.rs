//! A byte sequence in the pieces in which it arrived.
//!
//! *The idea.* Most payloads are one piece; each copy that a relay makes is. The first piece is
//! stored inline, and only further ones allocate.
//!
//! *What it does not do.* It copies no bytes.

use alloc::collections::VecDeque;
use core::iter;

use bytes::Bytes;

/// Pieces in order; none is empty.
#[derive(Clone, Debug, Default)]
pub struct Pieces {
    /// Empty if there are none.
    first: Bytes,
    behind: VecDeque<Bytes>,
}

impl Pieces {
    /// Returns the number of pieces.
    pub fn len(&self) -> usize {
        usize::from(!self.first.is_empty()) + self.behind.len()
    }

    /// Returns whether there are no pieces.
    pub const fn is_empty(&self) -> bool {
        self.first.is_empty()
    }

    /// Returns the total length in bytes.
    ///
    /// Cost    O(pieces)
    pub fn bytes(&self) -> usize {
        self.iter().map(Bytes::len).sum()
    }

    /// Appends a piece, unless it is empty.
    pub fn push(&mut self, piece: Bytes) {
        if self.first.is_empty() {
            self.first = piece;
        } else if !piece.is_empty() {
            self.behind.push_back(piece);
        }
    }

    /// Returns the first piece; empty if there is none.
    pub const fn first(&self) -> &Bytes {
        &self.first
    }

    /// Removes and returns the first piece, cut at `bytes_max`; empty if there is none.
    pub fn take(&mut self, bytes_max: usize) -> Bytes {
        if self.first.len() > bytes_max {
            return self.first.split_to(bytes_max);
        }
        // An empty `first` marks an empty sequence, so `first` is refilled at once.
        let next = self.behind.pop_front().unwrap_or_default();
        core::mem::replace(&mut self.first, next)
    }

    /// Removes the first `bytes`, or all if there are fewer.
    pub fn advance(&mut self, mut bytes: usize) {
        while bytes > 0 && !self.is_empty() {
            bytes -= self.take(bytes).len();
        }
    }

    /// Joins pieces until the first has this many bytes or is the only one.
    ///
    /// Cost    a copy of the joined pieces
    pub fn join(&mut self, bytes: usize) {
        while self.first.len() < bytes
            && let Some(next) = self.behind.pop_front()
        {
            self.first = [self.first.as_ref(), next.as_ref()].concat().into();
        }
    }

    /// Iterates over the pieces in order.
    pub fn iter(&self) -> impl Iterator<Item = &Bytes> {
        let first = iter::once(&self.first).filter(|first| !first.is_empty());
        first.chain(&self.behind)
    }
}

impl From<Bytes> for Pieces {
    fn from(piece: Bytes) -> Self {
        Self {
            first: piece,
            behind: VecDeque::new(),
        }
    }
}

impl FromIterator<Bytes> for Pieces {
    fn from_iter<I: IntoIterator<Item = Bytes>>(pieces: I) -> Self {
        let mut all = Self::default();
        pieces.into_iter().for_each(|piece| all.push(piece));
        all
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn pieces_keep_their_bytes(
            lengths in proptest::collection::vec(0_usize..5, 0..8),
            advanced in 0_usize..20,
            taken in proptest::collection::vec(0_usize..5, 0..4),
            joined in 0_usize..9,
        ) {
            let piece = |(at, length): (usize, &usize)| Bytes::from(vec![at as u8; *length]);
            let given: Vec<Bytes> = lengths.iter().enumerate().map(piece).collect();
            let mut pieces: Pieces = given.iter().cloned().collect();
            let whole = given.concat();
            prop_assert_eq!(pieces.bytes(), whole.len());
            pieces.advance(advanced);
            let mut left = whole.get(advanced..).unwrap_or_default();
            for most in taken {
                let piece = pieces.take(most);
                prop_assert!(piece.len() <= most);
                prop_assert_eq!(piece.is_empty(), left.is_empty() || most == 0);
                prop_assert_eq!(&piece[..], &left[..piece.len()]);
                left = &left[piece.len()..];
            }
            pieces.join(joined);
            prop_assert!(pieces.first().len() >= joined.min(left.len()));
            prop_assert_eq!(pieces.is_empty(), left.is_empty());
            let all: Vec<Bytes> = pieces.iter().cloned().collect();
            prop_assert_eq!(all.len(), pieces.len());
            prop_assert!(all.iter().all(|piece| !piece.is_empty()));
            prop_assert_eq!(all.concat(), left);
        }
    }
}

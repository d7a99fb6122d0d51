//! The bytes that a carrier writes next: headers encoded here, and payload pieces by reference.
//!
//! *The idea.* The bytes of a stream are shared with other links, on a relay with every sink; so
//! they are written from where they lie, without a copy. A piece as short as a header is copied,
//! for another buffer in a vectored write costs as much.
//!
//! *What it does not do.* It writes nothing to a socket, and cuts nothing to size.

use alloc::vec::Vec;
use core::fmt;

use bytes::Bytes;

/// Pieces below this length are copied.
const COPIED_BELOW: usize = 256;

/// Bytes in the order in which they are to be written.
#[derive(Clone, Default)]
pub struct Out {
    words: Vec<u8>,
    /// Each piece with the number of `words` bytes before it.
    pieces: Vec<(usize, Bytes)>,
    piece_bytes: usize,
}

impl Out {
    /// Returns an empty buffer.
    pub const fn new() -> Self {
        Self {
            words: Vec::new(),
            pieces: Vec::new(),
            piece_bytes: 0,
        }
    }

    /// Returns the number of bytes.
    pub const fn len(&self) -> usize {
        self.words.len() + self.piece_bytes
    }

    /// Returns whether there are no bytes.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Removes all bytes; the capacity for headers is kept.
    pub fn clear(&mut self) {
        self.words.clear();
        self.pieces.clear();
        self.piece_bytes = 0;
    }

    /// Returns the buffer to encode frames into, behind everything so far.
    pub const fn words(&mut self) -> &mut Vec<u8> {
        &mut self.words
    }

    /// Appends a piece of a stream.
    ///
    /// Cost    a copy if it is below 256 bytes, else one more reference to it
    pub fn push(&mut self, piece: &Bytes) {
        if piece.len() < COPIED_BELOW {
            self.words.extend_from_slice(piece);
        } else {
            self.piece_bytes += piece.len();
            self.pieces.push((self.words.len(), piece.clone()));
        }
    }

    /// Moves all bytes of another buffer to the end.
    pub fn append(&mut self, other: &mut Self) {
        let before = self.words.len();
        let pieces = other.pieces.drain(..);
        self.pieces
            .extend(pieces.map(|(place, piece)| (before + place, piece)));
        self.words.append(&mut other.words);
        self.piece_bytes += core::mem::take(&mut other.piece_bytes);
    }

    /// Iterates over the bytes after the first `skipped`, part by part; no part is empty.
    pub fn parts(&self, skipped: usize) -> impl Iterator<Item = &[u8]> {
        let mut skipped = skipped;
        let mut begin = 0;
        let between = self.pieces.iter().flat_map(move |(place, piece)| {
            let words = &self.words[begin..*place];
            begin = *place;
            [words, &piece[..]]
        });
        let last = self.pieces.last().map_or(0, |(place, _)| *place);
        let all = between.chain([&self.words[last..]]);
        all.filter_map(move |part| {
            let skip = skipped.min(part.len());
            skipped -= skip;
            (skip < part.len()).then(|| &part[skip..])
        })
    }

    /// Returns all bytes in one vector.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut all = Vec::with_capacity(self.len());
        for part in self.parts(0) {
            all.extend_from_slice(part);
        }
        all
    }
}

impl fmt::Debug for Out {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Out")
            .field("bytes", &self.len())
            .field("pieces", &self.pieces.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn parts_keep_order_after_skip(
            lengths in proptest::collection::vec((any::<bool>(), 0_usize..600), 0..12),
            cut in 0_usize..12,
            skipped in 0_usize..8_000,
        ) {
            let (mut out, mut tail, mut all) = (Out::new(), Out::new(), vec![]);
            for (place, (is_word, length)) in lengths.iter().enumerate() {
                let bytes = vec![place as u8; *length];
                let out = if place < cut { &mut out } else { &mut tail };
                if *is_word {
                    out.words().extend_from_slice(&bytes);
                } else {
                    out.push(&bytes.clone().into());
                }
                all.extend(bytes);
            }
            out.append(&mut tail);
            prop_assert!(tail.is_empty());
            prop_assert_eq!(out.len(), all.len());
            prop_assert_eq!(out.to_vec(), all.clone());
            let skipped = skipped.min(all.len());
            let rest: Vec<&[u8]> = out.parts(skipped).collect();
            prop_assert!(rest.iter().all(|part| !part.is_empty()));
            prop_assert_eq!(rest.concat(), &all[skipped..]);
        }
    }

    #[test]
    fn only_short_pieces_are_copied() {
        for length in [COPIED_BELOW - 1, COPIED_BELOW] {
            let piece = Bytes::from(vec![7; length]);
            let mut out = Out::new();
            out.words().push(1);
            out.push(&piece);
            let is_shared = out.parts(0).any(|part| part.as_ptr() == piece.as_ptr());
            assert_eq!(is_shared, length == COPIED_BELOW);
        }
    }
}

//! The dependencies between ADUs, and the sequences that are lost for good.
//!
//! *The idea.* An ADU names the sequence without which it is useless. A table by flow and sequence
//! leads from there to the ADU and to the list of its dependants, whichever came first; so when an
//! ADU is dropped, its dependants are found without a search. Dependants that come later find its
//! sequence among the lost ones of their flow.
//!
//! The table has open addressing with linear probing; removal closes the gap. Sequences come from
//! peers, so the hash has a secret seed.
//!
//! *What it does not do.* It remembers a lost sequence only among the last [`LOST_REACH`] of its
//! flow: a dependant of an older one is sent, and its receiver will notice.
//!
//! *Sources.* Knuth, TAOCP 3, 6.4, algorithm R; the finaliser of `SplitMix64`.

use alloc::vec::Vec;

use super::NONE;
use super::slab::Slab;

/// How far back lost sequences are remembered: 34 s of video with 30 frames a second and one layer.
pub(super) const LOST_REACH: u64 = 1024;

/// Dependencies by flow and sequence.
#[derive(Debug)]
pub(super) struct Families {
    seed: u64,
    len: usize,
    /// A power of two in length, at most three quarters full.
    places: Vec<Family>,
}

/// An ADU and its dependants.
#[derive(Clone, Copy, Debug)]
struct Family {
    /// `NONE` in an empty place.
    flow: u32,
    /// `NONE` if the ADU is not pending.
    adu: u32,
    first_child: u32,
    sequence: u64,
}

/// The lost sequences of one flow.
#[derive(Clone, Debug)]
pub(super) struct Lost {
    highest: u64,
    /// Bit `s % LOST_REACH` is sequence `s`, for those less than `LOST_REACH` below the highest.
    bits: [u64; (LOST_REACH / 64) as usize],
    /// Whether the last drop that was no dependant was for want of capacity.
    pub(super) was_crowded_out: bool,
}

const EMPTY: Family = Family {
    flow: NONE,
    adu: NONE,
    first_child: NONE,
    sequence: 0,
};

impl Families {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            seed,
            len: 0,
            places: alloc::vec![EMPTY; 16],
        }
    }

    /// Adds an ADU; returns whether it is the only one of its sequence.
    pub(super) fn add_adu(&mut self, flow: u32, sequence: u64, slot: u32) -> bool {
        let place = self.find_or_insert(flow, sequence);
        let family = &mut self.places[place];
        if family.adu == NONE {
            family.adu = slot;
            return true;
        }
        false
    }

    pub(super) fn remove_adu(&mut self, flow: u32, sequence: u64) {
        if let Some(place) = self.find(flow, sequence) {
            self.places[place].adu = NONE;
            self.remove_if_empty(place);
        }
    }

    /// Returns whether the ADU of this sequence is pending.
    pub(super) fn has_adu(&self, flow: u32, sequence: u64) -> bool {
        self.find(flow, sequence)
            .is_some_and(|place| self.places[place].adu != NONE)
    }

    /// Adds an ADU to the dependants of a sequence.
    pub(super) fn add_child(&mut self, slab: &mut Slab, flow: u32, base: u64, slot: u32) {
        let place = self.find_or_insert(flow, base);
        let family = &mut self.places[place];
        let next = core::mem::replace(&mut family.first_child, slot);
        if next != NONE {
            slab[next].sibling_before = slot;
        }
        slab[slot].sibling_after = next;
        slab[slot].sibling_before = NONE;
    }

    pub(super) fn remove_child(&mut self, slab: &mut Slab, flow: u32, base: u64, slot: u32) {
        let (before, after) = (slab[slot].sibling_before, slab[slot].sibling_after);
        if after != NONE {
            slab[after].sibling_before = before;
        }
        if before != NONE {
            slab[before].sibling_after = after;
        } else if let Some(place) = self.find(flow, base) {
            self.places[place].first_child = after;
            self.remove_if_empty(place);
        }
    }

    /// Returns the first dependant of a sequence, or `NONE`; the slab links the others.
    pub(super) fn first_child(&self, flow: u32, sequence: u64) -> u32 {
        self.find(flow, sequence)
            .map_or(NONE, |place| self.places[place].first_child)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.places.capacity()
    }

    fn home(&self, flow: u32, sequence: u64) -> usize {
        // The flow goes to the upper bits, away from the sequence's; the multipliers are those of
        // `SplitMix64`.
        let mut z = self.seed ^ sequence ^ u64::from(flow).rotate_left(40);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) as usize & (self.places.len() - 1)
    }

    /// Returns the place of a family, or else the empty place where it belongs.
    fn seek(&self, flow: u32, sequence: u64) -> usize {
        let mut place = self.home(flow, sequence);
        loop {
            let family = &self.places[place];
            if family.flow == NONE || (family.flow == flow && family.sequence == sequence) {
                return place;
            }
            place = (place + 1) & (self.places.len() - 1);
        }
    }

    fn find(&self, flow: u32, sequence: u64) -> Option<usize> {
        Some(self.seek(flow, sequence)).filter(|place| self.places[*place].flow != NONE)
    }

    fn find_or_insert(&mut self, flow: u32, sequence: u64) -> usize {
        let place = self.seek(flow, sequence);
        if self.places[place].flow != NONE {
            return place;
        }
        // At most three quarters full, so that probes stay short.
        let place = if 4 * (self.len + 1) > 3 * self.places.len() {
            self.grow();
            self.seek(flow, sequence)
        } else {
            place
        };
        self.len += 1;
        self.places[place] = Family {
            flow,
            sequence,
            ..EMPTY
        };
        place
    }

    fn grow(&mut self) {
        let larger = alloc::vec![EMPTY; 2 * self.places.len()];
        for family in core::mem::replace(&mut self.places, larger) {
            if family.flow != NONE {
                let place = self.seek(family.flow, family.sequence);
                self.places[place] = family;
            }
        }
    }

    /// Removes a family without members.
    fn remove_if_empty(&mut self, place: usize) {
        let family = &self.places[place];
        if family.adu != NONE || family.first_child != NONE {
            return;
        }
        self.len -= 1;
        let last = self.places.len() - 1;
        let (mut gap, mut place) = (place, place);
        loop {
            place = (place + 1) & last;
            let family = self.places[place];
            if family.flow == NONE {
                break;
            }
            let home = self.home(family.flow, family.sequence);
            // It may move up unless that would put it before its home.
            if (place.wrapping_sub(home) & last) >= (place.wrapping_sub(gap) & last) {
                self.places[gap] = family;
                gap = place;
            }
        }
        self.places[gap] = EMPTY;
    }
}

impl Default for Lost {
    fn default() -> Self {
        Self {
            highest: 0,
            bits: [0; (LOST_REACH / 64) as usize],
            was_crowded_out: false,
        }
    }
}

impl Lost {
    /// Marks a sequence as lost.
    pub(super) fn add(&mut self, sequence: u64) {
        if sequence > self.highest {
            if sequence - self.highest >= LOST_REACH {
                self.bits = [0; (LOST_REACH / 64) as usize];
            } else {
                // Skipped sequences may still come: clear the bits that older ones left.
                for passed in self.highest + 1..sequence {
                    let (word, bit) = place(passed);
                    self.bits[word] &= !bit;
                }
            }
            self.highest = sequence;
        }
        if self.highest - sequence < LOST_REACH {
            let (word, bit) = place(sequence);
            self.bits[word] |= bit;
        }
    }

    /// Unmarks a sequence, which came after all.
    pub(super) fn remove(&mut self, sequence: u64) {
        if self.contains(sequence) {
            let (word, bit) = place(sequence);
            self.bits[word] &= !bit;
        }
    }

    pub(super) fn contains(&self, sequence: u64) -> bool {
        let (word, bit) = place(sequence);
        sequence <= self.highest
            && self.highest - sequence < LOST_REACH
            && self.bits[word] & bit != 0
    }
}

const fn place(sequence: u64) -> (usize, u64) {
    let position = sequence % LOST_REACH;
    ((position / 64) as usize, 1 << (position % 64))
}

//! The ADUs that were handed to links and have no outcome yet, by number.
//!
//! *The idea.* Numbers only rise, and the lowest bits of a number are its slot in a table that is at
//! most half full. A number is skipped if its slot is taken. So each number is found at once, and one
//! that has ended, however long ago, is not taken for another.
//!
//! *What it does not do.* It does not know what an outcome means.

use alloc::vec::Vec;

use thalweg_base::adu::Mark;
use thalweg_base::count::Band;

use super::action::SendNumber;
use super::plans::Seat;

/// Slots that are kept when nothing is under way.
const SLOTS_KEPT: usize = 1 << 10;

/// The least number of slots.
const SLOTS_MIN: usize = 8;

/// An ADU that was handed to a link.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sending<R> {
    /// Its plan, which keeps this seat meanwhile.
    pub(super) seat: Seat,
    /// The band in which it is counted, if it is.
    pub(super) band: Option<Band>,
    /// The mark with which the ADU came, and with which it went.
    pub(super) came: Mark,
    pub(super) mark: Mark,
    pub(super) is_ordered: bool,
    /// The rest of it did not come.
    pub(super) is_void: bool,
    /// The reception that feeds it, while that lasts.
    pub(super) via: Option<R>,
}

/// The ADUs under way.
#[derive(Debug)]
pub(super) struct Sendings<R> {
    /// None, or a power of two.
    slots: Vec<Option<(SendNumber, Sending<R>)>>,
    next: u64,
    len: usize,
}

impl<R> Default for Sendings<R> {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            next: 0,
            len: 0,
        }
    }
}

impl<R: Copy> Sendings<R> {
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// Adds an ADU; returns its number.
    pub(super) fn insert(&mut self, sending: Sending<R>) -> SendNumber {
        if 2 * self.len >= self.slots.len() {
            self.grow();
        }
        // At least every second slot is free, so few are skipped.
        while self.slots[self.slot(self.next)].is_some() {
            self.next += 1;
        }
        let number = SendNumber(self.next);
        let slot = self.slot(self.next);
        self.slots[slot] = Some((number, sending));
        self.next += 1;
        self.len += 1;
        number
    }

    pub(super) fn get_mut(&mut self, number: SendNumber) -> Option<&mut Sending<R>> {
        let slot = self.slot(number.0);
        let found = self.slots.get_mut(slot)?.as_mut();
        found
            .filter(|(own, _)| *own == number)
            .map(|(_, sending)| sending)
    }

    /// Takes an ADU out, if it is under way.
    pub(super) fn remove(&mut self, number: SendNumber) -> Option<Sending<R>> {
        let slot = self.slot(number.0);
        let slot = self.slots.get_mut(slot)?;
        let (_, sending) = slot.take_if(|(own, _)| *own == number)?;
        self.len -= 1;
        if self.len == 0 && self.slots.len() > SLOTS_KEPT {
            self.slots = Vec::new();
        }
        Some(sending)
    }

    /// Returns the numbers of a plan's ADUs, in the order in which they were handed over.
    ///
    /// Cost    O(n log n) for n ADUs of all plans
    pub(super) fn of(&self, seat: Seat) -> Vec<SendNumber> {
        let all = self.slots.iter().flatten();
        let of_plan = all.filter(|(_, sending)| sending.seat == seat);
        let mut numbers: Vec<SendNumber> = of_plan.map(|(number, _)| *number).collect();
        numbers.sort_unstable();
        numbers
    }

    /// Returns the slot of a number; out of bounds if there are none.
    const fn slot(&self, number: u64) -> usize {
        number as usize & self.slots.len().wrapping_sub(1)
    }

    /// Doubles the slots: numbers with different slots have different ones among twice as many.
    fn grow(&mut self) {
        let slots = (2 * self.slots.len()).max(SLOTS_MIN);
        let before = core::mem::replace(&mut self.slots, alloc::vec![None; slots]);
        for entry in before.into_iter().flatten() {
            let slot = self.slot(entry.0.0);
            self.slots[slot] = Some(entry);
        }
    }
}

//! The carriers of a session: the active one, and the standbys.
//!
//! *The idea.* Nearly every call concerns the active carrier, a dozen for each ADU, so it is stored
//! apart. Its number only rises: carriers with lower numbers are of no use to either end.
//!
//! *What it does not do.* It does not decide when to change.

use alloc::collections::BTreeMap;

use super::carrier::Carrier;
use super::values::CarrierNumber;

/// At most one active carrier, and the standbys.
#[derive(Debug, Default)]
pub(super) struct Carriers {
    active: Option<(CarrierNumber, Carrier)>,
    /// Standbys, each with a number above that of the active carrier.
    standing_by: BTreeMap<CarrierNumber, Carrier>,
}

impl Carriers {
    pub(super) fn len(&self) -> usize {
        usize::from(self.active.is_some()) + self.standing_by.len()
    }

    pub(super) fn contains(&self, number: CarrierNumber) -> bool {
        self.get(number).is_some()
    }

    pub(super) fn get(&self, number: CarrierNumber) -> Option<&Carrier> {
        match &self.active {
            Some((active, carrier)) if *active == number => Some(carrier),
            _ => self.standing_by.get(&number),
        }
    }

    pub(super) fn get_mut(&mut self, number: CarrierNumber) -> Option<&mut Carrier> {
        match &mut self.active {
            Some((active, carrier)) if *active == number => Some(carrier),
            _ => self.standing_by.get_mut(&number),
        }
    }

    pub(super) fn active(&self) -> Option<&Carrier> {
        self.active.as_ref().map(|(_, carrier)| carrier)
    }

    pub(super) fn active_number(&self) -> Option<CarrierNumber> {
        self.active.as_ref().map(|(number, _)| *number)
    }

    /// Returns the standby that would take over.
    pub(super) fn standby(&self) -> Option<CarrierNumber> {
        self.standing_by.keys().next().copied()
    }

    /// Adds a standby.
    pub(super) fn insert(&mut self, number: CarrierNumber, carrier: Carrier) {
        self.standing_by.insert(number, carrier);
    }

    /// Removes a carrier; if it was the active one, none is active.
    pub(super) fn remove(&mut self, number: CarrierNumber) -> Option<Carrier> {
        let active = self.active.take_if(|(active, _)| *active == number);
        match active {
            Some((_, carrier)) => Some(carrier),
            None => self.standing_by.remove(&number),
        }
    }

    /// Makes a standby the active carrier in place of the one before; returns it.
    pub(super) fn activate(&mut self, number: CarrierNumber) -> Option<&mut Carrier> {
        // Standbys with lower numbers are of no use once this one is active: drop them.
        let mut above = self.standing_by.split_off(&number);
        self.active = above.remove_entry(&number);
        self.standing_by = above;
        self.active.as_mut().map(|(_, carrier)| carrier)
    }
}

//! Finds room for an arriving ADU, and drops what makes it.

use thalweg_base::adu::{Adu, Flags, Header};
use thalweg_base::event::DropCause;
use thalweg_base::limits::{
    MAILBOX_ADUS_MAX, MAILBOX_BYTES_MAX, MAILBOX_EXCESS_ADUS_MAX, MAILBOX_EXCESS_BYTES_MAX,
    MAILBOX_SHARE_BYTES,
};
use thalweg_base::needs::Reliability;
use thalweg_base::time::Instant;

use super::rules::WithoutRoom;
use super::{Item, Mailbox, Place, Refusal, Resequencer};

impl<T> Mailbox<T> {
    /// Finds room for an ADU, if necessary and permitted by dropping others.
    pub(super) fn make_room(
        &mut self,
        header: &Header,
        bytes: u64,
        (reliability, mut is_scarce): (Reliability, bool),
        now: Instant,
    ) -> Result<(), Refusal> {
        if self.rules.is_newest() && !header.flags.contains(Flags::END) {
            if self.newest.is_some_and(|newest| newest > header.sequence.0) {
                return Err(Refusal::Superseded);
            }
            while self.drop_first(DropCause::Cancelled) {}
            return Ok(());
        }
        if self.has_room(bytes, 0, is_scarce, now) {
            return Ok(());
        }
        // An ADU that fills a gap lets others leave, so it has room of its own.
        let fills = |one: &Resequencer| one.lacks(header.sequence.0);
        if self.resequencer.as_ref().is_some_and(fills) && self.has_room(bytes, 1, false, now) {
            return Ok(());
        }
        let without_room = self.rules.without_room(header, reliability);
        match without_room {
            WithoutRoom::Accept if self.has_excess(bytes) => return Ok(()),
            WithoutRoom::Accept | WithoutRoom::Refuse => return Err(Refusal::Full),
            WithoutRoom::DropFirst | WithoutRoom::DropLeast => {}
        }
        let sequence = header.sequence.0;
        while !self.has_room(bytes, 0, is_scarce, now) {
            match without_room {
                // It would leave first itself.
                WithoutRoom::DropFirst if self.is_before_first(sequence) => {
                    return Err(Refusal::Full);
                }
                WithoutRoom::DropLeast => {
                    let least = self.ranks.first().copied();
                    let Some((_, place)) = least.filter(|(least, _)| *least <= header.importance)
                    else {
                        return Err(Refusal::Outranked);
                    };
                    self.drop_at(place);
                }
                _ if self.drop_first(DropCause::Overflow) => {}
                _ => return Err(Refusal::Full),
            }
            // Each mailbox keeps its share.
            is_scarce &= self.bytes >= MAILBOX_SHARE_BYTES.as_bytes();
        }
        Ok(())
    }

    /// Returns whether, in sequence, everything that waits is after an ADU.
    fn is_before_first(&self, sequence: u64) -> bool {
        let first = self.resequencer.as_ref().and_then(Resequencer::first);
        first.is_some_and(|first| first.header.sequence.0 > sequence)
    }

    /// Returns whether an ADU that must be delivered is accepted beyond the bounds.
    const fn has_excess(&self, bytes: u64) -> bool {
        let excess = MAILBOX_EXCESS_BYTES_MAX.as_bytes();
        !self.is_abandoned
            && self.adus < MAILBOX_ADUS_MAX + MAILBOX_EXCESS_ADUS_MAX
            && self.bytes + bytes <= MAILBOX_BYTES_MAX.as_bytes() + excess
    }

    /// Returns whether there is room for this payload, with the bounds doubled this often.
    fn has_room(&self, bytes: u64, doubled: u32, is_scarce: bool, now: Instant) -> bool {
        if self.adus == 0 {
            return true;
        }
        self.bytes + bytes <= self.rules.bytes << doubled
            && !is_scarce
            && self.adus < self.rules.adus << doubled
            && (doubled > 0 || !self.is_too_old(now))
    }

    /// Returns whether the first that waits came too long before `now` to be in the mailbox's span.
    pub(super) fn is_too_old(&self, now: Instant) -> bool {
        let span = self.rules.span;
        let of_items = || self.items.iter().find_map(Item::adu);
        let in_sequence = || self.waiting.first_key_value();
        !span.is_never()
            && of_items()
                .map(|(_, waiting)| waiting)
                .or_else(|| in_sequence().map(|(_, waiting)| waiting))
                .is_some_and(|first| first.arrived + span < now)
    }

    /// Drops the ADU that would leave first, the end excepted; returns whether there was one.
    fn drop_first(&mut self, cause: DropCause) -> bool {
        let is_end = |adu: &Adu| adu.header.flags.contains(Flags::END);
        let first = |item: &Item<T>| item.adu().is_some_and(|(adu, _)| !is_end(adu));
        if let Some(place) = self.items.iter().position(first) {
            if let Some(Item::Adu(number, adu, waiting)) = self.items.remove(place) {
                self.drop_one(&adu, waiting, Place::Item(number), cause);
            }
            return true;
        }
        let first = self.resequencer.as_ref().and_then(Resequencer::first);
        if first.is_none_or(is_end) {
            return false;
        }
        let Some((adu, waiting)) = self.take_waiting() else {
            return false;
        };
        let place = Place::Sequence(adu.header.sequence.0);
        self.drop_one(&adu, waiting, place, cause);
        true
    }

    /// Drops the ADU at a place, since it is the least important.
    fn drop_at(&mut self, place: Place) {
        match place {
            Place::Item(number) => {
                // Notices have no number, and are few.
                let is_it =
                    |item: &Item<T>| matches!(item, Item::Adu(other, ..) if *other == number);
                let at = self.items.iter().position(is_it);
                if let Some(Item::Adu(_, adu, waiting)) = at.and_then(|at| self.items.remove(at)) {
                    self.drop_one(&adu, waiting, place, DropCause::Preempted);
                }
            }
            Place::Sequence(sequence) => {
                let resequencer = self.resequencer.as_mut();
                let adu = resequencer.and_then(|one| one.remove(sequence));
                if let Some((adu, waiting)) = adu.zip(self.waiting.remove(&sequence)) {
                    self.drop_one(&adu, waiting, place, DropCause::Preempted);
                    self.gaps.handle_refused(sequence);
                    // It is skipped, and counted so, when its turn comes.
                    self.dropped_here -= 1;
                }
            }
        }
    }
}

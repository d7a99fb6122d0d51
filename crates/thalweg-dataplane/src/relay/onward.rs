//! The second half of an ADU's way: from when it is here whole to the next link or to its sink.

use thalweg_base::adu::{Adu, Flags, Header, Mark};
use thalweg_base::event::DropCause;
use thalweg_base::id::NodeId;
use thalweg_base::seen::News;
use thalweg_base::time::Instant;

use super::account::{Ended, REPORT_TICK, band_of};
use super::action::{Action, Dispatch, Place, SendNumber};
use super::cast::Branches;
use super::company::Share;
use super::part::Turn;
use super::plans::Seat;
use super::sendings::Sending;
use super::{Part, Relay};
use crate::route::Carriage;

impl<R: Copy + Ord> Relay<R> {
    /// Passes copies of an ADU through the parts of branches; those in company share what is decided.
    pub(super) fn copy_to(&mut self, branches: &Branches, adu: &Adu, now: Instant) {
        let header = &adu.header;
        let mut last: Option<Share> = None;
        let mut is_marked_anew = false;
        for branch in branches.having(header.sequence) {
            let plan = (header.stream, branch.epoch);
            let Some(seat) = self.plans.installed_at(branch.seat, plan) else {
                continue;
            };
            let terms = self.plans.front_mut(seat).shared_terms();
            let Some(terms) = terms.filter(|_| self.has_company) else {
                self.copy(adu, seat, now);
                continue;
            };
            let share = match last {
                Some(share) if share.terms == terms => share,
                _ => *last.insert(Share::of(terms, header, adu.payload.len())),
            };
            is_marked_anew |= self.copy_shared(&share, adu, seat, now);
        }
        // Once for all of them.
        if is_marked_anew {
            self.plans.due.hurry(now);
        } else if last.is_some_and(|share| share.band.is_some()) {
            self.plans.due.wake(now + REPORT_TICK);
        }
    }

    /// Sends a copy of an ADU as was decided for all in company; returns whether its mark is a new one.
    fn copy_shared(&mut self, share: &Share, adu: &Adu, seat: Seat, now: Instant) -> bool {
        let (front, counts) = self.plans.entry_mut(seat);
        let header = Header {
            epoch: front.plan.1,
            ..adu.header
        };
        let is_marked_anew = front.tally.arrive(share.came, share.band, counts);
        let next = front.next;
        if share.is_end
            && let Some(mut book) = self.plans.book_at(seat)
        {
            book.handle_end_copied(now);
        }
        match (share.verdict, next) {
            (Ok(_), Some(next)) => {
                let bytes = adu.payload.len();
                let dispatch = self.dispatch((seat, next), share, header, bytes, None);
                let payload = adu.payload.clone();
                self.actions.push_back(Action::Send(dispatch, payload));
            }
            // With the link up there is a next node.
            (Ok(_), None) => {}
            (Err(cause), _) => self.give_up(&header, cause, Place::Part, now),
        }
        is_marked_anew
    }

    /// Passes a copy of an ADU through the part of a branch.
    pub(super) fn copy(&mut self, adu: &Adu, seat: Seat, now: Instant) {
        let mut adu = adu.clone();
        adu.header.epoch = self.plans.front(seat).plan.1;
        if let Some(mut book) = self.plans.book_at(seat) {
            book.handle_arrived(adu.header.mark(), band_of(&adu.header), now);
            if adu.header.flags.contains(Flags::END) {
                book.handle_end_copied(now);
            }
        }
        self.process(seat, adu, now);
    }

    /// Passes a whole ADU through its part, then onward; the part must be installed.
    pub(super) fn process(&mut self, seat: Seat, adu: Adu, now: Instant) {
        let header = adu.header;
        let Some(terms) = self.plans.front(seat).terms else {
            return self.drop(&header, DropCause::PathLost, Place::Way);
        };
        let lifted = self.plans.part_mut(seat).filter(|_| terms.is_lifted);
        let carried = match lifted {
            Some(part) => part.carry(adu, now),
            None => Err(adu),
        };
        match carried {
            Ok(carried) => {
                for (cause, _) in carried.dropped.iter() {
                    self.give_up(&header, cause, Place::Part, now);
                }
                for packet in carried.packets {
                    self.onward(seat, packet.into_adu(), now);
                }
            }
            Err(adu) => match terms.chain.way(&header) {
                Ok(_) => self.onward(seat, adu, now),
                Err(cause) => self.give_up(&header, cause, Place::Part, now),
            },
        }
    }

    /// Sends an ADU that has passed its part to the next node when it is its turn, or delivers it.
    fn onward(&mut self, seat: Seat, adu: Adu, now: Instant) {
        let front = self.plans.front(seat);
        let is_ordered = front
            .terms
            .is_some_and(|terms| terms.reliability.is_ordered());
        let Some(next) = front.next else {
            return self.deliver(seat, adu, now);
        };
        let turn = match self.plans.part_mut(seat).filter(|_| is_ordered) {
            None => Turn::Now,
            Some(part) => part.turn(&adu.header, adu.payload.len()),
        };
        match turn {
            Turn::Now => self.send(seat, next, adu, now),
            Turn::Later => {
                if let Some(part) = self.plans.part_mut(seat) {
                    part.wait(adu);
                }
            }
            Turn::Never => self.give_up(&adu.header, DropCause::Overflow, Place::Way, now),
        }
    }

    fn send(&mut self, seat: Seat, next: NodeId, adu: Adu, now: Instant) {
        if !self.plans.front(seat).is_up {
            return self.give_up(&adu.header, DropCause::PathLost, Place::Way, now);
        }
        let bytes = adu.payload.len();
        let dispatch = self.dispatch_alone((seat, next), adu.header, bytes, None, now);
        self.actions.push_back(Action::Send(dispatch, adu.payload));
    }

    /// Counts an ADU as sent and returns how it goes; its plan must be installed.
    pub(super) fn dispatch_alone(
        &mut self,
        to: (Seat, NodeId),
        header: Header,
        payload_bytes: usize,
        via: Option<R>,
        now: Instant,
    ) -> Dispatch {
        let terms = self.plans.front(to.0).terms;
        let terms = terms.expect("the caller has found it");
        let share = Share {
            // What the chain says of it is behind it.
            verdict: Ok(Carriage::of(terms.reliability, &header, payload_bytes)),
            ..Share::of(terms, &header, payload_bytes)
        };
        if share.band.is_some() {
            self.plans.due.wake(now + REPORT_TICK);
        }
        self.dispatch(to, &share, header, payload_bytes, via)
    }

    /// Counts an ADU as sent and returns how it goes, as was decided.
    fn dispatch(
        &mut self,
        (seat, to): (Seat, NodeId),
        share: &Share,
        mut header: Header,
        payload_bytes: usize,
        via: Option<R>,
    ) -> Dispatch {
        let Share {
            terms, came, band, ..
        } = *share;
        let carriage = share.verdict.unwrap_or(Carriage::Stream);
        let is_ordered = carriage == Carriage::Ordered;
        if is_ordered && let Some(part) = self.plans.part_mut(seat) {
            part.handle_sent();
        }
        let (front, counts) = self.plans.entry_mut(seat);
        front.outstanding += 1;
        let is_acknowledged = carriage != Carriage::Datagram;
        let mark = front.tally.outgoing_mark(came, is_acknowledged);
        header.set_mark(mark);
        front.tally.send(mark, band, payload_bytes, counts);
        let number = self.sendings.insert(Sending {
            seat,
            band,
            came,
            mark,
            is_ordered,
            is_void: false,
            via,
        });
        Dispatch {
            number,
            to,
            header,
            payload_bytes,
            carriage,
            order: terms.order,
            weight: terms.weight,
        }
    }

    /// Handles how ADUs ended that were handed to links; returns how many were under way.
    pub fn handle_outcomes(
        &mut self,
        outcomes: impl IntoIterator<Item = (SendNumber, Ended)>,
        now: Instant,
    ) -> usize {
        let outcomes = outcomes.into_iter();
        let was_under_way =
            |(number, ended): &(SendNumber, Ended)| self.handle_outcome(*number, *ended, now);
        outcomes.filter(was_under_way).count()
    }

    /// Handles how an ADU ended that was handed to a link; returns whether it was under way.
    pub fn handle_outcome(&mut self, number: SendNumber, ended: Ended, now: Instant) -> bool {
        let Some(sending) = self.sendings.remove(number) else {
            return false;
        };
        self.settle(number, &sending, ended, now);
        self.plans.handle_ended(sending.seat);
        if sending.is_ordered {
            self.send_next(sending.seat, now);
        }
        true
    }

    /// Counts how an ADU ended. One that still arrives is counted later: this node does not own it
    /// yet.
    fn settle(&mut self, number: SendNumber, sending: &Sending<R>, ended: Ended, now: Instant) {
        let Sending {
            came, mark, band, ..
        } = *sending;
        if ended.is_err() {
            // Its link refuses or loses ADUs.
            self.plans.front_mut(sending.seat).set_apart();
        }
        let intake = sending.via.and_then(|via| self.intakes.get_mut(&via));
        if let Some(intake) = intake.filter(|intake| intake.passed == Some(number)) {
            intake.ended = Some((ended, mark));
        } else if let Some(mut book) = self.plans.book_at(sending.seat) {
            if sending.is_void {
                book.handle_void([came, mark], band, ended, now);
            } else {
                book.handle_ended(mark, band, ended, now);
            }
        }
    }

    /// Sends the next ordered ADU once the link has taken the last, and resumes what was held back.
    fn send_next(&mut self, seat: Seat, now: Instant) {
        if let Some(part) = self.plans.part_mut(seat) {
            part.handle_gone();
        }
        while let Some(adu) = self.plans.part_mut(seat).and_then(Part::poll_waiting) {
            if let Some(next) = self.plans.front(seat).next {
                self.send(seat, next, adu, now);
            }
        }
        let part = self.plans.part(seat);
        if part.is_some_and(|part| part.route().is_repaired() || !part.is_busy()) {
            self.release(seat);
        }
    }

    /// Delivers an ADU here, unless it has come before or is not for the present subscribers.
    fn deliver(&mut self, seat: Seat, mut adu: Adu, now: Instant) {
        let header = adu.header;
        let terms = self.plans.front(seat).terms;
        let reliability = terms.map(|terms| terms.reliability).unwrap_or_default();
        let received = self.arrivals.of(header.stream);
        let taken = received.insert(&header, adu.payload.len());
        if taken != Err(DropCause::Duplicate) {
            if received.news() > Some(News::Usual) {
                self.plans.due.hurry(now);
            } else {
                self.plans.due.wake(now + REPORT_TICK);
            }
        }
        match taken {
            Ok(_) => {
                // The mark belongs to the hop; subscribers do not see it.
                adu.header.set_mark(Mark::NONE);
                self.actions.push_back(Action::Deliver(adu, reliability));
            }
            Err(cause) => self.give_up(&header, cause, Place::Sink, now),
        }
    }

    /// Handles what became of an ADU that was to be delivered.
    pub fn handle_delivered(&mut self, header: &Header, ended: Ended, now: Instant) {
        if let Some(mut book) = self.plans.book_of(header) {
            book.count(band_of(header), now, |counts, band| match ended {
                Ok(()) => counts.deliver(band),
                Err(cause) => counts.give_up(band, cause),
            });
        }
    }
}

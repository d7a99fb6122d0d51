//! The second half of an ADU's way: from when it is here whole to the next link or to its sink.

use thalweg_base::adu::{Adu, Header, Mark};
use thalweg_base::event::DropCause;
use thalweg_base::id::{Epoch, NodeId};
use thalweg_base::seen::News;
use thalweg_base::time::Instant;

use super::account::{Ended, REPORT_TICK};
use super::action::{Action, Dispatch, Place, SendNumber};
use super::intake::Sending;
use super::part::Turn;
use super::{Part, Relay};
use crate::replay::Plan;
use crate::route::Carriage;

impl<R: Copy + Ord> Relay<R> {
    /// Passes a copy of an ADU through the part of a branch.
    pub(super) fn copy(&mut self, adu: &Adu, epoch: Epoch, now: Instant) {
        let mut adu = adu.clone();
        adu.header.epoch = epoch;
        if self.parts.contains_key(&(adu.header.stream, epoch)) {
            self.count_arrived(&adu.header, now);
            self.accounts.handle_copied(&adu.header, now);
            self.process(adu, now);
        }
    }

    /// Passes a whole ADU through its part, then onward.
    pub(super) fn process(&mut self, adu: Adu, now: Instant) {
        let header = adu.header;
        let Some(part) = self.parts.get_mut(&(header.stream, header.epoch)) else {
            return self.drop(&header, DropCause::PathLost, Place::Way);
        };
        match part.carry(adu, now) {
            Ok(carried) => {
                for (cause, _) in carried.dropped.iter() {
                    self.give_up(&header, cause, Place::Part, now);
                }
                for packet in carried.packets {
                    self.onward(packet.into_adu(), now);
                }
            }
            Err(adu) => match part.route().way(&header) {
                Ok(_) => self.onward(adu, now),
                Err(cause) => self.give_up(&header, cause, Place::Part, now),
            },
        }
    }

    /// Sends an ADU that has passed its part to the next node when it is its turn, or delivers it.
    fn onward(&mut self, adu: Adu, now: Instant) {
        let header = adu.header;
        let Some(part) = self.parts.get_mut(&(header.stream, header.epoch)) else {
            return self.drop(&header, DropCause::PathLost, Place::Way);
        };
        let Some(next) = part.next() else {
            return self.deliver(adu, now);
        };
        match part.turn(&header, adu.payload.len()) {
            Turn::Now => self.send(next, adu, now),
            Turn::Later => part.wait(adu),
            Turn::Never => self.give_up(&header, DropCause::Overflow, Place::Way, now),
        }
    }

    fn send(&mut self, next: NodeId, adu: Adu, now: Instant) {
        if !self.links.contains(&next) {
            return self.give_up(&adu.header, DropCause::PathLost, Place::Way, now);
        }
        let dispatch = self.dispatch(next, adu.header, adu.payload.len(), None, now);
        self.actions.push_back(Action::Send(dispatch, adu.payload));
    }

    /// Counts an ADU as sent and returns how it goes; its plan must be installed.
    pub(super) fn dispatch(
        &mut self,
        to: NodeId,
        mut header: Header,
        payload_bytes: usize,
        via: Option<R>,
        now: Instant,
    ) -> Dispatch {
        let part = self.parts.get_mut(&(header.stream, header.epoch));
        let part = part.expect("the caller has found it");
        part.handle_sent();
        let route = part.route();
        let carriage = route.carriage(&header, payload_bytes);
        let (order, weight) = (route.order(), route.weight());
        let came = header.mark();
        let is_acknowledged = carriage != Carriage::Datagram;
        header.set_mark(self.accounts.outgoing_mark(&header, is_acknowledged));
        self.accounts.handle_sent(&header, payload_bytes, now);
        let plan = (header.stream, header.epoch);
        *self.outstanding.entry(plan).or_default() += 1;
        let number = self.next_number;
        self.next_number = SendNumber(number.0 + 1);
        let sending = Sending {
            header,
            came,
            is_ordered: carriage == Carriage::Ordered,
            via,
            is_void: false,
        };
        self.sendings.insert(number, sending);
        Dispatch {
            number,
            to,
            header,
            payload_bytes,
            carriage,
            order,
            weight,
        }
    }

    /// Handles how an ADU ended that was handed to a link; returns whether it was under way.
    pub fn handle_outcome(&mut self, number: SendNumber, ended: Ended, now: Instant) -> bool {
        let Some(sending) = self.sendings.remove(&number) else {
            return false;
        };
        self.settle(number, &sending, ended, now);
        let plan = (sending.header.stream, sending.header.epoch);
        if let Some(outstanding) = self.outstanding.get_mut(&plan) {
            *outstanding -= 1;
            if *outstanding == 0 {
                self.outstanding.remove(&plan);
            }
        }
        if sending.is_ordered {
            self.send_next(plan, now);
        }
        true
    }

    /// Counts how an ADU ended. One that still arrives is counted later: this node does not own it
    /// yet.
    fn settle(&mut self, number: SendNumber, sending: &Sending<R>, ended: Ended, now: Instant) {
        let header = &sending.header;
        let intake = sending.via.and_then(|via| self.intakes.get_mut(&via));
        if let Some(intake) = intake.filter(|intake| intake.passed == Some(number)) {
            intake.ended = Some((ended, header.mark()));
        } else if let Some(accounts) = self.accounts_of(header) {
            if sending.is_void {
                accounts.handle_void(sending.came, header, ended, now);
            } else {
                accounts.handle_ended(header, ended, now);
            }
        }
    }

    /// Sends the next ordered ADU once the link has taken the last, and resumes what was held back.
    fn send_next(&mut self, plan: Plan, now: Instant) {
        if let Some(part) = self.parts.get_mut(&plan) {
            part.handle_gone();
        }
        while let Some(adu) = self.parts.get_mut(&plan).and_then(Part::poll_waiting) {
            if let Some(next) = self.parts[&plan].next() {
                self.send(next, adu, now);
            }
        }
        let part = self.parts.get(&plan);
        if part.is_some_and(|part| part.route().is_repaired() || !part.is_busy()) {
            self.release(plan);
        }
    }

    /// Delivers an ADU here, unless it has come before or is not for the present subscribers.
    fn deliver(&mut self, mut adu: Adu, now: Instant) {
        let header = adu.header;
        let part = self.parts.get(&(header.stream, header.epoch));
        let reliability = part.map(Part::reliability).unwrap_or_default();
        let received = self.arrivals.of(header.stream);
        let taken = received.insert(&header, adu.payload.len());
        if taken != Err(DropCause::Duplicate) {
            if received.news() > Some(News::Usual) {
                self.accounts.hurry(now);
            } else {
                self.accounts.wake(now + REPORT_TICK);
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
        if let Some(accounts) = self.accounts_of(header) {
            accounts.count(header, now, |counts, band| match ended {
                Ok(()) => counts.deliver(band),
                Err(cause) => counts.give_up(band, cause),
            });
        }
    }
}

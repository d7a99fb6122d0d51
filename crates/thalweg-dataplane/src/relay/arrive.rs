//! The first half of an ADU's way: from a link or a producer until it is here whole.

use bytes::Bytes;
use thalweg_base::adu::{Adu, Header, Mark};
use thalweg_base::event::DropCause;
use thalweg_base::id::NodeId;
use thalweg_base::needs::Reliability;
use thalweg_base::time::Instant;

use super::Relay;
use super::account::band_of;
use super::action::{Action, Place, Refusal};
use super::cast::Branches;
use super::intake::Intake;
use super::lag::Lag;
use super::plans::Seat;
use crate::route::{self, Way};

/// An ADU that begins to arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Begun {
    /// Its header.
    pub header: Header,
    /// The length of its payload.
    pub payload_bytes: usize,
    /// All of it is here in one piece, so there is nothing to pass on while it arrives.
    pub is_whole: bool,
}

impl<R: Copy + Ord> Relay<R> {
    /// Handles an ADU that begins to arrive from a neighbour; `lag` is the node's.
    pub fn handle_adu(&mut self, from: NodeId, recv: R, adu: Begun, lag: &mut Lag, now: Instant) {
        let Begun {
            header,
            payload_bytes,
            is_whole,
        } = adu;
        let branches = self.casts.of((header.stream, header.epoch));
        let (seat, way) = match self.admit(from, &header, &branches, lag, now) {
            Ok(admitted) => admitted,
            Err(refusal) => return self.refuse(recv, header, refusal, now),
        };
        let is_kept = self.may_keep(seat, &header);
        let mut intake = Intake::new(header, seat, payload_bytes, branches, is_kept);
        let (next, is_up) = {
            let front = self.plans.front(seat);
            (front.next, front.is_up)
        };
        let is_to_pass = way == Way::Through && payload_bytes > 0 && !is_whole;
        let passes = is_to_pass && !self.plans.is_busy(seat);
        let Some(next) = next.filter(|_| passes) else {
            intake.gather();
            self.intakes.insert(recv, intake);
            self.actions.push_back(Action::Gather(recv));
            return self.hold_if_full(recv, seat, &header, payload_bytes);
        };
        if !is_up {
            return self.refuse(recv, header, Refusal::Dropped(DropCause::PathLost), now);
        }
        let dispatch = self.dispatch_alone((seat, next), header, payload_bytes, Some(recv), now);
        self.actions.push_back(Action::Pass(recv, dispatch));
        intake.passed = Some(dispatch.number);
        if is_kept {
            intake.gather();
        }
        self.intakes.insert(recv, intake);
    }

    /// Decides once for the plan and all its branches.
    fn admit(
        &mut self,
        from: NodeId,
        header: &Header,
        branches: &Branches,
        lag: &mut Lag,
        now: Instant,
    ) -> Result<(Seat, Way), Refusal> {
        let seat = self.plans.installed((header.stream, header.epoch));
        let seat = seat.ok_or(Refusal::Unknown)?;
        let part = self.plans.part(seat).ok_or(Refusal::Unknown)?;
        let is_copied = branches.has_any(header.sequence);
        let way = part.route().admit_copied(from, header, is_copied);
        let way = way.map_err(|refusal| match refusal {
            route::Refusal::Stranger => Refusal::Stranger,
            route::Refusal::Dropped(cause) => Refusal::Dropped(cause),
        })?;
        let copies = branches.having(header.sequence).count();
        let copies = copies + usize::from(part.next().is_some());
        if !lag.admits(header, copies, now) {
            return Err(Refusal::Dropped(DropCause::Expired));
        }
        Ok((seat, way))
    }

    fn refuse(&mut self, recv: R, header: Header, refusal: Refusal, now: Instant) {
        if let Refusal::Dropped(cause) = refusal
            && let Some(mut book) = self.plans.book_of(&header)
        {
            book.handle_refused(&header, cause, now);
        }
        self.actions
            .push_back(Action::Refuse(recv, header, refusal));
    }

    /// Returns whether an ADU that begins is kept for sinks that join late. On an ordered stream
    /// they begin with the next one instead.
    fn may_keep(&mut self, seat: Seat, header: &Header) -> bool {
        let terms = self.plans.front(seat).terms;
        let is_shared = terms.is_some_and(|terms| !terms.reliability.is_ordered());
        is_shared
            && self
                .replay
                .handle_begun((header.stream, header.epoch), header)
    }

    /// Holds an ordered reception back if it could not be sent on.
    fn hold_if_full(&mut self, recv: R, seat: Seat, header: &Header, payload_bytes: usize) {
        if self.has_room(seat, header, payload_bytes) {
            return;
        }
        if let Some(part) = self.plans.part_mut(seat) {
            part.hold(recv);
            self.actions.push_back(Action::Hold(recv));
        }
    }

    /// Handles bytes of an arriving ADU.
    pub fn handle_chunk(&mut self, recv: R, chunk: &Bytes) {
        let Some(intake) = self.intakes.get_mut(&recv) else {
            return;
        };
        intake.handle_chunk(chunk);
        if let Some(number) = intake.passed {
            self.actions.push_back(Action::Chunk(number, chunk.clone()));
        }
    }

    /// Handles the end of an arriving ADU: all of it is here.
    pub fn handle_whole(&mut self, recv: R, now: Instant) {
        let Some(mut intake) = self.intakes.remove(&recv) else {
            return;
        };
        let payload = intake.take_payload();
        self.take(intake, payload, now);
    }

    /// Handles the end of an arriving ADU of which the driver has collected the payload: it was asked
    /// to, or the ADU is passed on and kept here.
    pub fn handle_gathered(&mut self, recv: R, payload: Bytes, now: Instant) {
        if let Some(intake) = self.intakes.remove(&recv) {
            self.take(intake, payload, now);
        }
    }

    /// Handles an ADU of which this node wants no more although more would come, since the next link
    /// has given it up: this node accounts for it.
    pub fn handle_let_go(&mut self, recv: R, now: Instant) {
        if let Some(intake) = self.intakes.remove(&recv) {
            self.own(&intake, now);
        }
    }

    /// Takes an ADU that is here whole.
    fn take(&mut self, intake: Intake, payload: Bytes, now: Instant) {
        let header = intake.header;
        self.own(&intake, now);
        let adu = Adu { header, payload };
        if intake.is_kept {
            self.replay
                .handle_whole((header.stream, header.epoch), &adu, now);
        }
        // Add branches that began since: each ADU is either in the kept group when copying begins,
        // or copied here.
        let present = self.casts.of((header.stream, header.epoch));
        let branches = intake.branches.joined(&present, header.sequence);
        let has_passed = intake.passed.is_some();
        if !has_passed || intake.is_kept {
            self.copy_to(&branches, &adu, now);
        }
        if !has_passed {
            let plan = (header.stream, header.epoch);
            match self.plans.installed_at(intake.seat, plan) {
                Some(seat) => self.process(seat, adu, now),
                None => self.drop(&header, DropCause::PathLost, Place::Way),
            }
        }
    }

    /// Counts an ADU that is now whole, and how it ended if it was passed on and has.
    fn own(&mut self, intake: &Intake, now: Instant) {
        let (came, band) = (intake.header.mark(), band_of(&intake.header));
        let plan = (intake.header.stream, intake.header.epoch);
        let Some(mut book) = self.plans.book_near(intake.seat, plan) else {
            return;
        };
        book.handle_arrived(came, band, now);
        if let Some((ended, mark)) = intake.ended {
            book.handle_ended(mark, band, ended, now);
        }
    }

    /// Handles an ADU of which the rest does not come. The node that gave the rest up accounts for
    /// it, under this cause.
    pub fn handle_failed(&mut self, recv: R, cause: DropCause, now: Instant) {
        let Some(intake) = self.intakes.remove(&recv) else {
            return;
        };
        let Some(number) = intake.passed else {
            return;
        };
        match (intake.ended, self.sendings.get_mut(number)) {
            (Some((ended, mark)), _) => {
                let (came, band) = (intake.header.mark(), band_of(&intake.header));
                if let Some(mut book) = self.plans.book_of(&intake.header) {
                    book.handle_void([came, mark], band, ended, now);
                }
            }
            (None, Some(sending)) => sending.is_void = true,
            (None, None) => {}
        }
        let cause = match cause {
            DropCause::Expired => DropCause::Expired,
            _ => DropCause::Cancelled,
        };
        self.actions.push_back(Action::Cancel(number, cause));
    }

    /// Handles an ADU that a producer here gives, or that is sent again, under the plan in its
    /// header. Without that plan it is dropped and counted under none.
    pub fn give(&mut self, mut adu: Adu, now: Instant) {
        let seat = self.plans.installed((adu.header.stream, adu.header.epoch));
        let terms = seat.and_then(|seat| self.plans.front(seat).terms);
        let (Some(seat), Some(terms)) = (seat, terms) else {
            self.count_unplanned(&adu.header, DropCause::PathLost, now);
            return self.drop(&adu.header, DropCause::PathLost, Place::Way);
        };
        adu.header.set_mark(match terms.reliability {
            Reliability::None => Mark::at(now),
            Reliability::UntilDeadline | Reliability::Repaired | Reliability::Full => Mark::NONE,
        });
        if let Some(mut book) = self.plans.book_at(seat) {
            book.handle_arrived(adu.header.mark(), band_of(&adu.header), now);
        }
        self.process(seat, adu, now);
    }
}

//! The first half of an ADU's way: from a link or a producer until it is here whole.

use bytes::Bytes;
use thalweg_base::adu::{Adu, Header, Mark};
use thalweg_base::event::DropCause;
use thalweg_base::id::NodeId;
use thalweg_base::needs::Reliability;
use thalweg_base::time::Instant;

use super::action::{Action, Place, Refusal};
use super::intake::Intake;
use super::lag::Lag;
use super::{Branches, Relay};
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
        let way = match self.admit(from, &header, &branches, lag, now) {
            Ok(way) => way,
            Err(refusal) => return self.refuse(recv, header, refusal, now),
        };
        let is_kept = self.may_keep(&header);
        let mut intake = Intake::new(header, payload_bytes, branches, is_kept);
        let plan = (header.stream, header.epoch);
        let next = self.parts[&plan].next();
        let is_to_pass = way == Way::Through && payload_bytes > 0 && !is_whole;
        let passes = is_to_pass && !self.parts[&plan].is_busy();
        let Some(next) = next.filter(|_| passes) else {
            intake.gather();
            self.intakes.insert(recv, intake);
            self.actions.push_back(Action::Gather(recv));
            return self.hold_if_full(recv, &header, payload_bytes);
        };
        if !self.links.contains(&next) {
            return self.refuse(recv, header, Refusal::Dropped(DropCause::PathLost), now);
        }
        let dispatch = self.dispatch(next, header, payload_bytes, Some(recv), now);
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
    ) -> Result<Way, Refusal> {
        let part = self.parts.get(&(header.stream, header.epoch));
        let part = part.ok_or(Refusal::Unknown)?;
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
        Ok(way)
    }

    fn refuse(&mut self, recv: R, header: Header, refusal: Refusal, now: Instant) {
        if let Refusal::Dropped(cause) = refusal {
            self.accounts.handle_refused(&header, cause, now);
        }
        self.actions
            .push_back(Action::Refuse(recv, header, refusal));
    }

    /// Returns whether an ADU that begins is kept for sinks that join late. On an ordered stream
    /// they begin with the next one instead.
    fn may_keep(&mut self, header: &Header) -> bool {
        let plan = (header.stream, header.epoch);
        let part = self.parts.get(&plan);
        let is_shared = part.is_some_and(|part| !part.route().is_ordered());
        is_shared && self.replay.handle_begun(plan, header)
    }

    /// Holds an ordered reception back if it could not be sent on.
    fn hold_if_full(&mut self, recv: R, header: &Header, payload_bytes: usize) {
        if self.has_room(header, payload_bytes) {
            return;
        }
        if let Some(part) = self.parts.get_mut(&(header.stream, header.epoch)) {
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
        let branches = self.branches(intake.branches, &header);
        let has_passed = intake.passed.is_some();
        if !has_passed || intake.is_kept {
            for branch in branches.having(header.sequence) {
                self.copy(&adu, branch.epoch, now);
            }
        }
        if !has_passed {
            self.process(adu, now);
        }
    }

    /// Counts an ADU that is now whole, and how it ended if it was passed on and has.
    fn own(&mut self, intake: &Intake, now: Instant) {
        let header = &intake.header;
        let Some(accounts) = self.accounts_of(header) else {
            return;
        };
        accounts.handle_arrived(header.mark(), header, now);
        if let Some((ended, mark)) = intake.ended {
            let mut sent = *header;
            sent.set_mark(mark);
            accounts.handle_ended(&sent, ended, now);
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
        match (intake.ended, self.sendings.get_mut(&number)) {
            (Some((ended, mark)), _) => {
                let mut sent = intake.header;
                sent.set_mark(mark);
                if let Some(accounts) = self.accounts_of(&sent) {
                    accounts.handle_void(intake.header.mark(), &sent, ended, now);
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
        let Some(part) = self.parts.get(&(adu.header.stream, adu.header.epoch)) else {
            self.count_unplanned(&adu.header, DropCause::PathLost, now);
            return self.drop(&adu.header, DropCause::PathLost, Place::Way);
        };
        adu.header.set_mark(match part.reliability() {
            Reliability::None => Mark::at(now),
            Reliability::UntilDeadline | Reliability::Repaired | Reliability::Full => Mark::NONE,
        });
        self.count_arrived(&adu.header, now);
        self.process(adu, now);
    }
}

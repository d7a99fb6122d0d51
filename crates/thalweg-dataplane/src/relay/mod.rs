//! What a node does with an ADU: the machine that the node and the simulator drive.
//!
//! *The idea.* An ADU comes from a link or a producer. The part of its plan on this node says
//! whether it is admitted, and whether it may pass while it arrives or must be gathered first; then
//! it goes through the plan's lift, to the next link or to the subscribers here. The same happens
//! with a copy for each plan that is grafted here. Whatever the machine decides leaves as an
//! [`Action`], in the order in which it must happen.
//!
//! ```text
//!  a link ── handle_adu ──┬─ Refuse
//!                         ├─ Pass ── handle_chunk: Chunk … ──────────────┐
//!                         └─ Gather ── handle_whole ─┬─► lift ─► Send ───┤─► handle_outcome
//!  a producer ── give ───────────────────────────────┤            └► Drop
//!                              copies for branches ──┘─► Deliver ─► handle_delivered
//! ```
//!
//! | file | what it owns |
//! |---|---|
//! | `action` | what the driver is asked to do |
//! | `part` | a plan's route and lift, and whose turn it is on its next link |
//! | `plans` | all plans: what each ADU touches, side by side, and the rest |
//! | `cast` | the branches of each plan |
//! | `company` | what branches share that want the same and keep up |
//! | `account` | the counts of each plan, and when they are reported |
//! | `intake`, `sendings` | an ADU that arrives, and those that were handed to links |
//! | `lag` | how long forwarding takes, and which ADUs are too late for it |
//! | `arrive`, `onward` | the way of an ADU through all of these |
//!
//! *What it does not do.* It has no clock, lock, socket or mailbox, knows no link but that it is up,
//! and does not choose what a link sends first.
//!
//! *Sources.* docs/decisions/0038; docs/concepts/recast.md, ledger.md and continuity.md; spec PA-29,
//! PA-32, PA-33.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use thalweg_base::adu::{Adu, Header};
use thalweg_base::count::{Band, Counts};
use thalweg_base::event::DropCause;
use thalweg_base::feed::Feed;
use thalweg_base::id::{Epoch, NodeId, StreamId};
use thalweg_base::time::Instant;

use crate::lift::Lift;
use crate::replay::{Budget, Plan, Replay};
use crate::route::Route;

mod account;
mod action;
mod arrivals;
mod arrive;
mod cast;
mod company;
mod intake;
pub mod lag;
mod onward;
mod part;
mod plans;
mod sendings;
#[cfg(test)]
mod tests;

pub use account::{Account, Ended, REPORT_TICK};
pub use action::{Action, Dispatch, Place, Refusal, SendNumber};
pub use arrivals::Arrivals;
pub use arrive::Begun;
pub use part::{Part, Turn};
pub use plans::Plans;

use account::band_of;
use cast::Casts;
use intake::Intake;
use plans::Seat;
use sendings::Sendings;

/// A node's data path; `R` is the driver's name of a reception.
#[derive(Debug)]
pub struct Relay<R> {
    plans: Plans<R>,
    casts: Casts,
    /// What is kept for sinks that join late.
    replay: Replay,
    intakes: BTreeMap<R, Intake>,
    sendings: Sendings<R>,
    /// What has come of each stream that ends here.
    arrivals: Arrivals,
    /// The neighbours with a link.
    links: BTreeSet<NodeId>,
    /// Branches that want the same of an ADU share what is decided on it.
    has_company: bool,
    actions: VecDeque<Action<R>>,
}

impl<R> Default for Relay<R> {
    fn default() -> Self {
        Self {
            plans: Plans::default(),
            casts: Casts::default(),
            replay: Replay::default(),
            intakes: BTreeMap::new(),
            sendings: Sendings::default(),
            arrivals: Arrivals::default(),
            links: BTreeSet::new(),
            has_company: true,
            actions: VecDeque::new(),
        }
    }
}

impl<R: Copy + Ord> Relay<R> {
    /// Returns a machine for some of a node's streams: what it keeps for late sinks shares a bound
    /// with the others'.
    pub fn within(budget: Budget) -> Self {
        Self {
            replay: Replay::within(budget),
            ..Self::default()
        }
    }

    /// Returns a machine that decides for each branch alone, to compare with.
    #[cfg(test)]
    fn without_company() -> Self {
        Self {
            has_company: false,
            ..Self::default()
        }
    }

    /// Handles a link to a neighbour that has come up or gone. What was sent over a lost one still
    /// gets an outcome.
    pub fn handle_link(&mut self, peer: NodeId, is_up: bool) {
        let has_changed = if is_up {
            self.links.insert(peer)
        } else {
            self.links.remove(&peer)
        };
        if has_changed {
            self.plans.handle_link(peer, is_up);
        }
    }

    /// Handles a part to be installed. It replaces the part of the same plan; ADUs that wait there
    /// are dropped, and the counts go on.
    pub fn handle_installed(&mut self, route: Route, lift: Option<Lift>) {
        let installation = route.installation();
        let plan = (installation.stream, installation.epoch);
        self.discard(plan);
        if installation.next.is_none() {
            // What is said of its subscribers from now on concerns it, also before its first ADU.
            self.arrivals.of(plan.0);
        }
        let part = Part::new(route, lift);
        let is_up = part.next().is_some_and(|next| self.links.contains(&next));
        self.plans.install(plan, part, is_up);
    }

    /// Handles the end of a plan here.
    pub fn handle_removed(&mut self, plan: Plan) {
        self.casts.stop(plan);
        self.replay.forget(plan);
        self.discard(plan);
        self.plans.forget(plan);
    }

    fn discard(&mut self, plan: Plan) {
        let Some(mut part) = self.plans.take_part(plan) else {
            return;
        };
        for adu in part.take_waiting() {
            self.drop(&adu.header, DropCause::PathLost, Place::Way);
        }
        let held = part.take_held().into_iter();
        self.actions.extend(held.map(Action::Resume));
    }

    /// Starts, bounds or stops the copies to a plan that is grafted here. A sink that begins with
    /// what is kept gets that first.
    pub fn handle_cast(&mut self, plan: Plan, feed: Feed, now: Instant) {
        let (stream, epoch) = plan;
        let seat = self.plans.installed(plan);
        let part = seat.and_then(|seat| self.plans.part(seat));
        let base = part.and_then(|part| part.route().installation().base);
        let (Some(seat), Some(base)) = (seat, base.filter(|_| feed != Feed::Off)) else {
            self.casts.stop(plan);
            return;
        };
        let until = match feed {
            Feed::Until(until) => Some(until),
            Feed::Off | Feed::Live | Feed::Replay => None,
        };
        let has_begun = self.casts.start((stream, base), (epoch, seat), until);
        if has_begun && feed == Feed::Replay {
            for adu in self.replay.group((stream, base), now) {
                let header = Header {
                    epoch,
                    ..adu.header
                };
                self.actions.push_back(Action::Replay(header));
                self.copy(&adu, seat, now);
            }
        }
    }

    /// Gives up what waits here under a plan, and cancels what its link has: it is sent again under
    /// another plan.
    pub fn recall(&mut self, plan: Plan, now: Instant) {
        let Some(seat) = self.plans.find(plan) else {
            return;
        };
        self.plans.front_mut(seat).set_apart();
        let waiting = self.plans.part_mut(seat).map(Part::take_waiting);
        for adu in waiting.into_iter().flatten() {
            self.give_up(&adu.header, DropCause::Cancelled, Place::Way, now);
        }
        let numbers = self.sendings.of(seat).into_iter();
        let cancel = numbers.map(|number| Action::Cancel(number, DropCause::Cancelled));
        self.actions.extend(cancel);
    }

    /// Keeps an ADU of a producer here for sinks that join late; its plan counts as [`Epoch`] 0.
    pub fn keep_given(&mut self, adu: &Adu, now: Instant) {
        let plan = (adu.header.stream, Epoch(0));
        if self.replay.handle_begun(plan, &adu.header) {
            self.replay.handle_whole(plan, adu, now);
        }
    }

    /// Returns what a sink of a stream published here begins with.
    pub fn kept_given(&self, stream: StreamId, now: Instant) -> Vec<Adu> {
        self.replay.group((stream, Epoch(0)), now)
    }

    /// Forgets what is kept of a stream that was published here.
    pub fn forget_given(&mut self, stream: StreamId) {
        self.replay.forget((stream, Epoch(0)));
    }

    /// Counts an ADU that no plan carries.
    pub fn count_unplanned(&mut self, header: &Header, cause: DropCause, now: Instant) {
        let header = Header {
            epoch: Epoch(0),
            ..*header
        };
        if let Some(mut book) = self.plans.book_of(&header) {
            book.handle_refused(&header, cause, now);
        }
    }

    /// Counts an ADU that has come and is not reported to the machine otherwise.
    pub fn count_arrived(&mut self, header: &Header, now: Instant) {
        if let Some(mut book) = self.plans.book_of(header) {
            book.handle_arrived(header.mark(), band_of(header), now);
        }
    }

    /// Counts an ADU of a plan that its sink has, as a receipt says.
    pub fn count_receipt(&mut self, plan: Plan, band: Band, now: Instant) {
        if let Some(mut book) = self.plans.book(plan) {
            book.count(Some(band), now, Counts::have);
        }
    }

    /// Counts an ADU of a plan that is sent again under another one.
    pub fn count_resent(&mut self, plan: Plan, band: Band, now: Instant) {
        if let Some(mut book) = self.plans.book(plan) {
            book.count(Some(band), now, Counts::resend);
        }
    }

    /// Returns the accounts of all plans, to take counts that have changed.
    pub const fn accounts_mut(&mut self) -> &mut Plans<R> {
        &mut self.plans
    }

    /// Returns what has come of streams, for receipts.
    pub const fn arrivals(&self) -> &Arrivals {
        &self.arrivals
    }

    /// The same, to take news and to start over.
    pub const fn arrivals_mut(&mut self) -> &mut Arrivals {
        &mut self.arrivals
    }

    /// Returns the next action. All are to be carried out before time goes on.
    pub fn poll_action(&mut self) -> Option<Action<R>> {
        let action = self.actions.pop_front();
        if action.is_none() {
            // The next ones are written where the last were, and not behind them.
            self.actions.clear();
        }
        action
    }

    /// Returns whether counts or receipts are due at once: the mark of a plan's ADUs has changed, or a
    /// stream has ended here, or much has come of it.
    pub const fn is_urgent(&self) -> bool {
        self.plans.due.is_urgent()
    }

    /// Returns when counts and receipts are due.
    pub const fn poll_timeout(&self) -> Instant {
        self.plans.due.poll_timeout()
    }

    /// Returns the part of a plan.
    pub fn part(&self, plan: Plan) -> Option<&Part<R>> {
        self.plans.part(self.plans.find(plan)?)
    }

    /// Returns all parts, by plan.
    pub fn parts(&self) -> impl Iterator<Item = (Plan, &Part<R>)> {
        self.plans.parts()
    }

    /// Returns the header of a reception that has not ended.
    pub fn reception(&self, recv: R) -> Option<&Header> {
        self.intakes.get(&recv).map(|intake| &intake.header)
    }

    /// Returns whether a reception is kept for sinks that join late; one that passes is collected for
    /// that, and is then reported by [`Relay::handle_gathered`].
    pub fn keeps(&self, recv: R) -> bool {
        self.intakes.get(&recv).is_some_and(|intake| intake.is_kept)
    }

    /// Returns whether an ADU that is given under a plan would be sent, or be sent later.
    pub fn takes(&self, plan: Plan, header: &Header, payload_bytes: usize) -> bool {
        let part = self.part(plan);
        part.is_none_or(|part| part.has_room(header, payload_bytes))
    }

    /// Returns whether a plan gets copies here.
    pub fn is_cast(&self, plan: Plan) -> bool {
        self.casts.base_of(plan).is_some()
    }

    /// Returns how many ADUs of a stream were handed to links and have no outcome yet.
    pub fn outstanding(&self, stream: StreamId) -> u64 {
        self.plans.outstanding(stream)
    }

    /// Returns how many ADUs of a plan were handed to links and have no outcome yet.
    pub fn outstanding_of(&self, plan: Plan) -> u64 {
        let seat = self.plans.find(plan);
        seat.map_or(0, |seat| u64::from(self.plans.front(seat).outstanding))
    }

    /// Returns how many ADUs arrive, and how many have no outcome yet.
    pub fn in_flight(&self) -> (usize, usize) {
        (self.intakes.len(), self.sendings.len())
    }

    /// Returns whether an ADU that arrives under a plan would be sent, or be sent later, if it came
    /// now. Where plans go at their own pace, one queue with room suffices.
    fn has_room(&self, seat: Seat, header: &Header, payload_bytes: usize) -> bool {
        let Some(part) = self.plans.part(seat) else {
            return true;
        };
        let (stream, base) = self.plans.front(seat).plan;
        if !part.route().is_repaired() || !self.casts.is_base((stream, base)) {
            return !part.is_busy();
        }
        let has_room = |part: &Part<R>| part.has_room(header, payload_bytes);
        let branches = self.casts.of((stream, base));
        let mut copied = branches.having(header.sequence).map(|branch| {
            let seat = self.plans.installed_at(branch.seat, (stream, branch.epoch));
            seat.and_then(|seat| self.plans.part(seat))
        });
        copied.any(|part| part.is_none_or(has_room)) || has_room(part)
    }

    /// Resumes the receptions that wait for room under a plan, and under the one it is grafted on.
    fn release(&mut self, seat: Seat) {
        let (stream, epoch) = self.plans.front(seat).plan;
        let base = self.casts.base_of((stream, epoch));
        let base = base.and_then(|base| self.plans.installed((stream, base)));
        for seat in [Some(seat), base].into_iter().flatten() {
            let held = self.plans.part_mut(seat).map(Part::take_held);
            let held = held.unwrap_or_default().into_iter();
            self.actions.extend(held.map(Action::Resume));
        }
    }

    fn drop(&mut self, header: &Header, cause: DropCause, place: Place) {
        self.actions.push_back(Action::Drop(*header, cause, place));
    }

    /// Counts an ADU that was here whole, and drops it.
    fn give_up(&mut self, header: &Header, cause: DropCause, place: Place, now: Instant) {
        if let Some(mut book) = self.plans.book_of(header) {
            let band = band_of(header);
            book.count(band, now, |counts, band| counts.give_up(band, cause));
        }
        self.drop(header, cause, place);
    }
}

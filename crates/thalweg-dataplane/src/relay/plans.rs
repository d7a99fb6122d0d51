//! The plans of a machine, each with its part, its account and the ADUs that it has under way.
//!
//! *The idea.* A relay changes something of each of many plans for every ADU. What it changes, and
//! what it needs to know for that, is a plan's *front*: two cache lines, side by side for all plans.
//! The rest is its *back*. A caller that knows a plan's seat in these tables needs no search, and a plan
//! keeps its seat while it is installed or has an ADU under way.
//!
//! *What it does not do.* It neither decides nor sends.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::num::NonZeroU8;

use thalweg_base::adu::Header;
use thalweg_base::count::Counts;
use thalweg_base::id::{Epoch, NodeId, StreamId};
use thalweg_base::needs::{Order, Reliability};

use super::account::{Account, Book, Due, Tally};
use super::part::Part;
use crate::replay::Plan;
use crate::route::{Chain, Route};

/// The place of a plan in the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seat(u32);

/// What the machine asks of a plan's route for each ADU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Terms {
    pub(super) chain: Chain,
    pub(super) reliability: Reliability,
    pub(super) order: Order,
    pub(super) weight: NonZeroU8,
    /// It has a lift, which is asked instead of the chain.
    pub(super) is_lifted: bool,
}

/// ADUs that a branch in company may have under way: what a link takes on the side while it keeps up.
const COMPANY_OUTSTANDING_MAX: u32 = 8;

/// What each ADU of a plan touches.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Front {
    pub(super) plan: Plan,
    /// `None` if the plan is not installed.
    pub(super) terms: Option<Terms>,
    /// The next node; `None` at the sink.
    pub(super) next: Option<NodeId>,
    /// The link to it is up.
    pub(super) is_up: bool,
    /// ADUs that were handed to the link and have no outcome yet.
    pub(super) outstanding: u32,
    /// It has fallen behind, and is decided alone until it has nothing under way.
    is_apart: bool,
    pub(super) tally: Tally,
}

const _: () = assert!(size_of::<Front>() == 128, "two cache lines");

/// The rest of a plan.
#[derive(Debug)]
struct Back<R> {
    part: Option<Part<R>>,
    counts: Counts,
}

/// The plans of a machine and their counts; `R` names a reception.
#[derive(Debug)]
pub struct Plans<R> {
    seats: BTreeMap<Plan, Seat>,
    fronts: Vec<Front>,
    backs: Vec<Back<R>>,
    free: Vec<Seat>,
    pub(super) due: Due,
}

impl Seat {
    #[cfg(test)]
    pub(super) const FIRST: Self = Self(0);

    const fn index(self) -> usize {
        self.0 as usize
    }
}

impl Terms {
    fn of<R>(part: &Part<R>) -> Self {
        let route: &Route = part.route();
        Self {
            chain: route.chain(),
            reliability: part.reliability(),
            order: route.order(),
            weight: route.weight(),
            is_lifted: part.is_lifted(),
        }
    }
}

impl Front {
    const fn new(plan: Plan) -> Self {
        Self {
            plan,
            terms: None,
            next: None,
            is_up: false,
            outstanding: 0,
            is_apart: false,
            tally: Tally::EMPTY,
        }
    }

    /// Returns the terms under which it may share what is decided on the next ADU: it has no lift, its
    /// link keeps up, and nothing waits.
    pub(super) fn shared_terms(&mut self) -> Option<Terms> {
        let terms = self.terms.filter(|terms| !terms.is_lifted)?;
        let most = if terms.reliability.is_ordered() {
            0
        } else {
            COMPANY_OUTSTANDING_MAX
        };
        if self.outstanding == 0 {
            self.is_apart = false;
        } else if self.outstanding > most {
            self.is_apart = true;
        }
        (self.is_up && !self.is_apart).then_some(terms)
    }

    /// Takes it out of the company until it has nothing under way.
    pub(super) const fn set_apart(&mut self) {
        self.is_apart = true;
    }

    /// Returns whether counts of the plan are kept: it is installed, or none.
    const fn is_counted(&self) -> bool {
        self.terms.is_some() || self.plan.1.0 == 0
    }
}

impl<R> Default for Plans<R> {
    fn default() -> Self {
        Self {
            seats: BTreeMap::new(),
            fronts: Vec::new(),
            backs: Vec::new(),
            free: Vec::new(),
            due: Due::NEVER,
        }
    }
}

impl<R> Plans<R> {
    /// Returns the counts that have changed since the last call, by plan. Nothing is due then.
    ///
    /// Cost    O(plans)
    pub fn take_changed(&mut self) -> impl Iterator<Item = (Plan, &Counts)> {
        let changed = self.take_due();
        for plan in &changed {
            self.take_counts(*plan);
        }
        let (seats, backs) = (&self.seats, &self.backs);
        changed.into_iter().filter_map(move |plan| {
            let seat = seats.get(&plan)?;
            Some((plan, &backs[seat.index()].counts))
        })
    }

    /// Returns the plans of which counts have changed. Nothing is due then: the caller takes
    /// the counts of each by [`Plans::take_counts`].
    ///
    /// Cost    O(plans)
    pub fn take_due(&mut self) -> Vec<Plan> {
        self.due = Due::NEVER;
        let seats = self.seats.iter();
        let changed = seats.filter(|(_, seat)| self.front(**seat).tally.has_changed);
        changed.map(|(plan, _)| *plan).collect()
    }

    /// Returns the counts of a plan if they have changed since they were last taken.
    pub fn take_counts(&mut self, plan: Plan) -> Option<&Counts> {
        let index = self.find(plan)?.index();
        let tally = &mut self.fronts[index].tally;
        if !core::mem::take(&mut tally.has_changed) {
            return None;
        }
        let counts = &mut self.backs[index].counts;
        tally.drain(counts);
        Some(counts)
    }

    /// Returns the account of a plan, if it is installed or anything was counted.
    pub fn account(&mut self, plan: Plan) -> Option<Account<'_>> {
        let index = self.find(plan)?.index();
        let tally = &mut self.fronts[index].tally;
        Some(Account::of(tally, &mut self.backs[index].counts))
    }

    /// Forgets the counts of a plan; they begin again from zero.
    pub fn forget(&mut self, plan: Plan) {
        if let Some(seat) = self.find(plan) {
            self.fronts[seat.index()].tally = Tally::EMPTY;
            self.backs[seat.index()].counts = Counts::default();
            self.leave(seat);
        }
    }

    /// Returns the seat of a plan that has one.
    pub(super) fn find(&self, plan: Plan) -> Option<Seat> {
        self.seats.get(&plan).copied()
    }

    /// Returns the seat of a plan if it is installed.
    pub(super) fn installed(&self, plan: Plan) -> Option<Seat> {
        let seat = self.find(plan)?;
        self.front(seat).terms.is_some().then_some(seat)
    }

    /// The same, without a search if it has the seat that it had.
    pub(super) fn installed_at(&self, had: Seat, plan: Plan) -> Option<Seat> {
        match self.fronts.get(had.index()) {
            Some(front) if front.plan == plan && front.terms.is_some() => Some(had),
            // Another plan sits there, or it has left and come again.
            _ => self.installed(plan),
        }
    }

    pub(super) fn front(&self, seat: Seat) -> &Front {
        &self.fronts[seat.index()]
    }

    pub(super) fn front_mut(&mut self, seat: Seat) -> &mut Front {
        &mut self.fronts[seat.index()]
    }

    /// Returns the part of a plan that is installed.
    pub(super) fn part(&self, seat: Seat) -> Option<&Part<R>> {
        self.backs[seat.index()].part.as_ref()
    }

    pub(super) fn part_mut(&mut self, seat: Seat) -> Option<&mut Part<R>> {
        self.backs[seat.index()].part.as_mut()
    }

    /// Returns whether an ADU of an ordered plan would have to wait for the one before it.
    pub(super) fn is_busy(&self, seat: Seat) -> bool {
        self.part(seat).is_some_and(Part::is_busy)
    }

    /// Returns all parts, by plan.
    pub(super) fn parts(&self) -> impl Iterator<Item = (Plan, &Part<R>)> {
        let seats = self.seats.iter();
        seats.filter_map(|(plan, seat)| Some((*plan, self.part(*seat)?)))
    }

    /// Returns how many ADUs of a stream are under way.
    pub(super) fn outstanding(&self, stream: StreamId) -> u64 {
        let plans = (stream, Epoch(0))..=(stream, Epoch(u32::MAX));
        let seats = self.seats.range(plans);
        seats
            .map(|(_, seat)| u64::from(self.front(*seat).outstanding))
            .sum()
    }

    /// Installs a part; it must not have one.
    pub(super) fn install(&mut self, plan: Plan, part: Part<R>, is_up: bool) {
        let seat = self.sit(plan);
        let front = &mut self.fronts[seat.index()];
        front.terms = Some(Terms::of(&part));
        front.next = part.next();
        front.is_up = is_up;
        self.backs[seat.index()].part = Some(part);
    }

    /// Takes out the part of a plan.
    pub(super) fn take_part(&mut self, plan: Plan) -> Option<Part<R>> {
        let seat = self.find(plan)?;
        let front = &mut self.fronts[seat.index()];
        (front.terms, front.next) = (None, None);
        self.backs[seat.index()].part.take()
    }

    /// Handles a link that has come up or gone.
    pub(super) fn handle_link(&mut self, peer: NodeId, is_up: bool) {
        let fronts = self.fronts.iter_mut();
        for front in fronts.filter(|front| front.next == Some(peer)) {
            front.is_up = is_up;
        }
    }

    /// Handles the outcome of an ADU.
    pub(super) fn handle_ended(&mut self, seat: Seat) {
        let front = &mut self.fronts[seat.index()];
        front.outstanding -= 1;
        if !front.is_counted() {
            self.leave(seat);
        }
    }

    /// Returns a plan's front and its counts.
    pub(super) fn entry_mut(&mut self, seat: Seat) -> (&mut Front, &mut Counts) {
        let index = seat.index();
        (&mut self.fronts[index], &mut self.backs[index].counts)
    }

    /// Returns the account of a plan at a seat, if it counts.
    pub(super) fn book_at(&mut self, seat: Seat) -> Option<Book<'_>> {
        let front = &mut self.fronts[seat.index()];
        front.is_counted().then(|| Book {
            tally: &mut front.tally,
            counts: &mut self.backs[seat.index()].counts,
            due: &mut self.due,
        })
    }

    /// Returns the account of a plan, if it counts. What a plan that is gone had does not.
    pub(super) fn book(&mut self, plan: Plan) -> Option<Book<'_>> {
        let seat = if plan.1 == Epoch(0) {
            self.sit(plan)
        } else {
            self.find(plan)?
        };
        self.book_at(seat)
    }

    /// The same, without a search if the plan has the seat that it had.
    pub(super) fn book_near(&mut self, had: Seat, plan: Plan) -> Option<Book<'_>> {
        match self.installed_at(had, plan) {
            Some(seat) => self.book_at(seat),
            None => self.book(plan),
        }
    }

    /// Returns the account of an ADU's plan.
    pub(super) fn book_of(&mut self, header: &Header) -> Option<Book<'_>> {
        self.book((header.stream, header.epoch))
    }

    fn sit(&mut self, plan: Plan) -> Seat {
        if let Some(seat) = self.find(plan) {
            return seat;
        }
        let (front, back) = (
            Front::new(plan),
            Back {
                part: None,
                counts: Counts::default(),
            },
        );
        let seat = if let Some(seat) = self.free.pop() {
            self.fronts[seat.index()] = front;
            self.backs[seat.index()] = back;
            seat
        } else {
            self.fronts.push(front);
            self.backs.push(back);
            Seat(self.fronts.len() as u32 - 1)
        };
        self.seats.insert(plan, seat);
        seat
    }

    /// Frees the seat of a plan that has nothing any more.
    fn leave(&mut self, seat: Seat) {
        let front = &self.fronts[seat.index()];
        if front.terms.is_none() && front.outstanding == 0 {
            self.seats.remove(&front.plan);
            self.free.push(seat);
        }
    }
}

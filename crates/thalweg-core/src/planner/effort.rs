//! How far a search may go, and what it knows when it may go no further.
//!
//! *The idea.* A search ends early for one of two reasons: it keeps too many labels, or whoever called it says that it is
//! time. It is asked again and again, but seldom enough that asking costs nothing; and what a best-first search has not
//! looked at costs no less than what it would look at next, so an early end still leaves a bound.
//!
//! *What it does not do.* It reads no clock: the caller's function may.
//!
//! *Sources.* docs/planner.md §4.

use super::cost::Cost;
use super::problem::{Exhausted, Route};

/// A search asks whether it is to stop after so many labels or settled places.
pub(super) const STEPS_BETWEEN: u32 = 256;

/// Says whether to stop; once it has, it says so for ever.
pub(super) type Stop<'s> = &'s dyn Fn() -> bool;

/// How far a search may go.
#[derive(Clone, Copy)]
pub(super) struct Effort<'s> {
    /// How many labels it may keep.
    pub(super) labels_max: u32,
    /// Whether it is to stop.
    pub(super) stop: Stop<'s>,
    /// What a plan that is known already costs: nothing dearer is looked for.
    pub(super) known: Cost,
}

/// A search that ended early.
pub(super) struct Cut {
    /// Labels it kept.
    pub(super) labels: u32,
    /// No plan costs less.
    pub(super) bound: Cost,
    /// The best way to delivery among its labels, simple, in time and short enough, and what it costs.
    pub(super) best: Option<(Cost, Route)>,
}

impl Effort<'static> {
    /// Returns that only labels are counted.
    pub(super) fn of(labels_max: u32) -> Self {
        Self {
            labels_max,
            stop: &never,
            known: Cost::MAX,
        }
    }
}

impl Cut {
    /// Returns the same with a bound that is no lower than another that holds as well.
    pub(super) fn raised(mut self, bound: Cost) -> Self {
        self.bound = self.bound.max(bound);
        self
    }
}

/// Never stops a search.
pub(super) fn never() -> bool {
    false
}

impl From<Cut> for Exhausted {
    fn from(cut: Cut) -> Self {
        Self { labels: cut.labels }
    }
}

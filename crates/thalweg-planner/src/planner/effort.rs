//! Limits of a search, and its result when it reaches one.
//!
//! *The idea.* A search ends early when it keeps too many labels or when its caller asks it to
//! stop. It polls the caller at intervals at which polling costs nothing. A best-first search
//! leaves a lower bound even then: unexplored labels cost no less than the next one.
//!
//! *What it does not do.* It reads no clock; the caller's function may.
//!
//! *Sources.* docs/concepts/planner.md §4.

use super::cost::Cost;
use super::problem::{Exhausted, Route};

/// Labels or settled places between two polls of the caller.
pub(super) const STEPS_BETWEEN: u32 = 256;

/// Returns whether to stop; true for ever after the first time.
pub(super) type Stop<'s> = &'s dyn Fn() -> bool;

/// Limits of a search.
#[derive(Clone, Copy)]
pub(super) struct Effort<'s> {
    /// Maximum number of labels.
    pub(super) labels_max: u32,
    /// Whether to stop.
    pub(super) stop: Stop<'s>,
    /// Cost of a known plan: dearer ones are not searched.
    pub(super) known: Cost,
}

/// A search that ended early.
pub(super) struct EarlyEnd {
    /// Labels that it kept.
    pub(super) labels: u32,
    /// Lower bound on the cost of any plan.
    pub(super) bound: Cost,
    /// The cheapest label at the goal with a simple route, in time and short enough, and its cost.
    pub(super) best: Option<(Cost, Route)>,
}

impl Effort<'static> {
    /// Returns a limit on labels only.
    pub(super) fn of(labels_max: u32) -> Self {
        Self {
            labels_max,
            stop: &never,
            known: Cost::MAX,
        }
    }
}

impl EarlyEnd {
    /// Raises the bound to another valid one.
    pub(super) fn raised(mut self, bound: Cost) -> Self {
        self.bound = self.bound.max(bound);
        self
    }
}

/// Never stops a search.
pub(super) fn never() -> bool {
    false
}

impl From<EarlyEnd> for Exhausted {
    fn from(cut: EarlyEnd) -> Self {
        Self { labels: cut.labels }
    }
}

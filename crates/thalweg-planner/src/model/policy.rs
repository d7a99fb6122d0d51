//! The choice of planner and its limits.

use alloc::string::String;
use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};
use thalweg_base::limits::PLAN_LABELS_MAX;

/// How to plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The planner to use.
    pub planner: Planner,
    /// Maximum number of labels of one search, or of combinations of one enumeration.
    pub labels_max: u32,
    /// Return no plan, instead of the one with the least breach, if none satisfies all needs.
    pub strict: bool,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            planner: Planner::default(),
            labels_max: PLAN_LABELS_MAX,
            strict: false,
        }
    }
}

/// A planner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Planner {
    /// Finds a plan of least cost, by dynamic programming.
    #[default]
    Exact,
    /// Selects remedies link by link, merges and relocates them: Panda's heuristic.
    Heuristic,
    /// Tries all positions of the selected remedies: the baseline for the heuristic.
    Exhaustive,
    /// Adapts at each node for the next link only: fast, used until a better plan is ready.
    Incremental,
}

/// An unknown planner.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlannerUnavailable {
    /// No planner has this name.
    #[error("`{0}` is not a planner: use exact, heuristic, exhaustive or incremental")]
    Unknown(String),
}

impl Planner {
    /// Every planner, in the order of comparison.
    pub const ALL: [Self; 4] = [
        Self::Exact,
        Self::Heuristic,
        Self::Exhaustive,
        Self::Incremental,
    ];

    /// Returns the planner's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Heuristic => "heuristic",
            Self::Exhaustive => "exhaustive",
            Self::Incremental => "incremental",
        }
    }
}

impl FromStr for Planner {
    type Err = PlannerUnavailable;

    fn from_str(text: &str) -> Result<Self, PlannerUnavailable> {
        let mut all = Self::ALL.into_iter();
        let known = all.find(|planner| planner.name() == text);
        known.ok_or_else(|| PlannerUnavailable::Unknown(text.chars().take(80).collect()))
    }
}

impl fmt::Display for Planner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

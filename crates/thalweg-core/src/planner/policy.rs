//! Which planner is to plan, and how.

use alloc::string::String;
use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::limits::PLAN_LABELS_MAX;

/// How to plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Which planner.
    pub planner: Planner,
    /// How many labels one search may keep, or combinations one enumeration may try, before it gives up.
    pub labels_max: u32,
    /// Whether to return no plan at all where none satisfies all needs, instead of the least bad one.
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
    /// Selects remedies link by link, merges and relocates them: Panda's.
    Heuristic,
    /// Tries all positions of the selected remedies: the baseline that the heuristic is compared with.
    Exhaustive,
    /// Each node for the link ahead only: what serves until a better plan is there.
    Incremental,
}

/// There is no such planner.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlannerUnavailable {
    /// No planner has this name.
    #[error("`{0}` is not a planner: use exact, heuristic, exhaustive or incremental")]
    Unknown(String),
}

impl Planner {
    /// Every planner, in the order in which they are compared.
    pub const ALL: [Self; 4] = [
        Self::Exact,
        Self::Heuristic,
        Self::Exhaustive,
        Self::Incremental,
    ];

    /// Returns its name.
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

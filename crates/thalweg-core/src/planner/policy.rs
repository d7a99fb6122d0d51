//! Which planner is to plan, and how.

use alloc::string::{String, ToString};
use core::fmt;
use core::str::FromStr;

use crate::limits::PLAN_LABELS_MAX;

/// How to plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Which planner.
    pub planner: Planner,
    /// How many labels one search may keep before it gives up.
    pub labels_max: u32,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            planner: Planner::default(),
            labels_max: PLAN_LABELS_MAX,
        }
    }
}

/// A planner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Planner {
    /// Finds a plan of least cost, by dynamic programming.
    #[default]
    Exact,
}

/// There is no such planner, or not yet.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlannerUnavailable {
    /// A planner of the design that is not available yet.
    #[error("the planner `{0}` is not available yet: use exact")]
    NotYet(String),
    /// No planner has this name.
    #[error("`{0}` is not a planner: use exact")]
    Unknown(String),
}

impl FromStr for Planner {
    type Err = PlannerUnavailable;

    fn from_str(text: &str) -> Result<Self, PlannerUnavailable> {
        match text {
            "exact" => Ok(Self::Exact),
            "heuristic" | "exhaustive" | "incremental" => {
                Err(PlannerUnavailable::NotYet(text.to_string()))
            }
            _ => Err(PlannerUnavailable::Unknown(text.chars().take(80).collect())),
        }
    }
}

impl fmt::Display for Planner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact => f.write_str("exact"),
        }
    }
}

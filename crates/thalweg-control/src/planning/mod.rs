//! One planning as a value: the planner's input, and the result on its way back.
//!
//! *The idea.* Planning is pure, and the only slow computation here. So it is handed out as a
//! value: the driver calls [`Planning::solve`] where and when it likes, and returns the [`Solved`].
//! The optional parts, the elapsed time and the explanation, cost a simulator nothing.

mod avoid;
mod map;
mod publication;

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use thalweg_base::id::{NodeId, StreamId};
use thalweg_base::time::Duration;
use thalweg_planner::model::{Catalogue, Snapshot};
use thalweg_planner::planner::{self, Plan, Policy, Shortfall, report::Report};

use crate::session::Part;

pub(crate) use avoid::Avoid;
pub(crate) use map::Map;
pub use publication::{Publication, PublishError};

/// A plan to be made.
#[derive(Clone, Debug)]
pub struct Planning {
    pub(crate) stream: StreamId,
    pub(crate) sink: NodeId,
    /// The number of this planning for its sink: a newer one supersedes it.
    pub(crate) number: u64,
    pub(crate) map: Box<Map>,
    pub(crate) policy: Policy,
    /// What it avoids.
    pub(crate) avoid: Avoid,
    /// Whether a path that is too slow is acceptable, as the sink has none.
    pub(crate) may_stretch: bool,
}

/// The result of a planning.
#[derive(Clone, Debug)]
pub struct Solved {
    pub(crate) planning: Planning,
    plan: Plan,
    /// Whether its path is too slow.
    is_stretched: bool,
    shortfalls: Vec<Shortfall>,
    elapsed: Duration,
    explanation: Option<String>,
}

/// A plan in force, for display.
#[derive(Clone, Debug)]
pub struct Words {
    /// The plan as numbers.
    pub report: Report,
    /// The plan in sentences, if the driver asked for them.
    pub explanation: Option<String>,
    /// Why only a part of the stream arrives, as a sentence, if the path is too slow.
    pub lack: Option<String>,
}

impl Planning {
    /// Returns the stream that is planned.
    pub const fn stream(&self) -> StreamId {
        self.stream
    }

    /// Returns the sink that is planned for.
    pub const fn sink(&self) -> NodeId {
        self.sink
    }

    /// Returns the planner's input.
    pub fn snapshot(&self) -> &Snapshot {
        &self.map.snapshot
    }

    /// Computes a plan. If the best one needs a declared adapter, which no node can run, it plans
    /// with the standard adapters only.
    ///
    /// If the measured rates allow no plan and the sink has no path yet, it accepts one that is too slow.
    ///
    /// Cost    that of [`planner::plan`], at most nine times
    pub fn solve(mut self) -> Solved {
        let (mut plan, mut shortfalls) = self.map.plan(self.policy);
        if plan.declared_adapter().is_some() {
            let snapshot = &mut self.map.snapshot;
            snapshot.catalogue = Catalogue::standard(&snapshot.weights, &snapshot.stream);
            (plan, shortfalls) = self.map.plan(self.policy);
        }
        let stretched = if plan.feasible || !self.may_stretch {
            None
        } else {
            self.map.stretch(self.policy)
        };
        Solved {
            planning: self,
            is_stretched: stretched.is_some(),
            plan: stretched.unwrap_or(plan),
            shortfalls,
            elapsed: Duration::ZERO,
            explanation: None,
        }
    }
}

impl Solved {
    /// Returns the plan.
    pub const fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Records how long planning took.
    pub const fn set_elapsed(&mut self, elapsed: Duration) {
        self.elapsed = elapsed;
    }

    /// Adds the explanation in sentences, for [`Words::explanation`].
    ///
    /// Cost    tens of plans
    pub fn explain(&mut self) {
        // A stretched plan would be explained with rates that were never measured.
        if self.plan.feasible && !self.is_stretched {
            let explanation = planner::explain(&self.planning.map.snapshot, &self.plan);
            self.explanation = Some(explanation);
        }
    }

    /// Returns the parts to deploy with their description, or a sentence with the reason for the failure.
    pub(crate) fn into_parts(self) -> Result<(Vec<Part>, Words), String> {
        let lack = || {
            let reasons: Vec<String> = self.shortfalls.iter().map(ToString::to_string).collect();
            format!("no plan satisfies its needs: {}", reasons.join("; "))
        };
        if !self.plan.feasible {
            return Err(lack());
        }
        let lack = (self.is_stretched).then(|| format!("only a part is sent: {}", lack()));
        let parts = self.planning.map.parts(&self.plan)?;
        let report = Report::new(&self.plan, &self.shortfalls, self.elapsed);
        let explanation = self.explanation;
        Ok((
            parts,
            Words {
                report,
                explanation,
                lack,
            },
        ))
    }
}

//! One planning, taken out of the machine: the planner's input, and its result on the way back.
//!
//! *The idea.* Planning is pure, and the one thing here that takes long. So it is given out as a value: the driver
//! calls [`Planning::solve`] (where and when it likes, with a watch in its hand) and returns the [`Solved`]. What it
//! left out, the time taken and the words for people, costs a simulator nothing.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::continuity::Avoid;
use super::map::Map;
use crate::id::{NodeId, StreamId};
use crate::model::{Catalogue, Snapshot};
use crate::planner::{self, Plan, Policy, Shortfall, report::Report};
use crate::session::Part;
use crate::time::Duration;

/// A plan that is to be made.
#[derive(Clone, Debug)]
pub struct Planning {
    pub(super) stream: StreamId,
    pub(super) sink: NodeId,
    /// Which of the sink's plannings it is: the map may have changed again meanwhile.
    pub(super) number: u64,
    pub(super) map: Box<Map>,
    pub(super) policy: Policy,
    /// What it was told to keep away from.
    pub(super) avoid: Avoid,
    /// Whether a way that is too slow is better than none: the sink has none.
    pub(super) may_stretch: bool,
}

/// A plan that was made, or why there is none.
#[derive(Clone, Debug)]
pub struct Solved {
    pub(super) planning: Planning,
    plan: Plan,
    /// Whether it is by a way that is too slow.
    is_stretched: bool,
    shortfalls: Vec<Shortfall>,
    elapsed: Duration,
    explanation: Option<String>,
}

/// A plan in force as people read it.
#[derive(Clone, Debug)]
pub struct Words {
    /// The plan in numbers.
    pub report: Report,
    /// The plan in sentences, if the driver had it explained.
    pub explanation: Option<String>,
    /// Why only a part of the stream comes by it, as a sentence, if the way is too slow for it.
    pub lack: Option<String>,
}

impl Planning {
    /// Returns the stream that is planned.
    pub const fn stream(&self) -> StreamId {
        self.stream
    }

    /// Returns the node that it is planned for.
    pub const fn sink(&self) -> NodeId {
        self.sink
    }

    /// Returns the planner's input.
    pub fn snapshot(&self) -> &Snapshot {
        &self.map.snapshot
    }

    /// Plans; with the standard adapters only if the best plan wants one that is declared, for no node can run it.
    ///
    /// Where there is no plan for what links were measured to carry, and the sink has no way yet, by one that is too slow.
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

    /// Adds how long planning took.
    pub const fn set_elapsed(&mut self, elapsed: Duration) {
        self.elapsed = elapsed;
    }

    /// Adds the plan in sentences, for [`Words::explanation`].
    ///
    /// Cost    tens of plans
    pub fn explain(&mut self) {
        // Of one that is too slow the words would be of what was not measured.
        if self.plan.feasible && !self.is_stretched {
            let explanation = planner::explain(&self.planning.map.snapshot, &self.plan);
            self.explanation = Some(explanation);
        }
    }

    /// Returns the parts to deploy with the words about them, or a sentence that says what stands in the way.
    pub(super) fn into_parts(self) -> Result<(Vec<Part>, Words), String> {
        let lack = || {
            let ways: Vec<String> = self.shortfalls.iter().map(ToString::to_string).collect();
            format!("no plan satisfies its needs: {}", ways.join("; "))
        };
        if !self.plan.feasible {
            return Err(lack());
        }
        let lack = (self.is_stretched).then(|| format!("what fits is sent, for {}", lack()));
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

//! `thalweg plan WORLD --budget MS`: the best plan found in time, with a bound on the optimum.

use std::time::{Duration, Instant};

use serde::Serialize;
use thalweg_planner::model::Snapshot;
use thalweg_planner::planner::report::Report;
use thalweg_planner::planner::{self, Bounded, Policy};

/// The result of planning within a budget, as printed.
#[derive(Debug, Serialize)]
pub(super) struct Budgeted {
    #[serde(flatten)]
    report: Report,
    /// Whether the plan is proven to be optimal, or it is proven that none exists.
    proven: bool,
    /// Lower bound of the cost of any plan; `null` if it is proven that none exists.
    bound: Option<f64>,
    #[serde(skip)]
    bounded: Bounded,
    #[serde(skip)]
    budget_ms: u64,
}

/// Plans until the budget is used up.
pub(super) fn plan(snapshot: &Snapshot, policy: Policy, budget_ms: u64) -> Budgeted {
    let start = Instant::now();
    let budget = Duration::from_millis(budget_ms);
    let bounded = planner::plan_until(snapshot, &policy, &mut || start.elapsed() >= budget);
    let report = Report::new(&bounded.plan, &bounded.shortfalls, start.elapsed().into());
    Budgeted {
        report,
        proven: bounded.proven,
        bound: bounded.bound,
        bounded,
        budget_ms,
    }
}

impl Budgeted {
    pub(super) const fn report(&self) -> &Report {
        &self.report
    }

    pub(super) const fn plan(&self) -> &planner::Plan {
        &self.bounded.plan
    }

    /// Returns the result as one JSON object.
    pub(super) fn json(&self) -> serde_json::Result<String> {
        Ok(serde_json::to_string(self)? + "\n")
    }

    /// Describes how close the plan is known to be to the optimum.
    pub(super) fn words(&self) -> String {
        let ms = self.budget_ms;
        let Some(bound) = self.bound else {
            return format!("budget  {ms} ms were enough: proven that no plan exists\n");
        };
        match self.bounded.gap() {
            _ if self.proven => format!("budget  {ms} ms were enough: no plan costs less\n"),
            Some(gap) => format!(
                "budget  {ms} ms were not enough to prove it best: no plan costs less than {bound:.4}, so the best \
                 saves {:.4} ({:.2} % of itself) at most\n",
                self.report.cost - bound,
                gap * 100.0
            ),
            None if self.report.feasible => {
                format!("budget  {ms} ms were not enough to say how far it is from the best\n")
            }
            None => format!(
                "budget  {ms} ms were not enough to find a plan; if there is one, it costs {bound:.4} or more\n"
            ),
        }
    }
}

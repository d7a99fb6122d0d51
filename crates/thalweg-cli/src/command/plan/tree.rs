//! `thalweg plan` of a stream with several sinks: the tree, way by way.

use std::fmt::Write as _;
use std::time::Instant;

use serde::Serialize;
use thalweg_core::model::Snapshot;
use thalweg_core::planner::report::{Lack, Parts, Report};
use thalweg_core::planner::{self, Plan, Policy, Shortfall, Sink, Tree};
use thalweg_core::time::Duration;

use super::describe;
use crate::terminal::{Colour, Paint};

/// A tree and its shortfalls, as they are printed.
#[derive(Serialize)]
struct TreeReport {
    feasible: bool,
    cost: f64,
    cost_parts: Parts,
    /// No tree costs less.
    bound: f64,
    /// Whether this one is best.
    proven: bool,
    /// What the best ways cost in sum if each were alone.
    apart: f64,
    paths: Vec<Report>,
    shortfalls: Vec<Lack>,
    elapsed_us: f64,
}

/// A tree with what is printed of it.
pub(super) struct Planned {
    tree: Tree,
    shortfalls: Vec<Shortfall>,
    elapsed: Duration,
}

/// Plans the tree.
pub(super) fn plan(snapshot: &Snapshot, policy: Policy) -> Planned {
    let sinks = Sink::all_of(&snapshot.stream);
    let start = Instant::now();
    let (tree, shortfalls) = planner::plan_tree(snapshot, &sinks, &policy);
    Planned {
        tree,
        shortfalls,
        elapsed: start.elapsed().into(),
    }
}

impl Planned {
    pub(super) fn is_feasible(&self) -> bool {
        self.tree.feasible
    }

    pub(super) fn paths(&self) -> &[Plan] {
        &self.tree.paths
    }

    pub(super) fn json(&self) -> serde_json::Result<String> {
        let tree = &self.tree;
        // The words of shortfalls are those of a plan's report.
        let empty = Report::new(&Plan::default(), &self.shortfalls, self.elapsed);
        let alone = |path: &Plan| Report::new(path, &[], self.elapsed);
        let report = TreeReport {
            feasible: tree.feasible,
            cost: tree.cost,
            cost_parts: Parts {
                adapters: tree.cost_parts.adapters,
                links: tree.cost_parts.links,
                quality: tree.cost_parts.quality,
            },
            bound: tree.bound,
            proven: tree.is_proven(),
            apart: tree.apart,
            paths: tree.paths.iter().map(alone).collect(),
            shortfalls: empty.shortfalls,
            elapsed_us: empty.elapsed_us,
        };
        Ok(serde_json::to_string(&report)? + "\n")
    }

    /// Returns a table a way, and what they cost together.
    pub(super) fn text(&self, snapshot: &Snapshot, explain: bool, colour: Colour) -> String {
        let mut text = String::new();
        for (sink, path) in snapshot.stream.to.iter().zip(&self.tree.paths) {
            let alone = snapshot.clone().for_sink(sink.clone());
            let report = Report::new(path, &[], self.elapsed);
            text.push_str(&describe(&alone, &report, colour));
            if explain {
                let _ = write!(text, "\n{}", planner::explain(&alone, path));
            }
            text.push('\n');
        }
        for shortfall in &self.shortfalls {
            let mark = colour.paint(Paint::Yellow, "shortfall");
            let fix = shortfall.fix();
            let _ = writeln!(text, "{mark}  {shortfall}\n           to mend it: {fix}");
        }
        if self.tree.feasible {
            let Tree {
                cost, bound, apart, ..
            } = self.tree;
            let verdict = if self.tree.is_proven() {
                "no tree costs less".to_owned()
            } else {
                format!("no tree costs less than {bound:.4}")
            };
            let copies = self.tree.links().len();
            let _ = writeln!(
                text,
                "tree    cost {cost:.4} over {copies} links, one copy each ({verdict}); the ways apart {apart:.4}"
            );
        }
        text
    }
}

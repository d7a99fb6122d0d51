//! `thalweg plan` of a stream with several sinks: the tree, branch by branch.

use std::fmt::Write as _;
use std::time::Instant;

use serde::Serialize;
use thalweg_base::time::Duration;
use thalweg_planner::model::{NodeName, Snapshot};
use thalweg_planner::planner::report::{Lack, Parts, Report};
use thalweg_planner::planner::{self, Branch, LeftOut, Plan, Policy, Sink, Tree};

use super::prose::folded;
use super::view;
use crate::table;
use crate::terminal::{Colour, Paint};

/// A tree and the sinks left out of it, as printed.
#[derive(Serialize)]
struct TreeReport {
    feasible: bool,
    cost: f64,
    cost_parts: Parts,
    /// Lower bound of the cost of a tree to the same sinks.
    bound: f64,
    /// Whether this tree is proven to be optimal.
    proven: bool,
    /// The summed cost of the best path to each sink alone.
    apart: f64,
    paths: Vec<Report>,
    left_out: Vec<LeftOutReport>,
    elapsed_us: f64,
}

/// A sink that the tree does not reach.
#[derive(Serialize)]
struct LeftOutReport {
    sink: NodeName,
    shortfalls: Vec<Lack>,
}

/// A tree with its report.
pub(super) struct Planned {
    tree: Tree,
    left_out: Vec<LeftOut>,
    elapsed: Duration,
}

/// Plans the tree.
pub(super) fn plan(snapshot: &Snapshot, policy: Policy) -> Planned {
    let sinks = Sink::all_of(&snapshot.stream);
    let start = Instant::now();
    let (tree, left_out) = planner::plan_tree(snapshot, &sinks, &policy);
    Planned {
        tree,
        left_out,
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

    /// Returns what a sink lacks, worded as in a plan's report.
    fn lacks(&self, left_out: &LeftOut) -> Vec<Lack> {
        Report::new(&Plan::default(), &left_out.shortfalls, self.elapsed).shortfalls
    }

    pub(super) fn json(&self) -> serde_json::Result<String> {
        let tree = &self.tree;
        let alone = |path: &Plan| Report::new(path, &[], self.elapsed);
        let left_out = |one: &LeftOut| LeftOutReport {
            sink: one.sink.clone(),
            shortfalls: self.lacks(one),
        };
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
            left_out: self.left_out.iter().map(left_out).collect(),
            elapsed_us: alone(&Plan::default()).elapsed_us,
        };
        Ok(serde_json::to_string(&report)? + "\n")
    }

    /// Returns one table of all branches, the total cost, and the sinks left out.
    pub(super) fn text(&self, snapshot: &Snapshot, explain: bool, colour: Colour) -> String {
        let tree = &self.tree;
        let mut text = view::heading(snapshot, tree.feasible, colour);
        let served = tree.paths.iter().filter(|path| !path.path.is_empty());
        let served = served.count();
        if served > 0 {
            let sinks = snapshot.stream.to.len();
            let _ = writeln!(text, "sinks   {served} of {sinks}");
            text.push_str(&self.facts());
            text.push('\n');
            text.push_str(&self.branches(snapshot, colour));
        }
        for left_out in &self.left_out {
            let mark = colour.paint(Paint::Red, "left out");
            let _ = writeln!(text, "{mark}  {}", left_out.sink);
            text.push_str(&view::shortfalls(&self.lacks(left_out), colour));
        }
        if explain && served > 0 {
            text.push('\n');
            text.push_str(&folded(&tree.explain(snapshot)));
        }
        text
    }

    fn facts(&self) -> String {
        let tree = &self.tree;
        let parts = tree.cost_parts;
        let verdict = if tree.is_proven() {
            "no tree costs less".to_owned()
        } else {
            format!("no tree to these sinks costs less than {:.4}", tree.bound)
        };
        format!(
            "links   {}, one copy each\ncost    {:.4} = adapters {:.4} + links {:.4} + quality {:.4}\n        {verdict}; separate paths {:.4}\n",
            tree.links().len(),
            tree.cost,
            parts.adapters,
            parts.links,
            parts.quality,
            tree.apart
        )
    }

    /// One row per link, indented by depth, and one per sink.
    fn branches(&self, snapshot: &Snapshot, colour: Colour) -> String {
        let mut rows = vec![view::HOP_HEADING.map(String::from)];
        for branch in self.tree.branches() {
            let own = branch.adapters[branch.shared..].iter();
            let mut adapters: Vec<String> = own.map(ToString::to_string).collect();
            if branch.shared > 0 {
                adapters.insert(0, "…".to_owned());
            }
            let node = " ".repeat(branch.depth) + branch.node.as_str();
            let link = branch.link.as_ref();
            let mut row = view::hop(&snapshot.topology, node, adapters.join(" "), link);
            if link.is_none() {
                row[2] = self.delivered(snapshot, &branch);
            }
            rows.push(row);
        }
        table::lay_out(&rows, colour)
    }

    /// Describes what a sink gets.
    fn delivered(&self, snapshot: &Snapshot, branch: &Branch) -> String {
        let path = &self.tree.paths[branch.sinks[0]];
        let all = snapshot.stream.layers.len();
        format!("takes {}/{all}", path.layers)
    }
}

//! `thalweg plan WORLD --all`: all streams of a world, planned together.

use std::fmt::Write as _;
use std::time::Instant;

use serde::Serialize;
use thalweg_base::id::StreamName;
use thalweg_base::time::Duration;
use thalweg_planner::model::{NodeName, Snapshot, World};
use thalweg_planner::planner::report::Report;
use thalweg_planner::planner::{self, Plan, Policy, Shared, SharedLink};

use super::picture::Drawn;
use super::prose::folded;
use super::view;
use crate::table;
use crate::terminal::{Colour, Paint};

/// The plans of all streams, as printed.
#[derive(Serialize)]
struct AllReport<'a> {
    feasible: bool,
    cost: f64,
    cost_by_importance: f64,
    streams: Vec<StreamReport<'a>>,
    links: Vec<LinkReport<'a>>,
    made_way: Vec<MadeWay<'a>>,
    elapsed_us: f64,
}

/// The result for one stream.
#[derive(Serialize)]
struct StreamReport<'a> {
    stream: &'a StreamName,
    importance: u8,
    to: &'a NodeName,
    /// The plan among the other streams.
    plan: Report,
    alone: Report,
}

/// A link that streams compete for.
#[derive(Serialize)]
struct LinkReport<'a> {
    from: &'a NodeName,
    to: &'a NodeName,
    has_bps: f64,
    load_bps: f64,
    shares: Vec<Share<'a>>,
    missed: Vec<Share<'a>>,
}

/// The rate that a stream sends on a link, or asks for.
#[derive(Serialize)]
struct Share<'a> {
    stream: &'a StreamName,
    to: &'a NodeName,
    importance: u8,
    rate_bps: f64,
}

/// A stream with a higher cost than under planning by importance alone, and the stream that gains.
#[derive(Serialize)]
struct MadeWay<'a> {
    stream: &'a StreamName,
    r#for: &'a StreamName,
    cost_before: f64,
    cost_after: f64,
    for_cost_before: f64,
    for_cost_after: f64,
}

/// The plans with their report.
pub(super) struct Planned {
    snapshots: Vec<Snapshot>,
    shared: Shared,
    elapsed: Duration,
}

/// Plans all streams of a world.
pub(super) fn plan(world: &World, policy: Policy) -> Planned {
    let snapshots = world.snapshots();
    let start = Instant::now();
    let shared = planner::plan_all(&snapshots, &policy);
    Planned {
        snapshots,
        shared,
        elapsed: start.elapsed().into(),
    }
}

impl Planned {
    pub(super) fn is_feasible(&self) -> bool {
        self.shared.is_feasible()
    }

    /// Returns one of the snapshots; `None` without streams.
    pub(super) fn first(&self) -> Option<&Snapshot> {
        self.snapshots.first()
    }

    /// Returns the plans with the names of their streams.
    pub(super) fn drawn(&self) -> Vec<Drawn<'_>> {
        let admitted = self.snapshots.iter().zip(&self.shared.admissions);
        let drawn = admitted.map(|(snapshot, admission)| Drawn {
            name: Some(snapshot.stream.name.as_str()),
            plan: &admission.plan,
        });
        drawn.collect()
    }

    pub(super) fn json(&self) -> serde_json::Result<String> {
        let admitted = self.snapshots.iter().zip(&self.shared.admissions);
        let streams = admitted.map(|(snapshot, admission)| StreamReport {
            stream: &snapshot.stream.name,
            importance: snapshot.stream.importance,
            to: &snapshot.stream.to[0],
            plan: Report::new(&admission.plan, &admission.shortfalls, self.elapsed),
            alone: Report::new(&admission.alone, &[], self.elapsed),
        });
        let share = |(at, rate_bps): &(usize, f64)| {
            let stream = &self.snapshots[*at].stream;
            Share {
                stream: &stream.name,
                to: &stream.to[0],
                importance: stream.importance,
                rate_bps: *rate_bps,
            }
        };
        let links = self.shared.links.iter().map(|link| LinkReport {
            from: &link.from,
            to: &link.to,
            has_bps: link.has_bps,
            load_bps: link.load_bps(),
            shares: link.shares.iter().map(share).collect(),
            missed: link.missed.iter().map(share).collect(),
        });
        let made_way = self.shared.concessions.iter().map(|concession| MadeWay {
            stream: &self.snapshots[concession.by].stream.name,
            r#for: &self.snapshots[concession.to].stream.name,
            cost_before: concession.by_cost[0],
            cost_after: concession.by_cost[1],
            for_cost_before: concession.to_cost[0],
            for_cost_after: concession.to_cost[1],
        });
        let report = AllReport {
            feasible: self.is_feasible(),
            cost: self.shared.cost,
            cost_by_importance: self.shared.cost_by_importance,
            streams: streams.collect(),
            links: links.collect(),
            made_way: made_way.collect(),
            elapsed_us: self.elapsed.as_nanos() as f64 / 1e3,
        };
        Ok(serde_json::to_string(&report)? + "\n")
    }

    /// Returns one row per stream, the paths, the shared links, and which streams made way for which.
    pub(super) fn text(&self, colour: Colour) -> String {
        let count = self.snapshots.len();
        let served = self
            .shared
            .admissions
            .iter()
            .filter(|one| one.plan.feasible);
        let served = served.count();
        let verdict = view::verdict(self.is_feasible(), colour);
        let plural = if count == 1 { "" } else { "s" };
        let mut text = format!("{count} stream{plural} together, {served} served  {verdict}\n\n");
        text.push_str(&self.streams(colour));
        text.push_str(&self.ways(colour));
        if !self.shared.links.is_empty() {
            text.push('\n');
            text.push_str(&self.links(colour));
        }
        text.push('\n');
        for concession in &self.shared.concessions {
            text.push_str(&folded(&concession.explain(&self.snapshots)));
        }
        let (cost, by_importance) = (self.shared.cost, self.shared.cost_by_importance);
        let _ = write!(text, "cost    {cost:.4} in all");
        if by_importance - cost > 1e-9 {
            let _ = write!(text, "; by importance alone {by_importance:.4}");
        }
        text.push('\n');
        text
    }

    /// One row per stream: served share, cost, and cost if it were alone.
    fn streams(&self, colour: Colour) -> String {
        let heading = [
            "stream",
            "to",
            "importance",
            "layers",
            "alone",
            "cost",
            "alone",
        ];
        let mut rows = vec![heading.map(String::from)];
        for (snapshot, admission) in self.snapshots.iter().zip(&self.shared.admissions) {
            let stream = &snapshot.stream;
            let layers = |plan: &Plan| {
                if plan.feasible {
                    format!("{} of {}", plan.layers, stream.layers.len())
                } else {
                    "none".to_owned()
                }
            };
            let cost = |plan: &Plan| {
                if plan.feasible {
                    format!("{:.4}", plan.cost)
                } else {
                    String::new()
                }
            };
            rows.push([
                stream.name.to_string(),
                stream.to[0].to_string(),
                stream.importance.to_string(),
                layers(&admission.plan),
                layers(&admission.alone),
                cost(&admission.plan),
                cost(&admission.alone),
            ]);
        }
        table::lay_out(&rows, colour)
    }

    /// Each stream's path with its adapters, or what the stream lacks.
    fn ways(&self, colour: Colour) -> String {
        let mut text = String::new();
        for (snapshot, admission) in self.snapshots.iter().zip(&self.shared.admissions) {
            let name = colour.paint(Paint::Bold, snapshot.stream.name.as_str());
            let plan = &admission.plan;
            if !plan.path.is_empty() {
                let _ = writeln!(text, "\n{name}");
                text.push_str(&folded(&format!("  {}", way(plan))));
                continue;
            }
            if admission.shortfalls.is_empty() {
                continue;
            }
            let refused = colour.paint(Paint::Red, "refused");
            let beside = if admission.alone.feasible {
                " beside the others"
            } else {
                ""
            };
            let _ = writeln!(text, "\n{name}  {refused}{beside}");
            let report = Report::new(plan, &admission.shortfalls, self.elapsed);
            text.push_str(&view::shortfalls(&report.shortfalls, colour));
        }
        text
    }

    /// One row per stream on each link that streams compete for.
    fn links(&self, colour: Colour) -> String {
        let heading = [
            "link",
            "of",
            "load",
            "stream",
            "sends",
            "share",
            "importance",
        ];
        let mut rows = vec![heading.map(String::from)];
        for link in &self.shared.links {
            let first = rows.len();
            let share = |at: usize, sends: String, share: String| {
                let stream = &self.snapshots[at].stream;
                let mut row = [const { String::new() }; 7];
                row[3] = stream.name.to_string();
                (row[4], row[5]) = (sends, share);
                row[6] = stream.importance.to_string();
                row
            };
            for (at, bps) in &link.shares {
                let percent = format!("{:.0} %", bps / link.has_bps * 100.0);
                rows.push(share(*at, view::rounded(*bps), percent));
            }
            for (at, bps) in &link.missed {
                rows.push(share(
                    *at,
                    format!("lacks {}", view::rounded(*bps)),
                    String::new(),
                ));
            }
            if let Some(row) = rows.get_mut(first) {
                head(row, link);
            }
        }
        table::lay_out(&rows, colour)
    }
}

/// Fills in a link's name and load.
fn head(row: &mut [String; 7], link: &SharedLink) {
    row[0] = format!("{} → {}", link.from, link.to);
    row[1] = view::rounded(link.has_bps);
    row[2] = format!("{:.0} %", link.load_bps() / link.has_bps * 100.0);
}

/// Formats a plan's nodes with their adapters in one line.
fn way(plan: &Plan) -> String {
    let stop = |node: &NodeName| {
        let adapters: Vec<String> = plan
            .adapters_at(node)
            .iter()
            .map(ToString::to_string)
            .collect();
        if adapters.is_empty() {
            node.to_string()
        } else {
            format!("{node} [{}]", adapters.join(" "))
        }
    };
    let stops: Vec<String> = plan.path.iter().map(stop).collect();
    stops.join(" → ")
}
